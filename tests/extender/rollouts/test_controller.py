"""What operators and sources want, one after the other and at once, and the way back."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from extender import config
from extender.rollouts.controller import RolloutController
from extender.rollouts.revision import Revision, RolloutStage
from extender.rollouts.rollout import Rollout
from extender.rollouts.swap_command import (
    ConflictError,
    FromRevision,
    FromSource,
    FromUpload,
    FromUrl,
    SwapCommand,
    SwapRefusedError,
)
from extender.rollouts.switch import Change
from tests.extender import guests, kwx, versions
from tests.extender.kwx import Extender, plugin, profile
from tests.extender.objects import names_args
from tests.extender.rollouts.inside import Inside
from tests.extender.rollouts.test_swaps import put
from tests.extender.sources import web
from tests.patience import PATIENCE_S, Beside
from wasm_runtime.blob import Blob, digest

SHADOW = {"shadowTime": "10m"}
"""A candidate stays on the way until it is cancelled."""
ENDLESS = {"slowdownFloor": "10s"}
"""What else the machine does must not make a candidate a slow one."""


def told(**more: Any) -> dict[str, Any]:
    """A plugin that tells the version of its module, which is 10 at first."""
    swap = {**ENDLESS, **more.pop("swap", {})}
    return profile("default", plugin("told", swap=swap, **more), scoreRange=100)


def start(folder: Path, *profiles: Mapping[str, Any]) -> Inside:
    put(folder / "told.wasm", versions.module(10))
    return Inside(folder, *(profiles or (told(),)))


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Inside]:
    with start(tmp_path) as inside:
        yield inside


@pytest.fixture
def shadowing(tmp_path: Path) -> Iterator[Inside]:
    with start(tmp_path, told(swap=SHADOW)) as inside:
        yield inside


def revision(inside: Inside, version: int = 10, **settings: Any) -> str:
    config = inside.slot().config
    return Revision.of(digest(versions.module(version)), config.model_copy(update=settings), "anywhere").id


def begin(inside: Inside, what: Any, by: str = "ann", **order: Any) -> Rollout:
    return inside.rollouts.begin(inside.slot(), SwapCommand(what, by, **order))


def in_shadow(inside: Inside, rollout: Rollout) -> Rollout:
    """Returns when a candidate has started and waits for requests."""
    inside.wait_until(lambda: inside.now(rollout).stage is RolloutStage.COMPILED and inside.samples._listeners)
    return inside.now(rollout)


def outcome(inside: Inside, rollout: Rollout) -> tuple[RolloutStage, str]:
    over = inside.over(rollout)
    return over.stage, over.problem


def offering(inside: Inside, version: int) -> Beside[bool]:
    """The source gives a version, which is in shadow when this returns; it ends with its rollout."""
    before = inside.latest()
    put(inside.folder / "told.wasm", versions.module(version))
    offer = Beside(inside.offer)
    inside.wait_until(lambda: inside.latest().id != before.id)
    in_shadow(inside, inside.latest())
    return offer


# -- orders ----------------------------------------------------------------------------------------


def test_an_upload_takes_over_and_is_told_of(inside: Inside) -> None:
    before = inside.active()
    rollout = inside.over(inside.begin(versions.module(11), why="as planned"))
    shown = {name: getattr(rollout, name) for name in ("profile", "plugin", "stage", "by", "why", "origin", "problem")}
    assert shown == {
        "profile": "default",
        "plugin": "told",
        "stage": RolloutStage.ACTIVE,
        "by": "ann",
        "why": "as planned",
        "origin": "upload by ann",
        "problem": "",
    }
    assert (rollout.revision, rollout.module) == (revision(inside, 11), digest(versions.module(11)))
    assert (rollout.replaces, inside.active(), inside.score("any")) == (before, rollout.revision, 11)
    assert inside.slot().live.rollout == rollout  # type: ignore[union-attr]


def test_a_url_is_taken_once_and_the_source_stays_the_configured_one(inside: Inside) -> None:
    with web.serving() as server:
        server.pages["/told.wasm"] = web.answer(200, versions.module(12))
        url = server.url("/told.wasm")
        rollout = inside.over(begin(inside, FromUrl(url)))
    assert (rollout.stage, rollout.problem, rollout.origin) == (RolloutStage.ACTIVE, "", url)
    assert (inside.score("any"), inside.slot().config.guest_url) == (12, "file://./told.wasm")
    assert inside.offer()
    assert inside.score("any") == 12  # What the source gives is no news.


def test_settings_alone_change_and_are_kept_by_what_comes_after(inside: Inside) -> None:
    assert outcome(inside, begin(inside, FromSource(), settings={"weight": 7})) == (RolloutStage.ACTIVE, "")
    assert inside.active() == revision(inside, weight=7)
    inside.upload(versions.module(11))
    assert inside.active() == revision(inside, 11, weight=7)
    inside.upload(versions.module(11), settings={"weight": 1})
    assert inside.active() == revision(inside, 11)


def test_a_look_takes_what_the_source_gives_or_says_that_it_is_there_already(inside: Inside) -> None:
    assert outcome(inside, begin(inside, FromSource())) == (RolloutStage.UNCHANGED, "")
    put(inside.folder / "told.wasm", versions.module(11))
    assert outcome(inside, begin(inside, FromSource())) == (RolloutStage.ACTIVE, "")
    assert (inside.score("any"), inside.slot().offered) == (11, revision(inside, 11))


def test_an_earlier_revision_is_made_of_the_module_that_is_kept(inside: Inside) -> None:
    first = inside.active()
    inside.upload(versions.module(11))
    rollout = inside.over(begin(inside, FromRevision(first)))
    assert (rollout.stage, rollout.problem, rollout.revision) == (RolloutStage.ACTIVE, "", first)
    inside.upload(versions.module(12))
    again = inside.over(begin(inside, FromRevision(first[7:15]), settings={"weight": 3}))
    assert (again.stage, again.revision, inside.score("any")) == (RolloutStage.ACTIVE, revision(inside, weight=3), 10)


NO_REVISION = (
    "plugin told has no revision, or more than one, by {name!r} (an id, or at least 8 digits); there are: {there}"
)
SETTABLE = (
    "guestConfig, args, logSeverity, weight, engine, allowUnlimited, failurePolicy, timeout, memoryLimit, tableLimit,"
    " outputLimit, instances, extensionPoints"
)


@pytest.mark.parametrize(
    ("what", "settings", "problem"),
    [
        (FromRevision("00000000"), {}, NO_REVISION.replace("{name!r}", "'00000000'")),
        (FromRevision(""), {}, NO_REVISION.replace("{name!r}", "''")),
        (FromSource(), {"guestURL": "file://./a.wasm"}, f"guestURL: cannot be set; expected some of {SETTABLE}"),
        (FromSource(), {"weight": 0}, "weight: input should be greater than or equal to 1, found 0"),
        (
            FromUrl("file:///etc/passwd"),
            {},
            "expected a URL of http, https or oci; a file is uploaded (kwx plugin swap NAME --file FILE)",
        ),
    ],
    ids=["unknown", "ambiguous", "not-a-setting", "bad-setting", "file"],
)
def test_an_order_that_makes_no_sense_begins_nothing(
    inside: Inside, what: Any, settings: Mapping[str, Any], problem: str
) -> None:
    before = inside.latest()
    with pytest.raises(SwapRefusedError) as refused:
        begin(inside, what, settings=settings)
    assert str(refused.value) == problem.replace("{there}", inside.active())
    assert inside.latest() == before


def test_a_revision_whose_module_is_not_kept_cannot_come_back(inside: Inside) -> None:
    first = inside.active()
    inside.upload(versions.module(11))
    for path in (inside.folder / "state").rglob("*.wasm"):
        path.unlink()
    problem = f"the module of revision {first} is not kept in server.stateDirectory"
    assert outcome(inside, begin(inside, FromRevision(first))) == (RolloutStage.FAILED, problem)
    assert inside.score("any") == 11


def test_a_dry_run_reports_and_changes_nothing(inside: Inside) -> None:
    inside.filter("web-1")
    put(inside.folder / "told.wasm", versions.module(11))
    before, offered = inside.active(), inside.slot().offered
    for what in (FromUpload(Blob(versions.module(11))), FromSource()):
        rollout = inside.over(begin(inside, what, dry_run=True))
        assert (rollout.stage, rollout.dry_run, rollout.replaces) == (RolloutStage.REHEARSED, True, before)
        assert rollout.report
        (difference,) = rollout.report.differences
        assert [
            tuple(getattr(node, name) for name in ("node", "active", "candidate")) for node in difference.nodes
        ] == [
            ("node-0", "rejected: version 10", "passes"),
            ("node-1", "passes", "rejected: version 11"),
        ]
    assert (inside.active(), inside.slot().offered, inside.slot().revisions) == (
        before,
        offered,
        [inside.slot().live.revision],  # type: ignore[union-attr]
    )


def test_a_dry_run_that_is_refused_settles_nothing(inside: Inside) -> None:
    """The source's own rollout is still to come."""
    inside.filter("web-1")
    put(inside.folder / "told.wasm", guests.module("trap"))
    offered = inside.slot().offered
    assert inside.over(begin(inside, FromSource(), dry_run=True)).stage is RolloutStage.FAILED
    assert inside.slot().offered == offered
    assert inside.over(begin(inside, FromSource())).stage is RolloutStage.FAILED
    inside.wait_until(lambda: inside.slot().offered != offered)


