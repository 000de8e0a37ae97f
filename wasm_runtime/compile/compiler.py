"""Compiling in a child process, which can be stopped, and keeping what was compiled."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol
from weakref import WeakValueDictionary

import msgspec

from wasm_runtime.blob import Blob
from wasm_runtime.compile.cache import CodeFile, CompileCache
from wasm_runtime.compile.cgroup import memory_left
from wasm_runtime.engine import MEBIBYTE, Module
from wasm_runtime.errors import ModuleError, shorten
from wasm_runtime.module.binary import Interface

REFUSED: Final = os.EX_DATAERR
"""Exit status of the child for a module that cannot be used; its output are the problems as JSON."""

MAX_CHILD_MEMORY_BYTES: Final = 4096 * MEBIBYTE
"""Bytes that a child may take at most. wasmtime takes 600 MiB for standard Go of 20 MiB."""

MIN_CHILD_MEMORY_BYTES: Final = 64 * MEBIBYTE
"""Bytes that a child needs for the smallest module: an interpreter and wasmtime take 32 MiB."""

HOST_RESERVE_BYTES: Final = 64 * MEBIBYTE
"""Bytes of what the control group leaves that this process keeps for itself while a child runs."""

_CHILD: Final = (
    "import sys; _, memory, *sys.path = sys.argv; from wasm_runtime.compile.child import main; main(int(memory))"
)
_ENVIRONMENT: Final = ("LD_LIBRARY_PATH",)
"""What the child gets to see of the environment: what an interpreter may need to start, and no secrets."""
_MAX_QUOTED_CHARS: Final = 500
"""Characters that a message quotes of what a child that crashed has printed."""
_CLOSED: Final = "is not compiled: the compiler was closed"


class Compiled(NamedTuple):
    """A module that is ready to be loaded."""

    interface: Interface
    code: bytes | CodeFile
    """What the engine has compiled it to."""

    def read(self) -> bytes:
        """The code, for who cannot map a file."""
        return self.code.read() if isinstance(self.code, CodeFile) else self.code


class Precompiler(Protocol):
    """An engine that compiles and loads apart. Can be pickled: a child process makes one of the same settings."""

    @property
    def name(self) -> str:
        """Fit for the name of a file, as is the version."""

    @property
    def version(self) -> str:
        """Another one for every release, processor and setting of the engine by which its code would differ."""

    def precompile(self, wasm: bytes) -> Compiled:
        """Compiles a binary module. Raises ModuleError if it is none."""

    def load(self, compiled: Compiled) -> Module:
        """Makes a module of what an engine of this name and version has compiled.

        The code is trusted. Raises ModuleError for what can be seen to be no code of this engine.
        """


class Compiler:
    """An `Engine` that compiles in a child process, unless the module is in use or in the cache.

    May be used from any thread.

    Nothing of a module is read here before the child has found it valid. The child has less priority than we, no
    more memory than the control group leaves, and next to nothing of the environment, and ends when we do. There is one
    at a time: what is compiled while guests run must leave them their processors.
    """

    def __init__(
        self,
        engine: Precompiler,
        cache: CompileCache | None,
        timeout: float,
        memory_left: Callable[[], int | None] = memory_left,
    ) -> None:
        """`timeout` is how many seconds a module may take, the start of the child included.

        `memory_left` gives the bytes that this process and the child may take together, beyond what is taken already.
        """
        self._memory_left = memory_left
        self._engine = engine
        self._cache = cache
        self._timeout = timeout
        self._children: set[subprocess.Popen[bytes]] = set()
        self._is_closed = False
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._modules: WeakValueDictionary[str, Module] = WeakValueDictionary()
        """Those that are in use."""

    def compile(self, module: bytes | Blob) -> Module:
        """Compiles a binary module. Raises ModuleError if it is none, or cannot be compiled in time."""
        module = Blob.of(module)
        key = f"{self._engine.name}-{self._engine.version}-{module.digest.removeprefix('sha256:')}"
        compiled = self._modules.get(key) or self._kept(key)
        if compiled is None:
            output = self._run(module.content)
            end = output.index(b"\n")
            interface, code = output[:end], memoryview(output)[end + 1 :]
            if self._cache is not None:
                self._cache.put(key, interface, code)
            compiled = self._kept(key) or self._engine.load(Compiled(Interface.from_json(interface), bytes(code)))
        self._modules[key] = compiled
        return compiled

    def close(self) -> None:
        """Ends what other threads are compiling. From now on a module that is not kept is refused by ModuleError."""
        with self._lock:
            self._is_closed = True
            for child in self._children:
                child.kill()

    def _kept(self, key: str) -> Module | None:
        if self._cache is None:
            return None
        entry = self._cache.get(key)
        if entry is None:
            return None
        try:
            return self._engine.load(Compiled(Interface.from_json(entry.interface), entry.code))
        except ModuleError as error:
            self._cache.discard(key, str(error))
            return None

    def _run(self, wasm: bytes) -> bytes:
        """What a child makes of a module: the interface as JSON, a line feed and the code. Raises ModuleError."""
        with self._turn, self._start(memory := self._memory()) as child:
            try:
                assert child.stdin
                child.stdin.write(pickle.dumps(self._engine))  # Apart: a copy of a large module holds all threads up.
                output, errors = child.communicate(wasm, self._timeout)
            except subprocess.TimeoutExpired:
                limit = f"its limit of {self._timeout:g} s"
                mend = "make it smaller or raise runtime.compileTimeout"
                raise ModuleError([f"takes longer to compile than {limit}; {mend}"]) from None
            finally:
                child.kill()
                with self._lock:
                    self._children.remove(child)
        if child.returncode == 0:
            return output
        if child.returncode == REFUSED:
            raise ModuleError(msgspec.json.decode(output, type=list[str]))
        raise ModuleError([_CLOSED if self._is_closed else _crash(child.returncode, errors, memory)])

    def _memory(self) -> int:
        """How many bytes a child may take. The kernel may end all of a group that takes more, and the verbs with it."""
        left = self._memory_left()
        if left is None:
            return MAX_CHILD_MEMORY_BYTES
        if left < MIN_CHILD_MEMORY_BYTES + HOST_RESERVE_BYTES:
            cause = f"the memory limit of this container leaves {left // MEBIBYTE} MiB"
            needed = (MIN_CHILD_MEMORY_BYTES + HOST_RESERVE_BYTES) // MEBIBYTE
            raise ModuleError([f"cannot be compiled: {cause}, which takes {needed} MiB at least; raise that limit"])
        return min(MAX_CHILD_MEMORY_BYTES, left - HOST_RESERVE_BYTES)

    def _start(self, memory: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-I", "-c", _CHILD, str(memory), *sys.path]
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        pipe = subprocess.PIPE
        with self._lock:
            if self._is_closed:
                raise ModuleError([_CLOSED])
            try:
                child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
            except OSError as error:
                raise ModuleError([f"cannot be compiled: no process can be started for it: {error}"]) from error
            self._children.add(child)
            return child


def _crash(status: int, printed: bytes, memory: int) -> str:
    end = f"signal {_signal(-status)}" if status < 0 else f"exit status {status}"
    quote = shorten(" ".join(printed.decode(errors="replace").split()), _MAX_QUOTED_CHARS)
    mend = "make the module smaller or give this process more memory"
    if memory < MAX_CHILD_MEMORY_BYTES:
        left = f"it could take {memory // MEBIBYTE} MiB, which the memory limit of this container leaves"
        mend = f"{left}; make the module smaller or raise that limit"
    return f"cannot be compiled: the compiler ended by {end}{': ' if quote else ''}{quote}; {mend}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
