"""How tests make plugins of guests."""

from __future__ import annotations

from collections.abc import Callable

from wasm_runtime import Plugin

MakePlugin = Callable[..., Plugin]
"""Makes a plugin as `Plugin` does. It is closed after the test."""


def without(wasm: bytes, *exports: str) -> bytes:
    """A module as a host sees it that does not know some of its exports: they have names that none knows."""
    for export in exports:
        wasm = wasm.replace(export.encode(), export.upper().encode())
    return wasm
