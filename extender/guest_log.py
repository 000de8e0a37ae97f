"""What guests log by klog and record as Events, into our own log."""

from __future__ import annotations

import logging
from itertools import zip_longest
from typing import Final

from wasm_runtime.abi import Severity
from wasm_runtime.engine import Event, Journal, Log
from wasm_runtime.guest import Pod

logger = logging.getLogger(__name__)

LEVELS: Final = {
    Severity.INFO: logging.INFO,
    Severity.WARNING: logging.WARNING,
    Severity.ERROR: logging.ERROR,
    Severity.FATAL: logging.CRITICAL,
}


def report(plugin: str, pod: Pod, journal: Journal) -> None:
    """Logs a guest's journal, each line with plugin and pod."""
    fields = {"plugin": plugin, "pod": pod.name}
    for record in journal.records:
        if isinstance(record, Event):
            message = record.message.decode(errors="replace")
            logger.info("guest recorded an event", extra={**fields, "guest_event": message})
        else:
            logger.log(LEVELS[record.severity], record.message, extra={**fields, "guest": _pairs(record)})
    if journal.dropped:
        logger.warning("guest logs more than is kept of one call", extra={**fields, "dropped": journal.dropped})


def _pairs(record: Log) -> dict[str, str]:
    return dict(zip_longest(record.pairs[::2], record.pairs[1::2], fillvalue=""))
