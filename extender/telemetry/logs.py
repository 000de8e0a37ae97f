"""The log: a line an event on standard error, for people on a terminal, JSON elsewhere."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

import structlog

from extender.telemetry.printable import printable, printable_lines


def _make_printable(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Keeps what guests and clients have said from being more than text on a terminal."""
    return {key: _printable(value) for key, value in event.items()}


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable_lines(value).replace("\n", "\n    ")  # So that none of it looks like another event.
    if isinstance(value, Mapping):
        return {printable(str(key)): _printable(each) for key, each in value.items()}
    return value


def configure() -> None:
    """Sends all logging to standard error. Fields given as `extra` become keys of the line."""
    to_terminal = sys.stderr.isatty()
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    end: list[structlog.typing.Processor] = (
        [_make_printable, structlog.dev.ConsoleRenderer()]
        if to_terminal
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *end],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    for noisy in ("httpx", "httpcore", "uvicorn"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
