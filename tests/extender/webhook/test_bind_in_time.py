"""What bind answers if the default binder does not come back in time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from extender.cluster import PodKey
from extender.scheduling.decisions import Bound
from extender.webhook import bind_handler
from extender.webhook.bind_handler import MAX_REQUESTS
from extender.webhook.protocol import Answer
from tests.clock import Clock
from tests.extender.kwx import plugin, profile
from tests.extender.objects import binding_args
from tests.extender.rollouts.inside import Inside
from tests.patience import PATIENCE_S, delay

BIND_TIMEOUT_S = 0.2
STEPS = plugin("binding_from_config", "aaaaafa", name="a")
NOT_KNOWN = (
    "it is not known whether pod default/web-7 is bound to node node-7: the bind did not end within server.bindTimeout;"
    " kube-scheduler tries the pod again, and the API server refuses one that is bound"
)


@dataclass
class Binder:
    """Takes part of its time on the loop, where nobody can end it, and the rest beside it."""

    on_loop_s: float
    ends: list[str] = field(default_factory=list)

    async def bind(self, pod: PodKey, node: str, _: Mapping[str, str]) -> None:
        delay(self.on_loop_s)  # As a guest that spins there.
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.ends.append(f"cancelled: {pod} to {node}")
            raise


@pytest.mark.parametrize("on_loop_s", [0.0, BIND_TIMEOUT_S + 1.5], ids=["beside-the-loop", "on-the-loop"])
def test_a_bind_that_takes_too_long_is_ended_and_said_to_be_unknown(tmp_path: Path, on_loop_s: float) -> None:
    binder = Binder(on_loop_s)
    with Inside(tmp_path, profile("default", STEPS), binder=binder, bind_timeout=BIND_TIMEOUT_S) as inside:
        inside.filter("web-7")
        assert inside.bind("web-7") == NOT_KNOWN
        inside.filter("web-8")
        assert binder.ends == ["cancelled: default/web-7 to node-7"]


@dataclass
class CountingBinder:
    """Counts whom it is asked for, and how many at a time."""

    takes_s: float = 0.0
    asked: list[str] = field(default_factory=list)
    at_a_time: int = 0
    most: int = 0

    async def bind(self, pod: PodKey, node: str, _: Mapping[str, str]) -> None:
        self.asked.append(f"{pod} to {node}")
        self.at_a_time += 1
        self.most = max(self.most, self.at_a_time)
        try:
            await asyncio.sleep(self.takes_s)
        except asyncio.CancelledError:
            delay(BIND_TIMEOUT_S)  # The others' time is over as well.
            raise
        finally:
            self.at_a_time -= 1


PODS = [f"web-{at}" for at in range(MAX_REQUESTS + 5)]


def bind_at_once(folder: Path, binder: CountingBinder, timeout_s: float) -> Sequence[str]:
    """What the answers say where all pods are to be bound at once, by no plugin."""
    with Inside(folder, profile("default", plugin("filter_by_digit")), binder=binder, bind_timeout=timeout_s) as inside:
        for name in PODS:
            inside.filter(name)

        async def bind(name: str) -> str:
            answer = inside.begin_to_ask("/bind", binding_args(pod_name=name))
            assert not isinstance(answer, Answer)
            return str(json.loads((await answer).body)["Error"])

        async def bind_all() -> Sequence[str]:
            return await asyncio.gather(*map(bind, PODS))

        return inside.run(bind_all())


def test_the_api_server_is_asked_for_some_binds_at_a_time(tmp_path: Path) -> None:
    binder = CountingBinder()
    assert bind_at_once(tmp_path, binder, PATIENCE_S) == [""] * len(PODS)
    assert sorted(binder.asked) == sorted(f"default/{name} to node-7" for name in PODS)
    assert binder.most == MAX_REQUESTS


def test_a_bind_whose_turn_does_not_come_in_time_is_said_not_to_have_been_tried(tmp_path: Path) -> None:
    binder = CountingBinder(takes_s=PATIENCE_S)
    answers = bind_at_once(tmp_path, binder, BIND_TIMEOUT_S)
    assert binder.asked == [f"default/{name} to node-7" for name in PODS[:MAX_REQUESTS]]
    assert answers[:MAX_REQUESTS] == [NOT_KNOWN.replace("web-7", name) for name in PODS[:MAX_REQUESTS]]
    assert answers[MAX_REQUESTS:] == [
        f"cannot bind pod default/{name} to node node-7:"
        " no time was left of server.bindTimeout; raise it, and the extender's httpTimeout with it"
        for name in PODS[MAX_REQUESTS:]
    ]


def test_how_long_a_bind_took_does_not_hang_on_the_time_of_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elapsed, day = Clock(), Clock()
    monkeypatch.setattr(bind_handler, "time", SimpleNamespace(monotonic=elapsed, time=day))
    began = day.now

    class SettingTheClock:
        """Takes two seconds, in which the machine's clock is put back by an hour."""

        async def bind(self, *_: object) -> None:
            elapsed.now += 2
            day.now -= 3600

    with Inside(tmp_path, profile("default", plugin("filter_by_digit")), binder=SettingTheClock()) as inside:
        inside.filter("web-7")
        assert inside.bind("web-7") == ""
        (attempt,) = inside.decisions.find("default", "web-7")
    assert attempt.bound == Bound(began, "node-7", 2.0, "")
