"""A rollout that is under way."""

from __future__ import annotations

import threading

from extender.rollouts.journal import Journal
from extender.rollouts.probe import Report
from extender.rollouts.revision import Stage
from extender.rollouts.rollout import Rollout


class CancelledError(Exception):
    """A rollout must not go on. `str()` says why."""


class Attempt:
    """Takes a rollout from stage to stage, each of which the journal is told of. Cancelled from any thread."""

    def __init__(
        self, rollout: Rollout, journal: Journal, *, is_operators: bool = False, overrules: str | None = None
    ) -> None:
        self._journal = journal
        self._cancelled = threading.Event()
        self._reason = ""
        self.may_be_repeated = False
        """Whether it was cancelled, and what it was for is wanted all the same."""
        self.is_operators = is_operators
        """Whether somebody has asked for it, and waits."""
        self.overrules = overrules
        """The source's revision that it has come before: once this one is live, that is no news any more."""
        self.rollout = rollout
        self.record(rollout)

    def advance(self, stage: Stage, **more: object) -> Rollout:
        """Takes it one stage further. Raises CancelledError."""
        self.check()
        return self.record(self.rollout.at(stage, **more))

    def fail(self, problem: str, report: Report | None = None) -> None:
        """Ends it. One that is over stays as it is, and is told again: telling is what may have gone wrong."""
        if not self.rollout.is_over:
            self.rollout = self.rollout.at(Stage.FAILED, problem=problem, report=report or self.rollout.report)
        self.record(self.rollout)

    def cancel(self, reason: str, *, is_passing: bool = False) -> None:
        """Makes it end at its next step, which is never the switch. The first reason counts.

        `is_passing` is for a reason that does not say that somebody wants something else.
        """
        if not self._cancelled.is_set():
            self._reason, self.may_be_repeated = reason, is_passing
        self._cancelled.set()

    @property
    def is_cancelled(self) -> bool:
        """Whether it is to end."""
        return self._cancelled.is_set()

    def check(self) -> None:
        """Raises CancelledError if it is to end."""
        if self._cancelled.is_set():
            raise CancelledError(self._reason)

    def record(self, rollout: Rollout) -> Rollout:
        """Takes it where it is to be by `Rollout.at`. Who is told of its end may begin another one at once."""
        self.rollout = rollout
        return self._journal.record(rollout)
