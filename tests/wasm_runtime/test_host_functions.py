"""What a guest gets when it asks its host for the pod, for nodes and for documents."""

import json
from collections.abc import Callable, Mapping
from typing import ClassVar

import pytest

from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import NODE, NODE_NAME, POD, REASON, TEXT, asks, call, export, module
from tests.wasm_runtime.protobuf_bytes import image, node_list, node_with_images
from tests.wasm_runtime.world import World, each, filter_nodes, once, post_filter, pre_filter, score, world
from wasm_runtime import Fault, GuestError
from wasm_runtime.abi import Code, HostDocument
from wasm_runtime.engine import CallResult, DocumentFactory, NodeResults
from wasm_runtime.guests.guest import Nomination, PreFilter, Status

TARGET = "k8s.io/scheduler/targetPod"
CONFIG = "k8s.io/scheduler/get_config"
NODES = "k8s.io/api/nodeList"
IMAGES = "k8s.io/scheduler/nodeImageStates"
FILTERED = "k8s.io/scheduler/filteredNodeList"
STATUSES = "k8s.io/scheduler/nodeToStatusMap"
SCORES = "k8s.io/scheduler/nodeScoreList"
BUFFER = 4096

DOCUMENTS: Mapping[HostDocument, DocumentFactory] = {
    HostDocument.FILTERED_NODES: lambda: b"filtered",
    HostDocument.NODE_STATUSES: lambda: b"statuses",
    HostDocument.NODE_SCORES: lambda: b"scores..",
    HostDocument.NODE_LIST: lambda: b"nodelist",
}


def whole() -> World:
    """Every answer in it has eight bytes."""
    return world({"node-a": b"NODE-A.."}, pod=b"THE POD.")


ANSWERS = [
    (POD, (), "", "THE POD."),
    (CONFIG, (), "", "settings"),
    (NODE, (TEXT, 6), "node-a", "NODE-A.."),
    (NODES, (), "", "nodelist"),
    (FILTERED, (), "", "filtered"),
    (STATUSES, (), "", "statuses"),
    (SCORES, (), "", "scores.."),
]


@pytest.mark.parametrize(
    ("limit", "written"),
    [(0, False), (1, False), (7, False), (8, True), (9, True), (0x7FFFFFFF, True), (0x80000000, True), (-1, True)],
)
@pytest.mark.parametrize(("function", "arguments", "text", "answer"), ANSWERS)
def test_an_answer_is_written_whole_or_not_at_all(
    load: Loader, function: str, arguments: tuple[int, ...], text: str, answer: str, limit: int, written: bool
) -> None:
    """Its length is returned either way."""
    instance = load.instance(asks(function, *arguments, BUFFER, limit, text=text), config="settings")
    assert once(instance, whole(), documents=DOCUMENTS) == CallResult(8, 0, (answer if written else "*" * 8) + "*" * 8)


@pytest.mark.parametrize(
    ("limit", "shown"), [(0, "*" * 16), (5, "*" * 16), (6, "node-a" + "*" * 10), (7, "node-a" + "*" * 10)]
)
def test_name_of_the_current_node(load: Loader, limit: int, shown: str) -> None:
    instance = load.instance(asks(NODE_NAME, BUFFER, limit, at="filter"))
    assert each(instance, whole()) == NodeResults(1, b"\x06", [], [shown])


@pytest.mark.parametrize(
    ("function", "arguments"),
    [(TARGET, ()), (NODE_NAME, ()), (CONFIG, ()), (NODE, (TEXT, 6)), (FILTERED, ()), (STATUSES, ()), (SCORES, ())],
)
@pytest.mark.parametrize(("buffer", "limit"), [(BUFFER, 0), (BUFFER, 16), (0, 0), (-1, 0), (-1, -1), (65536, 100)])
def test_an_empty_answer_touches_no_buffer(
    load: Loader, function: str, arguments: tuple[int, ...], buffer: int, limit: int
) -> None:
    """Not even one that lies outside of the guest's memory."""
    instance = load.instance(asks(function, *arguments, buffer, limit, text="nobody"))
    assert once(instance, whole(), documents=dict.fromkeys(HostDocument, bytes)) == CallResult(0, 0, "*" * 16)


