"""Builds guests with the Zig compiler of the PyPI package `ziglang`.

Equal sources give equal bytes on every machine: a test compares a fresh build with the modules that
the Python package ships.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

ZIG_VERSION = "0.17.0"
"""The one version that the library is written for: Zig's standard library changes with each."""

HERE = Path(__file__).resolve().parent
LIBRARY = HERE / "zig" / "guest.zig"
SHIPPED = HERE.parent / "extender" / "examples"

EXAMPLES: Mapping[str, Path] = {
    "nodenumber": HERE / "examples" / "nodenumber" / "main.zig",
    "nodenumber_reversed": HERE / "examples" / "nodenumber" / "reversed.zig",
    "accelerator": HERE / "examples" / "accelerator" / "main.zig",
}
"""The example modules by name, each with its root source file."""

TESTS: Sequence[Path] = (
    LIBRARY,
    HERE / "examples" / "nodenumber" / "nodenumber.zig",
    HERE / "examples" / "accelerator" / "main.zig",
)

# WebAssembly's first version and two features that every host has had for years. With mutable-globals
# the linker would export the stack pointer.
TARGET = ("-target", "wasm32-freestanding", "-mcpu=mvp+bulk_memory+sign_ext")
MODULE = (*TARGET, "-OReleaseSmall", "-fstrip", "-fsingle-threaded")
# The stack lies below the data and grows down: one that overflows traps.
REACTOR = ("-fno-entry", "-rdynamic", "--stack", str(64 * 1024))


def main() -> int:
    """Builds or tests what the command line names, and returns the exit status."""
    arguments = parse_arguments()
    try:
        check_zig()
        with tempfile.TemporaryDirectory(prefix="guests-") as cache:
            if arguments.test:
                for source in arguments.sources or TESTS:
                    test(source, cache)
            else:
                sources = {source.stem: source for source in arguments.sources} or EXAMPLES
                out = arguments.out or (Path() if arguments.sources else SHIPPED)
                out.mkdir(parents=True, exist_ok=True)
                for name, source in sources.items():
                    report(build(source, out / f"{name}.wasm", cache))
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


class BuildError(Exception):
    """What the person who runs this has to mend."""


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="Builds guests: the examples, or the given sources.")
    parser.add_argument("sources", nargs="*", type=Path, metavar="SOURCE", help="a plugin's root .zig file")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="where the modules go (default: extender/examples; the current directory for given sources)",
    )
    parser.add_argument("--test", action="store_true", help="run the unit tests natively instead of building")
    return parser.parse_args()


def check_zig() -> None:
    """Raises BuildError unless this Python has the right `ziglang`."""
    try:
        installed = f"ziglang {metadata.version('ziglang')}"
    except metadata.PackageNotFoundError:
        installed = "none"
    if installed != f"ziglang {ZIG_VERSION}":
        raise BuildError(
            f"guests are built with ziglang {ZIG_VERSION}, and {sys.executable} has {installed}: "
            "pip install 'kube-wasm-extender[guests]'"
        )


def build(source: Path, module: Path, cache: str) -> Path:
    """Compiles the plugin whose root file is `source` to `module`."""
    zig("build-exe", *REACTOR, f"-femit-bin={module}", *sources_with(source, MODULE), cache=cache)
    module.chmod(0o644)  # Zig makes it executable
    return module


def test(source: Path, cache: str) -> None:
    """Runs the unit tests that are reachable from `source`, natively and with all safety checks."""
    print(f"{source.name}:", flush=True)
    zig("test", *sources_with(source, ()), cache=cache)


def sources_with(source: Path, options: Sequence[str]) -> list[str]:
    """The arguments for `source`, with the library as its import `guest` unless it is the library."""
    if source == LIBRARY:
        return [*options, f"-Mroot={source}"]
    return [*options, "--dep", "guest", f"-Mroot={source}", *options, f"-Mguest={LIBRARY}"]


def zig(*arguments: str, cache: str) -> None:
    """Runs the compiler, with its intermediate files in `cache`."""
    command = [sys.executable, "-m", "ziglang", *arguments, "--cache-dir", cache]
    status = subprocess.run(command, check=False).returncode
    if status != 0:
        raise BuildError(f"zig {arguments[0]} ended with status {status}")


def report(module: Path) -> None:
    """Prints the module's name, size and digest."""
    contents = module.read_bytes()
    print(f"{module.name:<26}{len(contents):>7} bytes  sha256:{hashlib.sha256(contents).hexdigest()}")


if __name__ == "__main__":
    sys.exit(main())
