"""gpu-pack in random clusters, against its README in Python: each answer is the same, and no device is given twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from extender.commands.test.play import verdicts
from extender.scheduling import preempt
from extender.scheduling.profile import Profile, ProfilePlugin
from tests.sdk_guest.gpu_pack_model import DEVICES, MEMORY, NodeState, Policy, indices
from tests.sdk_guest.plugins import MakePlugin
from tests.sdk_guest.policy import Object
from tests.sdk_guest.test_policies import MODULES
from tests.wasm_runtime.world import World, score
from wasm_runtime import Nodes, NodeTable, Plugin, Pod, Settings
from wasm_runtime.abi import Code
from wasm_runtime.engine import Engine
from wasm_runtime.guests.guest import Status
from wasm_runtime.pods.pod_table import ResidentPod
from wasm_runtime.protobuf import encode_node, encode_pod

STEPS: Final = [
    pytest.param(2_000, id="short"),
    pytest.param(50_000, id="full", marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
]

POLICIES: Final = {
    "packed": Policy(),
    "spread": Policy(node_policy="spread", gpu_policy="spread"),
    "two resources, packed on nodes": Policy(("nvidia.com/gpu", "example.com/fpga"), gpu_policy="spread"),
}

MOST_PODS: Final = 40

# Each list begins with what is usual.
_COUNTS: Final = ("8", "4", "2", "1", "0", "256", "257", "1000000000000")
_MEMORIES: Final = ("40000", "24576", "1", "1000000000", "0", "40Gi", "1000000001")
_WHOLE: Final = ("1", "2", "4", "8", "256", "4294967296")
_FRACTIONS: Final = ("0.5", ".25", "0.333333", "0.000001", "0.999999", "0", "1", "0.1234567", "50%", "")
_MIB: Final = ("10000", "20000", "1", "40000", "40001", "1000000000", "1000000001", "0", "8Gi", "-1")
_NUMBERS: Final = ("1", "2", "3", "64", "65", "0", "two")
_POLICIES: Final = ("binpack", "spread", "binpack", "topology-aware")
_DEVICES: Final = ("0", "0,1", "1,0", "7", "3,3", "0,", "-1", "all", "4294967296", ",".join(map(str, range(300))))


class Placed(NamedTuple):
    """A pod on a node."""

    node: str
    object: Object
    is_tentative: bool
    is_bound: bool = False
    """By gpu-pack, be it that the bind is under way still."""


class Cluster:
    """Nodes and pods, as gpu-pack is told of them and as its README has them.

    In an `is_orderly` one, pods come by gpu-pack alone and nodes stay as they are. Otherwise pods come with whatever
    annotations, and nodes come, change and go.
    """

    def __init__(self, plugin: Plugin, policy: Policy, dice: random.Random, *, is_orderly: bool) -> None:
        self.plugin = plugin
        self.profile = Profile("random", [ProfilePlugin(plugin)])
        self.policy = policy
        self.dice = dice
        self.is_orderly = is_orderly
        self.table = NodeTable()
        self.nodes: dict[str, Object] = {}
        self.pods: dict[str, Placed] = {}
        self.created = 0
        for at in range(5):
            self.put_node(f"node-{at}")

    def arrive(self) -> None:
        """A pod is judged, and expected on one of the nodes that take it."""
        if len(self.pods) >= MOST_PODS:
            return
        pod = self.new_pod()
        answers = verdicts(self.profile, *self.world(pod, list(self.nodes)))
        assert answers == {name: self.expected(pod, name) for name in self.nodes}, pod
        scores = score(self.plugin, self.world(pod, list(self.nodes)))
        assert all(0 <= each <= 100 for each in scores or ()), pod
        passing = {name: each for name, each in answers.items() if isinstance(each, int)}
        if passing:
            best = max(passing, key=passing.__getitem__)
            self.place(pod, self.dice.choice([best, *passing]), is_tentative=True)

    def bind(self) -> None:
        """A pod that is expected on a node gets devices there, or is rejected."""
        pod, node = self.one_of(
            lambda placed: not placed.is_bound and placed.is_tentative and placed.node in self.nodes
        )
        if not pod:
            return
        uid = name_of(pod)
        del self.pods[uid]
        state, request = self.state(node), self.policy.request(pod)
        status, annotations = self.reserve(pod, node)
        if rejection := state.rejection(request):
            code = Code.UNSCHEDULABLE if rejection.is_resolvable else Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            assert status == Status(code, rejection.reason)
            self.table.pods.remove(uid)
            return
        devices = ",".join(map(str, state.choice(request)))
        assert (status, annotations) == (Status(Code.SUCCESS), {DEVICES: devices} if devices else {})
        bound = with_annotations(pod, annotations)
        self.place(bound, node, is_tentative=self.dice.random() < 0.2, is_bound=True)
        load = state.load([placed.object for placed in self.pods.values() if placed.node == node])
        assert all(load[device] <= 1 for device in indices(bound) if annotations)
        if self.is_orderly:
            self.check()

    def leave(self) -> None:
        """A pod ends, or does not come after all."""
        pod, _ = self.one_of(lambda _: True)
        if pod:
            del self.pods[name_of(pod)]
            self.table.pods.remove(name_of(pod))

    def preempt(self) -> None:
        """A pod may have the room of some others."""
        pod = self.new_pod()
        victims = {name: [each for each in self.on(name) if self.dice.random() < 0.5] for name in self.nodes}
        world = self.world(pod, list(self.nodes))
        evicted = {name: list(map(encode_pod, pods)) for name, pods in victims.items()}
        verdict = preempt.filter_without_victims(self.plugin, world.pod, world.nodes, evicted.__getitem__)
        assert verdict
        found = {
            **dict.fromkeys(verdict.kept.names, "passes"),
            **verdict.failed,
            **{name: {"unresolvable": reason} for name, reason in verdict.unresolvable.items()},
        }
        answers = {name: self.expected(pod, name, without=victims[name]) for name in self.nodes}
        assert found == {name: "passes" if isinstance(each, int) else each for name, each in answers.items()}

    def come_otherwise(self) -> None:
        """A pod is on a node by another scheduler, or somebody has changed its annotations."""
        pod, node = self.one_of(lambda _: True)
        if not pod or self.dice.random() < 0.5:
            pod, node = self.new_pod(), f"node-{self.dice.randrange(6)}"
        devices = {DEVICES: self.any_of(_DEVICES)} if self.dice.random() < 0.8 else {}
        self.place(with_annotations(pod, devices), node, is_tentative=False)

    def change_node(self) -> None:
        """A node comes, changes or goes; the pods on it stay."""
        name = f"node-{self.dice.randrange(6)}"
        if len(self.nodes) > 1 and self.dice.random() < 0.3:
            self.nodes.pop(name, None)
            self.table.remove(name)
        else:
            self.put_node(name)

    def check(self) -> None:
        """The pods that are bound have no more of any node, or of any device, than there is."""
        for name in self.nodes:
            bound = [pod for pod in self.on(name) if self.pods[name_of(pod)].is_bound]
            assert NodeState(self.policy, self.nodes[name], bound).overcommitted(bound) == [], name

    def expected(self, pod: Object, node: str, without: list[Object] | None = None) -> Any:
        """What the README says of a pod on a node."""
        left = [each for each in self.on(node) if each not in (without or [])]
        return self.policy.answer(pod, self.nodes[node], left)

    def state(self, node: str) -> NodeState:
        """A node with its pods."""
        return NodeState(self.policy, self.nodes[node], self.on(node))

    def reserve(self, pod: Object, node: str) -> tuple[Status, dict[str, str]]:
        """What Reserve says, while the pod is expected on the node."""
        world = self.world(pod, [node])
        with self.plugin.guest(world.pod, world.nodes, "bind") as (guest, deadline):
            status = guest.reserve(world.nodes, deadline)
            is_taken = status.code is Code.SUCCESS
            return status, guest.binding_annotations(world.nodes, deadline) if is_taken else {}

    def world(self, pod: Object, nodes: list[str]) -> World:
        """A pod on some nodes."""
        return World(Pod(name_of(pod), f"ns/{name_of(pod)}", encode_pod(pod)), Nodes(self.table, nodes))

    def on(self, node: str) -> list[Object]:
        """The pods of a node."""
        return [placed.object for placed in self.pods.values() if placed.node == node]

    def one_of(self, wanted: Callable[[Placed], bool]) -> tuple[Object, str] | tuple[None, str]:
        """A pod with its node; None if there is no such pod."""
        found = [placed for placed in self.pods.values() if wanted(placed)]
        if not found:
            return None, ""
        chosen = self.dice.choice(found)
        return chosen.object, chosen.node

    def place(self, pod: Object, node: str, *, is_tentative: bool, is_bound: bool = False) -> None:
        """Has a pod on a node from now on."""
        uid = name_of(pod)
        self.pods[uid] = Placed(node, pod, is_tentative, is_bound)
        self.table.pods.put([(uid, ResidentPod(node, encode_pod(pod), is_tentative))])

    def put_node(self, name: str) -> None:
        """Has a node from now on, of any kind."""
        allocatable = {resource: self.any_of(_COUNTS) for resource in self.policy.resources}
        labels = {MEMORY: self.any_of(_MEMORIES)} if self.dice.random() < 0.8 else {}
        node = {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}
        self.nodes[name] = node
        self.table.put([(name, encode_node(node))])

    def new_pod(self) -> Object:
        """A pod that asks for anything, mostly for what can be had."""
        self.created += 1
        name = f"pod-{self.created}"
        annotations: dict[str, str] = {}
        requests: dict[str, str] = {}
        kind = self.dice.choices(["whole", "gpu-fraction", "gpu-memory", "nothing", "all"], [6, 6, 6, 1, 1])[0]
        for key, values in {"gpu-fraction": _FRACTIONS, "gpu-memory": _MIB}.items():
            if kind in {key, "all"}:
                annotations[key] = self.any_of(values)
        if kind in {"whole", "all"}:
            requests = {resource: self.any_of(_WHOLE) for resource in self.policy.resources if self.dice.random() < 0.9}
        elif len(self.policy.resources) > 1 and self.dice.random() < 0.5:
            requests[self.policy.resources[1]] = self.any_of(_WHOLE)
        others: Mapping[str, tuple[str, ...]] = {
            "gpu-fraction-num-devices": _NUMBERS,
            "hami.io/node-scheduler-policy": _POLICIES,
            "hami.io/gpu-scheduler-policy": _POLICIES,
            DEVICES: _DEVICES,
        }
        for key, possible in others.items():
            if self.dice.random() < 0.2:
                annotations[key] = self.any_of(possible)
        return {
            "metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": annotations},
            "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
        }

    def any_of(self, values: tuple[str, ...]) -> str:
        """One of some values, mostly of the first three."""
        return self.dice.choice(values[:3] if self.dice.random() < 0.85 else values)


@pytest.fixture(params=POLICIES.values(), ids=list(POLICIES))
def policy(request: pytest.FixtureRequest) -> Policy:
    found: Policy = request.param
    return found


@pytest.fixture
def plugin(each_engine: Engine, make_plugin: MakePlugin, policy: Policy) -> Plugin:
    wasm = (MODULES / "gpu_pack.wasm").read_bytes()
    config = msgspec.json.encode(policy.config).decode()
    return make_plugin(each_engine, wasm, Settings("gpu-pack", config=config, timeout=30.0, instances=1))


@pytest.mark.parametrize("is_orderly", [True, False], ids=["orderly", "disorderly"])
@pytest.mark.parametrize("steps", STEPS)
def test_gpu_pack_is_as_its_readme_says(plugin: Plugin, policy: Policy, steps: int, *, is_orderly: bool) -> None:
    cluster = Cluster(plugin, policy, random.Random(steps), is_orderly=is_orderly)
    acts: Mapping[Callable[[], None], int] = {
        cluster.arrive: 10,
        cluster.bind: 9,
        cluster.leave: 7,
        cluster.preempt: 1,
        cluster.come_otherwise: 0 if is_orderly else 3,
        cluster.change_node: 0 if is_orderly else 2,
    }
    for step, act in enumerate(cluster.dice.choices(list(acts), list(acts.values()), k=steps)):
        try:
            act()
        except AssertionError as error:
            raise AssertionError(f"step {step} ({act.__name__}): {error}") from error


def name_of(pod: Object) -> str:
    """The name of a pod, which is its UID as well."""
    return str(pod["metadata"]["name"])


def with_annotations(pod: Object, annotations: Mapping[str, str]) -> Object:
    """The pod with annotations more."""
    metadata = pod["metadata"]
    return {**pod, "metadata": {**metadata, "annotations": {**metadata["annotations"], **annotations}}}
