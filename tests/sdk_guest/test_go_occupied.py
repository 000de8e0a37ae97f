"""A guest in Go that keeps the pods of each node, told by this host and by one that tells of none."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.sdk_guest.builds import built_module
from tests.wasm_runtime.world import World, close, filter_nodes
from wasm_runtime import Nodes, NodeTable, Plugin, Pod, Settings
from wasm_runtime.abi import Severity
from wasm_runtime.compile.compiler import Compiler
from wasm_runtime.engine import GuestEvent, Log
from wasm_runtime.module.binary import interface
from wasm_runtime.pods.pod_table import ResidentPod
from wasm_runtime.protobuf import encode_node, encode_pod

pytestmark = pytest.mark.timeout(600)  # The first time programs in Go are built.

PODS: Final = ("podbuffer", "podschanged")
GPU: Final = "example.com/gpu"
NAMES: Final = [f"node-{at}" for at in range(20)]
ASKING: Final = 250
"""Millicores of the pod that is to be scheduled."""

MANY: Final = 10_000

Load = Callable[..., Plugin]


class Node(NamedTuple):
    zone: str
    millicores: int
    gpus: int
    pods: int

    def encoded(self, name: str) -> bytes:
        allocatable = {"cpu": f"{self.millicores}m", GPU: str(self.gpus), "pods": str(self.pods)}
        labels = {"zone": self.zone}
        return encode_node({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}})


class Resident(NamedTuple):
    name: str
    node: str
    is_tentative: bool
    millicores: int
    gpus: int

    def told(self) -> ResidentPod:
        return ResidentPod(self.node, encoded(self.name, self.millicores, self.gpus), self.is_tentative)


def encoded(name: str, millicores: int, gpus: int = 0) -> bytes:
    """A pod whose one container requests no memory."""
    requests = {"cpu": f"{millicores}m", GPU: str(gpus)}
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    return encode_pod({"metadata": {"name": name}, "spec": {"containers": [container]}})


class Cluster:
    """Random nodes and pods that come, change, move and go, and what the host is told of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.table = NodeTable()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Resident] = {}
        for name in NAMES:
            self.put_node(name)

    def put_node(self, name: str) -> None:
        node = Node(self.random.choice("abc"), *(self.random.randrange(most) for most in (9000, 9, 200)))
        self.nodes[name] = node
        self.table.put([(name, node.encoded(name))])

    def put_pod(self, uid: str) -> None:
        """Puts a pod anywhere, also on a node that is not there."""
        pod = Resident(
            f"pod-{uid}",
            self.random.choice(NAMES),
            self.random.random() < 0.3,
            self.random.randrange(2000),
            self.random.randrange(4),
        )
        if uid in self.pods and self.random.random() < 0.5:
            pod = self.pods[uid]._replace(node=pod.node, is_tentative=pod.is_tentative)
        self.pods[uid] = pod
        self.table.pods.put([(uid, pod.told())])

    def change(self) -> None:
        for _ in range(self.random.randrange(60)):
            uid = str(self.random.randrange(100))
            if self.random.random() < 0.6:
                self.put_pod(uid)
            elif uid in self.pods:
                del self.pods[uid]
                self.table.pods.remove(uid)
        for name in self.random.sample(NAMES, 4):
            if name in self.nodes and self.random.random() < 0.5:
                del self.nodes[name]
                self.table.remove(name)
            else:
                self.put_node(name)

    def request(self, uid: int) -> World:
        nodes = self.random.sample(sorted(self.nodes), len(self.nodes))
        return World(Pod(str(uid), f"default/pod-{uid}", encoded("pod", ASKING)), Nodes(self.table, nodes))

    def counted(self, name: str, *, is_told: bool = True) -> str:
        """What the guest says of a node."""
        node = self.nodes[name]
        here = [pod for pod in self.pods.values() if pod.node == name] if is_told else []
        names = " ".join(sorted(pod.name + "?" * pod.is_tentative for pod in here))
        millicores, gpus = sum(pod.millicores for pod in here), sum(pod.gpus for pod in here)
        return (
            f"{node.zone} [{names}] {millicores}m {gpus} of {node.millicores}m {node.gpus}, "
            f"{node.pods - len(here)} of {node.pods} pods and {node.gpus - gpus} GPUs left, "
            f"scored {millicores}m {len(here) * 200 * 2**20}, asked {ASKING}m"
        )


