"""Each panel of the dashboard has a query that a real Prometheus answers with what a real extender tells it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from bench.controlplane import ControlPlane
from bench.controlplane.ports import LOOPBACK, free_port
from bench.servers import running
from tests.patience import wait_until

from .overlay import MANIFESTS, SIDECAR
from .pair import Pair
from .test_scheduling import PODS, pod_of

DASHBOARD: dict[str, Any] = json.loads((MANIFESTS / "monitoring" / "grafana-dashboard.json").read_text())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
PROMETHEUS = shutil.which("prometheus")
VARIABLES = {"$instance": ".*", "$__rate_interval": "10s"}
SCORED = 'rate(kwx_verb_phase_seconds_count{verb="prioritize", phase="encode"}[10s])'
WITHOUT_DATA = {
    "Certificates, days left",  # The sidecar has no TLS.
    "Failures of plugins, by kind",
    "Rollouts, by how they ended",
}
"""Panels of an extender that is well."""


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[httpx.Client]:
    """A Prometheus that scrapes one target every second."""
    assert PROMETHEUS
    port = free_port()
    jobs = [{"job_name": "kwx", "static_configs": [{"targets": [target]}]}]
    file = folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}))
    flags = [f"--config.file={file}", f"--storage.tsdb.path={folder}/data", f"--web.listen-address={LOOPBACK}:{port}"]
    url = f"http://{LOOPBACK}:{port}/api/v1/"
    with running([PROMETHEUS, *flags], port), httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
        yield client


def ask(client: httpx.Client, expression: str) -> list[Any]:
    """What a query finds."""
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    answer = client.get("query", params={"query": expression}).json()
    assert answer["status"] == "success", (expression, answer)
    found: list[Any] = answer["data"]["result"]
    return found


@pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is missing: Debian has it in `prometheus`")
def test_each_query_finds_what_an_extender_tells(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.create_nodes(3)
    with Pair(SIDECAR, cluster, tmp_path) as pair, prometheus(tmp_path, pair.admin_url.partition("//")[2]) as client:
        cluster.client.post(PODS, json=pod_of(SIDECAR)).raise_for_status()
        wait_until(lambda: ask(client, SCORED), "two scrapes of the extender after a pod was judged")
        queries = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
        empty = {title for title, expression in queries if not ask(client, expression)}
    assert empty == WITHOUT_DATA


def test_panels_are_told_apart_and_beside_each_other() -> None:
    assert len({panel["id"] for panel in PANELS}) == len({panel["title"] for panel in PANELS}) == len(PANELS)
    places = [panel["gridPos"] for panel in PANELS]
    assert all(place["x"] >= 0 and place["x"] + place["w"] <= 24 for place in places)
    assert [(one, other) for one, other in combinations(places, 2) if _overlap(one, other)] == []


def _overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(
        one[at] < other[at] + other[size] and other[at] < one[at] + one[size] for at, size in (("x", "w"), ("y", "h"))
    )
