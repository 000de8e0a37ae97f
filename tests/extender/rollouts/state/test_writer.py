"""The thread that writes down: nobody waits for what is never done."""

from __future__ import annotations

import threading

from extender.rollouts.state.writer import Writer
from tests.patience import PATIENCE_S, Beside


def test_who_comes_after_the_end_does_not_wait() -> None:
    """As an answer of the admin API that is still being made when the process ends."""
    writer, may_end = Writer("writer"), threading.Event()
    writer.submit(lambda: may_end.wait(PATIENCE_S))
    assert not writer.close(0.0)
    late = Beside(writer.flush)
    assert late.end() is False
    may_end.set()
    assert writer.close(PATIENCE_S)
