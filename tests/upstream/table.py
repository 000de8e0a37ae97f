"""What upstream's own tests expect of every compiled guest in a checkout of kube-scheduler-wasm-extension.

Sources, in the checkout: `scheduler/plugin/plugin_test.go` and `internal/e2e/scheduler`, which tell what is
called, on which pod and nodes, with which arguments, and what comes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tests.upstream.play import NODE, POD, WAITING_POD, Failed, Object, Row, named
from wasm_runtime import abi
from wasm_runtime.abi import Code, GuestResult, Severity
from wasm_runtime.engine import CallResult, GuestEvent, Log
from wasm_runtime.guests.guest import Nomination, Permission, PreFilter, Status

SUCCESS = Status(Code.SUCCESS)
UID = POD["metadata"]["uid"]
SCORES = "prescore, score and normalizescore"
MIN, MAX = -(2**31), 2**31 - 1

NO_SUCH_CODE = "passes the number on; to kube-scheduler it is a failure as well"
OUTSIDE = "passes the score on; kube-scheduler refuses it"
ONLY_LOGGED = "is only logged there"
EXITED = (
    "its host closes a module that leaves by exit status 0, as this one does at its start:"
    " every call of it ends in an error, and the test fails"
)
ANOTHER_NAME = "its test fails: it takes the digit for that of the pod's node, the guest reads the pod's name"


def at_limits(case: str, asked: str, codes: str, *, where: str = "", **row: Any) -> list[Row]:
    """A guest that answers with any code that it is told: the least and the greatest."""
    return [
        Row(
            f"{case}/{limit} statusCode",
            asked,
            Failed(f"{where or asked}: status code {code} is none of {codes}"),
            NO_SUCH_CODE,
            first={"status_code": code},
            **row,
        )
        for limit, code in (("min", MIN), ("max", MAX))
    ]


def panics(case: str, asked: str, where: str, **row: Any) -> Row:
    """A guest that prints a word and then traps."""
    said = f"{where}: trap: unreachable; the guest printed: panic!"
    return Row(f"{case}/panic", asked, Failed(said), **row)


REJECTED = "2 Unschedulable, 3 UnschedulableAndUnresolvable"
CODES = f"0 Success, 1 Error, {REJECTED}, 6 Pending"
CODES_OR_SKIP = f"0 Success, 1 Error, {REJECTED}, 5 Skip, 6 Pending"
CODES_OR_WAIT = f"0 Success, 1 Error, {REJECTED}, 4 Wait, 6 Pending"
NO_EXPORT = f"exports no extension point; it needs at least one of {', '.join(abi.EXPORTS)}"

# ---- what the examples log and record

HAPPY = {"metadata": {"name": "happy8-meta"}, "spec": {"nodeName": "happy8"}}
REAL_NODE = "scheduler/test/testdata/yaml/node.yaml"
REAL_POD = "scheduler/test/testdata/yaml/pod.yaml"
CONFIGURED = Log(Severity.INFO, "NodeNumberArgs is successfully applied\n", ())


def executed(point: str, pod: str, node: str = "") -> Log:
    return Log(Severity.INFO, f"execute {point} on NodeNumber plugin", ("pod", pod), node)


def recorded(reason: str, action: str, *, name: str, namespace: str = "", uid: str = "") -> GuestEvent:
    reference = dict.fromkeys(("Kind", "APIVersion", "Name", "Namespace", "UID", "ResourceVersion"), "")
    regarding = reference | {
        "Kind": "Pod",
        "APIVersion": "v1",
        "Name": name,
        "Namespace": namespace,
        "UID": uid,
    }
    message = {
        "RegardingReference": regarding,
        "RelatedReference": reference,
        "Eventtype": "PreScore",
        "Reason": reason,
        "Action": action,
        "Note": "",
    }
    return GuestEvent(msgspec.json.encode(message))


NO_DIGIT: Sequence[Log | GuestEvent] = [
    executed("PreScore", "test/good-pod"),
    recorded("not match lastNumber", "Skip", name="good-pod", namespace="test", uid=UID),
]


def number(case: str, node: str, score: int, event: GuestEvent, *, reverse: bool = False, upstream: str = "") -> Row:
    """A whole cycle of the example that compares digits. Every call of it is recorded in both of the two cycles."""
    cycle: list[Log | GuestEvent] = [executed("PreScore", "happy8-meta"), event, executed("Score", "happy8-meta", node)]
    return Row(
        f"testExample_NodeNumber/{case}",
        "all, twice",
        [score],
        upstream,
        config=f'{{"reverse": {str(reverse).lower()}}}',
        pod=HAPPY,
        nodes=[named(node)],
        target=HAPPY,
        records=[CONFIGURED, *cycle, *cycle],
    )


def images(name: str, image: str) -> Object:
    held = [{"names": [f"{image}:v{version}"], "sizeBytes": 100_000_000} for version in (1, 2, 3)]
    return {"metadata": {"name": name}, "status": {"images": held}}


IMAGE_NODES = [
    images("no-image-node1", "unrelated-image"),
    images("image-node1", "test-image"),
    images("image-node2", "test-image"),
]
IMAGE_POD = {
    "metadata": {"name": "happy8-meta"},
    "spec": {"containers": [{"name": "happy8", "image": "test-image:v1"}]},
}

NOT_IMPLEMENTED = "filter of node good-node: trap: unreachable; the guest printed: panic: not implemented"
STALE = "its test fails too: these bytes panic in its host"

ERROR = "scheduler/test/testdata/error/"
TEST = "scheduler/test/testdata/test/"

TABLE: Mapping[str, Sequence[Row]] = {
    "guest/testdata/filter/main.wasm": [
        Row("TestNewFromConfig/file: valid", "load", ["prefilter", "addpod", "removepod", "filter", "postfilter"]),
        Row(
            "TestPreFilter/success: pod has spec.NodeName",
            "prefilter",
            PreFilter(names=frozenset({NODE})),
            args=["test", "preFilter"],
        ),
        Row(
            "TestPreFilter/success: pod has no spec.NodeName",
            "prefilter",
            PreFilter(),
            args=["test", "preFilter"],
            pod=named("good-pod"),
        ),
        Row("TestFilter/success: node matches spec.NodeName", "filter", [SUCCESS], args=["test", "filter"]),
        Row(
            "TestFilter/unscheduled: bad-node",
            "filter",
            [Status(Code.UNSCHEDULABLE, "good-node != bad-node")],
            args=["test", "filter"],
            nodes=[named("bad-node")],
        ),
        Row(
            "TestPostFilter/success",
            "postfilter told of codes",
            (CallResult(low=0, high=1, reason=""), {GuestResult.NOMINATED_NODE_NAME: b"good-node"}),
            args=["test", "postFilter"],
            told={NODE: 0},
        ),
        Row(
            "TestPostFilter/unschedulable",
            "postfilter",
            Nomination(Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "good-node is unschedulable"), 0, NODE),
            args=["test", "postFilter"],
        ),
        *(
            row
            for case, asked in (("TestAddPod", "addpod"), ("TestRemovePod", "removepod"))
            for row in (
                Row(f"{case}/Success", asked, None, args=["test", "preFilterExtensions"], target=named("good-pod")),
                Row(
                    f"{case}/Error",
                    asked,
                    Failed(f"{asked} of node bad: Node name is bad and PodInfo name is bad-pod"),
                    args=["test", "preFilterExtensions"],
                    nodes=[named("bad")],
                    target=named("bad-pod"),
                ),
            )
        ),
    ],
    "guest/testdata/score/main.wasm": [
        Row("TestPreScore/success: no nodes", SCORES, [], args=["test", "preScore"], names=[]),
        Row(
            "TestPreScore/success: one node",
            SCORES,
            Failed("prescore: Error without a reason"),
            "the code, which is the number of nodes, passed on",
            args=["test", "preScore"],
        ),
        Row(
            "TestPreScore/success: two nodes",
            SCORES,
            Failed("prescore: status code 2 Unschedulable is none of 0 Success, 1 Error, 5 Skip"),
            "the code, which is the number of nodes, passed on",
            args=["test", "preScore"],
            nodes=[named(NODE), REAL_NODE],
        ),
        Row("TestScore/scored: nodeName equals spec.NodeName", SCORES, [100], args=["test", "score"]),
        Row("TestScore/skipped: bad-node", SCORES, [0], args=["test", "score"], nodes=[named("bad-node")]),
        Row(
            "TestNormalizeScore/normalizescore: multiply nodeScore by 100",
            "normalizescore told of scores",
            (CallResult(low=0, high=0, reason=""), {GuestResult.NORMALIZED_SCORES: b'{"good-node":10000}'}),
            args=["test", "scoreExtensions"],
            told={NODE: 100},
        ),
    ],
    "guest/testdata/cyclestate/main.wasm": [
        Row("TestEnqueue/success: 0", "enqueue", [], "takes none for every event of every resource"),
        Row("TestEnqueue/success: 1", "enqueue", [("PersistentVolume", 2)], args=["test", "1"]),
        Row("TestEnqueue/success: 2", "enqueue", [("Node", 1), ("PersistentVolume", 2)], args=["test", "2"]),
        Row("TestCycleStateCoherence", "all, twice", [0], pod=REAL_POD, nodes=[REAL_NODE], target=named("other")),
        Row(
            "Test_guestPool_bindingCycles",
            "binding cycles of two pods",
            [Permission(SUCCESS, 0.0), Permission(SUCCESS, 0.0), SUCCESS, SUCCESS],
            "the same; its host calls unreserve on another instance, where the guest traps, which is only logged",
        ),
        Row(
            "Test_guestPool_assignedToSchedulingPod",
            "filter of two pods",
            [[SUCCESS], [SUCCESS]],
            "one instance for both; here a guest that has a part in binding is left to its pod while there may be more",
        ),
    ],
    "guest/testdata/bind/main.wasm": [
        *(
            row
            for case, asked, arg in (("TestPreBind", "prebind", "preBind"), ("TestBind", "bind", "bind"))
            for row in (
                Row(f"{case}/Success", asked, SUCCESS, args=["test", arg], nodes=[named("good")]),
                Row(
                    f"{case}/Error",
                    asked,
                    Failed(f"{asked} of node bad: name is bad"),
                    args=["test", arg],
                    nodes=[named("bad")],
                ),
            )
        ),
        Row("TestPostBind/Success", "postbind", None, args=["test", "postBind"], nodes=[named("good")]),
        Row(
            "TestPostBind/Error",
            "postbind",
            Failed("postbind of node bad: trap: unreachable; the guest printed: panic: name is bad"),
            ONLY_LOGGED,
            args=["test", "postBind"],
            nodes=[named("bad")],
        ),
    ],
    "guest/testdata/reserve/main.wasm": [
        Row("TestReserve/Success", "reserve and unreserve", None, nodes=[named("good")]),
        Row("TestReserve/Error", "reserve", Failed("reserve of node bad: name is bad"), nodes=[named("bad")]),
    ],
    "guest/testdata/permit/main.wasm": [
        Row("TestPermit/Success", "permit", Permission(SUCCESS, 0.0), nodes=[named("good")]),
        Row("TestPermit/Error", "permit", Failed("permit of node bad: name is bad"), nodes=[named("bad")]),
        Row(
            "TestPermit/Wait",
            "permit",
            Permission(Status(Code.WAIT, "name is wait"), 10.0),
            nodes=[named("wait")],
        ),
    ],
    "guest/testdata/handle/main.wasm": [
        Row(
            "TestRejectWaitingPod/Pod is not rejected",
            "filter",
            [SUCCESS],
            args=["test", "rejectWaitingPod"],
            uids=[UID],
        ),
        Row(
            "TestRejectWaitingPod/Pod is rejected",
            "filter",
            Failed(f"filter of node good-node: status code 5 Skip (UID is handle-test) is none of {CODES}"),
            "passes Skip on; from Filter it is a failure to kube-scheduler as well",
            args=["test", "rejectWaitingPod"],
            pod=WAITING_POD,
            uids=["handle-test"],
        ),
        Row(
            "TestGetWaitingPod/Pod is not returned",
            "filter",
            Failed(NOT_IMPLEMENTED),
            STALE,
            args=["test", "getWaitingPod"],
            uids=[UID],
        ),
        Row(
            "TestGetWaitingPod/Pod is returned",
            "filter",
            Failed(NOT_IMPLEMENTED),
            STALE,
            args=["test", "getWaitingPod"],
            pod=WAITING_POD,
            uids=["handle-test"],
        ),
    ],
    "examples/nodenumber/main.wasm": [
        Row("TestNew_maskInterfaces/all", "load", [name for name in abi.EXPORTS if name not in abi.OUR_EXPORTS]),
        Row(
            "TestEventf/Test for skipping preScore using URLExampleNodeNumber with handle set via plugin.Set)",
            SCORES,
            [],
            names=[],
            records=NO_DIGIT,
        ),
        *(
            number(
                case,
                node,
                score,
                recorded("not match lastNumber", "Skip", name="happy8-meta"),
                reverse=reverse,
                upstream=ANOTHER_NAME,
            )
            for case, node, score, reverse in (
                ("Score zero on unmatch", "glad9", 10, False),
                ("Score ten on match", "glad8", 10, False),
                ("Reverse means score zero on match", "glad8", 0, True),
            )
        ),
    ],
    "examples/advanced/main.wasm": [
        Row("TestNew_maskInterfaces/prescore|score", "load", ["enqueue", "prefilter", "prescore", "score"]),
        Row(
            "TestEventf/Test for skipping preScore using URLExampleAdvanced with handle set via prescore.SetPlugin)",
            SCORES,
            [],
            names=[],
            records=NO_DIGIT,
        ),
        *(
            number(
                case,
                node,
                score,
                recorded("match lastNumber", "Continue", name="happy8-meta"),
                reverse=reverse,
                upstream=EXITED,
            )
            for case, node, score, reverse in (
                ("Score zero on unmatch", "glad9", 0, False),
                ("Score ten on match", "glad8", 10, False),
                ("Reverse means score zero on match", "glad8", 0, True),
            )
        ),
    ],
    "examples/imagelocality/main.wasm": [
        Row("Test_ImageLocality/unmatch", SCORES, [0], pod=IMAGE_POD, nodes=IMAGE_NODES, names=["no-image-node1"]),
        Row("Test_ImageLocality/match", SCORES, [4], pod=IMAGE_POD, nodes=IMAGE_NODES, names=["image-node1"]),
        Row("", "score in a cycle each", [[0], [4], [4]], pod=IMAGE_POD, nodes=IMAGE_NODES),
        Row(
            "",
            SCORES,
            Failed('score of node image-node1: failed to get node "image-node1"'),
            "the same of its host: the guest's library loses the names of the nodes that it lists",
            pod=IMAGE_POD,
            nodes=IMAGE_NODES,
        ),
    ],
    "internal/e2e/scheduler_perf/wasm/nodenumber/main.wasm": [
        Row("", "enqueue", [("Node", 1)]),
        Row("", SCORES, [10, 0], pod=named("pod-8"), nodes=[named("node-8"), named("node-9")]),
        Row("", SCORES, [10, 10], pod=named("pod"), nodes=[named("node-8"), named("node-9")]),
        Row(
            "",
            "load",
            Failed(
                "_start: trap: unreachable;"
                " the guest printed: panic: reflect: unimplemented: AssignableTo with interface"
            ),
            "the same of its host: these bytes take no configuration",
            config='{"reverse": true}',
        ),
    ],
    f"{TEST}all_noop.wasm": [
        Row(
            "",
            "load",
            Failed("exports postfilter as () -> (i32), the ABI has () -> (i64)"),
            "its tests only read the file; its host refuses the signature, too",
        ),
    ],
    f"{TEST}prefilter_from_global.wasm": at_limits("TestPreFilter", "prefilter", CODES_OR_SKIP),
    f"{TEST}prefilterextensions_from_global.wasm": [
        *at_limits("TestAddPod", "addpod", "0 Success, 1 Error", where="addpod of node good-node"),
        *at_limits("TestRemovePod", "removepod", "0 Success, 1 Error", where="removepod of node good-node"),
    ],
    f"{TEST}filter_from_global.wasm": at_limits("TestFilter", "filter", CODES, where="filter of node good-node"),
    f"{TEST}postfilter_from_global.wasm": [
        *at_limits("TestPostFilter", "postfilter", CODES),
        Row(
            "TestPostFilter/min nominatingMode",
            "postfilter",
            Nomination(SUCCESS, MIN, ""),
            first={"nominating_mode": MIN},
        ),
        Row(
            "TestPostFilter/max nominatingMode",
            "postfilter",
            Nomination(SUCCESS, MAX, ""),
            first={"nominating_mode": MAX},
        ),
    ],
    f"{TEST}prescore_from_global.wasm": at_limits(
        "TestPreScore", SCORES, "0 Success, 1 Error, 5 Skip", where="prescore"
    ),
    f"{TEST}score_from_global.wasm": [
        *at_limits("TestScore", SCORES, "0 Success, 1 Error", where="score of node good-node"),
        *(
            Row(
                f"TestScore/{limit} score",
                SCORES,
                Failed(f"score of node good-node: score {score} is outside 0..100"),
                OUTSIDE,
                first={"score": score},
            )
            for limit, score in (("min", MIN), ("max", MAX))
        ),
    ],
    f"{TEST}scoreextensions_from_global.wasm": at_limits(
        "TestNormalizeScore", SCORES, "0 Success, 1 Error", where="normalizescore", names=[]
    ),
    f"{TEST}reserve_from_global.wasm": [
        Row("TestReserve/reachable: flag is 0", "reserve and unreserve", None),
        Row(
            "TestReserve/unreachable: flag is 1",
            "reserve and unreserve",
            Failed("unreserve of node good-node: trap: unreachable"),
            ONLY_LOGGED,
            first={"flag": 1},
        ),
    ],
    f"{TEST}permit_from_global.wasm": at_limits(
        "TestPermit", "permit", CODES_OR_WAIT, where="permit of node good-node"
    ),
    f"{TEST}prebind_from_global.wasm": at_limits("TestPreBind", "prebind", CODES, where="prebind of node good-node"),
    f"{TEST}bind_from_global.wasm": at_limits("TestBind", "bind", CODES_OR_SKIP, where="bind of node good-node"),
    f"{TEST}postbind_from_global.wasm": [
        Row("TestPostBind/reachable: flag is 0", "postbind", None),
        Row(
            "TestPostBind/unreachable: flag is 1",
            "postbind",
            Failed("postbind of node good-node: trap: unreachable"),
            ONLY_LOGGED,
            first={"flag": 1},
        ),
    ],
    f"{ERROR}not_plugin.wasm": [
        Row("TestNew_maskInterfaces/not plugin", "load", Failed(NO_EXPORT)),
        Row("TestNewFromConfig/not plugin", "load", Failed(NO_EXPORT)),
    ],
    f"{ERROR}panic_on_start.wasm": [
        Row(
            "TestNewFromConfig/panic on _start",
            "load",
            Failed("_start: trap: unreachable; the guest printed: panic!"),
        )
    ],
    f"{ERROR}panic_on_get_config.wasm": [
        Row("TestPreFilter/panic no guestConfig", "prefilter", Failed("prefilter: trap: unreachable")),
        Row(
            "TestPreFilter/panic guestConfig",
            "prefilter",
            Failed("prefilter: trap: unreachable; the guest printed: hello"),
            config="hello",
        ),
    ],
    f"{ERROR}panic_on_enqueue.wasm": [panics("TestEnqueue", "load", "enqueue", upstream="panics itself")],
    f"{ERROR}panic_on_prefilter.wasm": [panics("TestPreFilter", "prefilter", "prefilter")],
    f"{ERROR}panic_on_prefilterextensions.wasm": [
        panics("TestAddPod", "addpod", "addpod of node good-node"),
        panics("TestRemovePod", "removepod", "removepod of node good-node"),
    ],
    f"{ERROR}panic_on_filter.wasm": [
        Row("TestNew_maskInterfaces/filter", "load", ["filter"]),
        panics("TestFilter", "filter", "filter of node good-node"),
    ],
    f"{ERROR}panic_on_postfilter.wasm": [panics("TestPostFilter", "postfilter", "postfilter")],
    f"{ERROR}panic_on_prescore.wasm": [panics("TestPreScore", SCORES, "prescore")],
    f"{ERROR}panic_on_score.wasm": [
        Row("TestNew_maskInterfaces/score", "load", ["score"]),
        panics("TestScore", SCORES, "score of node good-node"),
    ],
    f"{ERROR}panic_on_scoreextensions.wasm": [panics("TestNormalizeScore", SCORES, "normalizescore", names=[])],
    f"{ERROR}panic_on_reserve.wasm": [panics("TestReserve", "reserve", "reserve of node good-node")],
    f"{ERROR}panic_on_permit.wasm": [panics("TestPermit", "permit", "permit of node good-node")],
    f"{ERROR}panic_on_prebind.wasm": [panics("TestPreBind", "prebind", "prebind of node good-node")],
    f"{ERROR}panic_on_bind.wasm": [panics("TestBind", "bind", "bind of node good-node")],
    f"{ERROR}panic_on_postbind.wasm": [
        panics("TestPostBind", "postbind", "postbind of node good-node", upstream=ONLY_LOGGED)
    ],
    f"{ERROR}prescore_without_score.wasm": [
        Row(
            "TestPreScore/missing score",
            "load",
            Failed("exports prescore without score, so it would never be called"),
        )
    ],
    f"{ERROR}scoreextensions_without_score.wasm": [
        Row(
            "TestNormalizeScore/missing score",
            "load",
            Failed("exports normalizescore without score, so it would never be called"),
        )
    ],
}
"""Rows by guest, a path in the checkout."""

NOT_OF_GUESTS = {
    "TestNewFromConfig/http: valid",
    "TestNewFromConfig/missing guestURL",
    "TestNewFromConfig/invalid guestURL",
    "TestExample_NodeNumber/Simple",
    "TestExample_NodeNumber/Advanced",
}
"""Cases of upstream's that are about where its host reads guests, or that only hold other cases."""
