"""Guests in Rust, by rustc alone: the library has no dependencies.

Equal sources and the same version give equal bytes on every machine: a test compares a fresh build with the modules
that are here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from extender.commands.build.errors import BuildError
from extender.commands.build.sdk import SDK, beside

OLDEST = (1, 63, 0)
"""The first version that the library can be built with, and the one that has built the modules here."""

TARGET = "wasm32-unknown-unknown"

LIBRARY = SDK / "rust" / "src" / "lib.rs"
"""The library, for sources that have none of their own in a folder `guest`."""

# WebAssembly's first version and a feature that every host has had for years.
MODULE = (
    *("--target", TARGET, "-C", "target-cpu=mvp", "-C", "target-feature=+bulk-memory"),
    *("-C", "opt-level=3", "-C", "panic=abort", "-C", "codegen-units=1"),
)
# The stack lies below the data and grows down: one that overflows traps.
REACTOR = ("--crate-type", "cdylib", "-C", "lto=fat", "-C", f"link-arg=-zstack-size={64 * 1024}")

# With names of functions, and with what the library tells of a panic; or without.
READABLE = ("-C", "strip=debuginfo")
SMALL = ("-C", "strip=symbols", "--cfg", 'feature="small"')


def check() -> None:
    """Raises BuildError unless there is a rustc that builds for WebAssembly."""
    compiler()


def compiler() -> Path:
    """The first rustc on the PATH that has the target. Raises BuildError."""
    for rustc in compilers():
        sysroot = Path(_output(rustc, "--print", "sysroot"))
        if (sysroot / "lib" / "rustlib" / TARGET / "lib").is_dir() and version(rustc) >= OLDEST:
            return rustc
    raise BuildError(
        f"guests in Rust are built with rustc {'.'.join(map(str, OLDEST))} or newer and its target {TARGET}, "
        "and PATH has none: "
        f"apt-get install rustc libstd-rust-dev-wasm32, or rustup target add {TARGET}"
    )


def version(rustc: Path) -> tuple[int, ...]:
    """The version of a compiler, as numbers that can be compared."""
    return tuple(map(int, re.findall(r"\d+", _output(rustc, "--version"))[:3]))


def build(source: Path, module: Path, *, readable: bool = False) -> Path:
    """Compiles the plugin whose root file is `source` to `module`; `readable`, a panic tells its place and message."""
    rustc = compiler()
    options = (*MODULE, *(READABLE if readable else SMALL))
    shown = "src" if readable and source.parent.name == "src" else "plugin"
    with tempfile.TemporaryDirectory(prefix="guests-") as cache:
        library = _library(rustc, _root(source), Path(cache), options)
        _run(rustc, *options, *REACTOR, *_source(source, "plugin", shown), "--extern", f"guest={library}", "-o", module)
    module.chmod(0o644)  # rustc makes it executable
    return module


def test(sources: Sequence[Path]) -> None:
    """Runs the unit tests of the sources, natively and with all checks."""
    rustc = next(iter(compilers()), None)
    if rustc is None:
        raise BuildError("the tests of guests in Rust need a rustc, and PATH has none")
    with tempfile.TemporaryDirectory(prefix="guests-") as cache:
        libraries: dict[Path, Path] = {}
        for source in sources:
            root = _root(source)
            if root not in libraries:
                libraries[root] = _library(rustc, root, Path(cache, str(len(libraries))), ())
            typer.echo(f"{source.name}:")
            program = Path(cache, "tests")
            _run(rustc, "--test", *_source(source, "plugin"), "--extern", f"guest={libraries[root]}", "-o", program)
            if subprocess.run([program, "--quiet"], check=False).returncode != 0:
                raise BuildError(f"tests of {source} failed")


def _root(source: Path) -> Path:
    """The root file of a source's library: one beside the source, or the installed one."""
    return beside(source, "src/lib.rs") or LIBRARY


def _library(rustc: Path, root: Path, directory: Path, options: Sequence[str]) -> Path:
    directory.mkdir(exist_ok=True)
    library = directory / "libguest.rlib"
    _run(rustc, *options, *_source(root, "guest"), "--crate-type", "rlib", "-o", library)
    return library


def _source(source: Path, name: str, shown: str | None = None) -> tuple[str | Path, ...]:
    """The options for the root file of a crate, whose folder the compiled code shows as `shown`, or as the crate."""
    return ("--edition", "2021", "--crate-name", name, f"--remap-path-prefix={source.parent}={shown or name}", source)


def compilers() -> Iterator[Path]:
    """Every rustc on the PATH, in its order."""
    for directory in os.get_exec_path():
        rustc = shutil.which("rustc", path=directory)
        if rustc:
            yield Path(rustc)


def _output(rustc: Path, *arguments: str) -> str:
    done = subprocess.run([rustc, *arguments], check=False, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def _run(rustc: Path, *arguments: str | Path) -> None:
    status = subprocess.run([rustc, *arguments], check=False).returncode
    if status != 0:
        raise BuildError(f"{rustc} ended with status {status}")
