"""A guest in Go that has every extension point, each through a package of the library."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.sdk_guest.builds import built_module
from tests.wasm_runtime.world import World, close, filter_nodes, post_filter, pre_filter, score, world
from wasm_runtime import GuestError, Nodes, Plugin, Settings, abi
from wasm_runtime.abi import ClusterEvent, Code, Severity
from wasm_runtime.compile.compiler import Compiler
from wasm_runtime.engine import GuestEvent, Log
from wasm_runtime.guests.core_guest import CoreGuest
from wasm_runtime.guests.guest import Nomination, Permission, PreFilter, Status
from wasm_runtime.module.binary import interface
from wasm_runtime.protobuf import encode_node, encode_pod

pytestmark = pytest.mark.timeout(600)  # The first time programs in Go are built.

NODES: Final = {name: encode_node({"metadata": {"name": name}}) for name in ("node-a", "node-b", "node-ccc")}
SUCCESS: Final = Status(Code.SUCCESS)
REJECTED: Final = Status(Code.UNSCHEDULABLE, "as the pod says")


class Points:
    """The plugin, what its guests logged and recorded, and the pods that wait."""

    def __init__(self, engine: Compiler, wasm: bytes) -> None:
        self.records: list[Log | GuestEvent] = []
        self.waiting = {"3", "5"}
        settings = Settings("points", timeout=60.0)
        self.plugin = Plugin(engine, wasm, settings, sink=self._keep, handle=self)

    def _keep(self, *record: Any) -> None:
        self.records += record[-1].records

    def waiting_pod(self, uid: str, /) -> bytes | None:
        return b"" if uid in self.waiting else None

    def reject_waiting_pod(self, uid: str, /) -> bool:
        is_waiting = uid in self.waiting
        self.waiting -= {uid}
        return is_waiting

    @contextmanager
    def binding(self, at: World, node: str = "node-a") -> Iterator[Callable[[Callable[..., object]], object]]:
        """A binding cycle: calls a guest's methods about a node."""
        chosen = Nodes(at.node_table, [node])
        with self.plugin.guest(at.pod, chosen, "bind") as (guest, deadline):
            yield lambda step: step(guest, chosen, deadline)


@pytest.fixture(scope="module")
def wasm(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return built_module(Path(__file__).with_name("points.go"), tmp_path_factory.mktemp("points"))


@pytest.fixture
def points(engine: Compiler, wasm: bytes) -> Iterator[Points]:
    points = Points(engine, wasm)
    yield points
    close(points.plugin)


def about(does: str = "", uid: str = "1") -> World:
    """A request for a pod on all nodes, and what the plugin is to do with it."""
    labels = {"does": does} if does else {}
    pod = {"metadata": {"name": "pod", "namespace": "default", "uid": uid, "resourceVersion": "5", "labels": labels}}
    return world(NODES, pod=encode_pod(pod), uid=uid)


def test_every_point_is_exported(wasm: bytes) -> None:
    found = interface(wasm)
    assert abi.EXPORTS.keys() <= found.exports.keys()
    assert {each for each in found.imports if each.module != abi.WASI} <= abi.IMPORTS.keys()


def test_cluster_events(points: Points) -> None:
    assert points.plugin.cluster_events == [ClusterEvent("Node", 1 | 8), ClusterEvent("Pod", 2)]


@pytest.mark.parametrize(
    ("does", "expected"),
    [
        ("", PreFilter()),
        ("only:node-b", PreFilter(SUCCESS, frozenset({"node-b"}))),
        ("only:node-a node-b", PreFilter(SUCCESS, frozenset({"node-a", "node-b"}))),
        ("only:", PreFilter(Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "PreFilter leaves no node"))),
        ("PreFilter", PreFilter(REJECTED)),
    ],
)
def test_pre_filter(points: Points, does: str, expected: PreFilter) -> None:
    assert pre_filter(points.plugin, about(does)) == expected


def test_scores_are_normalized(points: Points) -> None:
    assert score(points.plugin, about()) == [75, 75, 100]


