"""The extender beside a cluster: whether it keeps pods, and what it uses them for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.peers import objects
from bench.peers.apiserver import Cluster, api_server
from bench.peers.kubeconfig import write_kubeconfig
from extender.scheduling.profile import MENDS
from tests.extender import guests
from tests.extender.kwx import Extender, failure, plugin, profile
from tests.extender.objects import (
    binding_args,
    filter_error,
    filtered,
    meta_victims,
    names_args,
    node,
    nodes_args,
    pod,
    preemption_args,
)
from wasm_runtime.blob import digest
from wasm_runtime.errors import Fault

NODES, PODS = 3, 700
"""More pods than a page of a list has."""
LEDGER = f"[+]ledger ok: 0 tentative, 0 binding, 0 unconfirmed, 0 retained, 0 confirmed, {PODS} observed"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with api_server(NODES, PODS) as cluster:
        yield cluster


@pytest.fixture(params=["every_export", "nodenumber"])
def guest(request: pytest.FixtureRequest) -> str:
    """A guest that asks for the pods that would be evicted, and one that does not."""
    return str(request.param)


@pytest.fixture
def extender(tmp_path: Path, cluster: Cluster, guest: str) -> Iterator[Extender]:
    shutil.copy(guests.build(guest, tmp_path), tmp_path / "guest.wasm")
    connected = {"mode": "kubeconfig", "kubeconfig": str(cluster.write_kubeconfig(tmp_path))}
    with Extender(tmp_path, profile("default", plugin("guest")), cluster=connected) as extender:
        extender.wait_until(lambda: extender.admin.get("/readyz").is_success)
        yield extender


def kept(extender: Extender) -> tuple[float, float]:
    """How many nodes and pods are known."""
    families = text_string_to_metric_families(extender.admin.get("/metrics").text)
    sizes = {sample.name: sample.value for family in families for sample in family.samples}
    return sizes["kwx_nodes"], sizes["kwx_pods"]


def conditions(extender: Extender) -> str:
    """What readiness is made of."""
    return extender.admin.get("/readyz?verbose").text


def pod_in_cluster(at: int, version: str = "") -> objects.Object:
    """A pod as kube-scheduler sends it, with a mistake that only who converts it finds."""
    found = objects.running_pod(at, objects.node_name(at % NODES))
    found["metadata"]["resourceVersion"] = version or found["metadata"]["resourceVersion"]
    return {**found, "spec": {"containers": "none"}}


MISTAKE = (400, 'Pod: spec.containers: expected a list, got "none"')


@pytest.mark.parametrize("guest", ["every_export"], indirect=True)
def test_pods_are_kept_for_a_plugin_that_asks_for_them(extender: Extender) -> None:
    assert kept(extender) == (NODES, PODS)
    assert (
        conditions(extender)
        == f"[+]nodes ok\n[+]pods ok\n{LEDGER}\n[+]plugins ok\n[+]threads ok\n[+]verbs ok\nreadyz check passed\n"
    )


@pytest.mark.parametrize("guest", ["every_export"], indirect=True)
def test_the_pod_of_a_request_is_the_clusters_at_the_same_version(extender: Extender) -> None:
    names = [objects.node_name(0)]
    assert extender.post("/filter", names_args(names, pod_in_cluster(1)))["NodeNames"] == names
    assert extender.post("/prioritize", names_args(names, pod_in_cluster(2))) == []
    victims = preemption_args({names[0]: meta_victims()}, pod_in_cluster(3))
    assert extender.post("/preempt", victims) == {"NodeNameToMetaVictims": {names[0]: meta_victims()}}
    assert extender.refuse("/filter", msgspec.json.encode(names_args(names, pod_in_cluster(1, "older")))) == MISTAKE


@pytest.mark.parametrize("guest", ["nodenumber"], indirect=True)
def test_pods_are_kept_from_when_a_plugin_goes_live_that_asks_for_them(extender: Extender) -> None:
    """Readiness does not depend on them then: all but that preempt can be answered."""
    assert kept(extender) == (NODES, 0)
    assert extender.refuse("/filter", msgspec.json.encode(names_args([], pod_in_cluster(1)))) == MISTAKE
    (extender.folder / "guest.wasm").write_bytes(guests.module("every_export"))
    extender.wait_until(
        lambda: extender.admin.get("/api/v1/plugins").json()[0]["digest"] == digest(guests.module("every_export"))
    )
    well = f"[+]nodes ok\n[+]plugins ok\n[+]threads ok\n[+]verbs ok\n[+]pods ok\n{LEDGER}\nreadyz check passed\n"
    extender.wait_until(lambda: conditions(extender) == well)
    assert kept(extender) == (NODES, PODS)
    victim = objects.running_pod(5, objects.node_name(0))["metadata"]["uid"]
    candidates = {objects.node_name(0): meta_victims(victim)}
    assert extender.post("/preempt", preemption_args(candidates)) == {"NodeNameToMetaVictims": candidates}


TRAIN = pod("train-1", annotations={"kwx.dev/accelerator": objects.node_name(1)})


def test_preempt_and_bind_see_the_clusters_nodes_whatever_filter_was_sent(tmp_path: Path, cluster: Cluster) -> None:
    """A preemption's candidates are among the nodes that filter was not asked about."""
    labelled = plugin("accelerator", '{"label": "kubernetes.io/hostname"}')
    connected = {"mode": "kubeconfig", "kubeconfig": str(cluster.write_kubeconfig(tmp_path))}
    candidates = {objects.node_name(at): meta_victims("victim") for at in range(NODES)}
    kept = {objects.node_name(1): candidates[objects.node_name(1)]}
    with Extender(tmp_path, profile("default", labelled), cluster=connected) as extender:
        extender.wait_until(lambda: extender.admin.get("/readyz").is_success)
        for asked in names_args([objects.node_name(0)], TRAIN), nodes_args([node(objects.node_name(0))], TRAIN):
            extender.post("/filter", asked)
            assert extender.post("/preempt", preemption_args(candidates, TRAIN)) == {"NodeNameToMetaVictims": kept}


