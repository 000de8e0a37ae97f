"""What a guest's store may have of memory and tables."""

from __future__ import annotations

from typing import Final

from wasmtime import Memory, Store

from wasm_runtime.engine import Settings
from wasm_runtime.engines.wasmtime.callbacks import Callbacks

MAX_TABLES: Final = 8
"""Tables that a guest may have."""


class Limits:
    """The limits of a store, which hold whenever its guest runs."""

    def __init__(self, store: Store, settings: Settings, callbacks: Callbacks) -> None:
        self._store = store
        self._settings = settings
        self._callbacks = callbacks

    def set(self) -> None:
        """Bounds what the guest may have. Numbers of memories and tables count when it is instantiated."""
        self._store.set_limits(
            memory_size=self._settings.memory_limit,
            table_elements=self._settings.table_limit,
            tables=1 + MAX_TABLES,
            memories=1,
        )

    def lift(self) -> None:
        """Bounds nothing, for what the host makes."""
        self._store.set_limits()

    def grow(self, memory: Memory, pages: int) -> None:
        """Grows a memory of the driver. Only between calls may it grow beyond the guest's limit.

        A document for a guest never needs to: what is larger than its limit it could not take.
        """
        if self._callbacks.call is None:
            self.lift()
        try:
            memory.grow(self._store, pages)
        finally:
            if self._callbacks.call is None:
                self.set()
