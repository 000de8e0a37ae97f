"""The tables of the ABI, and what errors say."""

import struct

import pytest

from wasm_runtime import Fault, GuestError, ModuleError, abi
from wasm_runtime.abi import ClusterEvent, Code, FunctionType, GroupSource, Import, NominatingMode, PodState, Severity
from wasm_runtime.errors import MAX_CAUSE_CHARS, MAX_OUTPUT_CHARS, TrapKind, shorten
from wasm_runtime.guests.guest import name


def event(resource: int, action_type: int) -> bytes:
    return struct.pack("<II", resource, action_type)


CODE, PACKED, NOTHING = FunctionType((), ("i32",)), FunctionType((), ("i64",)), FunctionType()


def test_exports() -> None:
    assert {name: export.signature for name, export in abi.EXPORTS.items()} == {
        **dict.fromkeys(("enqueue", "unreserve", "postbind"), NOTHING),
        **dict.fromkeys(("prefilter", "addpod", "removepod", "filter", "prescore", "normalizescore"), CODE),
        **dict.fromkeys(("reserve", "prebind", "bind"), CODE),
        **dict.fromkeys(("postfilter", "score", "permit", "bindingannotations"), PACKED),
    }


def test_exports_of_guests_that_keep_nodes_pods_and_groups() -> None:
    number = FunctionType(("i32",), ("i32",))
    told = ("nodechanged", "noderemoved", "podschanged", "pendingpodschanged", "groupschanged", "memberschanged")
    assert {
        **dict.fromkeys(told, FunctionType(("i32",))),
        "collectgarbage": NOTHING,
        **dict.fromkeys(("nodebuffer", "filternodes", "scorenodes", "podbuffer"), number),
    } == abi.RESIDENT
    assert not abi.RESIDENT.keys() & abi.EXPORTS.keys()


def test_lists_are_of_exports_that_are_about_a_node_and_need_them() -> None:
    assert list(abi.LISTS.items()) == [("filter", "filternodes"), ("score", "scorenodes")]
    for export, listed in abi.LISTS.items():
        assert abi.EXPORTS[export].on_node
        assert abi.RESIDENT_NEEDS[listed] == ("nodechanged", "nodebuffer", export)


def test_streams_of_pods_need_a_buffer_and_numbers_of_nodes_where_they_have_some() -> None:
    assert {stream: abi.RESIDENT_NEEDS[stream] for stream in abi.POD_STREAMS} == {
        "podschanged": ("nodechanged", "podbuffer"),
        "pendingpodschanged": ("podbuffer",),
    }
    assert abi.POD_STREAMS == {"podschanged": True, "pendingpodschanged": False}
    assert abi.RECORD_STREAMS == ("groupschanged", "podschanged", "pendingpodschanged", "memberschanged")


def test_streams_of_groups_need_a_buffer_and_members_need_groups() -> None:
    assert {stream: abi.RESIDENT_NEEDS[stream] for stream in ("groupschanged", "memberschanged")} == {
        "groupschanged": ("podbuffer",),
        "memberschanged": ("groupschanged",),
    }


def test_exports_that_are_about_a_node() -> None:
    assert [name for name, export in abi.EXPORTS.items() if export.on_node] == [
        *("addpod", "removepod", "filter", "score"),
        *("reserve", "bindingannotations", "unreserve", "permit", "prebind", "bind", "postbind"),
    ]


def test_extension_points_are_in_the_order_of_a_cycle() -> None:
    assert (
        *("enqueue", "preFilter", "filter", "postFilter", "preScore", "score"),
        *("reserve", "permit", "preBind", "bind", "postBind"),
    ) == abi.EXTENSION_POINTS


