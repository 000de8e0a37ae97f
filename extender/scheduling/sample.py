"""A request that was judged, as it is kept to be judged again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from extender.scheduling.verb import JudgingVerbName, Victims
from wasm_runtime.guests.guest import Pod

NAME_BYTES: Final = 80
"""Bytes that a node's name takes, its place in a list included."""


class Sample(NamedTuple):
    """A request that was judged."""

    verb: JudgingVerbName
    pod: Pod
    names: Sequence[str]
    """The nodes that it was about, all of them, however few a plugin has left to the next one."""
    victims: Victims | None = None
    """With preempt, those on each node. They are looked up when they are asked for, and may be gone by then."""
    held: int = 0
    """Bytes that `victims` keeps alive."""

    @property
    def size(self) -> int:
        """Bytes that it takes, by a rule of thumb."""
        return NAME_BYTES * len(self.names) + len(self.pod.object) + self.held
