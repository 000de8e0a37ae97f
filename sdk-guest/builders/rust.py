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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from builders.errors import BuildError

OLDEST = (1, 63, 0)
"""The first version that the library can be built with, and the one that has built the modules here."""

TARGET = "wasm32-unknown-unknown"

SDK = Path(__file__).resolve().parents[1]
LIBRARY = SDK / "rust" / "src" / "lib.rs"
MODULES = SDK / "rust" / "modules"

EXAMPLES: Mapping[str, Path] = {
    name: SDK / "rust" / "examples" / f"{name}.rs"
    for name in ("nodenumber", "headroom", "seats", "fullest", "usher", "nodeinfo", "gang")
}
"""The example modules by name, each with its root source file."""

POLICIES: Mapping[str, Path] = {"gpu_pack": SDK / "policies" / "gpu-pack" / "gpu_pack.rs"}
"""The policies that the extender is shipped with, in the same way."""

# WebAssembly's first version and a feature that every host has had for years.
MODULE = (
    *("--target", TARGET, "-C", "target-cpu=mvp", "-C", "target-feature=+bulk-memory"),
    *("-C", "opt-level=s", "-C", "panic=abort", "-C", "codegen-units=1"),
)
# The stack lies below the data and grows down: one that overflows traps.
REACTOR = ("--crate-type", "cdylib", "-C", "lto=fat", "-C", "strip=symbols", "-C", f"link-arg=-zstack-size={64 * 1024}")


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
    """The version of a compiler, to be compared."""
    return tuple(map(int, re.findall(r"\d+", _output(rustc, "--version"))[:3]))


def build(source: Path, module: Path) -> Path:
    """Compiles the plugin whose root file is `source` to `module`."""
    rustc = compiler()
    with tempfile.TemporaryDirectory(prefix="guests-") as cache:
        library = _library(rustc, Path(cache), MODULE)
        _run(rustc, *MODULE, *REACTOR, *_source(source, "plugin"), "--extern", f"guest={library}", "-o", module)
    module.chmod(0o644)  # rustc makes it executable
    return module


def test(sources: Sequence[Path]) -> None:
    """Runs the unit tests of the sources, or of library, examples and policies, natively and with all checks."""
    rustc = next(iter(compilers()), None)
    if rustc is None:
        raise BuildError("the tests of guests in Rust need a rustc, and PATH has none")
    with tempfile.TemporaryDirectory(prefix="guests-") as cache:
        library = _library(rustc, Path(cache), ())
        for source in sources or (LIBRARY, *EXAMPLES.values(), *POLICIES.values()):
            print(f"{source.name}:", flush=True)
            program = Path(cache, "tests")
            _run(rustc, "--test", *_source(source, "plugin"), "--extern", f"guest={library}", "-o", program)
            if subprocess.run([program, "--quiet"], check=False).returncode != 0:
                raise BuildError(f"tests of {source} failed")


def _library(rustc: Path, directory: Path, options: Sequence[str]) -> Path:
    library = directory / "libguest.rlib"
    _run(rustc, *options, *_source(LIBRARY, "guest"), "--crate-type", "rlib", "-o", library)
    return library


def _source(source: Path, name: str) -> tuple[str | Path, ...]:
    """A root source file, of whose place nothing gets into what is compiled."""
    return ("--edition", "2021", "--crate-name", name, f"--remap-path-prefix={source.parent}={name}", source)


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