HOSTNAME = "kubernetes.io/hostname"


@pytest.fixture
def by_hostname(tmp_path: Path, cluster: Cluster) -> Iterator[Extender]:
    """A guest that reads nodes."""
    labelled = plugin("accelerator", f'{{"label": "{HOSTNAME}"}}')
    connected = {"mode": "kubeconfig", "kubeconfig": str(cluster.write_kubeconfig(tmp_path))}
    with Extender(tmp_path, profile("default", labelled), cluster=connected) as extender:
        current = "[+]nodes ok\n"  # Listed, and watched.
        extender.wait_until(lambda: current in extender.admin.get("/readyz?verbose").text)
        yield extender


def test_a_node_that_the_cluster_does_not_have_is_judged_and_told_of_once(by_hostname: Extender) -> None:
    asked = names_args([objects.node_name(1), "nowhere"], TRAIN)
    for _ in range(2):
        answer = filtered([objects.node_name(1)], {"nowhere": "node nowhere is not known"})
        assert by_hostname.post("/filter", asked) == answer
    message = (
        "requests name nodes that the watch on the API server has not brought within 150 ms;"
        " until it does, guests see them without an object"
    )
    by_hostname.wait_until(lambda: by_hostname.events(message))
    assert [(line["nodes"], line["count"], line["level"]) for line in by_hostname.events(message)] == [
        (["nowhere"], 1, "warning")
    ]


def test_a_whole_node_that_the_cluster_does_not_have_is_judged_for_that_request_alone(by_hostname: Extender) -> None:
    template = node("template", labels={HOSTNAME: objects.node_name(1)})
    other = objects.node_name(0)
    assert by_hostname.post("/filter", nodes_args([node(other), template], TRAIN)) == {
        **filtered(None, unresolvable={other: f"node label {HOSTNAME} is {other}, pod wants {objects.node_name(1)}"}),
        "Nodes": {"metadata": {}, "items": [template]},
    }
    assert by_hostname.post("/bind", binding_args("template", "train-1")) == {
        "Error": "bind refused: no filter of pod default/train-1 was answered here in the last 30 minutes;"
        " kube-scheduler tries the pod again, and filters first if its extender has filterVerb beside bindVerb"
    }
    assert kept(by_hostname) == (NODES, 0)


NOT_LISTED = failure(
    plugin("accelerator"),
    "filter: the guest asked for a node's object, but none is known here: only names were given;"
    f" {MENDS[Fault.NO_NODE_DATA]}",
)


def test_before_the_first_list_what_reads_no_nodes_is_answered_where_that_is_configured(tmp_path: Path) -> None:
    """And the extender is ready: out of a Service's endpoints it would answer nothing at all."""
    nowhere = write_kubeconfig(tmp_path / "config", {"server": "http://127.0.0.1:1"})
    connected = {"mode": "kubeconfig", "kubeconfig": str(nowhere), "notSyncedPolicy": "Ignore"}
    profiles = profile("default", plugin("accelerator")), profile("names", plugin("nodenumber"))
    with Extender(tmp_path, *profiles, cluster=connected) as extender:
        asked = names_args(["node-0"], TRAIN)
        assert extender.post("/filter", asked) == filter_error(NOT_LISTED)
        assert extender.post("/profiles/names/filter", asked) == filtered(["node-0"])
        extender.wait_until(lambda: "cannot be reached" in conditions(extender))
        assert extender.admin.get("/readyz").is_success
        (line, *_) = conditions(extender).splitlines()
        assert line.startswith("[+]nodes ok, but the nodes of the cluster are not known yet: list nodes: http://127.")
