"""Small guests as WebAssembly text, named for what they do, and the examples of the project."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import wasmtime

from wasm_runtime.blob import digest

FOLDER = Path(__file__).parent
EXAMPLES = Path(__file__).parents[3] / "extender" / "examples"


def example(name: str) -> Path:
    """The module of an example plugin."""
    return EXAMPLES / f"{name}.wasm"


def text(name: str) -> str:
    """The text of a guest of this folder."""
    return (FOLDER / f"{name}.wat").read_text()


@cache
def module(name: str) -> bytes:
    """The module of an example, or of a guest of this folder."""
    path = example(name)
    return path.read_bytes() if path.exists() else bytes(wasmtime.wat2wasm(text(name)))


def revision(name: str) -> str:
    """How messages tell one version of a module from another."""
    return digest(module(name))[:19]


def build(name: str, folder: Path) -> Path:
    """Compiles a guest of this folder into a module in `folder`, once."""
    path = folder / f"{name}.wasm"
    if not path.exists():
        path.write_bytes(module(name))
    return path


def failing_at_start(name: str, moment: int) -> bytes:
    """A module whose instances cannot be started after a moment, in nanoseconds of `time.time_ns`."""
    return bytes(wasmtime.wat2wasm(text(name).replace("MOMENT", str(moment))))


def constant_score(score: int) -> bytes:
    """A module that gives every node the same score."""
    return bytes(wasmtime.wat2wasm(text("score_constant").replace("SCORE", str(score))))
