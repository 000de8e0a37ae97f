"""The log: a line for each event on standard error, for people on a terminal, in JSON elsewhere."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import structlog

from extender.telemetry.printable import printable, printable_lines

logger = logging.getLogger(__name__)


def _make_printable(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Makes texts of guests and clients harmless for a terminal."""
    return {key: _printable(value) for key, value in event.items()}


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable_lines(value).replace("\n", "\n    ")  # So that none of it looks like another event.
    if isinstance(value, Mapping):
        return {printable(str(key)): _printable(each) for key, each in value.items()}
    return value


def configure() -> None:
    """Sends all logging to standard error. Fields given as `extra` become keys of the line.

    So are what Python would print there by itself: warnings, and errors that nobody has caught.
    """
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
    logging.captureWarnings(capture=True)
    sys.excepthook = _tell_uncaught
    threading.excepthook = _tell_of_thread
    sys.unraisablehook = _tell_unraisable


def _tell_uncaught(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
    else:
        logger.critical("the process ends for a fault of our own", exc_info=(kind, error, traceback))


def _tell_of_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value and not isinstance(args.exc_value, SystemExit):
        name = args.thread.name if args.thread else "a thread"
        logger.error("%s ended for a fault of our own", name, exc_info=args.exc_value)


def _tell_unraisable(args: sys.UnraisableHookArgs) -> None:
    what = f"{args.err_msg or 'Exception ignored in'}: {args.object!r}"
    logger.error("%s", what, exc_info=(args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback))