# -- twice, and at once ----------------------------------------------------------------------------


def test_what_is_active_is_not_begun_again(inside: Inside) -> None:
    inside.upload(versions.module(11))
    live = inside.slot().live
    assert live
    assert inside.begin(versions.module(11), by="bob") == live.rollout


def test_the_same_upload_joins_the_one_that_is_under_way(shadowing: Inside) -> None:
    first = shadowing.begin(versions.module(11))
    in_shadow(shadowing, first)
    assert shadowing.begin(versions.module(11), by="bob").id == first.id


def test_an_upload_is_not_taken_for_its_own_dry_run(shadowing: Inside) -> None:
    rehearsal = in_shadow(shadowing, shadowing.begin(versions.module(11), dry_run=True))
    with pytest.raises(ConflictError) as refused:
        shadowing.begin(versions.module(11), by="bob")
    assert str(refused.value) == (
        f"rollout {rehearsal.id} of plugin told by ann is under way (compiled); wait for its end"
    )


def test_a_second_operator_has_to_wait(shadowing: Inside) -> None:
    first = in_shadow(shadowing, shadowing.begin(versions.module(11)))
    for what in (FromUpload(Blob(versions.module(12))), FromSource(), FromUrl("http://127.0.0.1:1/a.wasm")):
        with pytest.raises(ConflictError) as refused:
            begin(shadowing, what, by="bob")
        assert str(refused.value) == (
            f"rollout {first.id} of plugin told by ann is under way (compiled); wait for its end"
        )


