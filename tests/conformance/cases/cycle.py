"""A pod's cycle: which exports are called, in what order, on which memory, and what each may ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.conformance.calls import NODE, OBJECT, POD, TARGET, Does, calls, failed, in_turn, one_by_one
from tests.conformance.case import Case
from tests.conformance.cases.buffers import CONFIG, GIVES, SHOWN
from tests.conformance.cases.status import DONE
from tests.conformance.guests import (
    BUFFER,
    CURRENT_POD,
    NODE_NAME,
    NODE_OBJECT,
    TARGET_POD,
    TEXT,
    export,
    guest,
    only,
    size,
    tell,
    tells,
    told,
)
from tests.wasm_runtime.guest_modules import call
from tests.wasm_runtime.world import world
from wasm_runtime import Fault, Plugin, abi
from wasm_runtime.engine import GuestEvent, Log

FIRST: Final = world({NODE: b"A"}, pod=b"pod 1")
SECOND: Final = FIRST.with_pod("2", b"pod 2")

NAMES: Final = {name: TEXT + 32 * at for at, name in enumerate(abi.EXPORTS)}
"""Where a guest has the name of each export."""


def _counting(*exports: str, filters: str = "") -> str:
    """Exports that tell their names and how many calls this instance has had; `filters` is what filter does then."""
    count = "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))"
    return guest(
        "(global $calls (mut i32) (i32.const 0))",
        *(
            export(
                name,
                count,
                tell("(global.get $calls)", NAMES[name], len(name)),
                filters if name == "filter" else "",
            )
            for name in exports
        ),
        data={at: name for name, at in NAMES.items()},
    )


def _counted(called: str) -> list[Log | GuestEvent]:
    """What is told of calls: of the first instance, and of another one as in `other.filter`."""
    calls_of: Counter[str] = Counter()
    journal: list[Log | GuestEvent] = []
    for instance, _, name in (each.rpartition(".") for each in called.split()):
        calls_of[instance] += 1
        journal.append(told(calls_of[instance], name, NODE if abi.EXPORTS[name].on_node else ""))
    return journal


def _ends(plugin: Plugin) -> None:
    plugin.end_cycle(FIRST.pod)


BINDING: Final = ("reserve", "bindingannotations", "permit", "prebind", "bind", "postbind", "unreserve")
PREEMPTION: Final = ("removepod", "removepod", "filter", "addpod", "addpod")

WHOLE_CYCLE: Final = in_turn(
    [
        calls("filter", at=FIRST),
        calls("score", at=FIRST),
        calls(*PREEMPTION, at=FIRST),
        calls("postfilter", at=FIRST),
        calls(*BINDING, at=FIRST),
    ]
)
CALLED: Final = (
    f"enqueue prefilter filter prescore score normalizescore {' '.join(PREEMPTION)} postfilter {' '.join(BINDING)}"
)
"""All that is called in it, in that order."""


class Story(NamedTuple):
    """What is done with a guest, and what of it is called."""

    exports: str
    steps: list[Does]
    called: str
    instances: int = 8


STORIES: Final = {
    "a whole cycle is one instance's": Story(" ".join(abi.EXPORTS), [WHOLE_CYCLE], CALLED),
    "the next pod's cycle begins with prefilter, on the same memory": Story(
        "prefilter filter",
        [calls("filter", at=FIRST), calls("filter", at=SECOND)],
        "prefilter filter prefilter filter",
    ),
    "another pod in between begins the cycle anew": Story(
        "prefilter filter score",
        [calls("filter", at=FIRST), calls("filter", at=SECOND), calls("score", at=FIRST)],
        "prefilter filter prefilter filter prefilter score",
    ),
    "a guest that binds is left to its pod while there may be another": Story(
        f"prefilter filter {' '.join(BINDING)}",
        [calls("filter", at=FIRST), calls("filter", at=SECOND), calls(*BINDING, at=FIRST)],
        f"prefilter filter other.prefilter other.filter {' '.join(BINDING)}",
    ),
    "a guest that binds is shared where there may be one only": Story(
        "prefilter filter reserve",
        [calls("filter", at=FIRST), calls("filter", at=SECOND), calls("reserve", at=FIRST)],
        "prefilter filter prefilter filter prefilter reserve",
        instances=1,
    ),
    "filter again is a new cycle": Story(
        "prefilter filter score",
        [calls("filter", at=FIRST), calls("filter", at=FIRST), calls("score", at=FIRST)],
        "prefilter filter prefilter filter score",
    ),
    "score again is a new cycle": Story(
        "prefilter score",
        [calls("score", at=FIRST), calls("score", at=FIRST)],
        "prefilter score prefilter score",
    ),
    "filter in preemption goes on with the cycle": Story(
        "prefilter filter postfilter",
        [calls("filter", at=FIRST), calls("filter", at=FIRST, stage="preempt"), calls("postfilter", at=FIRST)],
        "prefilter filter filter postfilter",
    ),
    "a cycle goes on after a wait on Permit, as often as the host comes back to it": Story(
        "prefilter reserve permit prebind",
        [
            calls("reserve", "permit", at=FIRST),
            calls("permit", at=FIRST, stage="permit"),
            calls("permit", at=FIRST, stage="permit"),
            calls("prebind", at=FIRST, stage="permit"),
            calls("reserve", at=FIRST),
        ],
        "prefilter reserve permit permit permit prebind prefilter reserve",
    ),
    "another pod during a wait on Permit begins the cycle anew": Story(
        "prefilter filter permit",
        [
            calls("permit", at=FIRST),
            calls("filter", at=SECOND),
            calls("permit", at=FIRST, stage="permit"),
        ],
        "prefilter permit prefilter filter prefilter permit",
        instances=1,
    ),
    "a cycle that has ended begins anew": Story(
        "prefilter filter reserve",
        [calls("filter", at=FIRST), _ends, calls("reserve", at=FIRST)],
        "prefilter filter prefilter reserve",
    ),
    **{
        f"{name} comes first, behind prefilter": Story(
            f"prefilter {name}", [calls(name, at=FIRST)], f"prefilter {name}"
        )
        for name in ("score", "removepod", "postfilter", *BINDING)
    },
    "without prefilter nothing tells of the next cycle": Story(
        "filter score",
        [calls("filter", at=FIRST), calls("score", at=FIRST), calls("filter", at=SECOND), calls("score", at=FIRST)],
        "filter score filter score",
    ),
    "exports that are not there are not called": Story("score", [calls("score", at=FIRST)], "score"),
}


def _stories() -> Iterator[Case]:
    for name, story in STORIES.items():
        yield Case(
            name,
            _counting(*story.exports.split()),
            in_turn(story.steps),
            None,
            _counted(story.called),
            settings={"instances": story.instances},
        )


ENDINGS: Final = {
    "an error leaves the memory as it is": (
        "(return (i32.const 1))",
        failed(Fault.STATUS, f"filter of node {NODE}: Error without a reason"),
        "prefilter filter prefilter filter",
    ),
    "a trap costs the memory": (
        "unreachable",
        failed(Fault.TRAP, f"filter of node {NODE}: trap: unreachable in filter"),
        "prefilter filter other.prefilter other.filter",
    ),
}
"""What filter does at its end, what comes of it, and what is called for two pods."""


def _failures() -> Iterator[Case]:
    for what, (body, value, called) in ENDINGS.items():
        yield Case(
            f"{what}, and the next cycle begins with prefilter",
            _counting("prefilter", "filter", filters=body),
            one_by_one([calls("filter", at=FIRST), calls("filter", at=SECOND)]),
            [value] * 2,
            _counted(called),
        )


DEFAULTS: Final = {
    "k8s.io/api/node": OBJECT,
    "k8s.io/api/nodeList": f"\x12\x08{OBJECT}",
    "k8s.io/scheduler/currentPod": POD,
    "k8s.io/scheduler/currentNodeName": "",
    "k8s.io/scheduler/targetPod": "",
    "k8s.io/scheduler/filteredNodeList": "[]",
    "k8s.io/scheduler/nodeToStatusMap": "{}",
    "k8s.io/scheduler/nodeScoreList": "{}",
    "k8s.io/scheduler/nodeImageStates": "{}",
    "k8s.io/scheduler/get_config": CONFIG,
}
"""What an export gets that is about nothing in particular."""

ANSWERS: Final = {
    **{name: {"k8s.io/scheduler/currentNodeName": NODE} for name, each in abi.EXPORTS.items() if each.on_node},
    "enqueue": {
        "k8s.io/api/node": "",
        "k8s.io/api/nodeList": "",
        "k8s.io/scheduler/nodeImageStates": "null",
        "k8s.io/scheduler/currentPod": "",
    },
    "addpod": {"k8s.io/scheduler/currentNodeName": NODE, "k8s.io/scheduler/targetPod": TARGET},
    "removepod": {"k8s.io/scheduler/currentNodeName": NODE, "k8s.io/scheduler/targetPod": TARGET},
    "prescore": {"k8s.io/scheduler/filteredNodeList": f'["{NODE}"]'},
    "postfilter": {"k8s.io/scheduler/nodeToStatusMap": f'{{"{NODE}":2}}'},
    "normalizescore": {"k8s.io/scheduler/nodeScoreList": f'{{"{NODE}":0}}'},
}
"""What other exports get instead."""


def _asks(name: str, function: str) -> str:
    named = (TEXT, len(NODE)) if GIVES[function].takes_name else ()
    body = tells(function, *named, BUFFER, SHOWN, shown=SHOWN)
    heard = export("filter") if name == "enqueue" else ""
    return guest(only(name, body), heard, uses=[function], data={TEXT: NODE})


def _may_ask() -> Iterator[Case]:
    """Each export is called, and what is told of it is all that counts."""
    for name, entry in abi.EXPORTS.items():
        node = NODE if entry.on_node else ""
        for function, default in DEFAULTS.items():
            heard = "filter" if name == "enqueue" else name
            answer = ANSWERS.get(name, {}).get(function, default)
            yield Case(
                f"{name} asks for {function.rpartition('/')[2]}",
                _asks(name, function),
                in_turn([calls(each) for each in dict.fromkeys([name, heard])]),
                None,
                [told(len(answer), answer.ljust(SHOWN, "*"), node)],
                settings={"config": CONFIG},
            )


HANDED_OVER: Final = {
    "k8s.io/scheduler/result.cluster_events": ("enqueue", "\1\0\0\0\1\0\0\0"),
    "k8s.io/scheduler/result.node_names": ("prefilter", "node-b\0"),
    "k8s.io/scheduler/result.nominated_node_name": ("postfilter", "node-b"),
    "k8s.io/scheduler/result.normalized_score_list": ("normalizescore", f'{{"{NODE}":50}}'),
}
"""What only one export may hand over."""


def _may_hand_over() -> Iterator[Case]:
    for function, (taken_from, text) in HANDED_OVER.items():
        for name in (each for each in abi.EXPORTS if each != taken_from):
            yield Case(
                f"{name} hands over {function.rpartition('/')[2]}, which is left out",
                guest(only(name, call(function, TEXT, size(text))), uses=[function], data={TEXT: text}),
                calls(name),
                DONE[name],
            )


ABSENT: Final = "the guest asked for a node's object, but none is known here: only names were given"


def _no_node_data() -> Iterator[Case]:
    """enqueue aside, which is called when no node is known yet."""
    for name in (each for each in abi.EXPORTS if each != "enqueue"):
        node = NODE if abi.EXPORTS[name].on_node else ""
        for function, answer in (
            ("k8s.io/api/node", ""),
            ("k8s.io/api/nodeList", ""),
            ("k8s.io/scheduler/nodeImageStates", "null"),
        ):
            yield Case(
                f"{name} asks for {function.rpartition('/')[2]}, but only names are known",
                _asks(name, function),
                calls(name, at=world({}, [NODE])),
                failed(Fault.NO_NODE_DATA, f"{name}: {ABSENT}"),
                [told(len(answer), answer.ljust(SHOWN, "*"), node)],
            )
    yield Case(
        "filter asks for a node that is not known, while another is",
        _asks("filter", NODE_OBJECT),
        calls("filter", at=world({"node-b": b"B"}, [NODE])),
        DONE["filter"],
        [told(0, "*" * SHOWN, NODE)],
    )


def _nothing_is_left_over() -> Iterator[Case]:
    """Each call of a whole cycle is asked about what only some of them have."""
    for function, answers in (
        (NODE_NAME, {name: NODE for name, each in abi.EXPORTS.items() if each.on_node}),
        (TARGET_POD, {"addpod": TARGET, "removepod": TARGET}),
        (CURRENT_POD, dict.fromkeys(abi.EXPORTS, "pod 1") | {"enqueue": ""}),
    ):
        journal: list[Log | GuestEvent] = []
        for name in CALLED.split():
            answer = answers.get(name, "")
            node = NODE if abi.EXPORTS[name].on_node else ""
            journal.append(told(len(answer), answer.ljust(8, "*"), node))
        body = tells(function, BUFFER, 8, shown=8)
        yield Case(
            f"every export asks for {function.rpartition('/')[2]} in a whole cycle",
            guest(*(export(name, body) for name in abi.EXPORTS), uses=[function]),
            WHOLE_CYCLE,
            None,
            journal,
        )
    yield Case(
        "the next pod is the current one",
        guest(only("filter", tells(CURRENT_POD, BUFFER, 8, shown=8)), uses=[CURRENT_POD]),
        in_turn([calls("filter", at=FIRST), calls("filter", at=SECOND), calls("filter", at=FIRST)]),
        None,
        [told(5, "pod 1***", NODE), told(5, "pod 2***", NODE), told(5, "pod 1***", NODE)],
    )


CASES = [*_stories(), *_failures(), *_may_ask(), *_may_hand_over(), *_no_node_data(), *_nothing_is_left_over()]
