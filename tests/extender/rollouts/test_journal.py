"""Who is told of the steps of rollouts: listeners, the history, the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from extender.rollouts import journal as journal_module
from extender.rollouts.journal import START, Journal
from extender.rollouts.revision import RolloutStage
from extender.rollouts.rollout import Rollout
from extender.rollouts.state.store import Store
from tests.patience import PATIENCE_S

KEPT = 3


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path, Path("kwx.yaml"))
    yield store
    store.close()


@contextmanager
def keeping(store: Store) -> Iterator[Journal]:
    journal = Journal(store)
    yield journal
    assert journal.close()


@pytest.fixture
def journal(store: Store) -> Iterator[Journal]:
    with keeping(store) as journal:
        yield journal


def rollout(number: int = 1, stage: RolloutStage = RolloutStage.FETCHING, by: str = "source", **more: Any) -> Rollout:
    return Rollout(id=number, profile="default", plugin="plugin", by=by, stage=stage, began=1.0, changed=2.0, **more)


def record(journal: Journal, *steps: Rollout) -> None:
    """Returns when all are written and told."""
    for each in steps:
        journal.record(each)
    assert journal.flush(PATIENCE_S)


LIVE = rollout(
    stage=RolloutStage.ACTIVE, revision="sha256:2", module="sha256:22", origin="plugin.wasm", replaces="sha256:1"
)


def test_a_rollout_is_known_as_it_is_now(journal: Journal) -> None:
    first, second = rollout(1), rollout(2)
    assert [journal.record(each) for each in (first, second)] == [first, second]
    fetched = journal.record(first.at(RolloutStage.FETCHED))
    assert (journal.get(1), journal.get(2), journal.get(3)) == (fetched, second, None)


def test_who_was_away_is_told_what_came_since(journal: Journal) -> None:
    steps = [rollout(number) for number in (1, 2, 3)]
    record(journal, *steps)
    assert journal.since(0) == [(1, steps[0]), (2, steps[1]), (3, steps[2])]
    assert journal.since(2) == [(3, steps[2])]
    assert journal.since(3) == []


def test_what_is_kept_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "MAX_ENTRIES", KEPT)
    monkeypatch.setattr(journal_module, "MAX_ROLLOUTS", KEPT)
    slow = rollout(1)
    with keeping(store) as journal:
        record(journal, slow, *(rollout(number, RolloutStage.ACTIVE) for number in range(2, KEPT + 4)))
        assert [number for number, _ in journal.since(0)] == [4, 5, 6]
        assert [number for number in range(KEPT + 4) if journal.get(number)] == [1, 4, 5, 6]
        assert journal.under_way() == [slow]


def test_listeners_are_told_each_step_until_they_have_enough(journal: Journal) -> None:
    told: list[tuple[str, int, Rollout]] = []
    remove = journal.listen(lambda number, step: told.append(("first", number, step)))
    first, second, third = map(rollout, (1, 2, 3))
    record(journal, first)
    journal.listen(lambda number, step: told.append(("second", number, step)))
    record(journal, second)
    remove()
    record(journal, third)
    assert told == [("first", 1, first), ("first", 2, second), ("second", 2, second), ("second", 3, third)]


WRITTEN = {
    RolloutStage.ACTIVE,
    RolloutStage.DRAINING,
    RolloutStage.FAILED,
    RolloutStage.REHEARSED,
    RolloutStage.UNCHANGED,
}


def test_a_listener_that_cannot_take_a_step_harms_nobody(journal: Journal, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("Event loop is closed")

    told: list[int] = []
    journal.listen(fail)
    journal.listen(lambda number, _: told.append(number))
    record(journal, LIVE)
    assert told == [1]
    assert "a step could not be told to who listens" in [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("stage", RolloutStage)
def test_the_history_has_what_became_of_it(journal: Journal, store: Store, stage: RolloutStage) -> None:
    step = rollout(stage=stage)
    record(journal, step)
    assert store.history() == ([step] if stage in WRITTEN else [])


def test_a_start_with_what_served_before_is_not_worth_a_line_of_history(journal: Journal, store: Store) -> None:
    again: dict[str, Any] = {"stage": RolloutStage.ACTIVE, "by": START, "revision": "sha256:1"}
    first, other = rollout(2, **again), rollout(3, replaces="sha256:2", **again)
    record(journal, rollout(1, replaces="sha256:1", **again), first, other)
    assert store.history() == [other, first]


SAID = {
    RolloutStage.ACTIVE: ("INFO", "revision is live"),
    RolloutStage.FAILED: ("ERROR", "revision refused, what serves stays live: it traps"),
    RolloutStage.REHEARSED: ("INFO", "dry run ended well"),
    RolloutStage.DRAINING: ("WARNING", "revision is rolled back: it traps"),
    RolloutStage.RETIRED: ("INFO", "revision is retired"),
}


@pytest.mark.parametrize("stage", RolloutStage)
def test_the_log_says_what_operators_wait_for(
    journal: Journal, caplog: pytest.LogCaptureFixture, stage: RolloutStage
) -> None:
    caplog.set_level(logging.DEBUG)
    journal.record(rollout(stage=stage, problem="it traps"))
    assert [(line.levelname, line.getMessage()) for line in caplog.records] == ([SAID[stage]] if stage in SAID else [])


def test_a_revision_that_was_replaced_for_no_fault_is_no_error(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    journal.record(LIVE.at(RolloutStage.DRAINING))
    assert [(line.levelname, line.getMessage()) for line in caplog.records] == [("INFO", "revision is replaced")]


def test_a_line_of_the_log_names_what_it_speaks_of(journal: Journal, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    journal.record(LIVE)
    journal.record(rollout(2, RolloutStage.FAILED, "alice", problem="404"))
    expected = [
        {
            "plugin": "plugin",
            "profile": "default",
            "rollout": 1,
            "requested_by": "source",
            "origin": "plugin.wasm",
            "revision": "sha256:2",
            "module_digest": "sha256:22",
            "replaces": "sha256:1",
        },
        {"plugin": "plugin", "profile": "default", "rollout": 2, "requested_by": "alice"},
    ]
    fields = ("plugin", "profile", "rollout", "requested_by", "origin", "revision", "module_digest", "replaces")
    said = [{name: line.__dict__[name] for name in fields if name in line.__dict__} for line in caplog.records]
    assert said == expected


@pytest.mark.parametrize("stage", [RolloutStage.ACTIVE, RolloutStage.FAILED])
def test_a_start_says_itself_how_it_went(
    journal: Journal, caplog: pytest.LogCaptureFixture, stage: RolloutStage
) -> None:
    caplog.set_level(logging.DEBUG)
    journal.record(rollout(stage=stage, by=START))
    assert caplog.records == []