@pytest.mark.parametrize("act", [RolloutController.begin, RolloutController.roll_back], ids=["begin", "roll_back"])
def test_another_revision_than_the_expected_one_is_a_conflict(inside: Inside, act: Any) -> None:
    first = inside.active()
    second = inside.upload(versions.module(11), expected=first)
    with pytest.raises(ConflictError) as refused:
        if act is RolloutController.begin:
            inside.begin(versions.module(12), expected=first)
        else:
            inside.rollouts.roll_back(inside.slot(), by="bob", expected=first)
    assert str(refused.value) == f"revision {second} of plugin told is active, not {first}; look at it again"
    assert inside.active() == second


@pytest.mark.parametrize(("module", "stage"), [(versions.module(11), "active"), (b"bad", "failed")])
def test_who_is_told_of_the_end_may_begin_the_next_at_once(inside: Inside, module: bytes, stage: str) -> None:
    ended = threading.Event()

    def look(_: object, rollout: Rollout) -> None:
        if rollout.stage.value == stage:
            ended.set()

    remove = inside.rollouts.journal.listen(look)
    inside.begin(module)
    assert ended.wait(PATIENCE_S)
    remove()
    assert outcome(inside, inside.begin(versions.module(12))) == (RolloutStage.ACTIVE, "")