@pytest.mark.parametrize(
    ("params", "results", "functions"),
    [
        (4, 1, ["k8s.io/api/node", "k8s.io/scheduler/nodeImageStates"]),
        (
            2,
            1,
            [
                "k8s.io/api/nodeList",
                "k8s.io/scheduler/currentPod",
                "k8s.io/scheduler/currentNodeName",
                "k8s.io/scheduler/targetPod",
                "k8s.io/scheduler/filteredNodeList",
                "k8s.io/scheduler/nodeToStatusMap",
                "k8s.io/scheduler/nodeScoreList",
                "k8s.io/scheduler/get_config",
            ],
        ),
        (
            2,
            0,
            [
                "k8s.io/scheduler/result.cluster_events",
                "k8s.io/scheduler/result.node_names",
                "k8s.io/scheduler/result.nominated_node_name",
                "k8s.io/scheduler/result.status_reason",
                "k8s.io/scheduler/result.normalized_score_list",
                "k8s.io/scheduler/handle.eventrecorder.eventf",
            ],
        ),
        (4, 0, ["k8s.io/scheduler/handle.reject_waiting_pod", "k8s.io/scheduler/handle.get_waiting_pod"]),
        (3, 0, ["k8s.io/klog/log"]),
        (5, 0, ["k8s.io/klog/logs"]),
        (0, 1, ["k8s.io/klog/severity"]),
    ],
)
def test_imports(params: int, results: int, functions: list[str]) -> None:
    signature = FunctionType(("i32",) * params, ("i32",) * results)
    assert [str(function) for function, its in abi.IMPORTS.items() if its == signature] == functions


@pytest.mark.parametrize(
    ("code", "number", "text"),
    [
        (Code.SUCCESS, 0, "Success"),
        (Code.ERROR, 1, "Error"),
        (Code.UNSCHEDULABLE, 2, "Unschedulable"),
        (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, 3, "UnschedulableAndUnresolvable"),
        (Code.WAIT, 4, "Wait"),
        (Code.SKIP, 5, "Skip"),
        (Code.PENDING, 6, "Pending"),
    ],
)
def test_codes(code: Code, number: int, text: str) -> None:
    assert (code.value, name(code)) == (number, text)


def test_other_numbers() -> None:
    assert [*map(int, Severity)] == [0, 1, 2, 3]
    assert [*map(int, NominatingMode)] == [0, 1]
    assert [(state.name, int(state)) for state in PodState] == [
        *(("GONE", 0), ("THERE", 1), ("TENTATIVE", 2), ("BINDING", 3))
    ]
    assert abi.NO_NODE == 2**32 - 1
    assert abi.NO_GROUP == 2**32 - 1
    assert [(source.name, int(source)) for source in GroupSource] == [("SCHEDULING_GROUP", 1), ("LABEL", 2)]
    assert {Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING} == abi.REJECTED


@pytest.mark.parametrize(
    ("signature", "text"),
    [
        (FunctionType(), "() -> ()"),
        (FunctionType(("i32",)), "(i32) -> ()"),
        (FunctionType(("i32", "i64"), ("f32",)), "(i32, i64) -> (f32)"),
    ],
)
def test_signatures_as_text(signature: FunctionType, text: str) -> None:
    assert str(signature) == text


def test_imports_as_text() -> None:
    assert str(Import("k8s.io/api", "node")) == "k8s.io/api/node"


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"", []),
        (b"a\0", ["a"]),
        (b"a\0two\0", ["a", "two"]),
        (b"a\0\0two\0", ["a", "two"]),
        (b"a\0two", ["a"]),
        (b"\0\0", []),
        ("a\0fóo\0c\0".encode(), ["a", "fóo", "c"]),
        (b"\xff\0", ["\N{REPLACEMENT CHARACTER}"]),
    ],
)
def test_split_names(data: bytes, names: list[str]) -> None:
    assert abi.split_names(data) == names


