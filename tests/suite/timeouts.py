"""A pytest plugin: a test that hangs is one red test, and the run goes on.

pytest-timeout knows how long each test may take. Its own alarm rings once, so that what hangs again while the test is
taken down holds the run for good. This one rings again until the test is over. What no signal interrupts, such as a
call into WebAssembly, ends the process with the stacks of its threads: `tests.suite` then goes on with the next test.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import pytest

AGAIN_S: Final = 20.0
"""Seconds that each rest of a hung test may take, such as the end of a fixture."""
LAST_S: Final = 80.0
"""After its time is over and the alarm has rung four times, a test ends with its process."""
COLLECTION_TIMEOUT_S: Final = 300.0
EXIT_TIMEOUT_S: Final = 60.0
"""Seconds that threads which tests have left may take to end."""

_STDERR: Final = pytest.StashKey[int]()
_in_test: Final = threading.Event()
"""Whether a test runs, is set up or taken down; otherwise pytest itself is at work."""


def pytest_configure(config: pytest.Config) -> None:
    """Nothing is captured yet: this is what a user sees."""
    config.stash[_STDERR] = os.dup(sys.__stderr__.fileno()) if sys.__stderr__ else 2
    _end_process_after(COLLECTION_TIMEOUT_S, config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish() -> None:
    faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool:
    """Sets an alarm in the place of pytest-timeout's own."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        __tracebackhide__ = True
        if not _in_test.is_set():
            return
        item.add_report_section("call", "threads", _stacks())
        pytest.fail(f"the test is not over after {settings.timeout:g} s")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout, AGAIN_S)
    _end_process_after(settings.timeout + LAST_S, item.config)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer() -> bool:
    """pytest-timeout asks for it after a failure too, when what the test has set up is yet to be taken down."""
    return True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Iterator[None]:
    try:
        return (yield)
    finally:
        _cancel()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup() -> Iterator[None]:
    with _running():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call() -> Iterator[None]:
    with _running():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Iterator[None]:
    with _running():
        return (yield)


@contextmanager
def _running() -> Iterator[None]:
    """The alarm fails the test in here alone: elsewhere, while a failure is shown, it would end the whole run."""
    _in_test.set()
    try:
        yield
    finally:
        _in_test.clear()


def pytest_enter_pdb() -> None:
    _cancel()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Python waits without bound for threads that are not daemons."""
    _end_process_after(EXIT_TIMEOUT_S, config)


def _cancel() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    faulthandler.cancel_dump_traceback_later()


def _end_process_after(seconds: float, config: pytest.Config) -> None:
    faulthandler.dump_traceback_later(seconds, exit=True, file=config.stash[_STDERR])


def _stacks() -> str:
    """Where each thread is, but for the main one, whose traceback the failure shows."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = {ident: frame for ident, frame in sys._current_frames().items() if ident != threading.main_thread().ident}
    return "\n".join(
        f"{names.get(ident, '?')}:\n{''.join(traceback.format_stack(frame))}" for ident, frame in frames.items()
    )
