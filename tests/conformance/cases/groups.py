"""Guests that keep groups of pods: what they are told, when and in which order, and what comes of their failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tests.conformance.calls import Failed, failed
from tests.conformance.case import Case
from tests.conformance.cases.endings import COUNTS, ENDINGS
from tests.conformance.cases.pods import ON_NODES, PAGES, RECORDS
from tests.conformance.cases.residents import PASS, keeper, lines
from tests.conformance.guests import export, resident, told
from tests.conformance.stories import (
    Step,
    back,
    elsewhere,
    filters,
    filters_late,
    maintain,
    put,
    put_groups,
    put_pods,
    remove_groups,
    remove_pods,
    story,
)
from wasm_runtime import Fault
from wasm_runtime.abi import GroupSource
from wasm_runtime.engine import GuestEvent, Log
from wasm_runtime.pods.group_table import Group, GroupKey
from wasm_runtime.pods.pod_table import ResidentPod
from wasm_runtime.pods.record_feed import MAX_RECORDS_PER_BATCH

SAID: Final = 32_768
"""Where a guest puts together what it tells."""
NAMES: Final = 32
"""Bytes of the names that it tells at most."""


def _digit(at: int, offset: int) -> str:
    """Puts a digit of a record where it is told."""
    return f"(i32.store8 (i32.const {SAID + at}) (i32.add (i32.const 48) (i32.load offset={offset} (local.get $at))))"


GROUPS: Final = "\n".join(
    [
        '(func $groupschanged (export "groupschanged") (param $left i32) (local $at i32) (local $length i32)',
        f"(local.set $at (i32.const {RECORDS}))",
        "(loop $next",
        f"(i32.store8 (i32.const {SAID}) (i32.const {ord('#')}))",
        *(_digit(1 + place, 4 * (1 + place)) for place in range(6)),
        "(local.set $length (i32.add (i32.load offset=32 (local.get $at)) (i32.load offset=36 (local.get $at))))",
        f"(memory.copy (i32.const {SAID + 7}) (i32.add (local.get $at) (i32.const 40)) (i32.const {NAMES}))",
        f"(call $tell (i32.load (local.get $at)) (i32.const {SAID}) (i32.add (i32.const 7) (local.get $length)))",
        "(local.set $at (i32.add (i32.add (local.get $at) (i32.const 40))",
        "  (i32.and (i32.add (local.get $length) (i32.const 7)) (i32.const -8))))",
        "(br_if $next (local.tee $left (i32.sub (local.get $left) (i32.const 1))))))",
    ]
)
"""Tells of each record the group's number, state, source, minimum, timeout, priority and creation, and the names."""

MEMBERS: Final = "\n".join(
    [
        '(func $memberschanged (export "memberschanged") (param $left i32) (local $at i32)',
        f"(local.set $at (i32.const {RECORDS}))",
        "(loop $next",
        f"(i32.store8 (i32.const {SAID}) (i32.const {ord('&')}))",
        *(_digit(1 + place, 4 * (1 + place)) for place in range(3)),
        f"(call $tell (i32.load (local.get $at)) (i32.const {SAID}) (i32.const 4))",
        "(local.set $at (i32.add (local.get $at) (i32.const 16)))",
        "(br_if $next (local.tee $left (i32.sub (local.get $left) (i32.const 1))))))",
    ]
)
"""Tells of each record the numbers of the pod and the node, the state, and the group's number; `/` stands for none."""

BUFFER: Final = resident("podbuffer", value=RECORDS)
ALONE: Final = f"{BUFFER} {GROUPS}"
BOTH: Final = f"{ALONE} {MEMBERS}"
ALL: Final = f"{ON_NODES} {GROUPS} {MEMBERS}"

TRAIN: Final = GroupKey(GroupSource.LABEL, "default", "train")
TEAM: Final = GroupKey(GroupSource.SCHEDULING_GROUP, "ml", "team")
DESCRIBED: Final = put_groups({TRAIN: Group(4, 6, 1, 7)})
TRAIN_LINE: Final = "0#124617defaulttrain"
NAMED_LINE: Final = "0#120000defaulttrain"
ASK: Final = filters("node-b")
B: Final = {"node-b": "B"}


