"""A plugin: a compiled module, its settings and the guests that run it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final

from wasm_runtime import abi
from wasm_runtime.abi import ClusterEvent
from wasm_runtime.engine import Engine, Handle, Journal, Module, NoHandle, Settings
from wasm_runtime.errors import GuestError
from wasm_runtime.guest import Guest, Pod, Stage
from wasm_runtime.pool import Pool
from wasm_runtime.snapshot import Nodes, Snapshot
from wasm_runtime.validate import validate

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
        handle: Handle | None = None,
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
        self._handle = handle or NoHandle()
        self._snapshot: Snapshot | None = None
        self._pool = Pool(settings.name, self._new_guest, settings.instances, keeps_cycles=self.binds)
        try:
            self.cluster_events = self._cluster_events()
        except GuestError:
            self.close()
            raise

    @property
    def exports(self) -> list[str]:
        """Exports of the module that are called, in the order of a scheduling cycle."""
        return [name for name in abi.EXPORTS if name in self._enabled]

    @property
    def not_run(self) -> list[str]:
        """Exports of the module that are left out, by the choice of `extension_points`."""
        return [name for name in abi.EXPORTS if name in self._module.exports and name not in self._enabled]

    @property
    def binds(self) -> bool:
        """Whether the guest has a part in the binding cycle."""
        return not abi.BIND_CYCLE.isdisjoint(self._enabled)

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
        else a new cycle begins with PreFilter. A guest that failed for good is not used again. The binding cycle,
        which may take long, leaves one guest to the scheduling cycle. Raises GuestError.
        """
        deadline = self.deadline()
        self._snapshot = nodes.snapshot
        guest = self._pool.take(pod.uid, deadline, spare=1 if stage == "bind" else 0)
        try:
            guest.enter(pod, nodes, stage, deadline)
            yield guest, deadline
        except GuestError:
            raise
        except BaseException:
            guest.is_broken = True
            raise
        finally:
            try:
                journal = guest.journal()
            finally:
                self._pool.put_back(guest)
            if journal.records or journal.dropped:
                self._sink(self.name, pod, journal)

    def deadline(self) -> float:
        """When a call that begins now is interrupted, on the clock of `time.monotonic`."""
        return time.monotonic() + self.settings.timeout

    def end_cycle(self, pod: Pod) -> None:
        """Lets the next call for the pod begin a new cycle."""
        self._pool.forget(pod.uid)

    def close(self) -> None:
        """Gives the guests back, those in use when they are done."""
        self._pool.close()

    def _new_guest(self) -> Guest:
        guest = Guest(self._module.instantiate(self.settings, self._handle), self._enabled | _cycle(self._module))
        try:
            if self._snapshot is not None:
                guest.level(Nodes(self._snapshot, ()))
        except BaseException:
            guest.close()
            raise
        return guest

    def _cluster_events(self) -> list[ClusterEvent]:
        if "enqueue" not in self._enabled:
            return []
        deadline = self.deadline()
        guest = self._pool.take("", deadline)
        try:
            return guest.enqueue(Nodes(Snapshot(), ()), deadline)
        finally:
            self._pool.put_back(guest)


def _enabled(module: Module, extension_points: Collection[str] | None) -> frozenset[str]:
    wanted = set(abi.EXTENSION_POINTS if extension_points is None else extension_points)
    for point in list(wanted):
        wanted |= IMPLIED.get(point, set())
    return frozenset(
        name for name, export in abi.EXPORTS.items() if name in module.exports and export.extension_point in wanted
    )


def _cycle(module: Module) -> frozenset[str]:
    """PreFilter is called even where it is not asked for: guests drop the last pod's state there."""
    return frozenset({"prefilter"} & module.exports.keys())