@pytest.mark.parametrize(("function", "arguments", "text"), [each[:3] for each in ANSWERS])
@pytest.mark.parametrize("buffer", [65536 - 7, 65536, 0x7FFFFFFF, 0xFFFFFFFF, 0xFFFFFFF8])
def test_a_buffer_outside_of_memory_is_a_trap(
    load: Loader, function: str, arguments: tuple[int, ...], text: str, buffer: int
) -> None:
    instance = load.instance(asks(function, *arguments, buffer, 8, text=text), config="settings")
    with pytest.raises(GuestError) as caught:
        once(instance, whole(), documents=DOCUMENTS)
    assert str(caught.value) == f"prefilter: trap: memory out of bounds in {function} < prefilter"


@pytest.mark.parametrize("function", [NODE, IMAGES])
@pytest.mark.parametrize(
    ("name", "length"),
    [(65536, 1), (65535, 2), (0, 65537), (0, -1), (-1, 1), (-1, -1), (65537, 0), (0x80000000, 0x80000000)],
)
def test_a_name_outside_of_memory_is_a_trap(load: Loader, function: str, name: int, length: int) -> None:
    instance = load.instance(asks(function, name, length, BUFFER, 16))
    with pytest.raises(GuestError) as caught:
        once(instance, whole())
    assert str(caught.value) == f"prefilter: trap: memory out of bounds in {function} < prefilter"
    assert (caught.value.fault, caught.value.fatal) == (Fault.TRAP, True)


@pytest.mark.parametrize(
    ("text", "length", "answer"),
    [
        ("node-a", 6, "NODE-A.."),
        ("node-b", 6, "NODE-B.."),
        ("node-c", 6, ""),
        ("node-a", 5, ""),
        ("node-a!", 7, ""),
        ("node-A", 6, ""),
        ("", 0, ""),
        ("node-gone", 9, ""),
        ("x" * 300, 300, ""),
    ],
)
@pytest.mark.parametrize("current", ["node-a", "node-b", "node-gone", "never-seen"])
def test_node_by_name(load: Loader, current: str, text: str, length: int, answer: str) -> None:
    """Any node that is known can be asked for, whichever is being filtered."""
    at = world({"node-a": b"NODE-A..", "node-b": b"NODE-B..", "node-gone": b"GONE"}, names=[current])
    at.node_table.remove("node-gone")
    instance = load.instance(asks(NODE, TEXT, length, BUFFER, 16, text=text, at="filter"))
    expected = NodeResults(1, b"\x08", [], [answer + "*" * 8]) if answer else NodeResults(1, b"", [], [])
    assert each(instance, at) == expected


def test_node_of_the_name_that_the_host_gave(load: Loader) -> None:
    """How a guest asks for the node that it is to judge."""
    guest = module(
        export(
            "filter",
            call(
                "k8s.io/scheduler/result.status_reason",
                "(i32.const 512)",
                f"(call ${NODE} (i32.const 0)"
                f" (call ${NODE_NAME} (i32.const 0) (i32.const 512)) (i32.const 512) (i32.const 512))",
            ),
            "(i32.const 2)",
        ),
        uses=[NODE, NODE_NAME, REASON],
    )
    at = world({"node-a": b"A", "node-b": b"BB", "node-c": b"CCC"}, names=["node-c", "node-a", "unknown", "node-b"])
    assert filter_nodes(load.plugin(guest), at) == NodeResults(4, b"\x02" * 4, [], ["CCC", "A", "", "BB"])


ABSENT = "the guest asked for a node's object, but none is known here: only names were given"


def asks_and(function: str, ending: str, at: str = "filter") -> str:
    """A guest that asks for node data of the node in hand and then does something."""
    arguments = (TEXT, 6, BUFFER, 16) if function in {NODE, IMAGES} else (BUFFER, 16)
    return module(
        export(at, f"(drop {call(function, *arguments)})", ending),
        uses={function, "wasi_snapshot_preview1/proc_exit"},
        text="node-a",
    )