def of(group: GroupKey | None, node: str = "", text: str = "P", **more: bool) -> ResidentPod:
    """A pod of a group."""
    return ResidentPod(node, text.encode(), group=group, **more)


def _lines(*said: str) -> list[Log | GuestEvent]:
    """What a guest tells: of a group as in `0#124617defaulttrain`, of a member as in `0&110`, else as of nodes."""
    return [line for each in said for line in _line(each)]


def _line(said: str) -> list[Log | GuestEvent]:
    for sign in "#&@":
        number, found, rest = said.partition(sign)
        if found:
            return [told(int(number), sign + rest)]
    return lines(said)


def _case(
    name: str, steps: Sequence[Step], *said: str, does: str = BOTH, value: Sequence[object] | None = None, **more: Any
) -> Case:
    """A story and what the guest tells meanwhile. Unless a value is given, each `ASK` passes its node."""
    passed = [PASS for step in steps if step is ASK] if value is None else list(value)
    return Case(name, keeper(does, export("filter"), pages=PAGES), story(*steps), passed, _lines(*said), **more)


def _groups() -> Iterator[Case]:
    yield _case("a group is new", [DESCRIBED, ASK], TRAIN_LINE, does=ALONE)
    yield _case("a group is as before", [DESCRIBED, ASK, DESCRIBED, ASK], TRAIN_LINE, does=ALONE)
    yield _case(
        "a group changes",
        [DESCRIBED, ASK, put_groups({TRAIN: Group(2, 6, 1, 7)}), ASK],
        *(TRAIN_LINE, "0#122617defaulttrain"),
        does=ALONE,
    )
    yield _case("a group is gone", [DESCRIBED, ASK, remove_groups(TRAIN), ASK], TRAIN_LINE, "0#000000", does=ALONE)
    yield _case("a group was there between two calls", [DESCRIBED, remove_groups(TRAIN), ASK], does=ALONE)
    yield _case(
        "a group's number is another's at once",
        [DESCRIBED, ASK, remove_groups(TRAIN), put_groups({TEAM: Group(1)}), ASK],
        *(TRAIN_LINE, "0#111000mlteam"),
        does=ALONE,
    )
    yield _case("of members it wants to know nothing", [put_pods({"x": of(TRAIN)}), ASK], NAMED_LINE, does=ALONE)
    yield _case("none of it", [DESCRIBED, put_pods({"x": of(TRAIN)}), ASK], does=resident("podbuffer", value=RECORDS))


def _members() -> Iterator[Case]:
    waits, comes = put_pods({"x": of(TRAIN)}), put_pods({"x": of(TRAIN, "node-b")})
    planned = of(TRAIN, "node-b", is_tentative=True)
    bound = planned._replace(is_binding=True)
    yield _case("a pod names a group of which nothing else is known", [waits, ASK], NAMED_LINE, "0&/10")
    yield _case("a group is described later", [waits, ASK, DESCRIBED, ASK], NAMED_LINE, "0&/10", TRAIN_LINE)
    yield _case(
        "a group's description is gone while it has a pod",
        [DESCRIBED, waits, ASK, remove_groups(TRAIN), ASK],
        *(TRAIN_LINE, "0&/10", NAMED_LINE),
    )
    yield _case(
        "the last pod of a group is gone",
        [waits, ASK, remove_pods("x"), ASK],
        *(NAMED_LINE, "0&/10", "0#000000", "0&/0/"),
    )
    yield _case(
        "a pod is expected on a node, is being bound there, and comes",
        [put(B), waits, ASK, put_pods({"x": planned}), ASK, put_pods({"x": bound}), ASK, comes, ASK],
        *(NAMED_LINE, "0&/10", "0&020", "0&030", "0&010"),
    )
    yield _case(
        "a pod is of another group",
        [waits, ASK, put_pods({"x": of(TEAM)}), ASK],
        *(NAMED_LINE, "0&/10", "0#000000", "1#110000mlteam", "0&/11"),
    )
    yield _case(
        "a pod is of no group any more",
        [DESCRIBED, waits, ASK, put_pods({"x": of(None)}), ASK],
        *(TRAIN_LINE, "0&/10", "0&/0/"),
    )
    yield _case("a pod of no group is no member", [DESCRIBED, put_pods({"x": of(None)}), ASK], TRAIN_LINE)
    yield _case(
        "groups come before pods on nodes, and members after them",
        [put(B), DESCRIBED, comes, ASK],
        *("0+node-b=B", TRAIN_LINE, "0@01P", "0&010"),
        does=ALL,
    )
    yield _case(
        "another cluster without groups, and back",
        [DESCRIBED, waits, ASK, elsewhere({}), ASK, back, ASK],
        *(TRAIN_LINE, "0&/10", "0#000000", "0&/0/", TRAIN_LINE, "0&/10"),
    )
    yield _case("groups are there from the start", [ASK], NAMED_LINE, "0&/10", nodes=B, pods={"x": of(TRAIN)})


