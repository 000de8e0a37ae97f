"""Which plugins may run inline: on the event loop that serves all verbs, instead of in a thread."""

from __future__ import annotations

from typing import Final

MAX_INLINE_S: Final = 0.002
"""Seconds of the processor that a verb's plugins may hold the loop: about what ten verbs take that wait behind it."""

MIN_QUICK_CALLS: Final = 32
"""Verbs in a row that must have been quick before a plugin runs inline, for a new plugin as well as after a slow
verb."""


class InlinePolicy:
    """Decides from a plugin's processor time in a verb. A lost update between threads does no harm."""

    def __init__(self) -> None:
        self._quick_in_a_row = 0
        self.may_run_inline = False
        """Whether the event loop may run the plugin: another thread would cost more than it saves."""

    def note(self, seconds: float) -> None:
        """Counts a verb by the CPU time of the plugin. Wall-clock time would count what other threads did meanwhile."""
        self._quick_in_a_row = self._quick_in_a_row + 1 if seconds <= MAX_INLINE_S else 0
        self.may_run_inline = self._quick_in_a_row >= MIN_QUICK_CALLS
