"""Guests in Zig, by the compiler of the PyPI package `ziglang`.

Equal sources give equal bytes on every machine: a test compares a fresh build with the modules that
the Python package ships.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import typer

from extender.commands.build.errors import BuildError
from extender.commands.build.sdk import SDK

VERSION = "0.17.0"
"""The one version that the library is written for: Zig's standard library changes with each."""

LIBRARY = SDK / "zig" / "guest.zig"

# WebAssembly's first version and two features that every host has had for years. With mutable-globals
# the linker would export the stack pointer.
TARGET = ("-target", "wasm32-freestanding", "-mcpu=mvp+bulk_memory+sign_ext")
# Bounds and overflows are checked, which makes a module some 10 KB larger.
MODULE = (*TARGET, "-OReleaseSafe", "-fstrip", "-fsingle-threaded")
# The stack lies below the data and grows down: one that overflows traps.
REACTOR = ("-fno-entry", "-rdynamic", "--stack", str(64 * 1024))


def check() -> None:
    """Raises BuildError unless this Python has the right `ziglang`."""
    try:
        installed = f"ziglang {metadata.version('ziglang')}"
    except metadata.PackageNotFoundError:
        installed = "none"
    if installed != f"ziglang {VERSION}":
        raise BuildError(
            f"guests in Zig are built with ziglang {VERSION}, and {sys.executable} has {installed}: "
            "pip install 'kube-wasm-extender[guests]'"
        )


def build(source: Path, module: Path, *, readable: bool = False) -> Path:  # noqa: ARG001
    """Compiles the plugin whose root file is `source` to `module`; it is small in any case."""
    _zig("build-exe", *REACTOR, f"-femit-bin={module}", *_sources_with(source, MODULE))
    module.chmod(0o644)  # Zig makes it executable
    return module


def test(sources: Sequence[Path]) -> None:
    """Runs the unit tests that are reachable from the sources, natively and with all safety checks."""
    for source in sources:
        typer.echo(f"{source.name}:")
        _zig("test", *_sources_with(source, ()))


def _sources_with(source: Path, options: Sequence[str]) -> list[str]:
    """The arguments for `source`, with the library as its import `guest` unless it is the library."""
    if source == LIBRARY:
        return [*options, f"-Mroot={source}"]
    return [*options, "--dep", "guest", f"-Mroot={source}", *options, f"-Mguest={LIBRARY}"]


def _zig(*arguments: str) -> None:
    with tempfile.TemporaryDirectory(prefix="guests-") as cache:
        command = [sys.executable, "-m", "ziglang", *arguments, "--cache-dir", cache]
        status = subprocess.run(command, check=False).returncode
    if status != 0:
        raise BuildError(f"zig {arguments[0]} ended with status {status}")
