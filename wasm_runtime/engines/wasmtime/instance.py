"""A guest that runs in wasmtime, linked to the driver."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar, cast

import wasmtime
from wasmtime import Func, Instance, Memory, Store, WasiConfig

from wasm_runtime import abi, driver
from wasm_runtime.driver import layout
from wasm_runtime.engine import (
    MAX_LONG_REASONS,
    NO_RESULTS,
    Call,
    CallResult,
    GuestJournal,
    Handle,
    ListResults,
    NodeResults,
    Settings,
    check_pod_buffer,
    max_reason_bytes,
    node_buffer_error,
)
from wasm_runtime.engines.wasmtime import journal
from wasm_runtime.engines.wasmtime.callbacks import Callbacks
from wasm_runtime.engines.wasmtime.limits import Limits
from wasm_runtime.engines.wasmtime.linker import WasmtimeCode, link
from wasm_runtime.engines.wasmtime.memory import CallMemory, GuestMemory, SnapshotMemory
from wasm_runtime.engines.wasmtime.trap import describe
from wasm_runtime.errors import NO_NODE_DATA, Fault, GuestError
from wasm_runtime.module.binary import Interface
from wasm_runtime.nodes.node_feed import ALL_NODES, NodeFeed
from wasm_runtime.nodes.node_table import Nodes
from wasm_runtime.pods.pod_feeds import PodFeeds
from wasm_runtime.pods.record_feed import RecordBatch
from wasm_runtime.wasmtime_capi import EpochDeadline, Function
from wasm_runtime.weak import weak_method

T = TypeVar("T")

NO_DEADLINE: Final = 1 << 60
"""Ticks."""

_PACKED: Final = 2
_KINDS: Final = {(): 0, ("i32",): 1, ("i64",): _PACKED}
"""How the driver tells the results of exports apart."""


class _Point(NamedTuple):
    """An export, as the driver calls it."""

    number: int
    kind: int
    on_node: bool


_POINTS: Final = {
    name: _Point(driver.POINTS[name], _KINDS[export.signature.results], export.on_node)
    for name, export in abi.EXPORTS.items()
}

_IMAGES: Final = abi.Import("k8s.io/scheduler", "nodeImageStates")
_SIGN: Final = 0x8000_0000
_FINE: Final = CallResult(0, 0, "")


class WasmtimeInstance:
    """A store with trampoline, guest and driver. Nothing is shared between instances but code."""

    def __init__(self, code: WasmtimeCode, settings: Settings, handle: Handle) -> None:
        """Links and starts the guest. Raises GuestError."""
        self._settings = settings
        self._ticker = code.ticker
        self._store = Store(code.engine)
        self._interrupt = EpochDeadline(self._store)
        self._callbacks = Callbacks(handle)
        self._limits = Limits(self._store, settings, self._callbacks)
        self._linked = False
        self.has_left = False
        wasi = WasiConfig()
        wasi.argv = settings.argv
        self._store.set_wasi(wasi)
        try:
            deadline = time.monotonic() + settings.timeout
            self._link(code, deadline)
            self._configure(settings)
            self._start(code.interface, deadline)
        except BaseException:
            self.close()
            raise
        self._heap = self._memory.end

    def begin(self, pod: bytes) -> None:
        """Sets the pod that the following calls are about, a protobuf v1.Pod."""
        memory = self._memory
        memory.begin_cycle(self._heap)
        at = memory.keep(pod)
        memory.header.pod, memory.header.pod_length = at, len(pod)

    def sync_nodes(self, nodes: Nodes, deadline: float, max_nodes: int = ALL_NODES) -> bool:
        """Brings the instance's view of the nodes up to date before a call needs it. Raises GuestError."""
        self._snapshot.sync_nodes(nodes)
        knows_nodes = self._feed is None or self._feed.announce(self._announce, deadline, max_nodes)
        if self._pods is None or not knows_nodes:
            return knows_nodes
        return self._pods.announce(self._announce_records, deadline) if max_nodes else self._pods.is_synced

    def once(self, export: str, call: Call) -> CallResult:
        """Calls an export once; one that is about a node, for the only one of `call.nodes`. Raises GuestError."""
        indices, point = self._sync_nodes(call), _POINTS[export]
        memory, target = self._memory, call.target
        at = memory.begin_call(len(target), layout.REASON_ROOM, len(target))
        if target:
            memory.write(at, target)
        if call.nodes.carried:
            indices = self._snapshot.lend(call.nodes, indices)
        if point.on_node:
            memory.header.current = indices[0]
        packed = self._run(export, call, call.deadline, self._once, point.number, point.kind)
        return CallResult(_signed(packed), packed >> 32, memory.reason(memory.header.reason))

    def each(self, export: str, call: Call, tolerated: int) -> NodeResults:
        """Calls an export for each of `call.nodes`. Raises GuestError."""
        count, nodes, values, reasons, codes = self._begin_nodes(call)
        point = _POINTS[export]
        arguments = (point.number, point.kind, tolerated, count, nodes, codes, values, reasons)
        called = self._run(export, call, call.deadline, self._each, *arguments) & layout.NONE
        numbers = self._memory.numbers("i", values, called) if point.kind == _PACKED else []
        return self._node_results(called, codes, numbers, reasons)

    def at_once(self, export: str, call: Call, tolerated: int) -> ListResults | None:
        """Calls an export for all of `call.nodes`. None if one of them has no object. Raises GuestError."""
        count, nodes, answers, reasons, codes = self._begin_nodes(call)
        memory = self._memory
        numbered = memory.reserve(4 * (MAX_LONG_REASONS + count))
        memory.header.numbered_limit = MAX_LONG_REASONS + count
        buffer, point, splits = driver.POINTS["nodebuffer"], driver.POINTS[export], export == abi.LISTS["filter"]
        arguments = (buffer, point, int(splits), tolerated, count, nodes, answers, codes, reasons, numbered)
        packed = self._run(export, call, call.deadline, self._all, *arguments)
        code, called = packed >> 32, packed & layout.NONE
        if called == layout.NONE:
            return None
        if called == layout.NO_ROOM:
            raise node_buffer_error(code & layout.NONE, count)
        if code:
            return ListResults(CallResult(code, 0, memory.reason(memory.header.reason)), NO_RESULTS)
        values = [] if splits else memory.numbers("i", answers, count)
        return ListResults(_FINE, self._node_results(called, codes, values, reasons))

    def collect(self, deadline: float) -> None:
        """Calls the export that collects garbage. Raises GuestError."""
        self._memory.begin_call()
        self._run("collectgarbage", None, deadline, self._once, driver.POINTS["collectgarbage"], _KINDS[()])

    @property
    def memory_size(self) -> int:
        """Bytes of its linear memory."""
        return len(self._guest_memory)

    def read(self, at: int, length: int) -> bytes:
        """Bytes of its linear memory, which they must be in."""
        return self._guest_memory.read(at, length)

    def _begin_nodes(self, call: Call) -> tuple[int, int, int, int, int]:
        """Begins a call for nodes. Returns how many, where their indices are, and room for what is answered."""
        indices, count = self._sync_nodes(call), len(call.nodes)
        size = 4 * count
        nodes = self._memory.begin_call(3 * size + count, max_reason_bytes(count))
        if call.nodes.carried:
            indices = self._snapshot.lend(call.nodes, indices)
        self._memory.write(nodes, array("I", indices).tobytes())
        return count, nodes, nodes + size, nodes + 2 * size, nodes + 3 * size

    def _sync_nodes(self, call: Call) -> Sequence[int]:
        """The indices of a call's nodes, all of them up to date."""
        begun = time.perf_counter()
        try:
            indices = self._snapshot.sync_nodes(call.nodes)
            if self._feed is not None:
                self._feed.announce_all(self._announce, call.deadline, self._settings.timeout)
            if self._pods is not None:
                self._pods.announce_all(self._announce_records, call.deadline, self._settings.timeout)
        finally:
            call.sync_seconds += time.perf_counter() - begun
        return indices

    def _announce(self, export: str, nodes: list[int], deadline: float) -> None:
        numbers = array("I", nodes).tobytes()
        at = self._memory.begin_call(len(numbers))
        self._memory.write(at, numbers)
        gone = int(export == "noderemoved")
        self._run(export, None, deadline, self._tell, driver.POINTS[export], gone, len(nodes), at)

    def _announce_records(self, export: str, batch: RecordBatch, deadline: float) -> None:
        size = len(batch.records)
        at = self._call_with("podbuffer", size, deadline) & layout.NONE
        check_pod_buffer(at, size, len(self._guest_memory))
        self._guest_memory.write(at, batch.records)
        self._call_with(export, batch.length, deadline)

    def _call_with(self, export: str, number: int, deadline: float) -> int:
        """Calls an export of those that are told by records, which gets a number."""
        self._memory.begin_call()
        self._memory.header.output_length = 0
        return self._run(export, None, deadline, self._record_exports[export], number)

    def _node_results(self, called: int, codes: int, values: list[int], reasons: int) -> NodeResults:
        """Reads what the driver has written at the addresses of codes and reasons."""
        memory = self._memory
        failures = memory.header.failures
        if not failures:
            return NodeResults(called, b"", values, [])
        texts = memory.reasons(memory.numbers("I", reasons, failures))
        return NodeResults(called, memory.read(codes, called), values, texts, memory.header.refused)

    def output(self) -> str:
        """What the guest printed in its last call."""
        return self._memory.output()

    def take_journal(self) -> GuestJournal:
        """Takes what the guest logged and recorded since this was last called."""
        return journal.take(self._memory)

    def close(self) -> None:
        """Gives back memory and handles. Idempotent."""
        self._store.close()

    def _link(self, code: WasmtimeCode, deadline: float) -> None:
        store, (exports, imports) = self._store, code.interface

        def instantiate(make: Callable[[], Instance]) -> Instance:
            instance = self._run("instantiate", None, deadline, make)
            self._interrupt(NO_DEADLINE)
            return instance

        guest, linked = link(store, code, self._callbacks, self._limits, instantiate)
        self._guest = guest
        self._once = Function(store, cast(Func, linked["once"]), 2)
        self._each = Function(store, cast(Func, linked["each"]), 8)
        self._all = Function(store, cast(Func, linked["all"]), 10)
        self._tell = Function(store, cast(Func, linked["tell"]), 4)
        self._feed = NodeFeed() if "nodechanged" in exports else None
        self._pods = PodFeeds.of(exports)
        told = [name for name in ("podbuffer", *abi.RECORD_STREAMS) if isinstance(exports.get(name), abi.FunctionType)]
        self._record_exports = {name: Function(store, cast(Func, guest[name]), 1) for name in told}
        grow = weak_method(self._limits.grow)
        self._guest_memory = GuestMemory(store, cast(Memory, guest[abi.MEMORY]))
        self._memory = CallMemory(store, cast(Memory, linked["call"]), grow)
        self._snapshot = SnapshotMemory(
            store,
            cast(Memory, linked["snapshot"]),
            grow,
            call_memory=self._memory,
            index=self._uninterrupted(Function(store, cast(Func, linked["index"]), 2)),
            images=_IMAGES in imports,
            feed=self._feed,
            pods=self._pods,
        )
        self._callbacks.memory, self._callbacks.guest_memory = self._memory, self._guest_memory
        self._linked = True

    def _configure(self, settings: Settings) -> None:
        config = settings.config.encode()
        at = self._memory.keep(config)
        output, journal = (self._memory.keep(bytes(settings.output_limit)) for _ in range(2))
        header = self._memory.header
        header.config, header.config_length = at, len(config)
        header.severity = settings.log_severity
        header.output, header.output_limit = output, settings.output_limit
        header.journal, header.journal_limit = journal, settings.output_limit

    def _start(self, interface: Interface, deadline: float) -> None:
        """Runs the guest's start export; a command may leave by exit status 0."""
        start = next((name for name in abi.START if interface.exports.get(name) == abi.FunctionType()), None)
        if start is None:
            return
        function = Function(self._store, cast(Func, self._guest[start]), 0)
        try:
            self._run(start, None, deadline, function)
        except GuestError as error:
            if error.fault is not Fault.EXIT or error.exit_code != 0:
                raise
            self.has_left = True

    def _run(self, export: str, call: Call | None, deadline: float, function: Callable[..., T], *arguments: int) -> T:
        """Runs something of the guest, which is interrupted at the deadline. Raises GuestError."""
        callbacks = self._callbacks
        callbacks.call = call
        try:
            self._ticker.start(self._interrupt, deadline)
            result = function(*arguments)
        except (wasmtime.Trap, wasmtime.WasmtimeError) as error:
            raise self._guest_error(export, error) from None
        finally:
            self._ticker.stop(self._interrupt)
            callbacks.call = None
            failure, callbacks.error = callbacks.error, None
            if failure is not None and not isinstance(failure, MemoryError):
                raise failure
        if failure is not None:
            raise GuestError(Fault.LIMIT, export, _beyond(failure))
        if call and self._memory.header.data_absent:
            raise GuestError(Fault.NO_NODE_DATA, export, NO_NODE_DATA)
        return result

    def _uninterrupted(self, function: Function) -> Callable[..., int]:
        """A function of the driver that the host calls for itself: no deadline counts there."""
        interrupt = self._interrupt

        def call(*arguments: int) -> int:
            interrupt(NO_DEADLINE)
            return function(*arguments)

        return call

    def _guest_error(self, export: str, error: wasmtime.Trap | wasmtime.WasmtimeError) -> GuestError:
        failure = describe(error)
        cause, output, node = failure.cause, "", ""
        if self._linked:
            output = self._memory.output()
            node = self._node(self._memory.header.current)
            if self._callbacks.call and self._memory.header.data_absent:
                return GuestError(Fault.NO_NODE_DATA, export, NO_NODE_DATA, node=node, fatal=True)
            if isinstance(self._callbacks.error, MemoryError):
                cause = _beyond(self._callbacks.error)
                return GuestError(Fault.LIMIT, export, cause, node=node, output=output, fatal=True)
            failure = failure.with_memory(len(self._guest_memory), self._settings.memory_limit)
            cause = failure.cause
        if failure.fault is Fault.DEADLINE:
            cause = f"interrupted at its timeout of {self._settings.timeout * 1000:.0f} ms"
        return GuestError(
            failure.fault,
            export,
            cause,
            node=node,
            output=output,
            exit_code=failure.exit_code,
            trap=failure.trap,
        )

    def _node(self, index: int) -> str:
        return "" if index == layout.NONE else self._snapshot.name(index)


def _beyond(error: MemoryError) -> str:
    return f"more than the host gives or takes in one call: {error}"


def _signed(packed: int) -> int:
    """The low half of a result as a signed 32-bit number."""
    return ((packed & layout.NONE) ^ _SIGN) - _SIGN
