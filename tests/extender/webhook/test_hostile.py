"""Hostile modules go live one after the other: the process lives, and a neighbour is answered as without them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.extender import guests
from tests.extender.kwx import Extender, plugin, profile
from tests.extender.objects import NODE_NAMES, filtered, names_args, pod, priorities
from tests.extender.rollouts.test_swaps import put
from tests.patience import wait_until
from tests.wasm_runtime.fuzz.cases import Cases
from tests.wasm_runtime.module.test_shapes import exports

LIMITS: dict[str, Any] = {
    "timeout": "100ms",
    "memoryLimit": "16Mi",
    "tableLimit": 65_536,
    "outputLimit": "1Ki",
    "instances": 2,
}
KNOWN = ("spin", "recurse", "grow_memory", "grow_table", "log", "print", "ask", "trap", "exit", "unknown_import")
MANY = 130
ENDS = ("revision is live", "revision refused, what serves stays live: ", "revision is rolled back: ")

GOOD = (plugin("filter_by_digit", "72ends in 7"), plugin("score_by_digit"))
GOOD_FILTER = filtered([name for name in NODE_NAMES if name != "node-7"], failed={"node-7": "ends in 7"})
GOOD_SCORES = priorities({name: int(name[-1]) for name in NODE_NAMES})

GROWTH_KIB = 64 * 1024
"""What a process may take more after many modules: code that is compiled and dropped leaves holes."""


def known() -> Iterator[bytes]:
    """Each does no good in a way of its own; some cannot even be loaded."""
    yield from map(guests.module, KNOWN)
    yield exports(60_000)
    yield b"\0asm"


def invented(seed: int) -> Iterator[bytes]:
    """Modules that nobody would write, each another one."""
    cases, seen = Cases(seed), set[bytes]()
    for number in range(10 * MANY):
        if (wasm := cases[number]) not in seen:
            seen.add(wasm)
            yield wasm


class Hostile:
    """An extender with a good profile, and one whose only plugin becomes one hostile module after the other."""

    def __init__(self, extender: Extender) -> None:
        self.extender = extender
        self.ends: set[str] = set()
        self._asked = 0

    def bring(self, wasm: bytes) -> None:
        """Brings a module live, or has it refused, while both profiles are asked."""
        before = len(self._rollouts())
        put(self.extender.folder / "swapped.wasm", wasm)

        def is_over() -> bool:
            self.ask()
            return len(self._rollouts()) > before

        wait_until(is_over, "the module is live or refused")
        self.ends.add(next(end for end in ENDS if self._rollouts()[before].startswith(end)))
        for _ in range(2):
            self.ask()

    def ask(self) -> None:
        """The hostile profile is asked whatever it answers, the good one and health answer right."""
        self._asked += 1
        for verb in ("filter", "prioritize"):
            self._post("hostile", verb)
        assert self._post("good", "filter") == GOOD_FILTER
        assert self._post("good", "prioritize") == GOOD_SCORES
        assert self.extender.admin.get("/livez").text == "ok"

    def resident_kib(self) -> int:
        """What the process takes."""
        status = Path(f"/proc/{self.extender.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])

    def _post(self, name: str, verb: str) -> Any:
        return self.extender.post(f"/profiles/{name}/{verb}", names_args(the_pod=pod(f"web-{self._asked}")))

    def _rollouts(self) -> list[str]:
        """How rollouts of the hostile plugin have ended."""
        lines = [line["event"] for line in self.extender.log() if line.get("plugin") == "swapped"]
        return [line for line in lines if line.startswith(ENDS)]


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Hostile]:
    put(tmp_path / "swapped.wasm", guests.module("nodenumber"))
    swapped = plugin("swapped", failurePolicy="Ignore", swap={"rollback": "manual"}, **LIMITS)
    with Extender(tmp_path, profile("good", *GOOD), profile("hostile", swapped)) as extender:
        yield Hostile(extender)


def bring_all(hostile: Hostile, modules: Iterable[bytes]) -> None:
    for wasm in modules:
        hostile.bring(wasm)
    hostile.bring(guests.module("score_by_digit"))
    assert {"revision is live", "revision refused, what serves stays live: "} <= hostile.ends


def test_a_dozen_hostile_modules_live(hostile: Hostile) -> None:
    bring_all(hostile, known())


@pytest.mark.nightly
@pytest.mark.timeout(3600)  # Each module is compiled, goes live, and is asked until its pods are judged.
def test_130_hostile_modules_live(hostile: Hostile) -> None:
    """Half of them first, so that what all keep is there before it is measured."""
    modules = invented(7)
    bring_all(hostile, islice(modules, MANY // 2))
    before = hostile.resident_kib()
    bring_all(hostile, islice(modules, MANY - MANY // 2))
    assert hostile.resident_kib() < before + GROWTH_KIB
