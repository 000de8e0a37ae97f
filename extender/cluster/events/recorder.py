"""Writing Events to the API server."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from http import HTTPStatus
from typing import Final

from extender.cluster.client.api import ApiServer
from extender.cluster.client.backoff import pauses
from extender.cluster.client.errors import ClusterError, RefusedError
from extender.cluster.client.status import is_object
from extender.cluster.events.backlog import MAX_WAITING, Backlog, EventSeries
from extender.cluster.events.event import Event, admissible
from extender.cluster.events.losses import Losses

logger = logging.getLogger(__name__)

SEND_INTERVAL_S: Final = 6.0
"""Seconds between two requests about the same series."""
TICK_S: Final = 0.5
"""Seconds between two looks at what is to be written."""
MAX_BURST: Final = 10
"""Requests after a look; with TICK_S, 20 a second."""
CALL_TIMEOUT_S: Final = 5.0
"""Seconds for one request."""
FIRST_PAUSE_S: Final = 1.0
MAX_PAUSE_S: Final = 30.0
"""Seconds before the API server is asked again after a failure."""
SEND_TIMEOUT_S: Final = 300.0
"""Seconds that an Event waits for an API server that is away."""


class EventRecorder:
    """Writes Events of events.k8s.io/v1 to the API server, as `run` finds time.

    What keeps coming is counted in a series of one Event. What cannot be written is counted, and the log says so.
    """

    def __init__(self, api: ApiServer, *, interval: float = SEND_INTERVAL_S) -> None:
        """The same series is written every `interval` seconds at most."""
        self._api = api
        self._backlog = Backlog(interval)
        self._losses = Losses()
        self._pauses = pauses(FIRST_PAUSE_S, MAX_PAUSE_S)

    def record(self, event: Event) -> None:
        """Puts an Event down to be written. From any thread; never waits for the API server and never raises."""
        try:
            event = admissible(event)
        except ValueError as error:
            self._losses.add("inadmissible", str(error))
            return
        if not self._backlog.observe(event, time.monotonic()):
            self._losses.add("full", f"{MAX_WAITING} different Events wait for the API server already")

    async def run(self) -> None:
        """Write Events until cancelled."""
        while True:
            pause = await self._write_due()
            self._losses.report(time.monotonic())
            await asyncio.sleep(pause)

    async def _write_due(self) -> float:
        """Write some of what is due; returns the seconds to the next look."""
        for _ in range(MAX_BURST):
            series = self._backlog.next(time.monotonic())
            if series is None:
                break
            try:
                count = await self._write(series)
            except ClusterError as error:
                if error.may_pass:
                    return self._wait(series, error)
                self._give_up(series, error)
            except Exception:  # A recorder that ended would go on taking Events.
                logger.exception("an Event met a fault of the recorder's own")
                self._backlog.give_up(series, time.monotonic())
            else:
                self._backlog.wrote(series, count, time.monotonic())
                self._pauses = pauses(FIRST_PAUSE_S, MAX_PAUSE_S)
        return TICK_S

    async def _write(self, series: EventSeries) -> int:
        """The count that the API server has afterwards. Raises ClusterError."""
        count, request = series.count, series.request()
        try:
            await self._api.write(request, CALL_TIMEOUT_S, partial(is_object, "Event"))
        except RefusedError as error:
            # Our names come once: an Event that exists was created by an attempt whose answer was lost.
            if request.verb == "create" and error.means(HTTPStatus.CONFLICT):
                return 1
            # Events live for an hour, or until somebody deletes them.
            if request.verb == "patch" and error.means(HTTPStatus.NOT_FOUND):
                return 0
            raise
        return count

    def _wait(self, series: EventSeries, error: ClusterError) -> float:
        """Keep what cannot be written now; returns the seconds until it is tried again."""
        now = time.monotonic()
        pause = next(self._pauses)
        self._backlog.postpone(series, now + pause)
        if lost := self._backlog.expire(now - SEND_TIMEOUT_S, now):
            self._losses.add("late", f"not written within {SEND_TIMEOUT_S:g} s: {error}", lost)
        return pause

    def _give_up(self, series: EventSeries, error: ClusterError) -> None:
        lost = self._backlog.give_up(series, time.monotonic())
        self._losses.add(str(error.code) if isinstance(error, RefusedError) else "other", str(error), lost)
