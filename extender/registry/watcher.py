"""Watches the files of plugins and makes a changed module live."""

from __future__ import annotations

import logging
import threading
from typing import Final, NamedTuple

from extender.registry.registry import Registry, Slot
from extender.registry.workshop import LoadError

logger = logging.getLogger(__name__)

INTERVAL: Final = 0.5
"""Seconds between two looks at the files."""


class Look(NamedTuple):
    """What tells one version of a file from another without reading it."""

    inode: int
    size: int
    modified: int


class Watcher:
    """A thread that looks at each file and swaps its plugin when the file has changed.

    Files are looked at by path, links followed, so that an editor's rename and the exchanged link of a
    mounted ConfigMap are seen alike. A file counts as changed once it looks the same twice in a row: one
    that is still being written is left alone. A module that cannot be used changes nothing.
    """

    def __init__(self, registry: Registry) -> None:
        self._workshop = registry.workshop
        self._stopped = threading.Event()
        self._last = {slot.key: look(slot) for slot in registry.slots}
        self._loaded: dict[str, Look | None] = {}  # Empty: a file may have changed since its plugin was loaded.
        self._slots = registry.slots
        self._thread = threading.Thread(target=self._run, name="module-watcher", daemon=True)

    def start(self) -> None:
        """Begins to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, at the latest when the module that it is making is made."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(INTERVAL):
            for slot in self._slots:
                try:
                    self._check(slot)
                except Exception:
                    logger.exception("watching a module failed", extra=_fields(slot))

    def _check(self, slot: Slot) -> None:
        now = look(slot)
        steady = now == self._last[slot.key]
        self._last[slot.key] = now
        if not steady or (slot.key in self._loaded and now == self._loaded[slot.key]):
            return
        self._loaded[slot.key] = now
        try:
            plugin = slot.load(self._workshop)
        except LoadError as error:
            logger.error("new module refused, the old one stays live: %s", error, extra=_fields(slot))
            return
        if plugin is not None:
            old = slot.entry.plugin.digest
            slot.swap(plugin)
            logger.info("module swapped", extra={**_fields(slot), "from": old, "to": plugin.digest})


def look(slot: Slot) -> Look | None:
    """The version of the slot's file; None while there is none."""
    try:
        status = slot.path.stat()
    except OSError:
        return None
    return Look(status.st_ino, status.st_size, status.st_mtime_ns)


def _fields(slot: Slot) -> dict[str, str]:
    return {"plugin": slot.config.name, "profile": slot.profile, "path": str(slot.path)}
