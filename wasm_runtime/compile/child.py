"""The child process of a `Compiler`: reads a pickled engine and a module, writes what that compiles to."""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from wasm_runtime.compile.compiler import MAX_CHILD_MEMORY_BYTES, REFUSED, Precompiler
from wasm_runtime.engine import MEBIBYTE
from wasm_runtime.errors import ModuleError

NICENESS: Final = 10
"""Less priority than the guests that run meanwhile."""

MAX_CODE_BYTES: Final = 128 * MEBIBYTE
"""Bytes of code that the parent is given to keep in memory. wasmtime makes 40 MiB of standard Go of 20 MiB."""


def main(memory: int) -> None:
    """Writes the interface as JSON, a line feed and the code; or the problems of the module, with status REFUSED.

    Takes so many bytes of memory at most.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _hold_back(memory)
    engine: Precompiler = pickle.load(sys.stdin.buffer)
    try:
        compiled = engine.precompile(sys.stdin.buffer.read())
        code = compiled.read()
        if len(code) > MAX_CODE_BYTES:
            raise ModuleError([f"compiles to {len(code)} bytes of code, the limit is {MAX_CODE_BYTES}"])
    except ModuleError as error:
        sys.stdout.buffer.write(msgspec.json.encode(error.problems))
        sys.exit(REFUSED)
    sys.stdout.buffer.writelines([compiled.interface.to_json(), b"\n", code])


def _end_with_parent() -> None:
    """Ends the process as soon as nobody is there to read its output."""
    output = select.poll()
    output.register(sys.stdout, 0)
    output.poll()
    os._exit(1)


def _hold_back(memory: int) -> None:
    """Leaves time and memory to the parent."""
    os.nice(NICENESS)
    os.environ["RAYON_NUM_THREADS"] = str(max(1, _cores() // 2))
    _limit(resource.RLIMIT_AS, MAX_CHILD_MEMORY_BYTES)
    _limit(resource.RLIMIT_DATA, memory)  # Files that are mapped, and what is only reserved, cost no memory.
    _limit(resource.RLIMIT_CORE, 0)
    with suppress(OSError):  # Where there is a kernel that asks: it is to end this process before any other.
        Path("/proc/self/oom_score_adj").write_text("1000")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches native code, too, and prints nothing.


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    with suppress(ValueError):  # Not every system has every limit.
        resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