def upload_next(inside: Inside) -> None:
    inside.over(inside.begin(versions.module(12)))


def offer_next(inside: Inside) -> None:
    put(inside.folder / "told.wasm", versions.module(12))
    assert inside.offer()


def configure_next(inside: Inside) -> None:
    kwx.write(inside.folder, kwx.configuration(told(weight=2), profile("other", plugin("told", swap=ENDLESS))))
    inside.rollouts.configuration.apply(config.read(inside.config).profiles)


def go_back(inside: Inside) -> None:
    back(inside)


@pytest.mark.parametrize("act", [upload_next, offer_next, configure_next, go_back])
def test_what_serves_is_told_of_though_memory_runs_out_within_the_switch(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, act: Callable[[Inside], None]
) -> None:
    first = inside.active()
    second = inside.upload(versions.module(11))
    record = inside.rollouts.journal.record
    missed: list[Rollout] = []

    def record_or_fail(rollout: Rollout) -> Rollout:
        if rollout.stage is RolloutStage.ACTIVE and not missed:
            missed.append(rollout)
            raise MemoryError
        return record(rollout)

    monkeypatch.setattr(inside.rollouts.journal, "record", record_or_fail)
    act(inside)
    inside.written()
    assert inside.active() not in ([second] if act is go_back else [first, second])
    assert inside.slot().live.rollout == missed[0] == inside.now(missed[0])  # type: ignore[union-attr]
    assert [(slot.problem, slot.refusal) for slot in inside.live.slots] == [("", "")] * len(inside.live.slots)
    assert inside.rollouts.journal.under_way() == []
    stages = {each.id: stage for each, stage in inside.rollouts.revisions(inside.slot())}
    assert (stages[inside.active()], stages[second]) == (RolloutStage.ACTIVE, RolloutStage.DRAINING)
    assert inside.upload(versions.module(13)) == inside.active()


# -- an operator and the source --------------------------------------------------------------------

OVERRULED = "an operator's rollout has come before it"


def test_an_operators_order_ends_a_shadow_of_the_sources_and_then_that_is_no_news(shadowing: Inside) -> None:
    source = offering(shadowing, 11)
    sources = shadowing.latest()
    assert sources.by == "source"
    ordered = shadowing.begin(versions.module(12))
    assert outcome(shadowing, sources) == (RolloutStage.FAILED, OVERRULED)
    source.end()
    in_shadow(shadowing, ordered)
    shadowing.rollouts.roll_back(shadowing.slot(), by="bob", to=shadowing.active())
    assert outcome(shadowing, ordered)[0] is RolloutStage.FAILED
    assert (shadowing.score("any"), shadowing.slot().offered) == (10, revision(shadowing, 11))
    assert shadowing.offer()
    assert shadowing.latest().id == ordered.id


@pytest.mark.parametrize("how", ["upload", "url"])
def test_an_order_for_what_serves_ends_a_shadow_of_the_sources_and_then_that_is_no_news(
    shadowing: Inside, how: str
) -> None:
    source = offering(shadowing, 11)
    sources = shadowing.latest()
    with web.serving() as server:
        server.pages["/told.wasm"] = web.answer(200, versions.module(10))
        what = FromUrl(server.url("/told.wasm")) if how == "url" else FromUpload(Blob(versions.module(10)))
        ordered = begin(shadowing, what)
        assert outcome(shadowing, ordered) == (RolloutStage.UNCHANGED, "")
    assert outcome(shadowing, sources) == (RolloutStage.FAILED, OVERRULED)
    source.end()
    shadowing.wait_until(lambda: shadowing.slot().offered == revision(shadowing, 11))
    assert shadowing.offer()
    assert (shadowing.score("any"), shadowing.latest().id) == (10, ordered.id)


def test_an_order_for_what_serves_does_not_cross_another_operators(shadowing: Inside) -> None:
    in_shadow(shadowing, shadowing.begin(versions.module(11), by="bob"))
    with pytest.raises(ConflictError, match="by bob is under way"):
        shadowing.begin(versions.module(10))


