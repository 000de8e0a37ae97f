"""What goes on while a variant is measured: nothing, or nodes that change."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from bench.errors import BenchError
from bench.peers.nodelist import node_list
from bench.plugin.subject import Subject
from bench.plugin.variants import Setup, Started
from bench.plugin.workload import Cycle, Recorded, Synthetic
from bench.run import QUIET

SETTLING: Final = 0.3
"""Seconds after nodes began or ended to change that are not measured."""


class Turn:
    """A variant's part of a round, in which nothing else goes on."""

    suffix = ""
    """The suffix of the metrics that are measured in this turn."""

    @contextmanager
    def around(self, started: Started, first: int) -> Iterator[None]:
        """A context in which a variant is asked about cycles, the first of which has this number."""
        del started, first
        yield

    def before(self, subject: Subject, cycle: Cycle, /) -> None:
        """Called before each cycle."""


class Quiet(Turn):
    """A turn without changes, in a case whose other turns have some."""

    suffix = QUIET


class Churn(Turn):
    """Nodes are updated: by the API server for those that watch it, by the harness for the others."""

    def __init__(self, setup: Setup, rate: int) -> None:
        self._setup = setup
        self._rate = rate
        self._updated = 0
        self._last = 0.0
        self._watches = False

    @contextmanager
    def around(self, started: Started, first: int) -> Iterator[None]:
        """Nodes are updated from shortly before until after the cycles. Raises BenchError if none was."""
        del first
        self._watches = started.watches
        if not started.watches:
            self._last = time.monotonic()
            yield
            return
        cluster = self._setup.cluster
        before = cluster.updates()
        cluster.update(self._rate)
        time.sleep(SETTLING)
        try:
            yield
        finally:
            cluster.update(0)
        if cluster.updates() <= before:
            raise BenchError("the stand-in for the API server has updated no node")
        time.sleep(SETTLING)

    def before(self, subject: Subject, _: Cycle, /) -> None:
        """Tells one that watches no API server of the nodes that were due to change."""
        due = int((time.monotonic() - self._last) * self._rate)
        if self._watches or not due:
            return
        self._last += due / self._rate
        workload = self._setup.workload
        assert isinstance(workload, Synthetic)
        subject.update(node_list(workload.update(self._updated + at) for at in range(due)))
        self._updated += due


class Replay(Turn):
    """Nodes change as they did while the traffic was recorded."""

    def __init__(self, setup: Setup, workload: Recorded) -> None:
        self._setup = setup
        self._workload = workload
        self._watches = False

    @contextmanager
    def around(self, started: Started, first: int) -> Iterator[None]:
        """All nodes are as they were at the first cycle."""
        self._watches = started.watches
        self._tell(started.subject, list(self._workload.state(first).values()))
        time.sleep(SETTLING)
        yield

    def before(self, subject: Subject, cycle: Cycle, /) -> None:
        """Tells of the changes since the cycle before."""
        self._tell(subject, list(cycle.changes.values()))

    def _tell(self, subject: Subject, nodes: Sequence[bytes]) -> None:
        if not nodes:
            return
        if self._watches:
            self._setup.cluster.put(node_list(nodes))
        else:
            subject.update(node_list(nodes))


def turns(setup: Setup, updates: int) -> Sequence[Turn]:
    """The turns of which a variant's round consists."""
    if isinstance(setup.workload, Recorded):
        return (Replay(setup, setup.workload),)
    return (Quiet(), Churn(setup, updates)) if updates else (Turn(),)