def test_a_pod_is_tried_on_a_node_without_another(points: Points) -> None:
    """What RemovePod writes into the state of the cycle Filter reads."""
    at, target = about("preempts"), encode_pod({"metadata": {"name": "victim"}})
    node = Nodes(at.node_table, ["node-b"])
    with points.plugin.guest(at.pod, at.nodes, "preempt") as (guest, deadline):
        found = [guest.filter(node, deadline)]
        guest.remove_pod(target, node, deadline)
        found.append(guest.filter(node, deadline))
        guest.add_pod(target, node, deadline)
        found.append(guest.filter(node, deadline))
    assert [bytes(each.codes or b"\0") for each in found] == [b"\2", b"\0", b"\2"]
    assert [each.message for each in points.records if isinstance(each, Log)] == [
        "victim not on node-b",
        "victim on node-b",
    ]


def test_the_nominated_node(points: Points) -> None:
    assert post_filter(points.plugin, about()) == Nomination(SUCCESS, 1, "node-a")


def test_no_nominated_node(points: Points) -> None:
    at = about()
    nobody = at._replace(nodes=Nodes(at.node_table, []))
    assert post_filter(points.plugin, nobody) == Nomination(Status(Code.UNSCHEDULABLE, "no candidate"), 0, "")


def test_a_cycle_from_pre_filter_to_post_bind(points: Points) -> None:
    """The state lasts from the one to the other, and the next pod's begins anew."""
    for uid in ("1", "2"):
        points.records.clear()
        at = about(uid=uid)
        filter_nodes(points.plugin, at)
        score(points.plugin, at)
        with points.binding(at) as ask:
            before = (CoreGuest.reserve, CoreGuest.binding_annotations)
            after = (CoreGuest.permit, CoreGuest.pre_bind, CoreGuest.bind)
            answers = [ask(step) for step in (*before, *after)]
            ask(CoreGuest.post_bind)
        reserved = "PreFilter Filter Filter Filter PreScore Reserve node-a annotations"
        annotations = {"example.com/asked": reserved, "example.com/node": "node-a"}
        assert answers == [SUCCESS, annotations, Permission(SUCCESS, 0.0), SUCCESS, Status(Code.SKIP)]
        event, asked = points.records
        assert isinstance(event, GuestEvent)
        assert json.loads(event.message) == {
            "RegardingReference": {
                "Kind": "Pod",
                "APIVersion": "v1",
                "Name": "pod",
                "Namespace": "default",
                "UID": uid,
                "ResourceVersion": "5",
            },
            "RelatedReference": {
                "Kind": "Node",
                "APIVersion": "v1",
                "Name": "node-a",
                "Namespace": "",
                "UID": "node-a",
                "ResourceVersion": "",
            },
            "Eventtype": "Normal",
            "Reason": "Bound",
            "Action": "Binding",
            "Note": "after 14",
        }
        trail = f"{reserved} Permit node-a PreBind node-a Bind node-a"
        assert asked == Log(Severity.INFO, trail, (), "node-a")


@pytest.mark.parametrize(
    ("does", "step", "expected"),
    [
        ("Reserve", CoreGuest.reserve, REJECTED),
        ("no annotations", CoreGuest.binding_annotations, {}),
        ("Permit", CoreGuest.permit, Permission(REJECTED, 0.0)),
        ("waits", CoreGuest.permit, Permission(Status(Code.WAIT), 1.5)),
        ("PreBind", CoreGuest.pre_bind, REJECTED),
        ("Bind", CoreGuest.bind, REJECTED),
    ],
)
def test_what_binding_is_answered(points: Points, does: str, step: Callable[..., object], expected: object) -> None:
    with points.binding(about(does), "node-b") as ask:
        assert ask(step) == expected
        ask(CoreGuest.unreserve)
    assert points.records == [Log(Severity.INFO, "not on node-b", (), "node-b")]


def test_a_waiting_pod_is_rejected(points: Points) -> None:
    for uid in ("3", "4", "3"):
        with points.binding(about(f"replaces:{uid}")) as ask:
            assert ask(CoreGuest.bind) == Status(Code.SKIP)
    assert points.waiting == {"5"}
    assert [each.message for each in points.records if isinstance(each, Log)] == [
        "replaced true",
        "replaced false",
        "replaced false",
    ]


def test_pre_score_may_not_reject(points: Points) -> None:
    with pytest.raises(GuestError) as caught:
        score(points.plugin, about("PreScore"))
    assert str(caught.value) == (
        "prescore: status code 2 Unschedulable (as the pod says) is none of 0 Success, 1 Error, 5 Skip"
    )