def test_what_is_cancelled_just_before_the_switch_is_still_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also to the next process."""
    with start(tmp_path) as inside:
        first = inside.active()
        put(tmp_path / "told.wasm", versions.module(11))

        switch = inside.rollouts._switch.switch_one

        def end(change: Change) -> None:
            inside.rollouts.close()
            switch(change)

        monkeypatch.setattr(inside.rollouts._switch, "switch_one", end)
        assert not inside.offer()
        over = inside.latest()
        assert (over.stage, over.problem, over.report is None) == (RolloutStage.FAILED, "the extender ends", False)
        assert (inside.active(), inside.slot().offered) == (first, first)
    with Inside(tmp_path, told()) as again:
        assert again.score("any") == 11


def test_what_the_source_gives_comes_again_after_an_order_that_fails(tmp_path: Path) -> None:
    """Nothing else would tell that it is not live."""
    with start(tmp_path, told(swap={"shadowRequests": 1})) as inside:
        source = offering(inside, 11)
        assert inside.over(inside.begin(b"bad")).stage is RolloutStage.FAILED
        source.end()
        assert inside.slot().offered == revision(inside, 10)
        source = offering(inside, 11)
        let_in(inside, inside.latest())
        source.end()
        assert (inside.score("any"), inside.slot().offered) == (11, revision(inside, 11))


class Turn:
    """A lock that counts who has asked for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.asked = 0

    def __enter__(self) -> None:
        self.asked += 1
        assert self._lock.acquire(timeout=PATIENCE_S)

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_source_does_not_overtake_an_order_that_waits_for_its_turn(inside: Inside) -> None:
    """Who has said which revision is to be replaced replaces that one. The source may come after it."""
    before = inside.active()
    put(inside.folder / "told.wasm", versions.module(11))
    inside.slot().turn = turn = Turn()  # type: ignore[assignment]
    with turn:
        source = Beside(inside.offer)
        inside.wait_until(lambda: turn.asked == 2)
        ordered = inside.begin(versions.module(12), expected=before)
    source.end()
    over = inside.over(ordered)
    assert (over.problem, over.replaces) == ("", before)


# -- back ------------------------------------------------------------------------------------------


def back(inside: Inside, **more: Any) -> Rollout:
    return inside.over(inside.rollouts.roll_back(inside.slot(), by="ann", **more))


def test_each_rollback_goes_one_further_back(tmp_path: Path) -> None:
    with start(tmp_path, told(swap={"rollback": "manual"})) as inside:
        ids = [inside.active(), *(inside.upload(versions.module(version)) for version in (11, 12))]
        assert [(back(inside).revision, inside.score("any")) for _ in range(2)] == [(ids[1], 11), (ids[0], 10)]
        with pytest.raises(SwapRefusedError) as refused:
            back(inside)
        assert str(refused.value) == "plugin told has no earlier revision to go back to"
        assert [each.id for each in inside.slot().revisions] == [ids[2], ids[1], ids[0]]
        assert (back(inside, to=ids[2][7:15]).revision, inside.score("any")) == (ids[2], 12)


def test_what_was_gone_back_from_is_not_what_the_next_one_goes_back_to(tmp_path: Path) -> None:
    with start(tmp_path, told(swap={"rollback": "manual"})) as inside:
        first = inside.active()
        inside.upload(versions.module(11))
        back(inside)
        inside.upload(versions.module(12))
        assert back(inside).revision == first


def test_the_way_further_back_outlives_the_process(tmp_path: Path) -> None:
    with start(tmp_path, told(swap={"rollback": "manual"})) as inside:
        first = inside.active()
        for version in (11, 12):
            inside.upload(versions.module(version))
        back(inside)
    with Inside(tmp_path, told(swap={"rollback": "manual"})) as inside:
        assert inside.active() == revision(inside, 11)
        assert back(inside).revision == first


def test_on_probation_the_way_back_leads_to_what_has_proven_good(inside: Inside) -> None:
    good = inside.active()
    for version in (11, 12):
        inside.upload(versions.module(version))
    assert back(inside).revision == good


