"""Threads that others rely on: what ends one is told, and it goes on."""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import extender
import wasm_runtime
from tests.patience import PATIENCE_S, Beside, wait_until
from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import SPIN, export, module
from tests.wasm_runtime.world import filter_nodes, world
from wasm_runtime import Fault, GuestError, WasmtimeEngine, supervision
from wasm_runtime.supervision import FIRST_PAUSE_S, MAX_PAUSE_S, SETTLED_S, Supervised, SupervisedThread, ThreadError

NO_THREAD = "can't start new thread"


class Turns:
    """A supervised thread that takes a turn each time that it is let."""

    def __init__(self) -> None:
        self.thread = SupervisedThread("clock", self._turn)
        self.error: BaseException | None = None
        """What the next turn raises."""
        self.taken = 0
        self._may = threading.Semaphore(0)

    def _turn(self) -> float:
        assert self._may.acquire(timeout=PATIENCE_S)
        error, self.error = self.error, None
        self.taken += 1
        if error:
            raise error
        return 0.0

    def take(self, error: BaseException | None = None) -> None:
        before, self.error = self.taken, error
        self._may.release()
        wait_until(lambda: self.taken > before, "a turn is taken")

    def end(self) -> None:
        self.thread.stop()
        self._may.release()
        self.thread.join(60)
        assert not self.thread.is_alive()


@pytest.fixture
def turns() -> Iterator[Turns]:
    turns = Turns()
    yield turns
    turns.end()


@pytest.mark.parametrize("error", [OSError("it is gone"), MemoryError("no room"), SystemExit(3)], ids=type)
def test_a_turn_that_fails_is_told_until_one_goes_well(turns: Turns, error: BaseException) -> None:
    turns.thread.start()
    turns.take()
    assert turns.thread.problem == ""
    turns.take(error)
    said = f"clock has failed and is begun anew: {error!r}"
    wait_until(lambda: turns.thread.problem == said, "it is told")
    assert said in supervision.problems(vital=False)
    assert said not in supervision.problems(vital=True)
    turns.take()
    wait_until(lambda: turns.thread.problem == "", "it is well again")
    assert threading.current_thread().ident != turns.thread.ident


def test_the_same_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    supervised = Supervised("watch")
    for error in (OSError("a"), OSError("a"), OSError("b")):
        supervised.failed(error)
    assert [record.getMessage() for record in caplog.records] == ["watch has failed and is begun anew"] * 2


def test_it_goes_on_later_each_time_until_it_has_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    supervised, now = Supervised("watch"), 0.0
    # Not the process's own clock: by that the clock of guests, which may run, would sleep for hours.
    monkeypatch.setattr(supervision, "time", SimpleNamespace(monotonic=lambda: now))
    error = OSError("it is gone")
    pauses = []
    for _ in range(11):
        supervised.begins()
        pauses.append(supervised.failed(error))
    assert pauses == [min(FIRST_PAUSE_S * 2**at, MAX_PAUSE_S) for at in range(11)]
    supervised.begins()
    assert supervised.problem == f"watch has failed and is begun anew: {error!r}"
    now = SETTLED_S + 1
    assert supervised.problem == ""
    assert supervised.failed(error) == FIRST_PAUSE_S


def test_one_that_cannot_be_started_is_told_and_started_when_it_can(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError(NO_THREAD)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(ThreadError) as caught:
            turns.thread.start()
        supervision.revive()
    assert str(caught.value) == (
        f"thread clock cannot be started: {NO_THREAD}; let this process have more threads (pids) or memory"
    )
    assert turns.thread.problem == f"clock has failed and is begun anew: {RuntimeError(NO_THREAD)!r}"
    supervision.revive()
    turns.take()
    wait_until(lambda: turns.thread.problem == "", "it is well")


def test_one_that_ends_all_the_same_is_told_and_started_again(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a lack of memory in what was to keep it going."""

    def fail(_: object) -> float:
        raise MemoryError("no room")

    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    turns.thread.start()
    turns.thread.failed = fail  # type: ignore[method-assign, assignment]
    turns.take(OSError("it is gone"))
    turns.thread.join(60)
    assert turns.thread.problem == "clock has ended and is begun anew"
    del turns.thread.failed
    supervision.revive()
    turns.take()
    wait_until(lambda: turns.thread.problem == "", "it is well")


def test_one_that_is_being_started_is_not_started_twice(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads of sources are started by another thread than the one that looks for those that have ended."""
    start = threading.Thread.start
    was_looked_for = threading.Event()

    def start_slowly(thread: threading.Thread) -> None:
        if thread.name == "clock" and not was_looked_for.is_set():
            was_looked_for.set()
            Beside(supervision.revive).end()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_slowly)
    turns.thread.start()
    assert was_looked_for.is_set()
    assert [thread.name for thread in threading.enumerate() if thread.name == "clock"] == ["clock"]


def test_one_that_was_stopped_is_left_alone(turns: Turns) -> None:
    turns.thread.start()
    turns.end()
    supervision.revive()
    assert not turns.thread.is_alive()
    assert not [problem for problem in supervision.problems(vital=False) if "clock" in problem]


def test_guests_are_interrupted_after_their_clock_has_failed(
    engine: WasmtimeEngine, load: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = threading.Event()

    def fail() -> None:
        monkeypatch.undo()
        failed.set()
        raise MemoryError("no room")

    plugin = load.plugin(module(export("filter", SPIN, "(i32.const 0)")), timeout=0.3)
    monkeypatch.setattr(engine.native, "increment_epoch", fail)
    with pytest.raises(GuestError) as caught:
        filter_nodes(plugin, world())
    assert failed.is_set()
    assert caught.value.fault is Fault.DEADLINE


SHORT_LIVED = {
    "wasm_runtime/compile/child.py": "ends with the child",
    "wasm_runtime/guests/maker.py": "makes what is due, and ends",
    "wasm_runtime/supervision.py": "is the mechanism",
    "extender/webhook/workers.py": "carries a verb out; one that is missing is started",
    "extender/rollouts/startup.py": "fetches at the start",
    "extender/rollouts/controller.py": "carries an order out",
    "extender/commands/demo/swap.py": "is a demonstration's",
    "extender/commands/demo/child.py": "ends the process with its parent",
}
"""Where threads are made that nobody else relies on, and why."""


def test_all_other_threads_are_supervised() -> None:
    for package in (wasm_runtime, extender):
        root = Path(package.__file__ or "").parent
        for path in root.rglob("*.py"):
            name = path.relative_to(root.parent).as_posix()
            nodes = list(ast.walk(ast.parse(path.read_text())))
            calls = [node.func for node in nodes if isinstance(node, ast.Call)]
            bases = [base for node in nodes if isinstance(node, ast.ClassDef) for base in node.bases]
            makes = any(ast.unparse(each).endswith("threading.Thread") for each in (*calls, *bases))
            assert not makes or name in SHORT_LIVED, f"{name} makes a thread that is not supervised"
