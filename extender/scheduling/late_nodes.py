"""Nodes that requests name before the watch on the API server has brought them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Final

from wasm_runtime.nodes.node_table import NodeTable

logger = logging.getLogger(__name__)

MAX_LAG_S: Final = 0.15
"""Seconds for which such a node is waited for, from when it is first named. kube-scheduler watches the same API server
and may be some milliseconds ahead; 100 more where a watch has just ended (`FIRST_PAUSE_S` of the reflector)."""

POLL_INTERVAL_S: Final = 0.005
"""Seconds between two looks at what has come."""

MAX_LATE_NODES: Final = 1_000
"""Nodes that are waited for at a time. No cluster grows by more within `MAX_LAG_S`: then the names are another's."""

MAX_LOGGED_NAMES: Final = 10
"""Names that a line of the log has."""


class LateNodes:
    """Waits for nodes that the watch is about to bring. Only the serving thread may use it.

    A node is waited for when a request names it for the first time. A node that never came, or that was deleted, is
    waited for again only once the node table has forgotten its name.
    """

    def __init__(self, node_table: NodeTable) -> None:
        self._node_table = node_table
        self._until: dict[str, float] = {}
        """By name, when it is waited for no more, on the clock of `time.monotonic`."""

    def expect(self, names: Sequence[str]) -> None:
        """Takes names that come up for the first time."""
        self._settle()
        if len(self._until) + len(names) <= MAX_LATE_NODES:
            self._until.update(dict.fromkeys(names, time.monotonic() + MAX_LAG_S))

    def has_any(self, names: Sequence[str]) -> bool:
        """Whether one of some names is waited for."""
        if not self._until:
            return False
        self._settle()
        return not self._until.keys().isdisjoint(names)

    async def wait(self, names: Sequence[str]) -> None:
        """Ends when none of some names is waited for any more."""
        while self.has_any(names):
            await asyncio.sleep(POLL_INTERVAL_S)

    def _settle(self) -> None:
        """Drops what has come, and with a warning what is overdue."""
        now = time.monotonic()
        missing = {name: self._until[name] for name in self._node_table.without_object(self._until)}
        self._until = {name: until for name, until in missing.items() if until > now}
        if overdue := [name for name in missing if name not in self._until]:
            logger.warning(
                "requests name nodes that the watch on the API server has not brought within %g ms;"
                " until it does, guests see them without an object",
                MAX_LAG_S * 1000,
                extra={"nodes": overdue[:MAX_LOGGED_NAMES], "count": len(overdue)},
            )