@pytest.mark.parametrize("function", [NODE, NODES, IMAGES])
@pytest.mark.parametrize(
    ("at", "ending", "where", "fatal"),
    [
        ("filter", "(i32.const 0)", "filter", False),
        ("filter", "(i32.const 1)", "filter", False),
        ("filter", "unreachable", "filter of node node-a", True),
        (
            "filter",
            "(call $wasi_snapshot_preview1/proc_exit (i32.const 0)) (i32.const 0)",
            "filter of node node-a",
            True,
        ),
        ("prefilter", "(i32.const 0)", "prefilter", False),
        ("prefilter", "unreachable", "prefilter", True),
    ],
)
def test_node_data_when_only_names_are_known(
    load: Loader, function: str, at: str, ending: str, where: str, fatal: bool
) -> None:
    plugin = load.plugin(asks_and(function, ending, at))
    with pytest.raises(GuestError) as caught:
        (filter_nodes if at == "filter" else pre_filter)(plugin, world({}, names=["node-a", "node-b"]))
    assert str(caught.value) == f"{where}: {ABSENT}"
    assert (caught.value.fault, caught.value.fatal) == (Fault.NO_NODE_DATA, fatal)


@pytest.mark.parametrize("function", [NODE, NODES, IMAGES])
def test_node_data_when_one_other_node_is_known(load: Loader, function: str) -> None:
    plugin = load.plugin(asks_and(function, "(i32.const 0)"))
    assert filter_nodes(plugin, world({"other": b"O"}, names=["node-a"])) == NodeResults(1, b"", [], [])


def test_node_data_becomes_known_and_unknown_again(load: Loader) -> None:
    plugin = load.plugin(asks_and(NODE, "(i32.const 0)"))
    at = world({}, names=["node-a"])
    for known in (False, True, False, True):
        at.node_table.replace({"other": b"O"} if known else {})
        if known:
            assert filter_nodes(plugin, at) == NodeResults(1, b"", [], [])
        else:
            with pytest.raises(GuestError, match=f"^filter: {ABSENT}$"):
                filter_nodes(plugin, at)


def test_names_alone_suffice_for_a_guest_that_asks_for_no_node(load: Loader) -> None:
    instance = load.instance(asks(NODE_NAME, BUFFER, 16, at="filter"))
    assert each(instance, world({}, names=["node-a"])) == NodeResults(1, b"\x06", [], ["node-a" + "*" * 10])


def test_asking_for_a_node_in_start_is_no_error(load: Loader) -> None:
    """There cannot be one, and nobody could configure it."""
    for ending in ("", "(call $wasi_snapshot_preview1/proc_exit (i32.const 0))"):
        start = f'(func (export "_start") (drop {call(NODE, TEXT, 6, BUFFER, 16)}) {ending})'
        guest = module(start, export("filter", "(i32.const 0)"), uses=[NODE, "wasi_snapshot_preview1/proc_exit"])
        assert filter_nodes(load.plugin(guest), world({}, names=["a"])) == NodeResults(1, b"", [], [])


def shows(function: str, at: str, value: str, others: str = "") -> str:
    """A guest that gives a document as the reason for its status, which is Unschedulable or an Error."""
    return module(
        others,
        export(
            at,
            f"{call(REASON, BUFFER, call(function, BUFFER, 8192))} {value}",
        ),
        uses={function, REASON},
    )


def test_filtered_nodes_in_prescore(load: Loader) -> None:
    plugin = load.plugin(shows(FILTERED, "prescore", "(i32.const 1)", export("score", "(i64.const 0)")))
    names = ["node-b", 'quo"ted', "größe", "node-a"]
    with pytest.raises(GuestError) as caught:
        score(plugin, world(names=names))
    assert json.loads(caught.value.cause) == names


def test_statuses_in_postfilter(load: Loader) -> None:
    plugin = load.plugin(shows(STATUSES, "postfilter", "(i64.const 2)"))
    nomination = post_filter(plugin, world(names=["node-b", "node-a"]))
    assert nomination == Nomination(Status(Code.UNSCHEDULABLE, '{"node-b":2,"node-a":2}'), 0, "")


def test_scores_in_normalizescore(load: Loader) -> None:
    plugin = load.plugin(shows(SCORES, "normalizescore", "(i32.const 1)", export("score", f"(i64.const {42 << 32})")))
    with pytest.raises(GuestError) as caught:
        score(plugin, world(names=["node-b", "node-a"]))
    assert str(caught.value) == 'normalizescore: {"node-b":42,"node-a":42}'


