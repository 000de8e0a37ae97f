"""Pods are followed while somebody wants them, and for a while after that; then they are forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from bench.peers.apiserver import Cluster, api_server
from extender.admin.health import Health
from extender.cluster import ApiServer, PodCache
from extender.config import ClusterConfig
from extender.scheduling.waiting_pods import WaitingPods
from extender.serve import cluster_link, pods_on_demand
from extender.serve.background import Background
from extender.serve.cluster_link import ClusterLink
from extender.serve.pods_on_demand import UNWANTED_S, PodsOnDemand
from extender.telemetry.metrics import Metrics
from tests.patience import PATIENCE_S, wait_until
from wasm_runtime import NodeTable

NODES, PODS = 2, 30


@pytest.fixture
def background() -> Iterator[Background]:
    background = Background()
    yield background
    background.stop()


class IdleCache:
    """A cache that reads nothing."""

    unusable = None

    async def run(self) -> None:
        await asyncio.Event().wait()


class Followed:
    """Pods on demand, a clock, and what has become of them."""

    def __init__(self, background: Background) -> None:
        self._loop = background._loop
        self.now = 0.0
        self.wanted: list[bool] = []
        """What who asks is told, one after the other."""
        self.steps: list[str] = []
        self.pods = PodsOnDemand(
            lambda: cast(PodCache, IdleCache()),
            background,
            lambda: self.wanted.pop(0),
            lambda _: self.steps.append("start"),
            lambda: self.steps.append("end"),
            lambda: self.now,
        )

    def look(self, now: float, *wanted: bool) -> None:
        """Has a look at a time whether pods are wanted, as often as that is asked."""

        async def look() -> None:
            self.pods.end_if_unwanted()

        self.now, self.wanted = now, list(wanted)
        asyncio.run_coroutine_threadsafe(look(), self._loop).result(PATIENCE_S)
        assert self.wanted == []


def test_they_end_some_time_after_they_were_last_wanted(background: Background) -> None:
    followed = Followed(background)
    followed.look(0)
    assert followed.steps == []
    followed.pods.start()
    followed.look(UNWANTED_S - 1, False)
    followed.look(UNWANTED_S, True)
    followed.look(2 * UNWANTED_S - 1, False)
    assert followed.steps == ["start"]
    followed.look(2 * UNWANTED_S, False, False)
    assert followed.steps == ["start", "end"]
    followed.look(9 * UNWANTED_S)
    assert followed.pods.follow() is None
    followed.look(10 * UNWANTED_S - 1, False)
    assert followed.steps == ["start", "end", "start"]


def test_who_comes_while_they_end_keeps_them(background: Background) -> None:
    followed = Followed(background)
    first = followed.pods.start()
    followed.look(UNWANTED_S, False, True)
    assert followed.pods.start() is first
    assert followed.steps == ["start"]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with api_server(NODES, PODS) as cluster:
        yield cluster


def test_what_was_known_of_pods_and_groups_is_forgotten_and_learnt_again(
    tmp_path: Path, cluster: Cluster, background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_link, "LEDGER_INTERVAL_S", 0.05)
    monkeypatch.setattr(pods_on_demand, "UNWANTED_S", 0.0)
    api = ApiServer.from_kubeconfig(cluster.write_kubeconfig(tmp_path))
    config = ClusterConfig.model_validate({"mode": "kubeconfig", "kubeconfig": "config"})
    nodes, health, is_wanted = NodeTable(), Health(), [True]
    link = ClusterLink(api, config, nodes, Metrics(), health, background, lambda: is_wanted[0], WaitingPods())
    link.start(wants_groups=True)

    def known() -> dict[str, Any]:
        return {
            "kept": (link.pods.size, len(nodes.pods), link.ledger.count("observed")),
            "followed": link.ledger.is_followed,
            "problem of groups": link.group_caches.problem,
            "checks": [line.split()[0] for line in health.report()[1].splitlines() if line.startswith("[")],
            "tasks": sorted(task.get_name() for task in background._tasks),
        }

    others = ["event recorder", "ledger", "node cache"]
    all_pods = {
        "kept": (PODS, PODS, PODS),
        "followed": True,
        "problem of groups": None,
        "checks": ["[+]nodes", "[+]pods", "[+]ledger", "[+]groups"],
        "tasks": sorted([*others, "pod cache", "group cache", "group cache"]),
    }
    nothing = {"kept": (0, 0, 0), "followed": False, "problem of groups": None, "checks": ["[+]nodes"], "tasks": others}
    wait_until(lambda: known() == all_pods, known)
    is_wanted[0] = False
    wait_until(lambda: known() == nothing, known)
    is_wanted[0] = True
    link.pods.start()
    link.group_caches.start()
    wait_until(lambda: known() == all_pods, known)
    asyncio.run_coroutine_threadsafe(api.aclose(), background._loop).result(PATIENCE_S)
