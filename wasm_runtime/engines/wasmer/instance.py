"""A guest that runs in wasmer."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import wasmer

from wasm_runtime import abi
from wasm_runtime.abi import FunctionType, Import
from wasm_runtime.driver.layout import NONE, PAGE, REASON_ROOM
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
from wasm_runtime.engines.wasmer import start
from wasm_runtime.engines.wasmer.guard import Guard, beyond
from wasm_runtime.engines.wasmer.host import Host
from wasm_runtime.engines.wasmer.linker import Trampoline
from wasm_runtime.engines.wasmer.node_snapshot import NodeSnapshot
from wasm_runtime.engines.wasmer.thread import OneThread
from wasm_runtime.engines.wasmer.wasi import Wasi
from wasm_runtime.errors import NO_NODE_DATA, Fault, GuestError
from wasm_runtime.module.binary import Interface
from wasm_runtime.nodes.node_feed import ALL_NODES, NodeFeed
from wasm_runtime.nodes.node_table import Nodes
from wasm_runtime.pods.pod_feeds import PodFeeds
from wasm_runtime.pods.record_feed import RecordBatch

T = TypeVar("T")

_IMAGES: Final = Import("k8s.io/scheduler", "nodeImageStates")
_PACKED: Final = frozenset(name for name, export in abi.EXPORTS.items() if export.signature.results == ("i64",))
"""The exports that return two numbers in one."""
_SIGN: Final = 0x8000_0000
_CODES: Final = 32
"""How many codes there are bits for."""


class WasmerCode(NamedTuple):
    """What the instances of a module share: its compiled code, the trampoline made for it and the engine's thread."""

    thread: OneThread
    trampoline: Trampoline
    guest: Any
    """A `wasmer.Module`, which only that thread may use."""
    has_start_section: bool
    """Whether the guest had one, which is now the export `start.EXPORT`."""
    interface: Interface
    """Of the guest."""


