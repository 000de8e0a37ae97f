"""Without an API server, whoever looks after a plugin that wants to know pods is told that it gets to know none."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.peers.apiserver import api_server
from extender.rollouts.pipeline import NO_PODS
from tests.extender import guests
from tests.extender.kwx import Extender, plugin, profile

WARNING = (
    "a plugin wants to know pods, and is told of none: it takes all nodes for empty, as there is no API server;"
    " set cluster.mode to kubeconfig or in-cluster"
)


def warned(extender: Extender) -> list[tuple[str, str, str]]:
    """Whom the log warns of."""
    return [(line["level"], line["profile"], line["plugin"]) for line in extender.events(WARNING)]


def plugins_check(extender: Extender) -> str:
    """What readiness says of plugins."""
    lines = extender.admin.get("/readyz?verbose").text.splitlines()
    return next(line for line in lines if "plugins" in line)


def swap(extender: Extender, guest: str) -> None:
    """Brings another module live."""
    before = extender.admin.get("/api/v1/plugins").json()[0]["revision"]["id"]
    (extender.folder / "guest.wasm").write_bytes(guests.module(guest))
    extender.wait_until(lambda: extender.admin.get("/api/v1/plugins").json()[0]["revision"]["id"] != before)


@pytest.mark.parametrize("mode", ["none", "dry-run"])
def test_at_the_start_and_at_each_swap(tmp_path: Path, mode: str) -> None:
    shutil.copy(guests.build("packs_two", tmp_path), tmp_path / "guest.wasm")
    others = profile("names", plugin("nodenumber"))
    with Extender(tmp_path, profile("default", plugin("guest")), others, cluster={"mode": mode}) as extender:
        assert warned(extender) == [("warning", "default", "guest")]
        assert plugins_check(extender) == f"[+]plugins ok, but plugin guest {NO_PODS}"
        swap(extender, "nodenumber")
        assert plugins_check(extender) == "[+]plugins ok"
        swap(extender, "packs_two")
        extender.wait_until(lambda: len(warned(extender)) == 2)
        assert warned(extender) == [("warning", "default", "guest")] * 2
        rollout: Mapping[str, Any] = extender.admin.get("/api/v1/plugins").json()[0]["rollout"]
        assert rollout["report"]["notes"][-1] == f"the candidate {NO_PODS}"


def test_with_an_api_server_nobody_is_told(tmp_path: Path) -> None:
    with api_server(1, 1) as cluster:
        connected = {"mode": "kubeconfig", "kubeconfig": str(cluster.write_kubeconfig(tmp_path))}
        with Extender(tmp_path, profile("default", plugin("packs_two")), cluster=connected) as extender:
            extender.wait_until(lambda: extender.admin.get("/readyz").is_success)
            assert plugins_check(extender) == "[+]plugins ok"
            assert warned(extender) == []
