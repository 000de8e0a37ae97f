"""Guests in Go, by the standard compiler."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from extender.commands.build.errors import BuildError
from extender.commands.build.sdk import SDK
from wasm_runtime.module.binary import PREAMBLE, BinaryReader, leb128

OLDEST = (1, 26)
"""The first version that the library can be built with."""

LIBRARY = SDK / "go"

# No other toolchain is fetched, and no flag or workspace around has a part in the module.
ENVIRONMENT = {"GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off"}
WASM = {"GOOS": "wasip1", "GOARCH": "wasm"}
REACTOR = ("-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w")

EXPORTS = 7
"""The number of a module's section of exports: a count, and for each its name, its kind and its index."""
INITIALIZE, START = b"\x0b_initialize\x00", b"\x06_start\x00"
"""Exported functions: the length of the name, the name, and the kind."""


def check() -> None:
    """Raises BuildError unless there is a Go that is new enough."""
    try:
        found = _go("env", "GOVERSION", directory=Path(), capture=True).strip()
    except FileNotFoundError:
        found = "none"
    version = re.match(r"go(\d+)\.(\d+)", found)
    if version is None or tuple(map(int, version.groups())) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise BuildError(f"guests in Go are built with Go {wanted} or newer, and PATH has {found}: https://go.dev/dl")


def build(source: Path, module: Path, *, readable: bool = False) -> Path:  # noqa: ARG001
    """Compiles the plugin that `source` is to `module`; Go tells of a panic in any case.

    In a Go module, the file's package is the plugin; elsewhere the file alone, with what the library requires.
    """
    source = source.resolve()
    in_module = any((parent / "go.mod").exists() for parent in source.parents)
    directory, package = (source.parent, ".") if in_module else (LIBRARY, str(source))
    with tempfile.TemporaryDirectory(prefix="guests-") as empty:
        # A module that is there is left by Go as it is if that was made of the same sources.
        linked = Path(empty, "linked.wasm")
        _go("build", *REACTOR, "-o", str(linked), package, directory=directory, target=WASM)
        module.write_bytes(with_start(linked.read_bytes()))
    return module


def test(sources: Sequence[Path]) -> None:
    """Runs the tests of each source's package and of those within it, natively."""
    for source in sources:
        _go("test", "./...", directory=source.resolve().parent)


def with_start(wasm: bytes) -> bytes:
    """The module with its `_initialize` as `_start` too, which is all that kube-scheduler-wasm-extension calls.

    Go has no name for it: `//go:wasmexport _start` would be called before Go's runtime is there.
    """
    reader, begin = BinaryReader(wasm, PREAMBLE), PREAMBLE
    for section, length in reader.sections():
        end = reader.at + length
        if section == EXPORTS:
            break
        begin = end
    count, exports = reader.number(), reader.at
    function = BinaryReader(wasm, wasm.index(INITIALIZE, exports, end) + len(INITIALIZE)).number()
    content = leb128(count + 1) + wasm[exports:end] + START + leb128(function)
    return wasm[:begin] + bytes([EXPORTS]) + leb128(len(content)) + content + wasm[end:]


def _go(*arguments: str, directory: Path, target: Mapping[str, str] = {}, capture: bool = False) -> str:
    """Runs the compiler, and returns what it prints if that is captured."""
    done = subprocess.run(
        ["go", *arguments],
        check=False,
        cwd=directory,
        env={**os.environ, **ENVIRONMENT, **target},
        stdout=subprocess.PIPE if capture else None,
        text=True,
    )
    if done.returncode != 0:
        raise BuildError(f"go {arguments[0]} ended with status {done.returncode}")
    return done.stdout or ""
