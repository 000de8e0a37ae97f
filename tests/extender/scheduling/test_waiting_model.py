"""Pods that wait while all happens that ends a wait: each has the end that came first, and no wake-up is lost."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import pytest

from extender.scheduling.binding_guests import RejectedError
from extender.scheduling.permit_rounds import PermitRounds
from extender.scheduling.waiting_pods import Wait, WaitingPods
from tests.clock import Clock
from tests.extender.scheduling.waits import LONG, Cycle
from tests.patience import Beside, wait_until

STEPS = [
    pytest.param(20_000, id="short"),
    pytest.param(1_000_000, id="full", marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
]
MOST_WAITING = 12
VERB_S = 20.0
CAUSES = ("allowed", "rejected", "deleted", "gone", "unsuitable", "late")


class Model:
    """The state of the cluster is a number. Plugin `p` lets a pod go on from some number on, or rejects it."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.clock = Clock()
        self.waiting = WaitingPods()
        self.level = 0
        self.born = 0
        self.needs: dict[str, int] = {}
        """By the name of each pod that waits, the number from which on the plugin lets it go on."""
        self.waits: dict[str, Wait] = {}
        self.contexts: dict[str, ExitStack] = {}
        self.ends: dict[str, str] = {}
        """By the name, what has ended the wait, of which the bind does not know yet."""
        self.done: Counter[str] = Counter()
        self.is_busy = False

    def says(self, name: str) -> bool | None:
        """What the plugin answers now. A pod whose number is a multiple of 7 is rejected at some levels."""
        if self.is_busy:
            return None
        if self.needs[name] % 7 == 0 and self.level % 5 == 0:
            raise RejectedError("plugin p: permit: Unschedulable: not here")
        return self.level >= self.needs[name]

    # -- what happens ------------------------------------------------------------------------------

    def begin(self) -> None:
        """A bind comes to Permit, and the cluster may change before it is among those that wait."""
        if len(self.waits) >= MOST_WAITING:
            return
        self.born += 1
        name = f"pod-{self.born}"
        self.needs[name] = self.level + self.dice.randint(1, 30)
        changes = self.waiting.changes
        if self.dice.random() < 0.3:
            self.change()
        cycle = Cycle(name, lambda _: self.says(name), self.clock.now + VERB_S)
        wait = self.waits[name] = Wait(cycle, {"p": self.dice.choice([1.0, 5.0, LONG])}, changes, self.clock)
        self.contexts[name] = ExitStack()
        self.contexts[name].enter_context(self.waiting.waiting(wait))

    def change(self) -> None:
        """Pods or nodes change."""
        self.level += self.dice.randint(0, 3)
        self.waiting.change()

    def ask(self) -> None:
        """A round, if one is due; while guests may be in use."""
        if not self.waiting.woken.is_set():
            return
        self.waiting.woken.clear()
        self.is_busy = self.dice.random() < 0.2
        for name in self.pending():
            if self.is_busy or self.waits[name].asked_at == self.waiting.changes:
                continue
            try:
                if self.says(name):
                    self.ends[name] = "allowed"
            except RejectedError:
                self.ends[name] = "unsuitable"
        self.waiting.ask_again()
        self.is_busy = False

    def allow(self) -> None:
        self.end("allowed", lambda wait: wait.allow())

    def reject(self) -> None:
        self.end("rejected", lambda wait: self.waiting.reject_waiting_pod(wait.pod.uid))

    def delete(self) -> None:
        self.end("deleted", lambda wait: self.waiting.delete(wait.pod.uid))

    def hang_up(self) -> None:
        self.end("gone", lambda wait: wait.reject("gone"))

    def end(self, cause: str, act: Callable[[Wait], object]) -> None:
        """Something ends the wait of a pod, also of one whose wait has just ended."""
        if self.waits:
            name = self.dice.choice(sorted(self.waits))
            act(self.waits[name])
            self.ends.setdefault(name, cause)

    def pass_time(self) -> None:
        """Some seconds pass, and waits end whose time is over."""
        self.clock.now += self.dice.random() * 3
        for name in self.pending():
            if self.clock.now >= min(self.waits[name].plugins.values()):
                self.ends[name] = "late"
        for wait in self.waits.values():
            wait.expire()

    def leave(self) -> None:
        """A bind learns that its wait is over."""
        for name in list(self.ends):
            self.contexts.pop(name).close()
            assert self.told(self.waits.pop(name)) == self.ends[name], name
            self.done[self.ends.pop(name)] += 1
            del self.needs[name]

    # -- what must hold ----------------------------------------------------------------------------

    def pending(self) -> list[str]:
        """The pods whose wait nothing has ended."""
        return [name for name in self.waits if name not in self.ends]

    def told(self, wait: Wait) -> str:
        """The end as the bind is told of it."""
        try:
            asyncio.run(wait.end())
        except RejectedError as error:
            message = str(error).removeprefix("plugin p: permit: ")
            return {
                "the pod was rejected while it waited": "rejected",
                "the pod was deleted while it waited": "deleted",
                "gone": "gone",
                "Unschedulable: not here": "unsuitable",
            }.get(message, "late")
        return "allowed"

    def check(self) -> None:
        """After each step."""
        assert [wait.pod.name.removeprefix("default/") for wait in self.waiting.waits()] == self.pending()
        for name, wait in self.waits.items():
            assert wait.is_over == (name in self.ends), (name, self.ends.get(name))
            knows_all = wait.is_over or wait.asked_at == self.waiting.changes
            assert knows_all or self.waiting.woken.is_set(), f"nobody is going to ask about {name}"