def test_node_list_has_all_nodes_with_an_object(load: Loader) -> None:
    plugin = load.plugin(shows(NODES, "prefilter", "(i32.const 2)"))
    at = world({"node-a": b"A", "node-b": b"B" * 200, "gone": b"G"}, names=["node-b", "unknown"])
    at.node_table.remove("gone")
    reason = node_list([b"A", b"B" * 200]).decode(errors="replace")
    assert pre_filter(plugin, at) == PreFilter(Status(Code.UNSCHEDULABLE, reason))


@pytest.mark.parametrize(("function", "document"), [(FILTERED, "[]"), (STATUSES, "{}"), (SCORES, "{}")])
def test_a_document_at_a_point_that_has_none(load: Loader, function: str, document: str) -> None:
    plugin = load.plugin(shows(function, "prefilter", "(i32.const 2)"))
    assert pre_filter(plugin, world()) == PreFilter(Status(Code.UNSCHEDULABLE, document))


def test_a_document_is_made_once_a_call(load: Loader) -> None:
    made: list[int] = []

    def make() -> bytes:
        made.append(1)
        return b"document"

    thrice = " ".join(f"(drop {call(FILTERED, BUFFER, limit)})" for limit in (0, 4, 8))
    instance = load.instance(module(export("prefilter", thrice, "(i32.const 0)"), uses=[FILTERED]))
    for calls in (1, 2):
        once(instance, world(), documents={HostDocument.FILTERED_NODES: make})
        assert len(made) == calls


def test_a_document_larger_than_the_guest_may_hold(load: Loader) -> None:
    """A guest that only asked goes on; the verb fails."""
    plugin = load.plugin(asks_and(NODES, "(i32.const 0)", at="prefilter"), memory_limit=1 << 20)
    with pytest.raises(GuestError) as caught:
        pre_filter(plugin, world({"node-a": b"N" * (2 << 20)}))
    assert str(caught.value).startswith("prefilter: more than the host gives or takes in one call: ")
    assert str(caught.value).endswith(" bytes are more than its memory limit")
    assert (caught.value.fault, caught.value.fatal) == (Fault.LIMIT, False)
    assert pre_filter(plugin, world({"node-a": b"small"})) == PreFilter()


def test_a_document_larger_than_the_guest_may_hold_and_then_a_trap(load: Loader) -> None:
    plugin = load.plugin(asks_and(NODES, "unreachable", at="prefilter"), memory_limit=1 << 20)
    with pytest.raises(GuestError, match=r"^prefilter: more than the host gives or takes in one call: ") as caught:
        pre_filter(plugin, world({"node-a": b"N" * (2 << 20)}))
    assert (caught.value.fault, caught.value.fatal) == (Fault.LIMIT, True)


def test_more_nodes_than_the_guest_may_hold_are_the_hosts_own_affair(load: Loader) -> None:
    instance = load.instance(asks(NODE, TEXT, 6, BUFFER, 16, text="node-a"), memory_limit=1 << 20)
    objects = {"node-a": b"A", **{f"n{at}": b"N" * 40_000 for at in range(200)}}
    assert once(instance, world(objects, names=["node-a"])) == CallResult(1, 0, "A" + "*" * 15)


class TestImageStates:
    OBJECTS: ClassVar = {
        "node-a": node_with_images([image(["redis:7", "redis@sha256:1"], 100), image(["nginx:1"], 2**40)]),
        "node-b": node_with_images([image(["nginx:1"], 7), image(["nginx:1"], 7), image([], 1), image(["empty:1"], 0)]),
        "node-none": node_with_images([]),
        "node-bad": b"\xff\xff\xff",
    }

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            (
                "node-a",
                {
                    "nginx:1": {"Size": 2**40, "NumNodes": 2},
                    "redis:7": {"Size": 100, "NumNodes": 1},
                    "redis@sha256:1": {"Size": 100, "NumNodes": 1},
                },
            ),
            ("node-b", {"nginx:1": {"Size": 7, "NumNodes": 2}, "empty:1": {"Size": 0, "NumNodes": 1}}),
            ("node-none", {}),
            ("node-bad", {}),
            ("node-unknown", None),
            ("asked-for", None),
            ("node-gone", None),
        ],
    )
    def test_of_a_node(self, load: Loader, name: str, expected: object) -> None:
        """A name without an object is as unknown as any other, also if the request names it."""
        at = world({**self.OBJECTS, "node-gone": self.OBJECTS["node-a"]}, names=["node-a", "asked-for"])
        at.node_table.remove("node-gone")
        instance = load.instance(asks(IMAGES, TEXT, len(name), BUFFER, 4096, shown=4096, text=name))
        low, _, reason = once(instance, at)
        assert json.loads(reason[:low]) == expected

    def test_follow_the_nodes(self, load: Loader) -> None:
        at = world({"node-a": self.OBJECTS["node-a"]})
        instance = load.instance(asks(IMAGES, TEXT, 6, BUFFER, 4096, shown=4096, text="node-a"))
        counts = []
        for change in ({}, {"node-b": self.OBJECTS["node-b"]}, {"node-b": b""}, {"node-a": b"\x0a\x00"}):
            at.node_table.put(change.items())
            low, _, reason = once(instance, at)
            counts.append(json.loads(reason[:low]).get("nginx:1", {}).get("NumNodes"))
        assert counts == [1, 2, 1, None]

    def test_names_are_sorted(self, load: Loader) -> None:
        instance = load.instance(asks(IMAGES, TEXT, 6, BUFFER, 4096, shown=4096, text="node-a"))
        low, _, reason = once(instance, world(self.OBJECTS))
        assert list(json.loads(reason[:low])) == ["nginx:1", "redis:7", "redis@sha256:1"]


