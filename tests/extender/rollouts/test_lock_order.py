"""Locks are taken in the order that ARCHITECTURE has: whoever has one takes only those below it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from extender import config
from extender.rollouts.config_rollout import NotConfiguredError
from extender.rollouts.swap_command import SwapRefusedError
from tests.extender import kwx, versions
from tests.extender.kwx import plugin, profile
from tests.extender.rollouts.inside import Inside
from tests.extender.rollouts.test_swaps import put
from tests.patience import PATIENCE_S, Beside

RANKS = {
    "turn of the first slot": 0,
    "turn of the second slot": 1,
    "Switch.lock": 2,
    "Store._lock": 3,
    "Compiler._turn": 3,
    "Engines._lock": 4,
    "Compiler._lock": 4,
    "Journal._lock": 5,
    "Drain._lock": 5,
    "Store._id_lock": 5,
}
"""From the outermost on. A change of the configuration takes the turns of several slots, in their order."""

ROUNDS = 3


class Order:
    """Which locks threads took while they had which."""

    def __init__(self) -> None:
        self.taken: set[tuple[str, str]] = set()
        """The one that a thread had, and the one that it took."""
        self._held = threading.local()

    def watch(self, owner: Any, attribute: str, name: str) -> Watched:
        """Puts a watched lock in the place of one that nobody has."""
        lock = Watched(getattr(owner, attribute), name, self)
        setattr(owner, attribute, lock)
        return lock

    @property
    def held(self) -> list[str]:
        """What this thread has, as often as it has taken it."""
        held: list[str] = self._held.__dict__.setdefault("names", [])
        return held

    @property
    def wrong(self) -> set[tuple[str, str]]:
        """What was taken against the order."""
        return {(had, took) for had, took in self.taken if RANKS[took] <= RANKS[had]}


class Watched:
    """A lock that tells when it is taken."""

    def __init__(self, lock: Any, name: str, order: Order) -> None:
        self._lock = lock
        self._name = name
        self._order = order

    def acquire(self, *args: Any, **more: Any) -> bool:
        held = self._order.held
        if self._name not in held:
            self._order.taken |= {(had, self._name) for had in held}
        taken: bool = self._lock.acquire(*args, **more)
        if taken:
            held.append(self._name)
        return taken

    def release(self) -> None:
        self._order.held.remove(self._name)
        self._lock.release()

    def __enter__(self) -> None:
        assert self.acquire(timeout=PATIENCE_S), f"nobody has released {self._name}"

    def __exit__(self, *_: object) -> None:
        self.release()


def watch(inside: Inside) -> Order:
    """Watches the locks of rollouts. Nothing may be under way."""
    order = Order()
    for slot, name in zip(inside.live.slots, RANKS, strict=False):
        order.watch(slot, "turn", name)
    rollouts = inside.rollouts
    lock = order.watch(rollouts._switch, "lock", "Switch.lock")
    rollouts._lock = rollouts._runs._lock = lock  # type: ignore[assignment]
    order.watch(rollouts._store, "_lock", "Store._lock")
    order.watch(rollouts._store, "_id_lock", "Store._id_lock")
    order.watch(rollouts.journal, "_lock", "Journal._lock")
    order.watch(rollouts._drain, "_lock", "Drain._lock")
    engines = rollouts._pipeline._plugin_factory._engines
    order.watch(engines, "_lock", "Engines._lock")
    for compiler in engines._compilers.values():
        order.watch(compiler, "_turn", "Compiler._turn")
        order.watch(compiler, "_lock", "Compiler._lock")
    return order


def profiles(**more: Any) -> list[dict[str, Any]]:
    swap = {"slowdownFloor": "10s", "rollbackTime": "1s"}
    return [profile("default", *(plugin(name, swap=swap, **more) for name in ("told", "other")), scoreRange=100)]


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Inside]:
    for name in ("told", "other"):
        put(tmp_path / f"{name}.wasm", versions.module(10))
    with Inside(tmp_path, *profiles()) as inside:
        yield inside


def test_rollouts_take_locks_in_one_order(inside: Inside) -> None:
    """Uploads, rollbacks, sources, reloads and those who only look, all at the same time."""
    order = watch(inside)
    is_over = threading.Event()

    def upload() -> None:
        for version in range(20, 20 + ROUNDS):
            with suppress(SwapRefusedError):
                inside.over(inside.begin(versions.module(version)))
            with suppress(SwapRefusedError):
                inside.over(inside.rollouts.roll_back(inside.slot(), by="ann"))

    def offer() -> None:
        for version in range(30, 30 + ROUNDS):
            put(inside.folder / "told.wasm", versions.module(version))
            inside.offer()

    def reload() -> None:
        for weight in range(1, 1 + ROUNDS):
            kwx.write(inside.folder, kwx.configuration(*profiles(weight=weight)))
            with suppress(NotConfiguredError):
                inside.rollouts.admission.enforce(config.read(inside.config).profiles)
                inside.rollouts.configuration.apply(config.read(inside.config).profiles)

    def look() -> None:
        while not is_over.is_set():
            inside.reconcile()
            inside.rollouts.revisions(inside.slot())
            inside.rollouts.history(10)

    work: list[Callable[[], None]] = [upload, offer, reload]
    looking, working = Beside(look), [Beside(each) for each in work]
    for each in working:
        each.end()
    is_over.set()
    looking.end()
    assert order.wrong == set()
    assert order.taken >= {
        ("turn of the first slot", "turn of the second slot"),
        ("turn of the first slot", "Switch.lock"),
        ("turn of the first slot", "Compiler._turn"),
        ("turn of the first slot", "Store._lock"),
        ("Switch.lock", "Journal._lock"),
        ("Switch.lock", "Drain._lock"),
        ("Compiler._turn", "Compiler._lock"),
    }
    assert not {("Switch.lock", "Store._lock"), ("Switch.lock", "Compiler._turn")} & order.taken  # They wait for disks.


def test_what_is_taken_against_the_order_is_found() -> None:
    order = Order()
    outer, inner = (Watched(threading.RLock(), name, order) for name in ("Switch.lock", "Journal._lock"))
    with outer, inner, outer:
        pass
    assert (order.taken, order.wrong) == ({("Switch.lock", "Journal._lock")}, set())
    with inner, outer:
        pass
    assert order.wrong == {("Journal._lock", "Switch.lock")}