@pytest.mark.parametrize(
    ("fault", "fatal"),
    [
        (Fault.TRAP, True),
        (Fault.STACK, True),
        (Fault.MEMORY, True),
        (Fault.TABLES, True),
        (Fault.DEADLINE, True),
        (Fault.EXIT, True),
        (Fault.LINK, True),
        (Fault.BUSY, False),
        (Fault.STATUS, False),
        (Fault.RESULT, False),
        (Fault.NO_NODE_DATA, False),
        (Fault.LIMIT, False),
    ],
)
def test_which_faults_are_fatal(fault: Fault, fatal: bool) -> None:
    assert (fault.is_fatal, GuestError(fault, "filter", "why").fatal) == (fatal, fatal)
    assert GuestError(fault, "filter", "why", fatal=not fatal).fatal is not fatal


@pytest.mark.parametrize(
    ("node", "output", "text"),
    [
        ("", "", "filter: why"),
        ("n1", "", "filter of node n1: why"),
        ("", "panic!\n", "filter: why; the guest printed: panic!"),
        ("n1", " one\ntwo ", "filter of node n1: why; the guest printed: one\ntwo"),
        ("", " \n", "filter: why"),
    ],
)
def test_guest_errors_as_text(node: str, output: str, text: str) -> None:
    assert str(GuestError(Fault.TRAP, "filter", "why", node=node, output=output)) == text


@pytest.mark.parametrize(
    ("text", "limit", "shortened"),
    [
        ("", 0, ""),
        ("abcdefghi", 9, "abcdefghi"),
        ("abcdefghij", 9, "abc … hij"),
        ("abcdefghij", 8, "ab … ij"),
        ("größe" * 100, 11, "größ … röße"),
    ],
)
def test_shorten_keeps_head_and_tail(text: str, limit: int, shortened: str) -> None:
    assert shorten(text, limit) == shortened
    assert len(shortened) <= limit


@pytest.mark.parametrize(
    ("cause", "output", "text"),
    [
        ("c" * MAX_CAUSE_CHARS, "o" * MAX_OUTPUT_CHARS, f"{'c' * 2048}; the guest printed: {'o' * 1024}"),
        (
            "c" * (MAX_CAUSE_CHARS + 1),
            "\n" + "o" * (MAX_OUTPUT_CHARS + 1),
            f"{'c' * 1022} … {'c' * 1022}; the guest printed: {'o' * 510} … {'o' * 510}",
        ),
    ],
)
def test_guest_errors_are_of_bounded_length(cause: str, output: str, text: str) -> None:
    """They have the whole of both beside."""
    error = GuestError(Fault.TRAP, "filter", cause, output=output)
    assert (str(error), error.cause, error.output) == (f"filter: {text}", cause, output)


@pytest.mark.parametrize(
    ("fault", "trap", "reason"),
    [
        (Fault.TRAP, TrapKind.INTEGER_DIVISION_BY_ZERO, "integer division by zero"),
        (Fault.TRAP, TrapKind.OTHER, "other"),
        (Fault.STACK, TrapKind.STACK_OVERFLOW, "stack overflow"),
        (Fault.MEMORY, TrapKind.UNREACHABLE, "memory"),
        (Fault.BUSY, None, "busy"),
        (Fault.NO_NODE_DATA, None, "no node data"),
    ],
)
def test_the_reason_of_a_guest_error_is_a_word(fault: Fault, trap: TrapKind | None, reason: str) -> None:
    assert GuestError(fault, "filter", "why", trap=trap).reason == reason


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"", []),
        (event(0, 1), [("Pod", 1)]),
        (event(1, 2**32 - 1) + event(3, 0), [("Node", 2**32 - 1), ("PersistentVolumeClaim", 0)]),
        (event(10, 4), [("*", 4)]),
        (event(11, 4) + event(2**32 - 1, 4), [("11", 4), ("4294967295", 4)]),
        (event(0, 1) + b"\1\0\0\0\1\0\0", [("Pod", 1)]),
        (b"\0\0\0", []),
    ],
)
def test_cluster_events(data: bytes, events: list[tuple[str, int]]) -> None:
    assert abi.cluster_events(data) == [ClusterEvent(*each) for each in events]


def test_module_errors_have_all_problems() -> None:
    error = ModuleError(("one", "two"))
    assert (error.problems, str(error)) == (["one", "two"], "one; two")
