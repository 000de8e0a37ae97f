"""A guest's memory, seen from the host."""

from __future__ import annotations

from typing import Any


class OutOfBoundsError(Exception):
    """A guest has named bytes that are not in its memory."""


class GuestMemory:
    """Bytes of a guest by address. Addresses and lengths are as wasm has them, unsigned.

    What reads and writes raises OutOfBoundsError.
    """

    def __init__(self) -> None:
        self._memory: Any = None
        self._view = memoryview(b"")

    def attach(self, memory: Any) -> None:
        """Makes a `wasmer.Memory` what is read and written."""
        self._memory = memory

    def rest(self) -> None:
        """Drops the view, which panics when any thread but the engine's does it: to be called after each call."""
        self._view = memoryview(b"")

    def detach(self) -> None:
        """Lets go of the memory."""
        self.rest()
        self._memory = None

    def __len__(self) -> int:
        """Bytes of the memory, as large as it is now."""
        size: int = self._memory.data_size if self._memory is not None else 0
        return size

    def has(self, at: int, length: int) -> bool:
        """Whether bytes are in memory."""
        return at + length <= len(self)

    def require(self, at: int, length: int) -> None:
        """Raises OutOfBoundsError for bytes that are not in memory."""
        if not self.has(at, length):
            raise OutOfBoundsError

    def read(self, at: int, length: int) -> bytes:
        """Copies bytes out."""
        return bytes(self._bytes(at, length))

    def write(self, at: int, data: bytes) -> None:
        """Copies bytes in."""
        self._bytes(at, len(data))[:] = data

    def u32(self, at: int) -> int:
        """A little-endian number of 32 bits."""
        return int.from_bytes(self.read(at, 4), "little")

    def write_u32(self, at: int, value: int) -> None:
        """Writes a little-endian number of 32 bits."""
        self.write(at, value.to_bytes(4, "little"))

    def write_u64(self, at: int, value: int) -> None:
        """Writes a little-endian number of 64 bits."""
        self.write(at, value.to_bytes(8, "little"))

    def _bytes(self, at: int, length: int) -> memoryview:
        size = self._memory.data_size
        if at + length > size:
            raise OutOfBoundsError
        if len(self._view) != size:
            self._view = memoryview(self._memory.buffer)
        return self._view[at : at + length]
