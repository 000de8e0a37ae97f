"""A revision that fails, or is slow, goes back by itself; one that proves good stays."""

from __future__ import annotations

import base64
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import wasmtime
import yaml

from extender import config
from extender.rollouts import drain
from extender.rollouts.revision import RolloutStage
from extender.rollouts.rollout import Rollout
from extender.sources.signing import PublicKey
from tests.extender import guests, kwx
from tests.extender.kwx import Extender, plugin, profile
from tests.extender.objects import filtered, names_args, pod
from tests.extender.rollouts.inside import Inside
from tests.extender.rollouts.test_swaps import put
from tests.extender.sources.signer import Signer
from tests.patience import Beside
from wasm_runtime.blob import digest

GOOD, BETTER = guests.constant_score(10), guests.constant_score(90)
ONE = ["node-7"]


def on_bad_pods(what: str) -> bytes:
    """A module that does something wherever it is asked about a pod in whose name `bad` stands, with that setting."""
    text = guests.text("trap_on_pod").replace("unreachable", what)
    text = text.replace("(call $look) (i32.const 0)", "(call $look) (global.get $status)")
    status = "(global $status (mut i32) (i32.const 0))"
    return bytes(wasmtime.wat2wasm(text.replace("(func $stands_at", f"{status} (func $stands_at", 1)))


TRAPS = on_bad_pods("unreachable")
SPINS = on_bad_pods("(loop $spin (br $spin))")
FAILS = on_bad_pods("(global.set $status (i32.const 1))")
TOILS = on_bad_pods(
    "(local.set $length (i32.const 1)) (loop $toil"
    " (br_if $toil (i32.lt_u (local.tee $length (i32.add (local.get $length) (i32.const 1))) (i32.const 20000000))))"
    " (return)"
)
SETTINGS = {"guestConfig": "bad", "timeout": "1s"}


def swapped(**swap: Any) -> dict[str, Any]:
    return plugin("told", **SETTINGS, swap={"slowdownFloor": "10s", **swap})


@contextmanager
def start(folder: Path, module: bytes = GOOD, *, policy: str = "Fail", **swap: Any) -> Iterator[Inside]:
    put(folder / "told.wasm", module)
    with Inside(folder, profile("default", swapped(**swap) | {"failurePolicy": policy})) as inside:
        yield inside


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Inside]:
    with start(tmp_path) as inside:
        yield inside


def ask(inside: Inside, count: int, name: str = "bad") -> None:
    for at in range(count):
        inside.filter(f"{name}-{at}", names=ONE)


def write(inside: Inside, *plugins: Mapping[str, Any]) -> None:
    """Makes another configuration live."""
    kwx.write(inside.folder, kwx.configuration(profile("default", *plugins)))
    inside.rollouts.configuration.apply(config.read(inside.config).profiles)


def story(inside: Inside) -> list[tuple[RolloutStage, str, str, str]]:
    """Stage, who, why and what went wrong of each rollout but the first, the newest first."""
    rollouts = inside.rollouts.history(10, "default", "told")
    return [(each.stage, each.by, each.why, each.problem) for each in rollouts if each.by != "start"]


CAUSES = {
    "trap": (TRAPS, "trap: unreachable in look < filter"),
    "deadline": (SPINS, "interrupted at its timeout of 100 ms; mend the guest, or raise the plugin's timeout"),
    "status": (FAILS, "Error without a reason"),
}


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize("cause", CAUSES)
def test_a_revision_that_fails_goes_back_and_the_history_says_why(tmp_path: Path, cause: str, policy: str) -> None:
    module, message = CAUSES[cause]
    with start(tmp_path, policy=policy) as inside:
        good = inside.active()
        bad = inside.upload(module, settings={"timeout": "100ms"})
        ask(inside, 2)
        inside.reconcile()
        assert inside.active() == bad  # Two are not enough.
        ask(inside, 1)
        inside.reconcile()
        assert inside.active() == good
        problem = (
            "3 of 3 calls since the switch have failed, the last one by: plugin told"
            f" ({digest(module)[:19]}): filter of node node-7: {message}"
        )
        assert story(inside) == [
            (RolloutStage.ACTIVE, "rollback", f"revision {bad}: {problem}", ""),
            (RolloutStage.DRAINING, "ann", "", problem),
        ]
        assert inside.filter("bad-9", names=ONE) == filtered(ONE)


@pytest.mark.parametrize("is_touched", [False, True], ids=["same", "touched"])
def test_what_was_bad_does_not_come_again_while_the_source_still_gives_it(inside: Inside, is_touched: bool) -> None:
    good = inside.active()
    put(inside.folder / "told.wasm", TRAPS)
    assert inside.offer()
    ask(inside, 3)
    inside.reconcile()
    assert inside.active() == good
    if is_touched:
        put(inside.folder / "told.wasm", TRAPS)
        os.utime(inside.folder / "told.wasm", (0, 0))
    assert inside.offer()
    assert (inside.active(), len(story(inside))) == (good, 2)

    put(inside.folder / "told.wasm", BETTER)
    assert inside.offer()
    assert inside.score("any") == 9


