"""A plugin: a compiled module, its settings and the guests that run it."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final

from wasm_runtime import abi
from wasm_runtime.engine import Engine, Journal, Module, Settings
from wasm_runtime.errors import GuestError
from wasm_runtime.guest import Guest, Pod, Stage
from wasm_runtime.snapshot import Nodes
from wasm_runtime.validate import validate

RUN: Final = frozenset({"prefilter", "filter", "postfilter", "prescore", "score", "normalizescore"})
"""The exports that are called. The bind cycle, and pods that come and go, are not run yet."""

IMPLIED: Final = {"filter": {"preFilter"}, "score": {"preScore"}}
"""Extension points that come with another one."""

Sink = Callable[[str, Pod, Journal], None]
"""Takes what a guest logged: name of the plugin, pod, journal."""


def digest(wasm: bytes) -> str:
    """The name of a module's bytes."""
    return f"sha256:{hashlib.sha256(wasm).hexdigest()}"


class Plugin:
    """Serves extension points with guests of one module. May be used from any thread."""

    def __init__(
        self,
        engine: Engine,
        wasm: bytes,
        settings: Settings,
        *,
        extension_points: Collection[str] | None = None,
        sink: Sink = lambda *_: None,
    ) -> None:
        """Compiles and checks the module and makes a first guest, so that problems show at once.

        `extension_points` narrows what is called to some of what the module exports.
        Raises ModuleError or GuestError.
        """
        self.name = settings.name
        self.digest = digest(wasm)
        self.settings = settings
        self._module = engine.compile(wasm)
        validate(self._module)
        self._enabled = _enabled(self._module, extension_points)
        self._sink = sink
        self._pool = _Pool(self._new_guest)

    @property
    def exports(self) -> list[str]:
        """Exports of the module that are called, in the order of a scheduling cycle."""
        return [name for name in abi.EXPORTS if name in self._enabled]

    @property
    def not_run(self) -> list[str]:
        """Exports of the module that mean something in the framework but are not called here."""
        return [name for name in abi.EXPORTS if name in self._module.exports and name not in RUN]

    @property
    def wants_nodes(self) -> bool:
        """Whether the guest may ask for the objects of nodes, names alone not being enough for it."""
        return bool(abi.NODE_DATA & self._module.imports.keys())

    def runs(self, export: str) -> bool:
        """Whether an export is there, enabled and called."""
        return export in self._enabled

    @contextmanager
    def guest(self, pod: Pod, nodes: Nodes, stage: Stage) -> Iterator[tuple[Guest, float]]:
        """A guest that is on the pod's cycle, and the deadline for what is asked of it.

        It is the guest that has seen the pod's PreFilter, if there is one and its cycle can go on;
        else a new cycle begins with PreFilter. A guest that failed for good is not used again.
        Raises GuestError.
        """
        deadline = time.monotonic() + self.settings.timeout
        guest = self._pool.take(pod.uid)
        fatal = True
        try:
            guest.enter(pod, nodes, stage, deadline)
            yield guest, deadline
            fatal = False
        except GuestError as error:
            fatal = error.fatal
            raise
        finally:
            journal = guest.journal()
            self._pool.put_back(guest, fatal)
            if journal.records or journal.dropped:
                self._sink(self.name, pod, journal)

    def end_cycle(self, pod: Pod) -> None:
        """Lets the next call for the pod begin a new cycle."""
        self._pool.forget(pod.uid)

    def close(self) -> None:
        """Gives the guests back, those in use when they are done."""
        self._pool.close()

    def _new_guest(self) -> Guest:
        return Guest(self._module.instantiate(self.settings), self._enabled | _cycle(self._module))


def _enabled(module: Module, extension_points: Collection[str] | None) -> frozenset[str]:
    wanted = set(abi.EXTENSION_POINTS if extension_points is None else extension_points)
    for point in list(wanted):
        wanted |= IMPLIED.get(point, set())
    return frozenset(
        name
        for name, export in abi.EXPORTS.items()
        if name in RUN and name in module.exports and export.extension_point in wanted
    )


def _cycle(module: Module) -> frozenset[str]:
    """PreFilter is called even where it is not asked for: guests drop the last pod's state there."""
    return frozenset({"prefilter"} & module.exports.keys())


class _Pool:
    """The guests that are idle. As many are made as are needed at the same time."""

    def __init__(self, new: Callable[[], Guest]) -> None:
        self._new = new
        self._lock = threading.Lock()
        self._idle = [new()]
        self._closed = False

    def take(self, uid: str) -> Guest:
        """The guest that has seen the pod, else the one that was idle longest, else a new one."""
        with self._lock:
            at = next((at for at, guest in enumerate(self._idle) if guest.uid == uid), 0)
            if self._idle:
                return self._idle.pop(at)
        return self._new()

    def forget(self, uid: str) -> None:
        with self._lock:
            for guest in self._idle:
                if guest.uid == uid:
                    guest.uid = None

    def put_back(self, guest: Guest, fatal: bool) -> None:
        with self._lock:
            if not fatal and not self._closed:
                self._idle.append(guest)
                return
        guest.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for guest in idle:
            guest.close()