@pytest.fixture(scope="module")
def wasm(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return built_module(Path(__file__).with_name("occupied.go"), tmp_path_factory.mktemp("occupied"))


@pytest.fixture
def records() -> list[Log | GuestEvent]:
    return []


@pytest.fixture
def load(engine: Compiler, wasm: bytes, records: list[Log | GuestEvent]) -> Iterator[Load]:
    plugins = []

    def keep(*record: Any) -> None:
        records.extend(record[-1].records)

    def load(*, is_told: bool = True) -> Plugin:
        module = wasm
        for export in () if is_told else PODS:
            module = module.replace(export.encode(), export.upper().encode())
        plugin = Plugin(engine, module, Settings("occupied", timeout=60.0), sink=keep)
        plugins.append(plugin)
        return plugin

    yield load
    for plugin in plugins:
        close(plugin)


@pytest.mark.parametrize("seed", range(1, 4))
def test_random_pods_are_counted_on_their_nodes(load: Load, records: list[Log | GuestEvent], seed: int) -> None:
    plugin, cluster = load(), Cluster(seed)
    cluster.put_pod("first")
    for uid in range(30):
        at = cluster.request(uid)
        assert filter_nodes(plugin, at).reasons == [cluster.counted(name) for name in at.nodes.names]
        cluster.change()
    assert records == []


def test_a_host_that_tells_no_pods_is_warned_of_once(load: Load, records: list[Log | GuestEvent]) -> None:
    plugin, cluster = load(is_told=False), Cluster(1)
    cluster.put_pod("first")
    for uid in range(3):
        at = cluster.request(uid)
        assert filter_nodes(plugin, at).reasons == [cluster.counted(name, is_told=False) for name in at.nodes.names]
        cluster.change()
    message = "the host has not told of any pod so far: nodes are taken for empty"
    assert records == [Log(Severity.WARNING, message, ())]


def test_a_cluster_without_pods_is_no_reason_to_warn(load: Load, records: list[Log | GuestEvent]) -> None:
    plugin, cluster = load(), Cluster(1)
    cluster.table.pods.complete()
    at = cluster.request(1)
    assert filter_nodes(plugin, at).reasons == [cluster.counted(name) for name in at.nodes.names]
    assert records == []


def test_a_pod_may_have_thousands_of_resources_and_containers(load: Load) -> None:
    """One that took all of a guest's time would keep all pods from being scheduled."""
    plugin, cluster = load(), Cluster(1)
    names = [f"example.com/{at * 7919 % MANY}" for at in range(MANY)]

    def asking(name: str, **requests: str) -> dict[str, Any]:
        return {"name": name, "resources": {"requests": {"cpu": "0", "memory": "0", **requests}}}

    one, each = asking("c", cpu="1"), [asking(f"c-{at}", **{name: "1"}) for at, name in enumerate(names)]
    sidecars = [{**sidecar, "restartPolicy": "Always"} for sidecar in each]
    for uid, spec, status in [
        ("resources", {"containers": [asking("c", cpu="1", **dict.fromkeys(names, "1"))]}, {}),
        ("containers", {"containers": [one, *each]}, {"containerStatuses": [{"name": c["name"]} for c in each]}),
        ("sidecars", {"containers": [one], "initContainers": sidecars}, {}),
        ("init", {"containers": [one], "initContainers": [*sidecars[: MANY // 2], *each[: MANY // 2]]}, {}),
    ]:
        pod = {"metadata": {"name": uid}, "spec": spec, "status": status}
        cluster.table.pods.put([(uid, ResidentPod("node-0", encode_pod(pod)))])
    node = cluster.nodes["node-0"]
    beside = f"of {node.millicores}m {node.gpus}"
    asks = World(Pod("1", "default/pod-1", encoded("pod", ASKING)), Nodes(cluster.table, ["node-0"]))
    (said,) = filter_nodes(plugin, asks).reasons
    assert said.startswith(f"{node.zone} [containers init resources sidecars] 4000m 0 {beside}, {node.pods - 4} of ")
    for uid in ("resources", "containers", "sidecars", "init"):
        cluster.table.pods.remove(uid)
    (said,) = filter_nodes(plugin, asks).reasons
    assert said.startswith(f"{node.zone} [] 0m 0 {beside}, {node.pods} of ")


def test_it_exports_what_it_wants_to_know(wasm: bytes) -> None:
    kept = {"nodechanged", "noderemoved", "nodebuffer", "collectgarbage", *PODS}
    assert interface(wasm).exports.keys() == {
        "memory", "_initialize", "_start", "prefilter", "filter", "filternodes", *kept,
    }  # fmt: skip
