"""What guests log by klog, into our own log, and the Events that they record."""

from __future__ import annotations

import logging
from itertools import zip_longest
from typing import Final

from extender.cluster.events.event import LogRecorder, Recorder, parse
from wasm_runtime.abi import Severity
from wasm_runtime.engine import GuestEvent, GuestJournal, Log
from wasm_runtime.guests.guest import Pod

logger = logging.getLogger(__name__)

LEVELS: Final = {
    Severity.INFO: logging.INFO,
    Severity.WARNING: logging.WARNING,
    Severity.ERROR: logging.ERROR,
    Severity.FATAL: logging.CRITICAL,
}


class GuestLog:
    """Passes on what guests wrote down. May be used from any thread."""

    def __init__(self) -> None:
        self.recorder: Recorder = LogRecorder()
        """Where Events go."""

    def report(self, plugin: str, pod: Pod | None, journal: GuestJournal) -> None:
        """Logs a guest's lines, each with plugin, pod and node if it is about one, and records its Events."""
        fields = {"plugin": plugin, **({"pod": pod.name} if pod else {})}
        for record in journal.records:
            if isinstance(record, GuestEvent):
                self._record(record, fields)
            else:
                of_node = {"node": record.node} if record.node else {}
                more = {**fields, **of_node, "guest": _pairs(record)}
                logger.log(LEVELS[record.severity], record.message, extra=more)
        if journal.dropped:
            logger.warning(
                "the guest logs more than is kept of one verb; raise the plugin's outputLimit",
                extra={**fields, "dropped": journal.dropped},
            )

    def _record(self, event: GuestEvent, fields: dict[str, str]) -> None:
        try:
            self.recorder.record(parse(event.message))
        except ValueError as error:
            logger.warning("the guest recorded what is no Event: %s", error, extra=fields)


def _pairs(record: Log) -> dict[str, str]:
    return dict(zip_longest(record.pairs[::2], record.pairs[1::2], fillvalue=""))
