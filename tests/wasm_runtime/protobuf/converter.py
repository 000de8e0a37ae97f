"""Builds wasm_runtime/protobuf/convert.wasm anew, by the compiler of the PyPI package `ziglang`.

python -m tests.wasm_runtime.protobuf.converter
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from wasm_runtime.protobuf.convert import MODULE

BUILD_TIMEOUT_S: Final = 500.0
SOURCE: Final = MODULE.with_suffix(".zig")

# Vectors of 16 bytes find the end of a string. With mutable-globals the linker would export the stack pointer.
TARGET: Final = ("-target", "wasm32-freestanding", "-mcpu=mvp+bulk_memory+sign_ext+simd128")
OPTIONS: Final = ("-OReleaseFast", "-fstrip", "-fsingle-threaded", "-fno-entry", "-rdynamic")
# The stack lies below the data and grows down: one that overflows traps.
MEMORY: Final = ("--stack", str(64 << 10), f"--max-memory={16 << 20}")


def build(module: Path) -> None:
    """Compiles the source to `module`."""
    with tempfile.TemporaryDirectory(prefix="converter-") as cache:
        arguments = (*TARGET, *OPTIONS, *MEMORY, f"-femit-bin={module}", f"-Mroot={SOURCE}", "--cache-dir", cache)
        subprocess.run([sys.executable, "-m", "ziglang", "build-exe", *arguments], check=True, timeout=BUILD_TIMEOUT_S)
    module.chmod(0o644)  # Zig makes it executable


if __name__ == "__main__":
    build(MODULE)
