"""The Python interpreter that has wasmer. `python -m bench.plugin.interpreter` describes its own."""

from __future__ import annotations

import platform
import subprocess
import sys
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

import extender
import wasm_runtime
from bench import plugin
from bench.source import source

MODULES: Final = ("wasmer", "wasmer_compiler_cranelift", "bench.plugin.worker")
"""Modules that the interpreter must be able to import."""


class InterpreterError(Exception):
    """An interpreter in which wasmer cannot be measured. `str()` says why, and what to do."""


class Interpreter(msgspec.Struct, frozen=True):
    """The versions of what an interpreter runs."""

    python: str
    wasmer: str
    source: str
    """The digest of the code of bench, extender and wasm_runtime."""


@cache
def look(python: Path) -> Interpreter:
    """What an interpreter runs: wasmer, and the same code as this one. Raises InterpreterError."""
    command: list[str | Path] = [python, "-m", "bench.plugin.interpreter"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InterpreterError(f"{python} cannot be run: {error}") from error
    if answer.returncode:
        said = answer.stderr.strip().splitlines()
        raise InterpreterError(
            f"{python} has no kube-wasm-extender[wasmer] of this release, install it there:"
            f" {said[-1] if said else f'status {answer.returncode}'}"
        )
    try:
        found = msgspec.json.decode(answer.stdout, type=Interpreter)
    except msgspec.DecodeError as error:
        raise InterpreterError(f"{python} does not answer as a Python does: {error}") from error
    if found.source != own():
        raise InterpreterError(
            f"{python} has another kube-wasm-extender than the one that measures, install the same there:"
            f" its code is {found.source}, not {own()}"
        )
    return found


def versions(python: Path | None) -> dict[str, str]:
    """The versions that a run records of an interpreter; none without one."""
    try:
        found = look(python) if python else None
    except InterpreterError:
        return {}
    return {"wasmer": found.wasmer, "python (wasmer)": found.python} if found else {}


def own() -> str:
    """The digest of the code that measures wasmer."""
    return source(plugin, extender, wasm_runtime)


def main() -> None:
    """Prints what this interpreter runs, as JSON. Raises ImportError."""
    for name in MODULES:
        import_module(name)
    told = Interpreter(platform.python_version(), version("wasmer"), own())
    sys.stdout.buffer.write(msgspec.json.encode(told))


if __name__ == "__main__":
    main()
