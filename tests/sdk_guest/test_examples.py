"""The example guests are what their sources build."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "sdk-guest" / "build.py"
SHIPPED = ROOT / "extender" / "examples"


def build(*arguments: str | Path) -> str:
    command = [sys.executable, BUILD, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_shipped_modules_are_a_fresh_build_to_the_byte(tmp_path: Path) -> None:
    build("--language", "zig", "--out", tmp_path)
    built = {module.name: module.read_bytes() for module in tmp_path.glob("*.wasm")}
    assert built == {module.name: module.read_bytes() for module in SHIPPED.glob("*.wasm")}


def test_the_shipped_modules_are_small() -> None:
    assert [module.name for module in SHIPPED.glob("*.wasm") if module.stat().st_size > 1_000_000] == []


def test_the_tests_of_library_and_examples_pass() -> None:
    build("--language", "zig", "--test")
