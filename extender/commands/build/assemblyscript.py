"""Guests in AssemblyScript, by its compiler asc, which npm fetches once.

Equal sources give equal bytes on every machine: the library says which version of the compiler builds it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from extender.commands.build.errors import BuildError
from extender.commands.build.sdk import SDK, beside
from wasm_runtime.compile import directories

OLDEST = 20
"""The first version of Node.js that the compiler runs with."""

LIBRARY = SDK / "assemblyscript" / "guest"
"""The library, for sources that have none of their own in a folder `guest`."""

PACKAGE = "kwx-guest"
"""The name by which sources import the library."""

PACKAGE_FILES = ("package.json", "package-lock.json")
"""The files in the library's folder that name the compiler and its version."""

FOLDER = "assembly"
"""The folder of a project with its sources."""

TESTS = "tests"
"""The folder of a project with its unit tests; those of a single file `tier.ts` are in `tier.test.mjs` beside it."""

MODULE = "GUEST_MODULE"
"""The environment variable that tells unit tests where the module is."""

OPTIONS = ("--exportStart", "_start", "-O3", "--shrinkLevel", "1", "--stackSize", str(64 * 1024), "--noColors")

# With names of functions, and with what the library tells of a fault; or without.
READABLE = ("--debug", "--use", f"abort=~lib/{PACKAGE}/fault/abort", "--transform")
LINES = "lines.mjs"
"""The transform of the library that has a fault tell the plugin's line."""
SMALL = ("--use", "abort=")


def check() -> None:
    """Raises BuildError unless there is a Node.js that is new enough, with npm."""
    node, npm = shutil.which("node"), shutil.which("npm")
    version = re.match(r"v(\d+)", _output(node, "--version")) if node else None
    if npm is None or version is None or int(version[1]) < OLDEST:
        found = "no npm" if version and int(version[1]) >= OLDEST else f"Node.js {version[1]}" if version else "none"
        raise BuildError(
            f"guests in AssemblyScript are built with Node.js {OLDEST} or newer and its npm, and PATH has {found}: "
            "https://nodejs.org/en/download"
        )


def build(source: Path, module: Path, *, readable: bool = False) -> Path:
    """Compiles the plugin whose root file is `source` to `module`; `readable`, a fault tells its place and message."""
    check()
    source = source.resolve()
    library = _root(source)
    folder = source.parents[1] if source.parent.name == FOLDER else source.parent
    with tempfile.TemporaryDirectory(prefix="guests-") as packages:
        Path(packages, PACKAGE).symlink_to(library)
        options = (
            *OPTIONS,
            *((*READABLE, library / LINES) if readable else SMALL),
            "--path",
            packages,
            "--outFile",
            module.resolve(),
        )
        _run("node", _compiler(library), source.relative_to(folder), *options, folder=folder)
    return module


def test(sources: Sequence[Path]) -> None:
    """Builds the sources, and runs their unit tests by Node.js."""
    for source in sources:
        tests = _tests(source.resolve())
        if not tests:
            typer.echo(f"{source.name}: has no tests")
            continue
        typer.echo(f"{source.name}:")
        with tempfile.TemporaryDirectory(prefix="guests-") as folder:
            module = build(source, Path(folder, "tested.wasm"), readable=True)
            _run("node", "--test", *tests, folder=source.resolve().parent, environment={MODULE: str(module)})


def _tests(source: Path) -> Sequence[Path]:
    if source.parent.name == FOLDER:
        return sorted((source.parents[1] / TESTS).glob("*.test.mjs"))
    return [tests] if (tests := source.with_suffix(".test.mjs")).exists() else []


def _root(source: Path) -> Path:
    """The folder of a source's library: one beside the source, or the installed one."""
    found = beside(source, "index.ts")
    return found.parent if found else LIBRARY


def _compiler(library: Path) -> Path:
    """The program of the compiler that the library names. Fetches it first if the cache lacks it. Raises BuildError."""
    digest = hashlib.sha256(b"".join((library / file).read_bytes() for file in PACKAGE_FILES)).hexdigest()
    cache = directories.of_user("XDG_CACHE_HOME", "~/.cache") / "kwx" / "assemblyscript"
    try:
        folder = directories.private(cache) / digest[:16]
    except directories.DirectoryError as error:
        raise BuildError(str(error)) from error
    if not folder.exists():
        _fetch(library, folder)
    return folder / "node_modules" / "assemblyscript" / "bin" / "asc.js"


def _fetch(library: Path, folder: Path) -> None:
    """Makes npm install the packages that the library names into a folder, all of them or none."""
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder.parent) as temporary:
        packages = Path(temporary, "packages")
        packages.mkdir()
        for file in PACKAGE_FILES:
            shutil.copy(library / file, packages)
        typer.echo("npm fetches the compiler of AssemblyScript, once.", err=True)
        _run("npm", "ci", "--include=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", folder=packages)
        try:
            packages.rename(folder)
        except OSError:
            if not folder.exists():  # Another build was faster.
                raise


def _output(*command: str) -> str:
    return subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True).stdout.strip()


def _run(*command: str | Path, folder: Path, environment: Mapping[str, str] = {}) -> None:
    status = subprocess.run(command, check=False, cwd=folder, env={**os.environ, **environment}).returncode
    if status != 0:
        raise BuildError(f"{command[0]} {Path(command[1]).name} ended with status {status}")