def test_a_rollback_tells_who_and_why_and_is_in_the_history(inside: Inside) -> None:
    good = inside.active()
    bad = inside.upload(versions.module(11))
    back(inside, why="too heavy")
    history = inside.rollouts.history(10, "default", "told")
    assert [(each.stage, each.by, each.why, each.problem, each.revision, each.replaces) for each in history] == [
        (RolloutStage.ACTIVE, "ann", "too heavy", "", good, bad),
        (RolloutStage.DRAINING, "ann", "", "too heavy", bad, good),
        (RolloutStage.DRAINING, "start", "", "", good, None),
    ]


def test_guests_that_are_still_there_are_used_again(inside: Inside) -> None:
    live = inside.slot().live
    assert live
    inside.upload(versions.module(11))
    rollout = back(inside)
    now = inside.slot().live
    assert now
    assert (now.profile_plugin is live.profile_plugin, inside.score("any"), now.rollout) == (True, 10, rollout)
    assert [each.stage for _, each in inside.rollouts.journal.since(0) if each.id == rollout.id] == [
        RolloutStage.FETCHING,
        RolloutStage.WARMED,
        RolloutStage.ACTIVE,
    ]


def test_guests_that_are_gone_are_made_anew(tmp_path: Path) -> None:
    with start(tmp_path, told(swap={"rollback": "manual"})) as inside:
        live = inside.slot().live
        assert live
        inside.upload(versions.module(11))
        retire(inside, live.revision.id)
        rollout = back(inside)
        now = inside.slot().live
        assert now
        assert (now.profile_plugin is live.profile_plugin, now.revision, inside.score("any")) == (
            False,
            live.revision,
            10,
        )
        assert [each.stage for _, each in inside.rollouts.journal.since(0) if each.id == rollout.id] == [
            RolloutStage.FETCHING,
            RolloutStage.FETCHED,
            RolloutStage.VERIFIED,
            RolloutStage.WARMED,
            RolloutStage.ACTIVE,
        ]


def retire(inside: Inside, revision: str) -> None:
    """Returns when a revision's guests are given back."""

    def is_retired() -> bool:
        inside.reconcile()
        return (revision, RolloutStage.RETIRED) in [
            (each.id, stage) for each, stage in inside.rollouts.revisions(inside.slot())
        ]

    inside.wait_until(is_retired)


@pytest.mark.parametrize("by", ["source", "ann"])
def test_a_rollback_ends_what_is_under_way_for_good(tmp_path: Path, by: str) -> None:
    with start(tmp_path, told(swap={"rollback": "manual", "shadowRequests": 1})) as inside:
        first = inside.active()
        second = let_in(inside, begin(inside, FromSource(), settings={"weight": 2})).revision
        source = offering(inside, 12) if by == "source" else None
        rollout = inside.latest() if by == "source" else in_shadow(inside, inside.begin(versions.module(12)))
        assert (rollout.by, inside.active()) == (by, second)
        assert back(inside).revision == first
        problem = f"the plugin goes back to revision {first}"
        assert outcome(inside, rollout) == (RolloutStage.FAILED, problem)
        if source:
            source.end()
            assert inside.offer()
        assert (inside.active(), inside.latest().revision) == (first, first)


def let_in(inside: Inside, rollout: Rollout) -> Rollout:
    """Asks until the shadow of a candidate is over."""

    def is_over() -> bool:
        inside.filter("web-1")
        return inside.now(rollout).is_over

    in_shadow(inside, rollout)
    inside.wait_until(is_over)
    return inside.now(rollout)


def test_a_rollback_to_what_serves_ends_what_is_under_way(shadowing: Inside) -> None:
    first = shadowing.active()
    rollout = in_shadow(shadowing, shadowing.begin(versions.module(11)))
    live = shadowing.slot().live
    assert live
    assert shadowing.rollouts.roll_back(shadowing.slot(), by="bob", to=first) == live.rollout
    assert outcome(shadowing, rollout) == (RolloutStage.FAILED, f"the plugin goes back to revision {first}")
    assert shadowing.active() == first


