"""Telling a guest between its calls what it keeps, a batch at a time."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from wasm_runtime.errors import Fault, GuestError

Announce = TypeVar("Announce")
"""How a guest is told of a batch."""


class Feed(ABC, Generic[Announce]):
    """What one guest knows of something that changes, and what it is still to be told."""

    export: str
    """The export by which the guest learns what is new."""
    max_per_batch: int
    """How many are announced at once, which takes milliseconds even if the guest decodes each in full."""

    @property
    @abstractmethod
    def is_synced(self) -> bool:
        """Whether the guest knows all as it is."""

    @abstractmethod
    def __str__(self) -> str:
        """How far the guest is, for messages."""

    @abstractmethod
    def tell(self, call: Announce, deadline: float, most: int) -> None:
        """Tells the guest the next changes, at most `most`, if there are any. They count as told from then on."""

    def announce(self, call: Announce, deadline: float, most: int) -> bool:
        """Announces what comes next, at most `most`. Returns whether nothing is left.

        Raises GuestError, always a fatal one: the host cannot know what the guest has taken in then.
        """
        try:
            self.tell(call, deadline, most)
        except GuestError as error:
            error.fatal = True
            raise
        return self.is_synced

    def announce_all(self, call: Announce, deadline: float, timeout: float) -> None:
        """Announces everything in batches. The guest has `timeout` seconds for each batch.

        Raises GuestError: a fatal one if a call fails, one that is not if the deadline has passed between two batches.
        """
        while not self.is_synced:
            self.announce(call, time.monotonic() + timeout, self.max_per_batch)
            if time.monotonic() >= deadline:
                raise GuestError(Fault.BUSY, self.export, f"its time was over while it learned of {self}")