class WasmerInstance:
    """A guest and its host. Nothing is shared between instances but code.

    Nothing interrupts a guest and nothing bounds its memory: the clock is looked at before and after each call,
    the memory afterwards. A guest that never returns holds the process up for good, and one whose tables take all
    the memory there is ends it.
    """

    def __init__(self, code: WasmerCode, settings: Settings, handle: Handle) -> None:
        """Links and starts the guest. Raises GuestError."""
        exports, imports = code.interface
        self._thread = code.thread
        self._settings = settings
        self._feed = NodeFeed() if "nodechanged" in exports else None
        self._pods = PodFeeds.of(exports)
        nodes = NodeSnapshot(images=_IMAGES in imports, feed=self._feed, pods=self._pods)
        self._host = Host(settings, handle, nodes)
        self._guard = Guard(self._host, settings)
        self._native: Any = None
        self._imports: dict[str, dict[str, Any]] = {}
        self._functions: dict[str, Any] = {}
        self.has_left = False
        try:
            self._thread.run(self._start, code, time.monotonic() + settings.timeout)
        except BaseException:
            self.close()
            raise

    def begin(self, pod: bytes) -> None:
        """Sets the pod that the following calls are about, a protobuf v1.Pod."""
        self._host.pod = pod

    def sync_nodes(self, nodes: Nodes, deadline: float, max_nodes: int = ALL_NODES) -> bool:
        """Brings the instance's view of the nodes up to date before a call needs it. Raises GuestError."""
        return self._thread.run(self._sync_nodes, nodes, deadline, max_nodes)

    def once(self, export: str, call: Call) -> CallResult:
        """Calls an export once; one that is about a node, for the only one of `call.nodes`. Raises GuestError."""
        return self._thread.run(self._once, export, call)

    def each(self, export: str, call: Call, tolerated: int) -> NodeResults:
        """Calls an export for each of `call.nodes`. Raises GuestError."""
        return self._thread.run(self._each, export, call, tolerated)

    def at_once(self, export: str, call: Call, tolerated: int) -> ListResults | None:
        """Calls an export for all of `call.nodes`. None if one of them has no object. Raises GuestError."""
        return self._thread.run(self._at_once, export, call, tolerated)

    def collect(self, deadline: float) -> None:
        """Calls the export that collects garbage. Raises GuestError."""
        self._thread.run(self._collect, deadline)

    @property
    def memory_size(self) -> int:
        """Bytes of its linear memory."""
        return self._thread.run(len, self._host.memory)

    def read(self, at: int, length: int) -> bytes:
        """Bytes of its linear memory, which they must be in."""
        return self._thread.run(self._read, at, length)

    def output(self) -> str:
        """What the guest printed in its last call."""
        return str(self._host.output)

    def take_journal(self) -> GuestJournal:
        """Takes what the guest logged and recorded since this was last called."""
        return self._host.records.take()

    def close(self) -> None:
        """Gives back memory and handles. Idempotent."""
        self._thread.run(self._drop)

    def _read(self, at: int, length: int) -> bytes:
        try:
            return self._host.memory.read(at, length)
        finally:
            self._host.memory.rest()

    def _drop(self) -> None:
        self._functions.clear()
        self._native = None
        self._imports.clear()
        self._host.memory.detach()

    def _start(self, code: WasmerCode, deadline: float) -> None:
        """Makes the instance and runs the guest's start export; a command may leave by exit status 0."""
        self._guard.run("instantiate", deadline, lambda: self._instantiate(code))
        name = next((name for name in abi.START if code.interface.exports.get(name) == FunctionType()), None)
        if name is None:
            return
        try:
            self._guard.run(name, deadline, getattr(self._native.exports, name))
        except GuestError as error:
            if error.fault is not Fault.EXIT or error.exit_code != 0:
                raise
            self.has_left = True

    def _instantiate(self, code: WasmerCode) -> None:
        host, settings = self._host, self._settings
        wasi = Wasi(host.memory, host.output, settings.argv)
        # An instance of wasmer does not keep alive what it imports.
        self._imports = code.trampoline.link({**host.functions(), **wasi.functions()}, host)
        self._native = wasmer.Instance(code.guest, self._imports)
        exports = self._native.exports
        host.memory.attach(getattr(exports, abi.MEMORY))
        if len(host.memory) > settings.memory_limit:
            cause = f"memory minimum size of {len(host.memory) // PAGE} pages exceeds memory limits"
            raise GuestError(Fault.MEMORY, "instantiate", cause)
        if code.has_start_section:
            getattr(exports, start.EXPORT)()
        host.is_linked = True
        points = (
            name for name in [*abi.EXPORTS, *abi.RESIDENT] if isinstance(code.interface.exports.get(name), FunctionType)
        )
        self._functions = {name: getattr(exports, name) for name in points}

    def _once(self, export: str, call: Call) -> CallResult:
        host = self._host
        indices = self._begin(call, REASON_ROOM)
        host.target = call.target
        if abi.EXPORTS[export].on_node:
            host.current = indices[0]
        low, high = self._run(export, call.deadline, lambda: self._enter(export, call.deadline))
        return CallResult(low, high, host.reasons.text())

    def _each(self, export: str, call: Call, tolerated: int) -> NodeResults:
        host = self._host
        indices = self._begin(call, max_reason_bytes(len(call.nodes)))
        codes = bytearray()
        values: list[int] = []
        reasons: list[str] = []

        def loop() -> int:
            code = 0
            for index in indices:
                host.current = index
                code, value = self._enter(export, call.deadline)
                codes.append(code & 0xFF)
                values.append(value)
                if code:
                    reasons.append(host.reasons.keep())
                if host.is_data_absent or not _is_tolerated(code, tolerated):
                    break
            host.current = None
            return 0 if _is_tolerated(code, tolerated) else code

        refused = self._run(export, call.deadline, loop)
        return NodeResults(
            len(codes), bytes(codes) if reasons else b"", values if export in _PACKED else [], reasons, refused
        )

    def _at_once(self, export: str, call: Call, tolerated: int) -> ListResults | None:
        host, count = self._host, len(call.nodes)
        indices = self._begin(call, max_reason_bytes(len(call.nodes)))
        if not all(map(host.nodes.objects.__getitem__, indices)):
            host.end()
            return None

        def answers() -> tuple[int, bytes]:
            self._guard.check_time(export, call.deadline)
            host.enter()
            at = self._functions["nodebuffer"](count) & NONE
            if not host.memory.has(at, 4 * count):
                raise node_buffer_error(at, count)
            host.memory.write(at, array("I", indices).tobytes())
            host.enter()
            host.reasons.number(MAX_LONG_REASONS + count)
            code = self._functions[export](count)
            return code, host.memory.read(at, 4 * count)

        code, written = self._run(export, call.deadline, answers)
        status = CallResult(code, 0, host.reasons.text())
        if code:
            return ListResults(status, NO_RESULTS)
        if export == abi.LISTS["score"]:
            return ListResults(status, NodeResults(count, b"", array("i", written).tolist(), []))
        return ListResults(status, self._split(array("I", written), tolerated))

    def _split(self, answers: Iterable[int], tolerated: int) -> NodeResults:
        """Splits the answers of Filter for a list: code | number of the reason << 8."""
        codes = bytearray()
        reasons: list[str] = []
        for answer in answers:
            code = answer & 0xFF
            codes.append(code)
            if code:
                reasons.append(self._host.reasons.of(answer >> 8))
            if not _is_tolerated(code, tolerated):
                return NodeResults(len(codes), bytes(codes), [], reasons, code)
        return NodeResults(len(codes), bytes(codes) if reasons else b"", [], reasons)

    def _collect(self, deadline: float) -> None:
        self._host.begin()
        self._run("collectgarbage", deadline, lambda: self._enter("collectgarbage", deadline))

    def _begin(self, call: Call, room: int) -> Sequence[int]:
        """Begins a call, all nodes being up to date. Returns the indices of its own."""
        begun = time.perf_counter()
        try:
            indices = self._host.nodes.sync_nodes(call.nodes)
            if self._feed is not None:
                self._feed.announce_all(self._announce, call.deadline, self._settings.timeout)
            if self._pods is not None:
                self._pods.announce_all(self._announce_records, call.deadline, self._settings.timeout)
        finally:
            call.sync_seconds += time.perf_counter() - begun
        self._host.begin(call, room)
        return self._host.nodes.lend(call.nodes, indices) if call.nodes.carried else indices

    def _sync_nodes(self, nodes: Nodes, deadline: float, max_nodes: int) -> bool:
        self._host.nodes.sync_nodes(nodes)
        knows_nodes = self._feed is None or self._feed.announce(self._announce, deadline, max_nodes)
        if self._pods is None or not knows_nodes:
            return knows_nodes
        return self._pods.announce(self._announce_records, deadline) if max_nodes else self._pods.is_synced

    def _announce(self, export: str, nodes: list[int], deadline: float) -> None:
        host = self._host
        host.begin()

        def loop() -> None:
            for index in nodes:
                host.current = index if export == "nodechanged" else None
                self._guard.check_time(export, deadline)
                host.enter()
                self._functions[export](index)
            host.current = None

        self._run(export, deadline, loop)

    def _announce_records(self, export: str, batch: RecordBatch, deadline: float) -> None:
        memory, size = self._host.memory, len(batch.records)
        at = self._call_with("podbuffer", size, deadline) & NONE
        check_pod_buffer(at, size, len(memory))
        memory.write(at, batch.records)
        memory.rest()
        self._call_with(export, batch.length, deadline)

    def _call_with(self, export: str, number: int, deadline: float) -> int:
        """Calls an export of those that are told by records, which gets a number."""
        host = self._host

        def enter() -> int:
            self._guard.check_time(export, deadline)
            host.enter()
            return self._functions[export](number) or 0

        host.begin()
        return self._run(export, deadline, enter)

    def _enter(self, export: str, deadline: float) -> tuple[int, int]:
        """Calls the guest, if there is time. Returns the halves of its result, both signed."""
        self._guard.check_time(export, deadline)
        self._host.enter()
        result = self._functions[export]() or 0
        low = ((result & NONE) ^ _SIGN) - _SIGN
        return low, result >> 32 if export in _PACKED else 0

    def _run(self, export: str, deadline: float, does: Callable[[], T]) -> T:
        host = self._host
        try:
            result = self._guard.run(export, deadline, does)
        finally:
            host.end()
            error = host.error
            if error is not None and not isinstance(error, MemoryError):
                raise error
        if error is not None:
            raise GuestError(Fault.LIMIT, export, beyond(error))
        if host.is_data_absent:
            raise GuestError(Fault.NO_NODE_DATA, export, NO_NODE_DATA)
        return result


def _is_tolerated(code: int, tolerated: int) -> bool:
    return 0 <= code < _CODES and bool(tolerated >> code & 1)