def test_a_revision_goes_back_where_nobody_else_looks_after_it(tmp_path: Path) -> None:
    """In `kwx serve`, within a second or so."""
    put(tmp_path / "told.wasm", GOOD)
    with Extender(tmp_path, profile("default", swapped())) as extender:
        put(tmp_path / "told.wasm", TRAPS)
        extender.wait_until(lambda: len(extender.events("revision is live")) == 1)
        for at in range(3):
            assert extender.post("/filter", names_args(ONE, pod(f"bad-{at}")))["Error"]
        begun = time.monotonic()
        extender.wait_until(lambda: len(extender.events("revision is live")) == 2)
        print(f"gone back after {time.monotonic() - begun:.2f} s")
        assert [(line["requested_by"], line["module_digest"]) for line in extender.events("revision is live")] == [
            ("source", digest(TRAPS)),
            ("rollback", digest(GOOD)),
        ]
        assert extender.post("/filter", names_args(ONE, pod("bad-9"))) == filtered(ONE)


def test_failures_that_every_revision_would_have_do_not_count(inside: Inside) -> None:
    """The example wants the objects of nodes, and there are only names."""
    new = inside.upload(guests.module("accelerator"), settings={"guestConfig": ""})
    for at in range(5):
        request = names_args(ONE, pod(f"web-{at}", annotations={"kwx.dev/accelerator": "h100"}))
        assert "only names were given" in inside.ask("/filter", request)["Error"]
    inside.reconcile()
    assert (inside.active(), inside.slot().live.profile_plugin.stats.failures) == (new, 0)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("swap", "good", "borne"), [({}, 40, 4), ({"rollbackFailures": 5}, 0, 4)], ids=["share", "number"]
)
def test_a_few_failures_are_borne(tmp_path: Path, swap: Mapping[str, Any], good: int, borne: int) -> None:
    with start(tmp_path, **swap) as inside:
        first = inside.active()
        new = inside.upload(TRAPS)
        ask(inside, good, "good")
        ask(inside, borne)
        inside.reconcile()
        assert inside.active() == new
        ask(inside, 1)
        inside.reconcile()
        assert inside.active() == first


def test_who_fails_no_more_often_than_the_one_before_stays(tmp_path: Path) -> None:
    with start(tmp_path, FAILS) as inside:
        ask(inside, 3)
        second = inside.upload(TRAPS)
        ask(inside, 5)
        inside.reconcile()
        assert inside.active() == second


def test_one_that_is_much_slower_goes_back(tmp_path: Path) -> None:
    with start(tmp_path, slowdownFloor="1ms") as inside:
        first = inside.active()
        ask(inside, 20, "good")
        slow = inside.upload(TOILS)
        ask(inside, 19)
        inside.reconcile()
        assert inside.active() == slow
        ask(inside, 1)
        inside.reconcile()
        assert inside.active() == first
        ((_, by, why, _), (_, _, _, problem)) = story(inside)
        assert (by, why) == ("rollback", f"revision {slow}: {problem}")
        assert re.sub(r"\d+\.\d+ ms", "N ms", problem) == (
            "filter takes N ms of the processor (mean of 20), N ms before the switch; that is more than"
            " swap.slowdownFactor 3 and swap.slowdownFloor 1 ms allow"
        )


def test_nobody_goes_back_for_another_plugins_slowness(tmp_path: Path) -> None:
    for name in ("told", "other"):
        put(tmp_path / f"{name}.wasm", GOOD)
    settings: dict[str, Any] = {"swap": {"slowdownFloor": "1ms"}, **SETTINGS}
    with Inside(tmp_path, profile("default", *(plugin(name, **settings) for name in ("told", "other")))) as inside:
        ask(inside, 20, "good")
        good, new = inside.active("other"), inside.upload(BETTER)
        inside.over(inside.begin(TOILS, plugin="other"))
        ask(inside, 20)
        inside.reconcile()
        assert (inside.active("other"), inside.active()) == (good, new)


def test_by_hand_means_by_hand(tmp_path: Path) -> None:
    with start(tmp_path, rollback="manual") as inside:
        bad = inside.upload(TRAPS)
        ask(inside, 10)
        inside.reconcile()
        assert (inside.active(), inside.slot().standby) == (bad, None)


