"""Compiling with wasmer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib import metadata
from typing import Any, Final

import wasmer
from wasmer_compiler_cranelift import Compiler

from wasm_runtime.blob import Blob
from wasm_runtime.compile.compiler import Compiled
from wasm_runtime.engine import Handle, Settings
from wasm_runtime.engines.wasmer import start
from wasm_runtime.engines.wasmer.instance import WasmerCode, WasmerInstance
from wasm_runtime.engines.wasmer.linker import FUNCTIONS, Trampoline
from wasm_runtime.engines.wasmer.thread import OneThread
from wasm_runtime.errors import ModuleError
from wasm_runtime.module.binary import EMPTY, check_preamble, interface

_INVALID: Final = "Validation error: "
_PANIC: Final = "PanicException"
"""The exception for a panic of Rust's. It is no Exception, and no module has it."""


class WasmerEngine:
    """wasmer with its Cranelift compiler, in a thread of its own: while a guest runs, nothing else of Python does.

    There are no deadlines and no limits of memory and tables: `WasmerInstance` says what is looked at instead.
    """

    name: Final = "wasmer"

    def __init__(self) -> None:
        self.thread = OneThread("wasmer")

    def __reduce__(self) -> tuple[Callable[[], WasmerEngine], tuple[()]]:
        """Pickles to an engine of its own thread."""
        return WasmerEngine, ()

    @cached_property
    def version(self) -> str:
        """The release and a digest of an empty module's code, in which wasmer notes the features of the processor."""
        code = self.thread.run(lambda: wasmer.Module(_store(), EMPTY).serialize())
        return f"{metadata.version('wasmer')}-{hashlib.sha256(code).hexdigest()[:16]}"

    def compile(self, module: bytes | Blob) -> WasmerModule:
        """Compiles a binary module. Raises ModuleError if it is none, or uses what wasmer cannot do."""
        return self.load(self.precompile(Blob.of(module).content))

    def precompile(self, wasm: bytes) -> Compiled:
        """Compiles a binary module as `compile` does, to bytes for `load`."""
        check_preamble(wasm)
        code = self.thread.run(_compile, wasm)
        return Compiled(interface(wasm), code)

    def load(self, compiled: Compiled) -> WasmerModule:
        """Makes a module of what `precompile` made. Raises ModuleError if wasmer refuses it."""
        return WasmerModule(self.thread.run(_load, self.thread, compiled))


class WasmerModule:
    """Compiled code of a guest, in a store of its own: a store keeps the code of every module it ever had."""

    def __init__(self, code: WasmerCode) -> None:
        self._code = code
        self.exports, self.imports = code.interface

    def instantiate(self, settings: Settings, handle: Handle) -> WasmerInstance:
        """Makes and starts an instance. Raises GuestError."""
        return WasmerInstance(self._code, settings, handle)


def _store() -> Any:
    return wasmer.Store(wasmer.engine.Universal(Compiler))


def _load(thread: OneThread, compiled: Compiled) -> WasmerCode:
    store = _store()
    with _refusing("is no code for this engine"):
        guest = wasmer.Module.deserialize(store, compiled.read())
    trampoline = Trampoline(store, FUNCTIONS.keys() & compiled.interface.imports.keys())
    has_start_section = any(export.name == start.EXPORT for export in guest.exports)
    return WasmerCode(thread, trampoline, guest, has_start_section, compiled.interface)


def _compile(wasm: bytes) -> bytes:
    store = _store()
    with _refusing("uses what wasmer cannot do"):
        valid = wasmer.Module.validate(store, wasm)
        code: bytes = wasmer.Module(store, start.put_off(wasm) if valid else wasm).serialize()
    return code


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    """Raises ModuleError where wasmer raises, or panics."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, RuntimeError) and type(error).__name__ != _PANIC:
            raise
        message = " ".join(str(error).split())
        if message.startswith(_INVALID):
            what, message = "is no valid WebAssembly module", message.removeprefix(_INVALID)
        raise ModuleError([f"{what}: {message}"]) from None