MORE: Final = MAX_RECORDS_PER_BATCH + 2
MANY: Final = {f"pod-{at}": of(TRAIN) for at in range(MORE)}
MANY_GROUPS: Final = {GroupKey(GroupSource.LABEL, "d", f"g{at}"): Group(1) for at in range(MORE)}
MEMBER_LINES: Final = [f"{at}&/10" for at in range(MORE)]
GROUP_LINES: Final = [f"{at}#121000dg{at}" for at in range(MORE)]
GONE_LINES: Final = [*(f"{at}#000000" for at in range(MORE - 1)), f"{MORE - 1}#120000defaulttrain"]
"""The number that came free last is that of another."""


def _late(stream: str, subject: str, known: int, count: int) -> Failed:
    return failed(Fault.BUSY, f"{stream}: its time was over while it learned of {subject}: {known} of {count} are told")


def _batches() -> Iterator[Case]:
    late = filters_late("node-b")
    yield _case("more than one call takes", [put_pods(MANY), ASK], NAMED_LINE, *MEMBER_LINES)
    yield _case(
        "maintained, groups before members",
        [ASK, put_groups(MANY_GROUPS), put_pods({"x": of(TRAIN)}), maintain, maintain, ASK],
        *(*GROUP_LINES, f"{MORE}#120000defaulttrain", f"0&/1{chr(48 + MORE)}"),
        value=[PASS, True, False, PASS],
    )
    yield _case(
        "a verb's time is over after some groups, and the next one's after all",
        [ASK, put_groups(MANY_GROUPS), late, late, ASK, remove_groups(*MANY_GROUPS), put_pods(MANY), ASK],
        *(*GROUP_LINES, *GONE_LINES, *(f"{at}&/1{chr(48 + MORE - 1)}" for at in range(MORE))),
        value=[
            PASS,
            _late("groupschanged", "groups", MAX_RECORDS_PER_BATCH, MORE),
            _late("groupschanged", "groups", MORE, MORE),
            PASS,
            PASS,
        ],
    )


FAILING: Final = ("groupschanged", "memberschanged")


def _failures() -> Iterator[Case]:
    asked = told(1, node="node-b")
    bad = [DESCRIBED, put_pods({"x": of(TRAIN)})]
    for name in FAILING:
        others = [each for each in ("podbuffer", "groupschanged", "memberschanged") if each != name]
        for ending, (body, fault, message) in ENDINGS.items():
            failing = keeper(
                COUNTS,
                *(resident(each, value=RECORDS if each == "podbuffer" else 0) for each in others),
                resident(name, body),
                export("filter", "(call $count)"),
                pages=PAGES,
            )
            said = failed(fault, f"{name}: {message.format(function=name)}")
            yield Case(
                f"{name} {ending}, and another instance takes its place",
                failing,
                story(put(B), ASK, *bad, ASK, remove_pods("x"), remove_groups(TRAIN), ASK),
                [PASS, said, PASS],
                [asked, asked],
            )
            yield Case(
                f"{name} {ending} while it is maintained",
                failing,
                story(put(B), ASK, *bad, maintain, remove_pods("x"), remove_groups(TRAIN), ASK),
                [PASS, said, PASS],
                [asked, asked],
            )


CASES = [*_groups(), *_members(), *_batches(), *_failures()]