@pytest.mark.parametrize("steps", STEPS)
def test_each_wait_has_the_end_that_came_first_and_none_is_forgotten(steps: int) -> None:
    model = Model(random.Random(steps))
    acts: list[tuple[Callable[[], None], int]] = [
        (model.begin, 12),
        (model.change, 12),
        (model.ask, 12),
        (model.allow, 1),
        (model.reject, 1),
        (model.delete, 1),
        (model.hang_up, 1),
        (model.pass_time, 3),
        (model.leave, 6),
    ]
    chances = [weight for _, weight in acts]
    for step, (act, _) in enumerate(model.dice.choices(acts, chances, k=steps)):
        act()
        try:
            model.check()
        except AssertionError as error:
            raise AssertionError(f"step {step} ({act.__name__}): {error}") from error
    assert model.done.keys() == set(CAUSES)


# -- many at once, in real threads -----------------------------------------------------------------

PODS = 1_000
MAX_NEED = 50


class Crowd:
    """Pods that wait until the level is high enough for each."""

    def __init__(self) -> None:
        dice = random.Random(PODS)
        self.waiting = WaitingPods()
        self.level = 0
        self.needs = {f"pod-{at}": dice.randint(1, MAX_NEED) for at in range(PODS)}

    def raise_level(self, times: int) -> None:
        """The cluster changes so many times."""
        for _ in range(times):
            self.level += 1
            self.waiting.change()

    def interfere(self, act: Callable[[Wait], object], seed: int) -> None:
        """Ends the waits of a fifth of the pods, of those that still wait."""
        for name in random.Random(seed).sample(sorted(self.needs), PODS // 5):
            if wait := self.waiting.find(f"uid-of-{name}"):
                act(wait)

    async def bind_all(self) -> Counter[str]:
        """How the waits of all pods have ended."""
        return Counter(await asyncio.gather(*map(self._bind, self.needs)))

    async def _bind(self, name: str) -> str:
        changes = self.waiting.changes
        wait = Wait(Cycle(name, lambda _: self.level >= self.needs[name]), {"p": LONG}, changes)
        with self.waiting.waiting(wait):
            try:
                await wait.end()
            except RejectedError as error:
                return str(error)
        return ""


def test_a_thousand_pods_wait_without_a_thread_each_and_all_end() -> None:
    """While plugins are asked, others end waits, also of pods that cannot go on yet. The last change lets all go on."""
    crowd, threads = Crowd(), threading.active_count()
    rounds = PermitRounds(crowd.waiting)
    acts: list[Callable[[Wait], object]] = [
        lambda wait: crowd.waiting.reject_waiting_pod(wait.pod.uid),
        lambda wait: crowd.waiting.delete(wait.pod.uid),
        Wait.allow,
    ]
    rounds.start()
    try:
        binds = Beside(lambda: asyncio.run(crowd.bind_all()))
        wait_until(lambda: len(crowd.waiting.waits()) == PODS, lambda: f"{len(crowd.waiting.waits())} pods wait")
        assert threading.active_count() <= threads + 2
        others = [Beside(partial(crowd.interfere, act, seed)) for seed, act in enumerate(acts)]
        for other in [Beside(partial(crowd.raise_level, MAX_NEED - 1)), *others]:
            other.end()
        crowd.raise_level(1)
        ends = binds.end()
    finally:
        rounds.stop()
    assert ends.keys() == {
        "",
        "plugin p: permit: the pod was rejected while it waited",
        "plugin p: permit: the pod was deleted while it waited",
    }
    assert (ends.total(), crowd.waiting.waits()) == (PODS, [])
