"""How guests are built by tests, where there is a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

SDK: Final = Path(__file__).parents[2] / "sdk-guest"

WITHOUT_GO: Final = "guests in Go are built with Go 1.26 or newer, and PATH has "
WITHOUT_RUST: Final = "guests in Rust are built with rustc "
WITHOUT_ASSEMBLYSCRIPT: Final = "guests in AssemblyScript are built with Node.js "


def build(*arguments: str | Path, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    """Runs the builder."""
    command = [sys.executable, SDK / "build.py", *arguments]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=600, env={**os.environ, "PATH": path}
    )


def built(*arguments: str | Path) -> str:
    """What the build prints, where there is a compiler of the language."""
    done = build(*arguments)
    if any(each in done.stderr for each in (WITHOUT_GO, WITHOUT_RUST, WITHOUT_ASSEMBLYSCRIPT)):
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    return done.stdout


def built_module(source: Path, directory: Path) -> bytes:
    """The module of a source."""
    built(source, "--out", directory)
    return (directory / f"{source.stem}.wasm").read_bytes()


def require_same(built: Path, kept: Path) -> None:
    """Fails where a kept module is not what its sources build."""
    if built.read_bytes() != kept.read_bytes():
        pytest.fail(f"{kept.relative_to(SDK.parent)} is not what its sources build: python sdk-guest/build.py")
