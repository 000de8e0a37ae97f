"""A plugin: a compiled module, its settings and the guests that run it."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from wasm_runtime import abi
from wasm_runtime.abi import ClusterEvent
from wasm_runtime.blob import Blob
from wasm_runtime.engine import Engine, GuestJournal, Handle, Module, NoHandle, Settings, Span
from wasm_runtime.errors import GuestError
from wasm_runtime.guests.core_guest import CoreGuest
from wasm_runtime.guests.guest import CycleStage, Guest, Pod
from wasm_runtime.guests.pool import Pool
from wasm_runtime.module.validate import validate
from wasm_runtime.nodes.node_feed import MAX_NODES_PER_BATCH
from wasm_runtime.nodes.node_table import Nodes, NodeTable
from wasm_runtime.weak import weak_method

IMPLIED: Final = {"filter": {"preFilter"}, "score": {"preScore"}}
"""Extension points that come with another one."""

MAX_PREPARE_TIMEOUTS: Final = 20
"""How many timeouts a new guest may spend on learning before a pod may have it. It learns the rest later."""

_BINDING: Final[frozenset[CycleStage]] = frozenset({"bind", "permit"})
"""The stages of the binding cycle. It leaves one guest to the scheduling cycle."""

Sink = Callable[[str, Pod | None, GuestJournal], None]
"""Takes what a guest logged: name of the plugin, the pod if it was about one, journal."""

Observer = Callable[[str, float, Sequence[Span]], None]
"""Takes how long a verb took in a plugin: name of the plugin, seconds that it waited for a guest, its calls."""


class Plugin:
    """Serves extension points with guests of one module. May be used from any thread."""

    def __init__(
        self,
        engine: Engine,
        module: bytes | Blob,
        settings: Settings,
        *,
        extension_points: Collection[str] | None = None,
        sink: Sink = lambda *_: None,
        observer: Observer = lambda *_: None,
        handle: Handle | None = None,
        nodes: NodeTable | None = None,
    ) -> None:
        """Compiles and checks the module and makes a first guest, so that problems show at once.

        `extension_points` narrows what is called to some of what the module exports; `nodes` are told to the first
        guest, for `MAX_PREPARE_TIMEOUTS` timeouts at most. Raises ModuleError or GuestError.
        """
        self.name = settings.name
        module = Blob.of(module)
        self.digest = module.digest
        self.settings = settings
        self._module = engine.compile(module)
        validate(self._module)
        self._enabled = _enabled(self._module, extension_points)
        self.has_binding_points = not abi.BIND_CYCLE.isdisjoint(self._enabled)
        """Whether the guest has extension points of the binding cycle (Reserve to PostBind)."""
        self.wants_nodes = bool(abi.NODE_DATA & self._module.imports.keys())
        """Whether the guest may ask for the objects of nodes, names alone not being enough for it."""
        self.wants_pods = not self._module.exports.keys().isdisjoint(abi.RECORD_STREAMS)
        """Whether the guest is told of pods, or of groups and their members."""
        self.wants_groups = "groupschanged" in self._module.exports
        """Whether the guest is told of groups."""
        self.is_asked_again = self.wants_pods and "permit" in self._enabled
        """Whether Permit is called again for a pod that waits, when pods, nodes or groups have changed."""
        self._sink = sink
        self._observer = observer
        self._handle = handle or NoHandle()
        self._nodes = nodes
        self._closed = False
        self._pool = self._new_pool()
        try:
            self.cluster_events = self._cluster_events()
        except GuestError:
            self.close()
            raise

    def clone(
        self, sink: Sink, observer: Observer, handle: Handle | None = None, nodes: NodeTable | None = None
    ) -> Plugin:
        """Another plugin of the same compiled module and settings, with guests of its own. Raises GuestError."""
        clone = copy.copy(self)
        clone._sink, clone._observer, clone._handle, clone._nodes = sink, observer, handle or NoHandle(), nodes
        clone._closed = False
        clone._pool = clone._new_pool()
        return clone

    @property
    def nodes(self) -> NodeTable | None:
        """The nodes that a new guest learns: those of the last request or maintenance, else those given at first."""
        return self._nodes

    @property
    def exports(self) -> list[str]:
        """Exports of the module that are called, in the order of a scheduling cycle."""
        return [name for name in abi.EXPORTS if name in self._enabled]

    @property
    def not_run(self) -> list[str]:
        """Exports of the module that are left out, by the choice of `extension_points`."""
        return [name for name in abi.EXPORTS if name in self._module.exports and name not in self._enabled]

    def runs(self, export: str) -> bool:
        """Whether an export is there, enabled and called."""
        return export in self._enabled

    def guest(self, pod: Pod, nodes: Nodes, stage: CycleStage) -> Lease:
        """A guest that is on the pod's cycle, and the deadline for what is asked of it, while the context lasts.

        It is the guest that has seen the pod's PreFilter, if there is one and its cycle can go on;
        else a new cycle begins with PreFilter. A guest that failed for good is not used again. The binding cycle,
        which may take long, leaves one guest to the scheduling cycle. To enter it raises GuestError.
        """
        return Lease(self, pod, nodes, stage)

    def _take(self, pod: Pod, nodes: Nodes, stage: CycleStage) -> tuple[Guest, float, float]:
        """Takes a guest. Returns it, the deadline for what is asked of it, and the seconds that the wait took."""
        begun = time.monotonic()
        deadline = begun + self.settings.timeout
        self._nodes = nodes.node_table
        guest = self._pool.take(pod.uid, deadline, keep_free=int(stage in _BINDING))
        return guest, deadline, time.monotonic() - begun

    def _put_back(self, guest: Guest, pod: Pod, waited: float) -> None:
        try:
            journal = guest.take_journal()
            spans, guest.spans = guest.spans, []
        finally:
            self._pool.put_back(guest)
        self._observer(self.name, waited, spans)
        self._pass_on(journal, pod)

    def deadline(self) -> float:
        """When a call that begins now is interrupted, on the clock of `time.monotonic`."""
        return time.monotonic() + self.settings.timeout

    def end_cycle(self, pod: Pod) -> None:
        """Lets the next call for the pod begin a new cycle."""
        self._pool.forget(pod.uid)

    def close(self) -> None:
        """Gives the guests back, those in use when they are done."""
        self._closed = True
        self._pool.close()

    def reserve(self, pod: Pod) -> bool:
        """Holds a guest for this thread if a verb for the pod can have it at once. Returns whether there was one.

        From then on until `release` no call of this thread waits for a guest.
        """
        return self._pool.reserve(pod.uid)

    def release(self) -> None:
        """Gives back what this thread has reserved."""
        self._pool.release()

    @property
    def problem(self) -> str:
        """Why there is no guest, since none can be made; empty otherwise."""
        return self._pool.problem

    def maintain(self, nodes: NodeTable, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Brings idle guests up to date, and lets them collect garbage when that is due. Returns whether work is left.

        Begins with no further guest once `is_over` returns True. Raises GuestError.
        """
        self._nodes = nodes
        return self._pool.maintain(lambda guest: not is_over() and self._maintain(guest))

    def _maintain(self, guest: Guest) -> bool:
        with self._between_pods(guest):
            if self._sync_nodes(guest):
                return True
            if guest.is_garbage_collection_due:
                guest.collect(self.deadline())
            return False

    def _prepare(self, guest: Guest) -> None:
        """Announces what there is now to a new guest, in bounded time. Maintenance does the rest."""
        if self._nodes is None:
            return
        pods = self._nodes.pods
        count = len(self._nodes) + (len(pods) + len(pods.groups) if self.wants_pods else 0)
        until = time.monotonic() + MAX_PREPARE_TIMEOUTS * self.settings.timeout
        with self._between_pods(guest):
            for _ in range(0, count + 1, MAX_NODES_PER_BATCH):
                if self._closed or time.monotonic() >= until or not self._sync_nodes(guest):
                    break

    @contextmanager
    def _between_pods(self, guest: Guest) -> Iterator[None]:
        """For work between pods: neither the log lines of a guest nor the time that it takes are counted to a pod."""
        try:
            yield
        finally:
            guest.spans.clear()
            self._pass_on(guest.take_journal(), None)

    def _pass_on(self, journal: GuestJournal, pod: Pod | None) -> None:
        if journal.records or journal.dropped:
            self._sink(self.name, pod, journal)

    def _sync_nodes(self, guest: Guest) -> bool:
        """Brings a guest up to date, a few nodes and pods at a time. Returns whether there are more."""
        if self._nodes is None:
            return False
        return not guest.sync_nodes(Nodes(self._nodes, ()), self.deadline(), MAX_NODES_PER_BATCH)

    def _new_pool(self) -> Pool:
        return Pool(
            self.settings.name,
            weak_method(self._new_guest),
            self.settings.instances,
            keeps_cycles=self.has_binding_points,
            learns="nodechanged" in self._module.exports or self.wants_pods,
            prepare=weak_method(self._prepare),
        )

    def _new_guest(self) -> Guest:
        return CoreGuest(self._module.instantiate(self.settings, self._handle), self._enabled | _cycle(self._module))

    def _cluster_events(self) -> list[ClusterEvent]:
        if "enqueue" not in self._enabled:
            return []
        deadline = self.deadline()
        guest = self._pool.take("", deadline)
        try:
            with self._between_pods(guest):
                return guest.enqueue(Nodes(NodeTable() if self._nodes is None else self._nodes, ()), deadline)
        finally:
            self._pool.put_back(guest)


