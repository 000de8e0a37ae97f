"""Pods on nodes as the libraries in Rust and AssemblyScript count them: as kube-scheduler does, after any changes."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.sdk_guest import node_info
from tests.sdk_guest.plugins import MakePlugin, without
from tests.wasm_runtime.world import World, filter_nodes
from wasm_runtime import Nodes, NodeTable, Plugin, Pod, Settings
from wasm_runtime.abi import Severity
from wasm_runtime.engine import Engine, Log
from wasm_runtime.pods.pod_table import ResidentPod
from wasm_runtime.protobuf import encode_node, encode_pod

SDK: Final = Path(__file__).parents[2] / "sdk-guest"

Object = dict[str, Any]
Load = Callable[..., Plugin]


@pytest.fixture
def logged() -> list[tuple[Severity, str]]:
    """What guests logged."""
    return []


@pytest.fixture(params=["rust", "assemblyscript"])
def wasm(request: pytest.FixtureRequest) -> bytes:
    """The guest `nodeinfo` in a language."""
    return (SDK / str(request.param) / "modules" / "nodeinfo.wasm").read_bytes()


@pytest.fixture
def load(each_engine: Engine, make_plugin: MakePlugin, logged: list[tuple[Severity, str]], wasm: bytes) -> Load:
    """Makes a plugin of the guest `nodeinfo`, for a host that tells of pods or for one that does not."""

    def load(*, tells_pods: bool = True) -> Plugin:
        return make_plugin(
            each_engine,
            without(wasm, *(() if tells_pods else ("podschanged", "podbuffer"))),
            Settings("nodeinfo", timeout=30.0, instances=1),
            sink=lambda _plugin, _pod, journal: logged.extend(
                (each.severity, each.message) for each in journal.records if isinstance(each, Log)
            ),
        )

    return load


def told(plugin: Plugin, node_table: NodeTable, names: list[str]) -> list[Object]:
    """What the guest knows of each node, with the names of pods in order."""
    results = filter_nodes(plugin, World(Pod("asks", "ns/asks", b""), Nodes(node_table, names)))
    found = [msgspec.json.decode(reason, type=Object) for reason in results.reasons]
    return [{**each, "pods": sorted(each["pods"]), "tentative": sorted(each["tentative"])} for each in found]


class Cluster:
    """Random nodes and pods that come, change, move and go."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.node_table = NodeTable()
        self.nodes: dict[str, Object] = {}
        self.pods: dict[str, tuple[str, bool, Object]] = {}
        """By UID: node, whether it is only expected there, object."""

    def change(self) -> None:
        """Changes a few nodes and pods. Pods stay on nodes that are gone, and come to nodes that are not known."""
        for name in self.source.sample(_NAMES, 3):
            if name in self.nodes and self.source.random() < 0.4:
                del self.nodes[name]
                self.node_table.remove(name)
            else:
                self.nodes[name] = node_info.random_node(self.source, name)
                self.node_table.put([(name, encode_node(self.nodes[name]))])
        for uid in (f"u-{self.source.randrange(60)}" for _ in range(10)):
            if uid in self.pods and self.source.random() < 0.3:
                del self.pods[uid]
                self.node_table.pods.remove(uid)
            else:
                self._put(uid)

    def _put(self, uid: str) -> None:
        """A new pod or one that has changed; one that is known may move as it is."""
        _, _, pod = self.pods.get(uid, (None, None, None))
        if pod is None or self.source.random() < 0.5:
            pod = node_info.random_pod(self.source, uid)
        node, is_tentative = self.source.choice(["", *_NAMES]), self.source.random() < 0.3
        self.pods[uid] = node, is_tentative, pod
        self.node_table.pods.put([(uid, ResidentPod(node, encode_pod(pod), is_tentative))])

    def expected(self) -> list[Object]:
        """What a guest is to know of each node."""
        return [self._expected(name, node) for name, node in self.nodes.items()]

    def _expected(self, name: str, node: Object) -> Object:
        pods = [(is_tentative, pod) for on, is_tentative, pod in self.pods.values() if on == name]
        names: Mapping[bool, list[str]] = {
            kind: sorted(f"ns/{pod['metadata']['name']}" for is_tentative, pod in pods if is_tentative is kind)
            for kind in (False, True)
        }
        counted = node_info.node_info(node, [pod for _, pod in pods])
        return {**counted, "pods": names[False], "tentative": names[True]}


_NAMES: Final = [f"node-{at}" for at in range(8)]


def test_after_any_changes_each_node_has_what_kube_scheduler_counts(load: Load) -> None:
    plugin = load()
    cluster = Cluster(1)
    for _ in range(80):
        cluster.change()
        assert told(plugin, cluster.node_table, [*cluster.nodes]) == cluster.expected()


def test_another_table_has_other_pods(load: Load) -> None:
    plugin = load()
    for seed in (2, 3, 2):
        cluster = Cluster(seed)
        for _ in range(10):
            cluster.change()
        assert told(plugin, cluster.node_table, [*cluster.nodes]) == cluster.expected()


