"""Small guests as WebAssembly text, named for what they do, and the examples of the project."""

from __future__ import annotations

from pathlib import Path

import wasmtime

FOLDER = Path(__file__).parent
EXAMPLES = Path(__file__).parents[3] / "extender" / "examples"


def example(name: str) -> Path:
    """The module of an example plugin."""
    return EXAMPLES / f"{name}.wasm"


def text(name: str) -> str:
    """The text of a guest of this folder."""
    return (FOLDER / f"{name}.wat").read_text()


def build(name: str, folder: Path) -> Path:
    """Compiles a guest of this folder into a module in `folder`, once."""
    module = folder / f"{name}.wasm"
    if not module.exists():
        module.write_bytes(wasmtime.wat2wasm(text(name)))
    return module


def constant_score(score: int) -> bytes:
    """A module that gives every node the same score."""
    return bytes(wasmtime.wat2wasm(text("score_constant").replace("SCORE", str(score))))
