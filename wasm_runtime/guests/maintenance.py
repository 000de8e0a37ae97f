"""What is done for guests while no pod needs them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

from wasm_runtime.guests.guest import GC_IDLE_S
from wasm_runtime.guests.plugin import Plugin
from wasm_runtime.nodes.node_table import NodeTable
from wasm_runtime.supervision import SupervisedThread

MIN_ROUND_INTERVAL_S: Final = 0.025
"""Seconds between two rounds, so that one round takes several of the hundreds of changes that a second may bring: a
round costs more than the changes that it takes."""

ErrorHandler = Callable[[Plugin, Exception], object]
"""Takes what went wrong: a GuestError, or a fault of the host's own such as MemoryError."""


class GuestMaintenance:
    """Maintains the guests of plugins in a thread of its own: at once when it is woken, else every `GC_IDLE_S`.

    No request waits for what is done between requests. What is left when a request comes, the request does itself.
    """

    def __init__(
        self, plugins: Callable[[], Iterable[Plugin]], nodes: Callable[[], NodeTable], report: ErrorHandler
    ) -> None:
        """`plugins` gives those that are live, `nodes` what their guests are to know."""
        self._plugins = plugins
        self._nodes = nodes
        self._report = report
        self._woken = threading.Event()
        self._thread = SupervisedThread("guest-maintenance", self._turn)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def wake(self) -> None:
        """Says that nodes or pods have changed."""
        self._woken.set()

    def stop(self) -> None:
        """Ends when the guest at hand is done."""
        self._thread.stop()
        self._woken.set()
        self._thread.join()

    def _turn(self) -> float:
        self._woken.wait(GC_IDLE_S)
        self._woken.clear()
        while self._maintain_all() and not self._thread.is_stopped:
            pass
        return MIN_ROUND_INTERVAL_S

    def _maintain_all(self) -> bool:
        left = [self._maintain(plugin) for plugin in self._plugins()]
        return any(left)

    def _maintain(self, plugin: Plugin) -> bool:
        if self._thread.is_stopped:
            return False
        try:
            return plugin.maintain(self._nodes(), lambda: self._thread.is_stopped)
        except Exception as error:  # The thread has other plugins to maintain.
            self._report(plugin, error)
            return False
