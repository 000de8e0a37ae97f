"""Binds of one pod that are asked for at the same time: by a kube-scheduler that has hung up, or by two of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from extender.cluster import BindError, PodKey
from extender.scheduling.ledger_entry import State
from extender.webhook.protocol import Answer
from tests.extender.kwx import plugin, profile
from tests.extender.objects import NODE_NAMES, binding_args, names_args, pod
from tests.extender.rollouts.inside import Inside
from tests.patience import PATIENCE_S, eventually

STEPS = plugin("binding_from_config", "aaaaafa", name="a", timeout="30s")
REFUSED = "cannot bind pod default/web-7 to node node-7: the API server answered 409"


class Binder:
    """An API server that takes as long as the test wants, and lets each attempt succeed or not."""

    def __init__(self) -> None:
        self.attempts: list[str] = []
        self.outcomes: list[asyncio.Future[Exception | None]] = []

    async def bind(self, _: PodKey, node: str, __: Mapping[str, str]) -> None:
        self.attempts.append(node)
        outcome = asyncio.get_running_loop().create_future()
        self.outcomes.append(outcome)
        if error := await outcome:
            raise error


class Binds:
    """The binds of pod web-7."""

    def __init__(self, inside: Inside) -> None:
        self.inside = inside

    def begin(self, node: str = "node-7") -> asyncio.Future[str]:
        """What comes of a bind: its error."""
        answer = self.inside.begin_to_ask("/bind", binding_args(node, "web-7"))
        assert not isinstance(answer, Answer)

        async def error() -> str:
            return str(msgspec.json.decode((await answer).body)["Error"])

        return asyncio.ensure_future(error())

    async def begun(self, binder: Binder, node: str = "node-7") -> asyncio.Future[str]:
        """A bind that has come to the API server."""
        count = len(binder.attempts)
        task = self.begin(node)
        await eventually(lambda: len(binder.attempts) > count)
        return task

    @property
    def state(self) -> State | None:
        entry = self.inside.ledger.entries().get("uid-of-web-7")
        return entry and entry.state


async def ended(task: asyncio.Future[str]) -> str:
    return await asyncio.wait_for(task, PATIENCE_S)


@pytest.fixture
def binder() -> Binder:
    return Binder()


@pytest.fixture
def inside(tmp_path: Path, binder: Binder) -> Iterator[Inside]:
    with Inside(tmp_path, profile("default", STEPS), binder=binder, bind_timeout=60.0) as inside:
        inside.ledger.is_followed = True
        inside.ask("/filter", names_args(NODE_NAMES, pod("web-7")))
        yield inside


def test_one_that_is_asked_for_while_the_pod_is_being_bound_there_gets_the_same_answer(
    inside: Inside, binder: Binder
) -> None:
    async def twice() -> None:
        binds = Binds(inside)
        first = await binds.begun(binder)
        second = binds.begin()
        binder.outcomes[0].set_result(None)
        assert (await ended(first), await ended(second)) == ("", "")
        assert (binder.attempts, binds.state) == (["node-7"], State.CONFIRMED)

    inside.run(twice())


def test_one_that_is_asked_for_while_another_fails_is_an_attempt_of_its_own(inside: Inside, binder: Binder) -> None:
    async def thrice() -> None:
        binds = Binds(inside)
        first = await binds.begun(binder)
        second, third = binds.begin(), binds.begin()
        await asyncio.sleep(0)
        assert (binder.attempts, binds.state) == (["node-7"], State.BINDING)
        binder.outcomes[0].set_result(BindError(REFUSED))
        assert await ended(first) == REFUSED
        await eventually(lambda: len(binder.attempts) == 2)
        assert (second.done(), third.done(), binds.state) == (False, False, State.BINDING)
        binder.outcomes[1].set_result(None)
        assert (await ended(second), await ended(third)) == ("", "")
        assert (binder.attempts, binds.state) == (["node-7"] * 2, State.CONFIRMED)

    inside.run(thrice())


def test_one_to_another_node_is_refused_once_the_pod_is_bound(inside: Inside, binder: Binder) -> None:
    async def twice() -> None:
        binds = Binds(inside)
        first = await binds.begun(binder)
        second = binds.begin("node-6")
        binder.outcomes[0].set_result(None)
        assert await ended(first) == ""
        error = "bind refused: another bind has just bound pod default/web-7 to node node-7"
        assert await ended(second) == error
        assert (binder.attempts, binds.state) == (["node-7"], State.CONFIRMED)

    inside.run(twice())


def test_one_whose_time_is_over_while_another_is_under_way_is_refused(
    inside: Inside, binder: Binder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def twice() -> None:
        binds = Binds(inside)
        first = await binds.begun(binder)
        monkeypatch.setattr(inside.router._handlers["bind"], "_timeout", 0.0)
        assert await ended(binds.begin()) == (
            "bind refused: another bind of pod default/web-7 was under way until the end of server.bindTimeout"
        )
        assert binds.state is State.BINDING
        binder.outcomes[0].set_result(None)
        assert (await ended(first), binds.state) == ("", State.CONFIRMED)

    inside.run(twice())