def test_of_two_rollbacks_at_once_the_last_one_counts_and_each_has_an_end(tmp_path: Path) -> None:
    with start(tmp_path, told(swap={"rollback": "manual"})) as inside:
        ids = [inside.active(), *(inside.upload(versions.module(version)) for version in (11, 12))]
        for _ in range(20):
            inside.over(inside.rollouts.roll_back(inside.slot(), by="ann", to=ids[2]))
            rollouts = [inside.rollouts.roll_back(inside.slot(), by="ann", to=each) for each in (ids[0], ids[1])]
            first, second = (outcome(inside, each)[0] for each in rollouts)
            assert first in {RolloutStage.ACTIVE, RolloutStage.DRAINING, RolloutStage.RETIRED, RolloutStage.FAILED}
            assert (second, inside.active()) == (RolloutStage.ACTIVE, ids[1])


# -- shadows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("swap", "judged"),
    [
        ({"shadowRequests": 2}, 2),
        ({"shadowTime": "300ms"}, 0),
        ({"shadowTime": "10m", "shadowRequests": 2}, 2),
        ({"shadowTime": "300ms", "shadowRequests": 1000}, 0),
    ],
    ids=["count", "time", "count-first", "time-first"],
)
def test_a_candidate_shadows_what_comes_and_then_takes_over(
    tmp_path: Path, swap: Mapping[str, Any], judged: int
) -> None:
    with start(tmp_path, told(swap=swap)) as inside:
        rollout = inside.begin(versions.module(11))
        if judged:
            in_shadow(inside, rollout)
            assert inside.filter("web-0")["FailedNodes"] == {"node-0": "version 10"}
            let_in(inside, rollout)
        over = inside.over(rollout)
        assert (over.stage, over.problem, inside.score("new")) == (RolloutStage.ACTIVE, "", 11)
        assert over.report
        assert over.report.verbs["filter"].requests == judged


def test_a_candidate_that_fails_in_its_shadow_is_refused(tmp_path: Path) -> None:
    with start(tmp_path, told(swap={"shadowRequests": 2})) as inside:
        rollout = in_shadow(inside, inside.begin(guests.module("trap")))
        let_in(inside, rollout)
        assert outcome(inside, rollout) == (
            RolloutStage.FAILED,
            "filter of pod default/web-1 fails, where the active revision has an answer: filter of node node-0: trap:"
            " unreachable in func[0]",
        )
        assert inside.score("any") == 10


def test_the_end_of_the_process_ends_a_shadow(shadowing: Inside) -> None:
    rollout = in_shadow(shadowing, shadowing.begin(versions.module(11)))
    shadowing.rollouts.close()
    assert (shadowing.now(rollout).stage, shadowing.now(rollout).problem) == (RolloutStage.FAILED, "the extender ends")
    late = shadowing.begin(versions.module(12))
    assert outcome(shadowing, late) == (RolloutStage.FAILED, "the extender ends")


@pytest.mark.parametrize("by", ["source", "operator"])
def test_sigterm_does_not_wait_for_shadows(tmp_path: Path, by: str) -> None:
    names = ("told", "other")
    for name in names:
        put(tmp_path / f"{name}.wasm", versions.module(10))
    with Extender(tmp_path, *(profile(name, plugin(name, swap=SHADOW)) for name in names)) as extender:
        for name in names:
            extender.post(f"/profiles/{name}/filter", names_args())
            if by == "source":
                put(tmp_path / f"{name}.wasm", versions.module(11))
            else:
                path = f"/api/v1/plugins/{name}/module"
                answer = extender.admin.put(
                    path, content=versions.module(11), headers={"Content-Type": "application/wasm"}
                )
                assert answer.status_code == 202, answer.text

        def stages() -> list[str]:
            plugins = extender.admin.get("/api/v1/plugins").json()
            return [each["rollout"]["stage"] for each in plugins]

        extender.wait_until(lambda: stages() == ["compiled"] * 2)
        begun = time.monotonic()
        os.kill(extender.process.pid, signal.SIGTERM)
        assert extender.process.wait(10) == 0
        print(f"ended {time.monotonic() - begun:.2f} s after SIGTERM")