def test_a_host_that_tells_of_no_pods_is_told_of_once_in_the_log(
    load: Load, logged: list[tuple[Severity, str]]
) -> None:
    plugin = load(tells_pods=False)
    cluster = Cluster(4)
    cluster.change()
    expected = [node_info.node_info(node, []) | {"pods": [], "tentative": []} for node in cluster.nodes.values()]
    for _ in range(3):
        assert told(plugin, cluster.node_table, [*cluster.nodes]) == expected
    assert logged == [(Severity.WARNING, "the host has told of no pods on nodes: all nodes count as empty")]


def test_a_cluster_without_pods_is_no_reason_to_warn(load: Load, logged: list[tuple[Severity, str]]) -> None:
    plugin, cluster = load(), Cluster(4)
    cluster.nodes["node-0"] = node_info.random_node(cluster.source, "node-0")
    cluster.node_table.put([("node-0", encode_node(cluster.nodes["node-0"]))])
    cluster.node_table.pods.complete()
    assert told(plugin, cluster.node_table, ["node-0"]) == cluster.expected()
    assert logged == []


def test_a_pod_that_cannot_be_read_is_logged_and_does_not_count(load: Load, logged: list[tuple[Severity, str]]) -> None:
    plugin = load()
    node_table = NodeTable()
    node = {"metadata": {"name": "node"}, "status": {"allocatable": {"cpu": "4"}}}
    node_table.put([("node", encode_node(node))])
    requests = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}
    good = {"metadata": {"name": "pod", "namespace": "ns"}, "spec": requests}
    bad = encode_pod(good).replace(b"\x01" + b"2", b"\x01" + b"x")
    node_table.pods.put([("good", ResidentPod("node", encode_pod(good))), ("bad", ResidentPod("node", bad))])
    expected = node_info.node_info(node, [good]) | {"pods": ["ns/pod"], "tentative": []}
    assert told(plugin, node_table, ["node"]) == [expected]
    message = "a pod on a node cannot be read, and does not count: malformed quantity"
    assert logged == [(Severity.ERROR, message)]
    node_table.pods.put([("bad", ResidentPod("node", encode_pod(good)))])
    twice = node_info.node_info(node, [good, good]) | {"pods": ["ns/pod", "ns/pod"], "tentative": []}
    assert told(plugin, node_table, ["node"]) == [twice]


def test_a_pod_may_have_thousands_of_resources_and_containers(load: Load) -> None:
    """One that took all of a guest's time would keep all pods from being scheduled."""
    node_table = NodeTable()
    node = {"metadata": {"name": "node"}, "status": {"allocatable": {"cpu": "4"}}}
    node_table.put([("node", encode_node(node))])
    one: Object = {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "0"}}}
    many: list[Object] = [
        {"name": f"c-{at}", "resources": {"requests": {"cpu": "0", "memory": "0", f"example.com/{at}": "0"}}}
        for at in range(10_000)
    ]
    resources = {name: "0" for each in many for name in each["resources"]["requests"]}
    for name, spec, status in [
        ("resources", {"containers": [{**one, "resources": {"requests": {**resources, "cpu": "1"}}}]}, {}),
        ("containers", {"containers": [one, *many]}, {"containerStatuses": [{"name": each["name"]} for each in many]}),
        (
            "sidecars",
            {"containers": [one], "initContainers": [{**each, "restartPolicy": "Always"} for each in many]},
            {},
        ),
    ]:
        pod = {"metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": status}
        node_table.pods.put([(name, ResidentPod("node", encode_pod(pod)))])
    names = ["ns/containers", "ns/resources", "ns/sidecars"]
    expected = node_info.node_info(node, [{"spec": {"containers": [one]}}] * 3) | {"pods": names, "tentative": []}
    assert told(load(), node_table, ["node"]) == [expected]


VECTORS: Final = Path(__file__).with_name("nodeinfo.jsonl")
"""A line a node: random nodes and pods as protobuf, and what NodeInfo of kube-scheduler 1.37 counted of these bytes."""


def test_the_scheduler_counts_the_same(load: Load) -> None:
    plugin = load()
    node_table = NodeTable()
    vectors = [msgspec.json.decode(line) for line in VECTORS.read_bytes().splitlines()]
    for at, vector in enumerate(vectors):
        node_table.put([(str(at), base64.b64decode(vector["node"]))])
        pods = [ResidentPod(str(at), base64.b64decode(pod)) for pod in vector["pods"]]
        node_table.pods.put((f"{at}-{i}", pod) for i, pod in enumerate(pods))
    found = told(plugin, node_table, [str(at) for at in range(len(vectors))])
    for each, vector in zip(found, vectors, strict=True):
        for known in (vector["expected"]["allocatable"], vector["expected"]["requested"]):
            known["scalars"] = {name: amount for name, amount in known["scalars"].items() if amount}
        assert {key: each[key] for key in vector["expected"]} == vector["expected"]
