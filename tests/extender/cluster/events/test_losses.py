"""The log says why Events are lost, and how many, without being flooded itself."""

from __future__ import annotations

import pytest

from extender.cluster.events.losses import REPEAT_INTERVAL_S, Losses


def test_each_cause_is_logged_when_it_is_new_and_counted_later(caplog: pytest.LogCaptureFixture) -> None:
    losses = Losses()

    def said(now: float) -> list[tuple[str, int]]:
        caplog.clear()
        losses.report(now)
        assert all(record.message == "Events were lost" for record in caplog.records)
        return [(record.__dict__["error"], record.__dict__["events"]) for record in caplog.records]

    assert said(0) == []
    losses.add("403", "forbidden in a")
    assert said(1) == [("forbidden in a", 1)]
    losses.add("403", "forbidden in b")
    losses.add("full", "no room", 3)
    assert said(2) == [("no room", 3)]
    losses.add("403", "forbidden in c", 4)
    assert said(1 + REPEAT_INTERVAL_S) == [("forbidden in c", 5)]
    assert said(2 + 2 * REPEAT_INTERVAL_S) == []
