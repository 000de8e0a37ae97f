"""A module's file that is exchanged again and again, as an operator's `mv` does."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Final

from bench.plugin.cases import SWAP_EVERY
from wasm_runtime.protobuf.varint import varint

_CUSTOM: Final = b"\x00"
"""The id of a custom section. https://webassembly.github.io/spec/core/binary/modules.html#custom-section"""


class Swapper:
    """Two modules that do the same and are not the same, in the place of one file."""

    def __init__(self, module: Path, folder: Path) -> None:
        self.file = folder / module.name
        """What an extender is to follow."""
        wasm = module.read_bytes()
        self._modules = cycle([stamped(wasm, b"other"), wasm])
        self.file.write_bytes(wasm)

    @contextmanager
    def swapping(self) -> Iterator[list[float]]:
        """Swaps while the context lasts. Yields when it did, on the clock of `time.monotonic`."""
        marks: list[float] = []
        stopped = threading.Event()

        def work() -> None:
            while not stopped.wait(SWAP_EVERY):
                marks.append(time.monotonic())
                self._swap()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield marks
        finally:
            stopped.set()
            thread.join()

    def _swap(self) -> None:
        beside = self.file.with_suffix(".new")
        beside.write_bytes(next(self._modules))
        beside.replace(self.file)


def stamped(wasm: bytes, name: bytes) -> bytes:
    """A module with a custom section behind it: it does the same and has another digest."""
    content = varint(len(name)) + name
    return wasm + _CUSTOM + varint(len(content)) + content
