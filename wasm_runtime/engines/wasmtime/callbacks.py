"""What the driver calls back for while a guest runs: documents, results, and pods that wait."""

from __future__ import annotations

from wasmtime import Func, FuncType, Store, ValType

from wasm_runtime.abi import GuestResult, HostDocument
from wasm_runtime.driver import layout
from wasm_runtime.engine import MAX_UID_BYTES, Call, Handle, max_result_bytes
from wasm_runtime.engines.wasmtime.memory import CallMemory, GuestMemory


class Callbacks:
    """Answers the driver. Nothing is raised there: what goes wrong is in `error` until the call is over."""

    memory: CallMemory
    guest_memory: GuestMemory

    def __init__(self, handle: Handle) -> None:
        """The memories are there once guest and driver are linked."""
        self._handle = handle
        self.call: Call | None = None
        """The call that is under way; None where there is nothing to answer."""
        self.error: Exception | None = None
        """What has gone wrong in it."""

    def functions(self, store: Store) -> list[Func]:
        """What the driver imports: `supply`, `deliver` and `waiting`."""
        i32 = ValType.i32()
        return [
            Func(store, FuncType([i32], []), self._supply),
            Func(store, FuncType([i32] * 3, []), self._deliver),
            Func(store, FuncType([i32] * 3, [i32]), self._waiting),
        ]

    def _supply(self, document: int) -> None:
        """Called when the guest asks for a document."""
        try:
            self.memory.supply(document, self.call.document(HostDocument(document)) if self.call else b"")
        except Exception as error:
            self.error = error

    def _deliver(self, delivery: int, at: int, length: int) -> None:
        """Called when the guest hands over a result, found to lie in its memory."""
        if self.call is None:
            return
        try:
            length &= layout.NONE
            most = max_result_bytes(self.call.nodes)
            if length > most:
                raise MemoryError(f"a result of {length} bytes, at most {most} are taken")
            data = self.guest_memory.read(at & layout.NONE, length)
            self.call.guest_results[GuestResult(delivery)] = data
        except Exception as error:
            self.error = error

    def _waiting(self, at: int, length: int, reject: int) -> int:
        """Called with the UID of a pod, to be rejected or to be handed over as a document."""
        length &= layout.NONE
        if self.call is None or length > MAX_UID_BYTES:
            return 0
        try:
            uid = self.guest_memory.read(at & layout.NONE, length).decode(errors="replace")
            if reject:
                return int(self._handle.reject_waiting_pod(uid))
            pod = self._handle.waiting_pod(uid)
            if pod is None:
                return 0
            self.memory.supply(HostDocument.WAITING_POD, pod)
            return 1
        except Exception as error:
            self.error = error
            return 0
