"""What is true once is true for hours and for many threads: memory, instances, and who gets whose answer."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.patience import PATIENCE_S
from tests.wasm_runtime import moody
from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import binary, export, module
from tests.wasm_runtime.world import close, core_guest, filter_nodes, idle_guests, settle, world
from wasm_runtime import GuestError, Nodes, NodeTable, Plugin, Pod, Settings, WasmtimeEngine
from wasm_runtime.abi import EXPORTS, Code, Severity
from wasm_runtime.engine import GuestEvent, GuestJournal, Log, NodeResults
from wasm_runtime.guests.core_guest import CoreGuest
from wasm_runtime.guests.guest import CycleStage, Nomination, Permission, PreFilter, Status

TRAPS = 10_000
CALLS = 100_000
THREADS = 8

STATM = Path("/proc/self/statm")


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not STATM.exists(), reason="there is no /proc/self/statm: run the tests on Linux")
def test_ten_thousand_traps_leave_nothing(load: Loader, open_instances: Callable[[], int]) -> None:
    plugin = load.plugin(module("(func $panic unreachable)", export("filter", "(call $panic)", "(i32.const 0)")))
    at = world()

    def trap(times: int) -> None:
        for _ in range(times):
            with pytest.raises(GuestError) as caught:
                filter_nodes(plugin, at)
            assert str(caught.value) == "filter of node node-a: trap: unreachable in panic < filter"

    trap(TRAPS // 10)
    before = resident()
    trap(TRAPS)
    assert resident() - before < 10_000_000
    load.settle()
    assert open_instances() == 1


# ---- the hammer: guests do what the pod's bytes say, and every answer shows whose it is

CALM = "n"
MOODS = {CALM: 900, "e": 40, "w": 20, "t": 25, "x": 10, "d": 4, "s": 1}
"""What a guest does and how often: nothing unusual, an Error, a code that is none, a trap, an exit, calls that nest
too deep, and what only a deadline ends."""
FATAL = "txds"

STAGES: dict[CycleStage, tuple[str, ...]] = {
    "filter": ("filter",),
    "score": ("prescore", "score", "normalizescore"),
    "preempt": ("removepod", "filter", "addpod"),
    "postFilter": ("postfilter",),
    "bind": ("reserve", "permit", "prebind", "bind", "postbind", "unreserve"),
}
"""The exports that are called after PreFilter at each stage."""

TARGETS = {"addpod": "added", "removepod": "removed"}
"""The pods that come and go."""

STEPS: dict[str, Callable[[CoreGuest, Nodes, float], object]] = {
    "filter": CoreGuest.filter,
    "prescore": CoreGuest.score,
    "removepod": lambda guest, *node: guest.remove_pod(TARGETS["removepod"].encode(), *node),
    "addpod": lambda guest, *node: guest.add_pod(TARGETS["addpod"].encode(), *node),
    "postfilter": CoreGuest.post_filter,
    "reserve": CoreGuest.reserve,
    "permit": CoreGuest.permit,
    "prebind": CoreGuest.pre_bind,
    "bind": CoreGuest.bind,
    "postbind": CoreGuest.post_bind,
    "unreserve": CoreGuest.unreserve,
}
"""The method that calls an export. That of prescore calls score and normalizescore as well."""

SOON = 0.05
"""Seconds of the deadlines that are met. All others are far away."""


class Case(NamedTuple):
    """A pod, and what a guest is to do for it."""

    stage: CycleStage
    mood: str
    point: str
    """The export at which it does that."""
    number: int
    tag: str
    who: str
    """The plugin, by its configuration."""
    nodes: Sequence[str]

    @property
    def pod(self) -> Pod:
        return Pod(self.tag, f"default/{self.tag}", moody.pod(self.mood, self.point, self.number, self.tag))

    def said(self, node: str = "") -> str:
        return f"{self.who}{self.tag}{node}"

    def mixed(self, node: str) -> int:
        return self.number + ord(node[-1])


class Outcome(NamedTuple):
    """What a case gives: the results of the methods that were called, the error that ended them, and the journal."""

    results: list[object]
    error: str
    records: list[Log | GuestEvent]


def expected(case: Case) -> Outcome:
    """What a case is to give, from what its pod says."""
    records: list[Log | GuestEvent] = []
    results: list[object] = []
    for name in ("prefilter", *STAGES[case.stage]):
        for node in case.nodes if EXPORTS[name].on_node else [""]:
            said = case.said(node)
            records += [Log(Severity.INFO, said, (), node), GuestEvent(case.said().encode())]
            failure = _failure(case, name, node) if name == case.point else ""
            if name in TARGETS and not (failure and case.mood in FATAL):
                records.append(Log(Severity.INFO, TARGETS[name], (), node))
            if failure:
                where = f"{name} of node {node}" if node else name
                return Outcome(results, f"{where}: {failure}; the guest printed: {said}", records)
        if name not in {"prescore", "score"}:
            results.append(_result(case, name))
    return Outcome(results, "", records)


def _failure(case: Case, name: str, node: str) -> str:
    """The cause that a message gives; empty where the guest is calm, or where it cannot be anything else."""
    said = case.said(node)
    returns_code = bool(EXPORTS[name].signature.results)
    return {
        CALM: "",
        "e": said if returns_code else "",
        "w": f"status code 9 ({said}) is none of {ALLOWED[name]}" if returns_code else "",
        "t": f"trap: unreachable in act < {name}",
        "x": f"the guest left by exit status {case.number}",
        "d": f"trap: stack overflow in {'deep < ' * 12}…",
        "s": "interrupted at its timeout of 60000 ms",
    }[case.mood]


_REJECTIONS = "2 Unschedulable, 3 UnschedulableAndUnresolvable"
ALLOWED = {
    "prefilter": f"0 Success, 1 Error, {_REJECTIONS}, 5 Skip, 6 Pending",
    "prescore": "0 Success, 1 Error, 5 Skip",
    "permit": f"0 Success, 1 Error, {_REJECTIONS}, 4 Wait, 6 Pending",
    "bind": f"0 Success, 1 Error, {_REJECTIONS}, 5 Skip, 6 Pending",
    **dict.fromkeys(("addpod", "removepod", "score", "normalizescore"), "0 Success, 1 Error"),
    **dict.fromkeys(("filter", "postfilter", "reserve", "prebind"), f"0 Success, 1 Error, {_REJECTIONS}, 6 Pending"),
}


def _result(case: Case, name: str) -> object:
    said = [case.said(node) for node in case.nodes]
    codes = [case.mixed(node) & 2 for node in case.nodes]
    rejections = [reason for reason, code in zip(said, codes, strict=True) if code]
    return {
        "prefilter": PreFilter(Status(Code.SUCCESS, case.said()), frozenset({case.said()})),
        "filter": NodeResults(len(codes), bytes(codes) if rejections else b"", [], rejections),
        "postfilter": Nomination(Status(Code.SUCCESS, case.said()), case.number, case.said()),
        "normalizescore": bytes(case.mixed(node) % 101 for node in case.nodes),
        "reserve": Status(Code.UNSCHEDULABLE, said[0]),
        "permit": Permission(Status(Code.WAIT, said[0]), case.number / 1000),
        "prebind": Status(Code.SUCCESS, said[0]),
        "bind": Status(Code.SKIP, said[0]),
    }.get(name)


class Hammer:
    """Plugins of one engine, and the threads that call them."""

    def __init__(self, engine: WasmtimeEngine) -> None:
        self._journals: dict[str, list[GuestJournal]] = {}
        names = [f"node-{letter}" for letter in "abcdefghijklmnop"]
        self._node_table = NodeTable()
        self._node_table.put((name, b"N" * 50) for name in names)
        self._names = names
        self.plugins = {
            who: Plugin(
                engine,
                binary(moody.GUEST),
                Settings("plugin", config=who, timeout=60, instances=instances),
                sink=self._sink,
            )
            for who, instances in (("A", 2), ("B", 4), ("C", 8))
        }

    def _sink(self, _: str, pod: Pod | None, journal: GuestJournal) -> None:
        assert pod is not None
        self._journals.setdefault(pod.uid, []).append(journal)

    def cases(self, seed: int, calls: int) -> Iterator[Case]:
        """Cases of at least so many calls of exports, always the same ones."""
        dice = random.Random(seed)
        while calls > 0:
            stage = dice.choice(list(STAGES))
            (state,) = dice.choices(list(MOODS), list(MOODS.values()))
            nodes = dice.sample(self._names, 1 if stage in {"preempt", "bind"} else dice.randint(1, 4))
            # What only a deadline ends is not tried where the deadline is that of the whole stage.
            points = [name for name in ("prefilter", *STAGES[stage]) if state != "s" or name in STEPS]
            tag = f"{seed:02x}{calls:06x}"
            yield Case(stage, state, dice.choice(points), dice.randrange(101), tag, dice.choice("ABC"), nodes)
            calls -= 1 + len(STAGES[stage])

    def run(self, seed: int, calls: int) -> int:
        """Runs and checks cases. Returns how many calls of exports there were."""
        count = 0
        for case in self.cases(seed, calls):
            self._check(case)
            count += 1 + len(STAGES[case.stage])
        return count

    def _check(self, case: Case) -> None:
        wanted = expected(case)
        got = self._call(case)
        if case.mood != "s" or not wanted.error:
            assert got == wanted, case
            return
        # The deadline may come before the guest has said anything.
        assert got.error in {wanted.error, wanted.error.partition("; the guest printed: ")[0]}, case
        assert got.results == wanted.results, case
        assert got.records == wanted.records[: len(got.records)], case

    def _call(self, case: Case) -> Outcome:
        results: list[object] = []
        error = ""
        nodes = Nodes(self._node_table, list(case.nodes))
        try:
            with self.plugins[case.who].guest(case.pod, nodes, case.stage) as (guest, deadline):
                results.append(guest.pre_filter)
                for name in filter(STEPS.__contains__, STAGES[case.stage]):
                    ends = time.monotonic() + SOON if case.mood == "s" and name == case.point else deadline
                    results.append(STEPS[name](core_guest(guest), nodes, ends))
        except GuestError as failure:
            error = str(failure)
        (journal,) = self._journals.pop(case.tag, [GuestJournal([], 0)])
        assert journal.dropped == 0
        return Outcome(results, error, journal.records)


def test_a_hundred_thousand_calls_from_many_threads(engine: WasmtimeEngine, open_instances: Callable[[], int]) -> None:
    """Nobody gets what is another one's: no result, no error, no log; and nothing is left of it all."""
    threads_before = {thread.ident for thread in threading.enumerate()}
    hammer = Hammer(engine)
    with ThreadPoolExecutor(THREADS) as threads:
        running = [threads.submit(hammer.run, seed, CALLS // THREADS) for seed in range(THREADS)]
        assert sum(done.result(PATIENCE_S) for done in running) >= CALLS
    for plugin in hammer.plugins.values():
        settle(plugin._pool)
        assert len(idle_guests(plugin._pool)) == len(plugin._pool)
    assert open_instances() == sum(len(plugin._pool) for plugin in hammer.plugins.values())
    for plugin in hammer.plugins.values():
        close(plugin)
    assert open_instances() == 0
    assert hammer._journals == {}
    assert {thread.ident for thread in threading.enumerate()} == threads_before