class Lease:
    """A guest of a plugin for as long as the context lasts. A generator would take twice as long, in each verb."""

    __slots__ = ("_guest", "_nodes", "_plugin", "_pod", "_stage", "_waited")

    def __init__(self, plugin: Plugin, pod: Pod, nodes: Nodes, stage: CycleStage) -> None:
        self._plugin = plugin
        self._pod = pod
        self._nodes = nodes
        self._stage: CycleStage = stage

    def __enter__(self) -> tuple[Guest, float]:
        guest, deadline, self._waited = self._plugin._take(self._pod, self._nodes, self._stage)
        self._guest = guest
        try:
            guest.enter(self._pod, self._nodes, self._stage, deadline)
        except BaseException:
            self.__exit__()
            raise
        return guest, deadline

    def __exit__(self, *_: object) -> None:
        self._plugin._put_back(self._guest, self._pod, self._waited)


def _enabled(module: Module, extension_points: Collection[str] | None) -> frozenset[str]:
    """The exports to be called at some extension points, or at all of them."""
    wanted = set(abi.EXTENSION_POINTS if extension_points is None else extension_points)
    for point in list(wanted):
        wanted |= IMPLIED.get(point, set())
    return frozenset(
        name for name, export in abi.EXPORTS.items() if name in module.exports and export.extension_point in wanted
    )


def _cycle(module: Module) -> frozenset[str]:
    """Exports that are always called: PreFilter, since guests drop the state of the last pod there."""
    return frozenset({"prefilter", *abi.RESIDENT} & module.exports.keys())