WAITING = "k8s.io/scheduler/handle.get_waiting_pod"
REJECT = "k8s.io/scheduler/handle.reject_waiting_pod"


class Waiting:
    """The handle of a host where pods wait; keeps the UIDs that were asked for, and rejected."""

    def __init__(self, **pods: bytes) -> None:
        self.pods = pods
        self.asked: list[str] = []
        self.rejected: list[str] = []

    def waiting_pod(self, uid: str, /) -> bytes | None:
        self.asked.append(uid)
        return self.pods.get(uid)

    def reject_waiting_pod(self, uid: str, /) -> bool:
        self.rejected.append(uid)
        return self.pods.pop(uid, None) is not None


class TestWaitingPods:
    @pytest.mark.parametrize("function", [WAITING, REJECT])
    @pytest.mark.parametrize("limit", [0, 7, 100, -1])
    def test_none(self, load: Loader, function: str, limit: int) -> None:
        """Both write a little-endian u64, 0 for none, whatever the limit."""
        instance = load.instance(asks(function, TEXT, 6, BUFFER, limit, text="a-uid."))
        assert once(instance, world()) == CallResult(0, 0, "\0" * 8 + "*" * 8)

    @pytest.mark.parametrize(
        ("limit", "shown"), [(0, "*" * 16), (7, "*" * 16), (8, "THE POD." + "*" * 8), (-1, "THE POD." + "*" * 8)]
    )
    def test_one_is_written_whole_or_not_at_all(self, load: Loader, limit: int, shown: str) -> None:
        handle = Waiting(uid=b"THE POD.")
        instance = load.instance(asks(WAITING, TEXT, 3, BUFFER, limit, text="uid"), handle=handle)
        assert once(instance, world()) == CallResult(0, 0, shown)
        assert (handle.asked, handle.rejected) == (["uid"], [])

    def test_another_is_not_found(self, load: Loader) -> None:
        instance = load.instance(asks(WAITING, TEXT, 2, BUFFER, 16, text="ui"), handle=Waiting(uid=b"THE POD."))
        assert once(instance, world()) == CallResult(0, 0, "\0" * 8 + "*" * 8)

    def test_the_one_that_was_asked_for_last_is_given(self, load: Loader) -> None:
        """Each time that it is asked for, within one call."""
        asked = [call(WAITING, TEXT + at, 1, BUFFER + 8 * at, 8) for at in (0, 1, 2)]
        guest = module(
            export("prefilter", *asked, call(REASON, BUFFER, 24), "(i32.const 0)"), uses=[WAITING, REASON], text="aba"
        )
        instance = load.instance(guest, handle=Waiting(a=b"12345678", b=b"four"))
        assert once(instance, world()) == CallResult(0, 0, "12345678four\0\0\0\x0012345678")

    def test_one_is_rejected_once(self, load: Loader) -> None:
        handle = Waiting(uid=b"THE POD.")
        instance = load.instance(asks(REJECT, TEXT, 3, BUFFER, 0, text="uid"), handle=handle)
        for rejected in ("\1", "\0"):
            assert once(instance, world()) == CallResult(0, 0, rejected + "\0" * 7 + "*" * 8)
        assert handle.rejected == ["uid", "uid"]

    @pytest.mark.parametrize("function", [WAITING, REJECT])
    @pytest.mark.parametrize(("length", "looked_for"), [(1_024, 1), (1_025, 0), (65_536 - TEXT, 0)])
    def test_a_uid_too_long_is_nobodys(self, load: Loader, function: str, length: int, looked_for: int) -> None:
        handle = Waiting()
        instance = load.instance(asks(function, TEXT, length, BUFFER, 16, text="x" * length), handle=handle)
        assert once(instance, world()).reason[:8] == "\0" * 8
        assert len(handle.asked + handle.rejected) == looked_for

    def test_a_uid_that_is_no_text(self, load: Loader) -> None:
        handle = Waiting()
        ask = call(WAITING, 0, 2, BUFFER, 16)
        once(
            load.instance(
                module('(data (i32.const 0) "\\ffa")', export("prefilter", ask, "(i32.const 0)"), uses=[WAITING]),
                handle=handle,
            ),
            world(),
        )
        assert handle.asked == ["\N{REPLACEMENT CHARACTER}a"]

    @pytest.mark.parametrize("function", [WAITING, REJECT])
    @pytest.mark.parametrize(
        ("uid", "buffer"),
        [
            ((65_535, 2), BUFFER),
            ((0xFFFFFFFF, 0xFFFFFFFF), BUFFER),
            ((TEXT, 3), 65_529),
            ((TEXT, 3), 0xFFFFFFFF),
        ],
    )
    @pytest.mark.parametrize("waits", [True, False])
    def test_outside_of_memory_is_a_trap(
        self, load: Loader, function: str, uid: tuple[int, int], buffer: int, waits: bool
    ) -> None:
        handle = Waiting(uid=b"THE POD.") if waits else None
        instance = load.instance(asks(function, *uid, buffer, 16, text="uid"), handle=handle)
        with pytest.raises(GuestError) as caught:
            once(instance, world())
        assert str(caught.value) == f"prefilter: trap: memory out of bounds in {function} < prefilter"

    @pytest.mark.parametrize("function", [WAITING, REJECT])
    def test_none_is_seen_before_the_first_call(self, load: Loader, function: str) -> None:
        handle = Waiting(uid=b"THE POD.")
        start = f'(func (export "_start") {call(function, TEXT, 3, BUFFER, 16)})'
        guest = module(
            start, export("prefilter", call(REASON, BUFFER, 8), "(i32.const 0)"), uses=[function, REASON], text="uid"
        )
        assert once(load.instance(guest, handle=handle), world()) == CallResult(0, 0, "\0" * 8)
        assert (handle.asked, handle.rejected) == ([], [])

    def test_a_handle_that_fails_is_the_hosts_fault(self, load: Loader, open_instances: Callable[[], int]) -> None:
        """Its exception comes out, and the guest, which went on with a wrong answer, is not used again."""

        class Fails(Waiting):
            def waiting_pod(self, _: str, /) -> bytes | None:
                raise LookupError("no such pod")

        ask = call(WAITING, TEXT, 3, BUFFER, 16)
        count = "(global.set $calls (i32.add (i32.const 1) (global.get $calls)))"
        guest = module(
            "(global $calls (mut i32) (i32.const 0))",
            export(
                "prefilter", count, f"(if (i32.eq (global.get $calls) (i32.const 2)) (then {ask}))", "(i32.const 0)"
            ),
            uses=[WAITING],
            text="uid",
        )
        plugin = load.plugin(guest, handle=Fails())
        at = world()
        pre_filter(plugin, at)
        for _ in range(3):
            with pytest.raises(LookupError, match="no such pod"):
                pre_filter(plugin, at)
            load.settle()
            pre_filter(plugin, at)
        assert open_instances() == 1

    def test_again_and_again(self, load: Loader) -> None:
        """It takes the place of the one before: only time ends this."""
        ask = f"(loop $more {call(WAITING, TEXT, 3, BUFFER, 16)} (br $more)) (i32.const 0)"
        guest = module(export("prefilter", ask), uses=[WAITING], text="uid")
        plugin = load.plugin(guest, handle=Waiting(uid=b"P" * 100_000), memory_limit=1 << 20, timeout=0.5)
        with pytest.raises(GuestError) as caught:
            pre_filter(plugin, world())
        assert caught.value.fault is Fault.DEADLINE

    def test_a_handle_that_fails_costs_the_instance(self, load: Loader) -> None:
        """Also where nobody above lets the failure pass: it may hide one of the guest's own."""

        class Failing(Waiting):
            def waiting_pod(self, uid: str, /) -> bytes | None:
                raise RuntimeError(uid)

        at = world()
        ask = call(WAITING, TEXT, 3, BUFFER, 16)
        guest = module(export("filter", ask, "unreachable"), uses=[WAITING], text="uid")
        plugin = load.plugin(guest, handle=Failing())
        with plugin.guest(at.pod, at.nodes, "filter") as (used, deadline), pytest.raises(RuntimeError, match=r"^uid$"):
            used.filter(at.nodes, deadline)
        with plugin.guest(at.pod, at.nodes, "filter") as (other, _):
            assert other is not used