@pytest.mark.parametrize("what", ["digest", "publicKey"])
def test_nothing_goes_back_that_the_configuration_does_not_allow_any_more(tmp_path: Path, what: str) -> None:
    """And that is tried once."""
    sign = Signer(tmp_path)
    put(tmp_path / "told.wasm.sig", base64.b64encode(sign(TRAPS)))
    allowed = {"digest": digest(TRAPS)} if what == "digest" else {"source": {"publicKey": "cosign.pub"}}
    with start(tmp_path) as inside:
        put(tmp_path / "told.wasm", TRAPS)
        write(inside, swapped() | allowed)
        bad = inside.active()
        ask(inside, 3)
        for _ in range(3):
            inside.reconcile()
        assert (inside.active(), inside.slot().standby) == (bad, None)
        origin = str(tmp_path / "told.wasm")
        problems = {
            "digest": f"{origin} has digest {digest(GOOD)}, the configuration allows only {digest(TRAPS)}",
            "publicKey": f"{origin} is not signed; expected a signature by {sign.public_key}"
            f" ({PublicKey.read(sign.public_key).fingerprint})",
        }
        assert [(stage, by, problem) for stage, by, _, problem in story(inside)] == [
            (RolloutStage.FAILED, "rollback", problems[what]),
            (RolloutStage.ACTIVE, "configuration", ""),
        ]


def test_who_serves_is_known_to_be_signed_once_that_is_required(tmp_path: Path) -> None:
    """Else it could not serve any more when its source is out of reach, nor come back."""
    sign = Signer(tmp_path)
    put(tmp_path / "told.wasm.sig", base64.b64encode(sign(GOOD)))
    with start(tmp_path) as inside:
        good, entry = inside.active(), inside.slot().live.profile_plugin  # type: ignore[union-attr]
        write(inside, swapped() | {"source": {"publicKey": "cosign.pub"}})
        live = inside.slot().live
        assert live
        assert (inside.active(), live.profile_plugin is entry) == (good, False)
        assert live.revision.signer == PublicKey.read(sign.public_key).fingerprint
        assert inside.slot().revisions == [live.revision]


def test_after_its_probation_the_new_one_is_the_good_one(tmp_path: Path) -> None:
    with start(tmp_path, rollbackTime="200ms") as inside:
        second = inside.upload(TRAPS)

        def is_over() -> bool:
            inside.reconcile()
            return standby(inside) is None

        inside.wait_until(is_over)
        ask(inside, 5)
        inside.reconcile()
        assert (inside.active(), inside.slot().standby) == (second, None)
        inside.upload(FAILS)
        assert standby(inside) == second


def standby(inside: Inside) -> str | None:
    live = inside.slot().standby
    return live.revision.id if live else None


def test_two_bad_ones_in_a_row_lead_back_to_the_one_before_both(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain, "MIN_DRAIN_S", 0.0)
    good = inside.active()
    entry = inside.slot().live.profile_plugin  # type: ignore[union-attr]
    for module in (TRAPS, FAILS):
        inside.upload(module)
        assert standby(inside) == good
    inside.reconcile()  # What is on standby does not retire.
    ask(inside, 3)
    inside.reconcile()
    live = inside.slot().live
    assert live
    assert (live.revision.id, live.profile_plugin is entry, standby(inside)) == (good, True, None)
    assert inside.score("any") == 1


def test_a_configuration_that_a_way_back_ends_goes_live_after_it(inside: Inside) -> None:
    good = inside.active()
    inside.upload(TRAPS)
    inside.service.start()
    wanted = swapped(shadowRequests=4) | {"weight": 2, "source": {"interval": "100ms"}}
    put(inside.config, yaml.safe_dump(kwx.configuration(profile("default", wanted))).encode())

    def tries() -> list[Rollout]:
        entries = {each.id: each for _, each in inside.rollouts.journal.since(0) if each.by == "configuration"}
        return [each for each in entries.values() if each.stage is not RolloutStage.FETCHING]

    inside.wait_until(lambda: tries() and tries()[0].stage is RolloutStage.COMPILED)
    ask(inside, 3)
    inside.wait_until(lambda: len(tries()) == 2 and tries()[1].stage is RolloutStage.COMPILED)

    def is_over() -> bool:
        ask(inside, 1)
        return tries()[1].is_over

    inside.wait_until(is_over)
    first, second = tries()
    assert (first.stage, first.problem) == (RolloutStage.FAILED, f"the plugin goes back to revision {good}")
    assert (second.stage, second.revision, inside.slot().config.weight) == (RolloutStage.ACTIVE, inside.active(), 2)


def test_a_way_back_ends_what_is_under_way(inside: Inside) -> None:
    """What the source gives may be the cure: that comes again."""
    good = inside.active()
    inside.upload(TRAPS)
    ask(inside, 3)
    write(inside, swapped(shadowRequests=2))
    put(inside.folder / "told.wasm", BETTER)
    source = Beside(inside.offer)
    inside.wait_until(lambda: inside.latest().by == "source" and inside.latest().stage is RolloutStage.COMPILED)
    cure = inside.latest()
    inside.reconcile()
    assert not source.end()
    assert (inside.now(cure).stage, inside.now(cure).problem, inside.active()) == (
        RolloutStage.FAILED,
        f"the plugin goes back to revision {good}",
        good,
    )
    assert inside.slot().offered == good
