"""Every extension point of the libraries in Rust and AssemblyScript, on every engine: the examples answer the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.sdk_guest.plugins import MakePlugin, without
from tests.wasm_runtime.world import World, filter_nodes, post_filter, pre_filter, score, world
from wasm_runtime import GuestError, Plugin, Settings
from wasm_runtime.abi import ClusterEvent, Code
from wasm_runtime.engine import Engine, GuestEvent, NodeResults, NoHandle
from wasm_runtime.guests.guest import Nomination, Permission, PreFilter, Status
from wasm_runtime.protobuf import encode_node, encode_pod

SDK: Final = Path(__file__).parents[2] / "sdk-guest"

OF_NODES: Final = ("nodechanged", "noderemoved", "nodebuffer", "filternodes", "scorenodes")
"""The exports that a host does not know which announces no nodes."""

BINDING: Final = ("reserve", "bindingannotations", "unreserve", "permit", "prebind", "bind", "postbind")

OK: Final = Status(Code.SUCCESS)

Load = Callable[..., Plugin]


@pytest.fixture
def events() -> list[dict[str, Any]]:
    """What guests recorded."""
    return []


@pytest.fixture(params=["rust", "assemblyscript"])
def modules(request: pytest.FixtureRequest) -> Path:
    """The examples in a language."""
    return SDK / str(request.param) / "modules"


@pytest.fixture
def load(each_engine: Engine, make_plugin: MakePlugin, events: list[dict[str, Any]], modules: Path) -> Load:
    """Makes a plugin of one of the modules, for a host that announces nodes or for one that does not."""

    def load(name: str, *, announces: bool = True, handle: NoHandle | None = None) -> Plugin:
        return make_plugin(
            each_engine,
            without((modules / f"{name}.wasm").read_bytes(), *(() if announces else OF_NODES)),
            Settings(name, timeout=30.0),
            sink=lambda _plugin, _pod, journal: events.extend(
                msgspec.json.decode(each.message) for each in journal.records if isinstance(each, GuestEvent)
            ),
            handle=handle,
        )

    return load


def node(name: str, **labels: str) -> bytes:
    return encode_node({"metadata": {"name": name, "labels": prefixed(labels)}})


def pod(**labels: str) -> bytes:
    return encode_pod({"metadata": {"name": "pod", "labels": prefixed(labels)}})


def prefixed(names: Mapping[str, str]) -> dict[str, str]:
    return {f"example.com/{name.replace('_', '-')}": value for name, value in names.items()}


@pytest.mark.parametrize(
    ("name", "exports"),
    [
        ("nodenumber", ["prescore", "score"]),
        ("headroom", ["prefilter", "filter", "score"]),
        ("seats", ["prefilter", "addpod", "removepod", "filter", "postfilter"]),
        ("fullest", ["prescore", "score", "normalizescore"]),
        ("usher", ["enqueue", "prefilter", *BINDING]),
    ],
)
def test_a_module_exports_the_points_that_its_author_names(load: Load, name: str, exports: list[str]) -> None:
    assert load(name).exports == exports


HALL: Final = {
    "a-1": node("a-1", room="a", free_seats="1"),
    "a-2": node("a-2", room="a", free_seats="4"),
    "b-1": node("b-1", room="b", free_seats="9"),
}

NOT_IN_A: Final = PreFilter(Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "PreFilter leaves no node"))


@pytest.mark.parametrize(
    ("asking", "announced", "unannounced"),
    [
        (pod(), PreFilter(Status(Code.SKIP)), PreFilter(Status(Code.SKIP))),
        (pod(seats="1"), PreFilter(OK), PreFilter(OK)),
        (pod(seats="1", room="a"), PreFilter(OK, frozenset({"a-1", "a-2"})), PreFilter(OK)),
        (pod(seats="1", room="c"), NOT_IN_A, PreFilter(OK)),
    ],
    ids=["no seat", "any room", "room a", "no such room"],
)
@pytest.mark.parametrize("announces", [True, False])
def test_prefilter_narrows_the_nodes(
    load: Load, announces: bool, asking: bytes, announced: PreFilter, unannounced: PreFilter
) -> None:
    plugin = load("seats", announces=announces)
    assert pre_filter(plugin, world(HALL, pod=asking)) == (announced if announces else unannounced)


def test_what_is_wrong_with_a_pod_is_told(load: Load) -> None:
    plugin = load("seats")
    with pytest.raises(GuestError) as caught:
        pre_filter(plugin, world(HALL, pod=pod(seats="many")))
    assert str(caught.value) == "prefilter: label example.com/seats is no number: many"


@pytest.mark.parametrize("announces", [True, False])
def test_pods_that_come_and_go_count_within_the_cycle(load: Load, announces: bool) -> None:
    """The second cycle, of the same pod, begins with what the node has."""
    plugin = load("seats", announces=announces)
    at = world({"a-1": HALL["a-1"]}, pod=pod(seats="3"))

    def full(free: int) -> tuple[bytes, list[str]]:
        return b"\x02", [f"{free} of 3 seats are free"]

    for _ in range(2):
        assert verdict(filter_nodes(plugin, at)) == full(1)
        with plugin.guest(at.pod, at.nodes, "preempt") as (guest, deadline):
            guest.remove_pod(pod(seats="2"), at.nodes, deadline)
            assert not any(guest.filter(at.nodes, deadline).codes)
            guest.add_pod(pod(seats="2"), at.nodes, deadline)
            guest.remove_pod(pod(seats="1"), at.nodes, deadline)
            assert verdict(guest.filter(at.nodes, deadline)) == full(2)


def verdict(results: NodeResults) -> tuple[bytes, list[str]]:
    return results.codes, results.reasons


def test_a_failure_while_a_pod_comes_or_goes_is_told(load: Load) -> None:
    plugin = load("seats")
    at = world({"a-1": HALL["a-1"]}, pod=pod(seats="3"))
    with plugin.guest(at.pod, at.nodes, "preempt") as (guest, deadline):
        for export, step in {"removepod": guest.remove_pod, "addpod": guest.add_pod}.items():
            with pytest.raises(GuestError) as caught:
                step(pod(seats="x"), at.nodes, deadline)
            assert str(caught.value) == f"{export} of node a-1: label example.com/seats is no number: x"


@pytest.mark.parametrize(
    ("names", "nominated"),
    [
        (["a-1", "a-2"], Nomination(OK, 1, "a-2")),
        (["b-1", "a-2"], Nomination(OK, 1, "b-1")),
        (["full"], Nomination(Status(Code.UNSCHEDULABLE, "no node has a free seat"), 0, "")),
    ],
)
def test_postfilter_nominates_a_candidate(load: Load, names: list[str], nominated: Nomination) -> None:
    plugin = load("seats")
    at = world({**HALL, "full": node("full", free_seats="0")}, names, pod=pod(seats="10"))
    assert post_filter(plugin, at) == nominated


@pytest.mark.parametrize("announces", [True, False])
def test_scores_are_normalized(load: Load, announces: bool) -> None:
    plugin = load("fullest", announces=announces)
    nodes = {name: node(name, free_seats=seats) for name, seats in {"a": "250", "b": "0", "c": "1000"}.items()}
    assert score(plugin, world(nodes)) == [75, 100, 0]
    assert score(plugin, world(nodes, ["b", "a"])) == [100, 0]


def test_prescore_sees_the_nodes_that_passed(load: Load) -> None:
    """Of a single one there is nothing to score."""
    assert score(load("fullest"), world(HALL, ["a-2"])) is None


def test_cluster_events(load: Load) -> None:
    assert load("usher").cluster_events == [ClusterEvent("Node", 0b1001)]


class Doors(NoHandle):
    """Pods that wait, by their UIDs."""

    def __init__(self, *waiting: str) -> None:
        self.waiting = set(waiting)

    def reject_waiting_pod(self, uid: str, /) -> bool:
        if uid in self.waiting:
            self.waiting.remove(uid)
            return True
        return False


SEAT: Final = {"door": node("door"), "closed": node("closed", closed="")}


def guest_of(annotations: Mapping[str, str], name: str = "door") -> World:
    metadata = {"name": "web-7", "namespace": "ns", "uid": "u-7", "annotations": prefixed(annotations)}
    return world(SEAT, [name], encode_pod({"metadata": metadata}), uid="u-7")


def event(kind: str, reason: str, note: str) -> dict[str, Any]:
    nothing = dict.fromkeys(("Kind", "APIVersion", "Namespace", "Name", "UID", "ResourceVersion"), "")
    about = {"Kind": "Pod", "APIVersion": "v1", "Namespace": "ns", "Name": "web-7", "UID": "u-7"}
    return {
        "RegardingReference": nothing | about,
        "RelatedReference": nothing | {"Kind": "Node", "APIVersion": "v1", "Name": "door"},
        "Eventtype": kind,
        "Reason": reason,
        "Action": "Binding",
        "Note": note,
    }


def test_each_step_of_binding_knows_those_before(load: Load, events: list[dict[str, Any]]) -> None:
    """Twice, of which the second is a new cycle."""
    plugin = load("usher")
    at = guest_of({})
    for _ in range(2):
        with plugin.guest(at.pod, at.nodes, "bind") as (guest, deadline):
            assert guest.reserve(at.nodes, deadline) == OK
            assert guest.binding_annotations(at.nodes, deadline) == {"example.com/steps": "reserve"}
            assert guest.permit(at.nodes, deadline) == Permission(OK, 0)
            assert guest.pre_bind(at.nodes, deadline) == OK
            assert guest.bind(at.nodes, deadline) == Status(Code.SKIP)
            guest.post_bind(at.nodes, deadline)
    assert events == [event("Normal", "Seated", "after reserve, permit, prebind, bind")] * 2


def test_a_pod_that_is_turned_away_is_unreserved(load: Load, events: list[dict[str, Any]]) -> None:
    plugin = load("usher")
    at = guest_of({"ticket": "void"})
    with plugin.guest(at.pod, at.nodes, "bind") as (guest, deadline):
        assert guest.reserve(at.nodes, deadline) == OK
        assert guest.pre_bind(at.nodes, deadline) == Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "the ticket is void")
        guest.unreserve(at.nodes, deadline)
    assert events == [event("Warning", "TurnedAway", "after reserve")]


def test_reserve_refuses_a_node(load: Load) -> None:
    plugin = load("usher")
    at = guest_of({}, "closed")
    with plugin.guest(at.pod, at.nodes, "bind") as (guest, deadline):
        assert guest.reserve(at.nodes, deadline) == Status(Code.UNSCHEDULABLE, "the node is closed")


@pytest.mark.parametrize(
    ("annotations", "permission", "left"),
    [
        ({"wait": "90"}, Permission(Status(Code.WAIT, "the doors are not open yet"), 90), {"u-1"}),
        ({"replaces": "u-1"}, Permission(OK, 0), set()),
        (
            {"replaces": "u-2"},
            Permission(Status(Code.UNSCHEDULABLE, "nobody waits whom the pod could replace"), 0),
            {"u-1"},
        ),
    ],
    ids=["waits", "replaces", "nobody to replace"],
)
def test_permit(load: Load, annotations: dict[str, str], permission: Permission, left: set[str]) -> None:
    doors = Doors("u-1")
    plugin = load("usher", handle=doors)
    at = guest_of(annotations)
    with plugin.guest(at.pod, at.nodes, "bind") as (guest, deadline):
        assert guest.permit(at.nodes, deadline) == permission
    assert doors.waiting == left


def test_an_annotation_that_cannot_be_read_is_told(load: Load) -> None:
    """By PreFilter, which this plugin leaves as it is."""
    plugin = load("usher")
    at = guest_of({"wait": "long"})
    with pytest.raises(GuestError) as caught, plugin.guest(at.pod, at.nodes, "bind"):
        pass
    assert str(caught.value) == "prefilter: annotation example.com/wait is no number of seconds"