def arguments_seen(load: Loader, args: tuple[str, ...]) -> tuple[int, str]:
    guest = module(
        export(
            "prefilter",
            "(drop (call $wasi_snapshot_preview1/args_sizes_get (i32.const 0) (i32.const 4)))",
            "(drop (call $wasi_snapshot_preview1/args_get (i32.const 8) (i32.const 4096)))",
            call(REASON, BUFFER, "(i32.load (i32.const 4))"),
            "(i32.load (i32.const 0))",
        ),
        uses=["wasi_snapshot_preview1/args_sizes_get", "wasi_snapshot_preview1/args_get", REASON],
    )
    low, _, reason = once(load.instance(guest, args=args), world())
    return low, reason


@pytest.mark.parametrize(
    ("args", "count", "argv"),
    [((), 1, "plugin\0"), (("one",), 1, "one\0"), (("a", "", "ü"), 3, "a\0\0ü\0"), (("x" * 300,), 1, "x" * 300 + "\0")],
)
def test_args_are_the_whole_argv_and_never_empty(load: Loader, args: tuple[str, ...], count: int, argv: str) -> None:
    assert arguments_seen(load, args) == (count, argv)


def test_a_guest_has_no_environment(load: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "token")
    instance = load.instance(asks("wasi_snapshot_preview1/environ_sizes_get", BUFFER, BUFFER + 4, shown=8))
    assert once(instance, world()) == CallResult(0, 0, "\0" * 8)


