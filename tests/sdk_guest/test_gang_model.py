"""Gangs come and go while binds fail, the extender crashes and the policy is swapped: all or none, and no deadlock."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Final

import pytest

from extender.scheduling.profile import Profile, ProfilePlugin
from extender.scheduling.waiting_pods import WaitingPods
from tests.sdk_guest.gang_cluster import Cluster, facts
from wasm_runtime import Plugin, Settings
from wasm_runtime.engines.wasmtime import WasmtimeEngine

POLICY: Final = Path(__file__).parents[2] / "extender" / "policies" / "gang.wasm"
STEPS: Final = [
    pytest.param(32_000, id="short"),
    pytest.param(500_000, id="full", marks=[pytest.mark.nightly, pytest.mark.timeout(4 * 3600)]),
]
SETTLE_EVERY: Final = 1_000
YOUNG: Final = timedelta()
OLD: Final = timedelta(days=1_100)
"""Longer than the patience of all gangs, and far from the pauses in which old gangs let others go before."""


@pytest.fixture(scope="module")
def make_profile() -> Callable[[WaitingPods], Profile]:
    plugin = Plugin(WasmtimeEngine(), POLICY.read_bytes(), Settings("gang", instances=1, timeout=60.0))

    def make(waiting: WaitingPods) -> Profile:
        clone = plugin.clone(lambda *_: None, lambda *_: None, waiting)
        return Profile("default", [ProfilePlugin(clone)], top_nodes=1)

    return make


@pytest.fixture(params=[YOUNG, OLD], ids=["young", "old"])
def cluster(make_profile: Callable[[WaitingPods], Profile], request: pytest.FixtureRequest) -> Iterator[Cluster]:
    made = Cluster(random.Random(1), make_profile, datetime.now(timezone.utc) - request.param)
    yield made
    made.stop()


@pytest.mark.parametrize("steps", STEPS)
def test_gangs_are_bound_as_a_whole_and_none_waits_for_ever(
    cluster: Cluster, steps: int, request: pytest.FixtureRequest
) -> None:
    is_old = "old" in request.node.callspec.id
    acts: list[tuple[Callable[[], None], int]] = [
        (cluster.create, 30),
        (cluster.create_some, 40),
        (cluster.schedule, 200),
        (cluster.show, 400),
        (cluster.deliver, 200),
        (cluster.ask_again, 100),
        (cluster.pass_time, 100),
        (cluster.finish, 20),
        (cluster.delete, 3),
        (cluster.relist, 2),
        (cluster.crash, 1),
        (cluster.swap, 1),
    ]
    chances = [weight for _, weight in acts]
    for step, (act, _) in enumerate(cluster.dice.choices(acts, chances, k=steps), 1):
        try:
            act()
            cluster.check()
            if step % SETTLE_EVERY == 0:
                cluster.settle(in_order=is_old)
        except AssertionError as error:
            raise AssertionError(f"step {step} ({act.__name__}): {error}\n{facts(cluster)}") from error
    assert cluster.done.keys() == {"refused", "in doubt", "bound", "finished", "woken", "crash", "swap"}
