"""Pods and nodes as protobuf, from their JSON: by a WebAssembly module, or by `encode` where that is not enough.

The module (convert.zig) takes 2 to 5 microseconds for a pod. What is unusual about an object, and all that is wrong
with it, is left to `encode`, which has the errors; the bytes are the same from either.
"""

import weakref
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Final, cast

import msgspec
from wasmtime import Engine, Func, Instance, Memory, Module, Store

from wasm_runtime.protobuf import table
from wasm_runtime.protobuf.encode import encode_node, encode_pod
from wasm_runtime.wasmtime_capi import Function

MODULE: Final = Path(__file__).with_name("convert.wasm")

MAX_JSON_BYTES: Final = 4 * 1024 * 1024
"""Bytes of the longest text that the module is given. The API server takes objects of 3 MiB."""

_MIN_ROOM_BYTES: Final = 65_536
"""Bytes of the texts for which there is room from the start, and which take less than a millisecond."""

_UINT32: Final = 0xFFFF_FFFF
_NOT_TAKEN: Final = -1


class Converter:
    """An instance of the module, with a memory of its own of at most 16 MiB. Threads wait for each other."""

    def __init__(self, wasm: bytes) -> None:
        with Engine() as engine, Module(engine, wasm) as module:
            self._store = store = Store(engine)
            exports = Instance(store, module, []).exports(store)
        self._memory = cast(Memory, exports["memory"])
        self._reserve = Function(store, cast(Func, exports["reserve"]), 1)
        self._convert = Function(store, cast(Func, exports["convert"]), 2, keeps_gil=True)
        self._convert_long = Function(store, cast(Func, exports["convert"]), 2)
        self._lock = Lock()
        weakref.finalize(self, _close, store, self._lock)
        self._make_room()
        packed, self._messages = table.pack(self._texts)
        self._write(packed)
        Function(store, cast(Func, exports["keep"]), 1)(len(packed))
        self._make_room()

    def convert(self, message: str, json: bytes) -> bytes | None:
        """The body of a message from its JSON; None for what `encode` is to judge."""
        with self._lock:
            if len(json) > self._room and not self._make_room(len(json)):
                return None
            self._write(json)
            convert = self._convert if len(json) <= _MIN_ROOM_BYTES else self._convert_long
            answer = convert(self._messages[message], len(json))
            if answer == _NOT_TAKEN:
                return None
            begin = answer >> 32
            return bytes(self._bytes[begin : begin + (answer & _UINT32)])

    def _write(self, data: bytes) -> None:
        self._bytes[self._texts : self._texts + len(data)] = data

    def _make_room(self, size: int = _MIN_ROOM_BYTES) -> bool:
        """Returns whether there is now room for a text of `size` bytes."""
        texts = self._reserve(size) & _UINT32 if size <= MAX_JSON_BYTES else 0
        if not texts:
            return False
        self._texts, self._room = texts, size
        self._bytes = memoryview(self._memory.get_buffer_ptr(self._store)).cast("B")
        return True


def _close(store: Store, lock: Lock) -> None:
    """At the end of the process, too: wasmtime cannot delete handles any more once modules are torn down.

    A daemon thread that comes later waits until it is ended.
    """
    lock.acquire()
    store.close()


@cache
def converter() -> Converter:
    """That of the process, made when it is first asked for, which takes 25 ms.

    Not at import: wasmtime then takes over signals that a program may set up after it has imported what it needs.
    """
    return Converter(MODULE.read_bytes())


def convert_pod(json: bytes) -> bytes:
    """What `encode_pod` makes of a Pod's JSON.

    Raises:
        EncodeError: a known field has a value that does not fit it.
        msgspec.DecodeError: the text is no JSON.
        UnicodeDecodeError: the text is no UTF-8.
        RecursionError: the text is nested without end.
    """
    pod = converter().convert("Pod", json)
    return encode_pod(msgspec.json.decode(json)) if pod is None else pod


def convert_node(json: bytes) -> bytes:
    """What `encode_node` makes of a Node's JSON. Raises as `convert_pod` does."""
    node = converter().convert("Node", json)
    return encode_node(msgspec.json.decode(json)) if node is None else node