@pytest.mark.parametrize("config", ["", "{}", "x" * 100_000, "größer"])
def test_config_of_any_length(load: Loader, config: str) -> None:
    guest = asks("k8s.io/scheduler/get_config", BUFFER, 200_000, shown=4096).replace('"memory") 1', '"memory") 4')
    low, _, reason = once(load.instance(guest, config=config), world())
    assert low == len(config.encode())
    assert reason.encode()[: min(low, 4096)] == config.encode()[:4096]


def test_pod_of_the_cycle(load: Loader) -> None:
    """A pod that is longer or shorter than the last one leaves nothing of it."""
    instance = load.instance(asks(POD, BUFFER, 8192, shown=16))
    for pod in (b"first", b"the second pod", b"3", b"", b"x" * 300_000, b"last"):
        low, _, reason = once(instance, world(pod=pod))
        assert low == len(pod)
        assert reason == (pod[:16].decode() if 0 < len(pod) <= 8192 else "").ljust(16, "*")


def test_node_at_the_end_of_four_gibibytes(load: Loader) -> None:
    """A name whose end is address 2**32, which is 0 in 32 bits."""
    end = 2**32 - 6
    guest = module(
        export(
            "prefilter",
            "(if (i32.eq (i32.const -1) (memory.grow (i32.const 65535))) (then (return (i32.const -1))))",
            f"(memory.copy (i32.const {end}) (i32.const {TEXT}) (i32.const 6))",
            f"(call ${NODE} (i32.const {end}) (i32.const 6) (i32.const {BUFFER}) (i32.const 16))",
        ),
        uses=[NODE],
        pages="1 65536",
        text="node-b",
    )
    result = once(load.instance(guest, memory_limit=2**32), world({"node-a": b"A", "node-b": b"BB"}))
    if result.low == -1:
        pytest.skip("this process may have no 4 GiB of address space: ulimit -v unlimited")
    assert result == CallResult(2, 0, "")
