"""The driver's two memories, seen from the host."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

from wasmtime import Memory, Store, WasmtimeError

from wasm_runtime.driver import layout
from wasm_runtime.driver.layout import Header
from wasm_runtime.nodes.images import ImageStates
from wasm_runtime.nodes.node_feed import NodeFeed
from wasm_runtime.nodes.node_table import NEVER, Changes, Nodes, NodeTable
from wasm_runtime.pods.pod_feeds import PodFeeds
from wasm_runtime.wasmtime_capi import view_memory

_OBJECT: Final = struct.Struct("<4I")
"""The first part of a node's entry: addresses and lengths of its name and of its object."""

_PAIR: Final = struct.Struct("<2I")
"""An address and a length: the rest of an entry has those of its image states."""

_NO_STATES: Final = _PAIR.pack(0, 0)

_NOWHERE: Final = (0, 0)
"""The place of an entry without a name."""


class GuestMemory:
    """Bytes of the guest's memory by address, which the guest may have grown since it was last looked at.

    Nothing is checked: the driver, or who writes, has found what it names to lie in the memory.
    """

    def __init__(self, store: Store, memory: Memory) -> None:
        self._store = store
        self._memory = memory

    def read(self, at: int, length: int) -> bytes:
        """Copies bytes out."""
        return ctypes.string_at(self._base + at, length)

    def write(self, at: int, data: bytes) -> None:
        """Copies bytes in."""
        ctypes.memmove(self._base + at, data, len(data))

    @property
    def _base(self) -> int:
        return ctypes.addressof(self._memory.data_ptr(self._store).contents)

    def __len__(self) -> int:
        """How many bytes it has now."""
        return self._memory.data_len(self._store)


class HostMemory:
    """Bytes of a memory of the driver by address, which the host alone grows."""

    def __init__(self, store: Store, memory: Memory, grow: Callable[[Memory, int], None]) -> None:
        self._store = store
        self._memory = memory
        self._grow = grow
        self._locate()

    def _locate(self) -> None:
        self.base = ctypes.addressof(self._memory.data_ptr(self._store).contents)
        self.size = self._memory.data_len(self._store)
        self.bytes = view_memory(self.base, self.size)

    def ensure(self, size: int) -> None:
        """Grows to at least `size` bytes. Raises MemoryError beyond the store's limit."""
        if size <= self.size:
            return
        try:
            self._grow(self._memory, -(-(size - self.size) // layout.PAGE))
        except WasmtimeError as error:
            raise MemoryError(f"{size} bytes are more than its memory limit") from error
        self._locate()

    def write(self, at: int, data: bytes) -> None:
        """Copies bytes in."""
        self.bytes[at : at + len(data)] = data

    def read(self, at: int, length: int) -> bytes:
        """Copies bytes out."""
        return bytes(self.bytes[at : at + length])

    def numbers(self, kind: Literal["i", "I"], at: int, count: int) -> list[int]:
        """An array of 32-bit numbers; `kind` is `i` for signed ones, `I` for unsigned ones."""
        return self.bytes[at : at + 4 * count].cast(kind).tolist()


class CallMemory(HostMemory):
    """The header, and a heap that is used from its start again in every call."""

    def __init__(self, store: Store, memory: Memory, grow: Callable[[Memory, int], None]) -> None:
        super().__init__(store, memory, grow)
        self._cycle = self._free = layout.HEAP
        self.header.current = layout.NONE

    def _locate(self) -> None:
        super()._locate()
        self.header = Header.from_address(self.base)

    def keep(self, data: bytes) -> int:
        """Puts bytes where they stay until the next `begin_cycle`, in the place of what the last call put."""
        self._free = self._cycle
        at = self.put(data)
        self._cycle = self._free
        return at

    def begin_cycle(self, start: int) -> None:
        """Frees all that was put since the heap ended at `start`."""
        self._cycle = start

    def begin_call(self, length: int = 0, reasons: int = 0, target: int = 0) -> int:
        """Frees what the last call put, and forgets its results.

        Returns the address of `length` bytes for the next call, of which the first are the target's, behind which the
        guest's reasons have room. There is no current node: an interrupt may come before the driver has come to one.
        """
        at = self._cycle
        texts = (at + length + 7) & -8
        self._free = (texts + reasons + 7) & -8
        self.ensure(self._free)
        layout.CALL_HEAD.pack_into(self.bytes, layout.CALL, layout.NONE, at, target, 0, texts, texts + reasons)
        return at

    @property
    def end(self) -> int:
        """Where the next thing will be put."""
        return self._free

    def reserve(self, length: int) -> int:
        """The address of `length` bytes, aligned to 8."""
        at = self._free
        self._free = (at + length + 7) & -8
        self.ensure(self._free)
        return at

    def put(self, data: bytes) -> int:
        """Copies bytes to the heap and returns their address."""
        at = self.reserve(len(data))
        self.write(at, data)
        return at

    def reason(self, at: int) -> str:
        """The reason that the driver left at an address."""
        if at == layout.NONE:
            return "(left out: the reasons of this call are longer than their limit)"
        if at == 0:
            return ""
        text = at + 4
        length = int.from_bytes(self.bytes[at:text], "little")
        return str(self.bytes[text : text + length], "utf-8", "replace")

    def reasons(self, places: Sequence[int]) -> list[str]:
        """The reasons at addresses; those at the same address are decoded once."""
        texts = {at: self.reason(at) for at in set(places)}
        return list(map(texts.__getitem__, places))

    def output(self) -> str:
        """What the guest printed in its last call."""
        return self.read(self.header.output, self.header.output_length).decode(errors="replace")

    def supply(self, document: int, data: bytes) -> None:
        """Makes a document ready for the driver, in the place of the one before if that was as long."""
        pair = (layout.DOCUMENTS + 2 * document) * 4
        at, length = self.numbers("I", pair, 2)
        if at and len(data) <= length:
            self.write(at, data)
        else:
            at = self.put(data)
        self.write(pair, _PAIR.pack(at, len(data)))


class SnapshotMemory(HostMemory):
    """A copy of the node table for one instance: table of entries, hash index, then an arena of bytes.

    With `images`, the image states of each node are part of the copy. `feed` is told of each change, `pods` follows the
    pods of the same table.
    """

    def __init__(
        self,
        store: Store,
        memory: Memory,
        grow: Callable[[Memory, int], None],
        *,
        call_memory: CallMemory,
        index: Callable[[int, int], object],
        images: bool,
        feed: NodeFeed | None,
        pods: PodFeeds | None,
    ) -> None:
        super().__init__(store, memory, grow)
        self._call_memory = call_memory
        self._index = index
        self._images = ImageStates() if images else None
        self._feed = feed
        self._pods = pods
        self._source: NodeTable | None = None
        self._epoch = NEVER
        self._position = 0
        self._capacity = 0
        self._places: list[tuple[int, int]] = []
        """Of each entry, where its name and object are and how many bytes they may take there."""
        self._used = self._waste = 0

    def sync_nodes(self, nodes: Nodes) -> Sequence[int]:
        """Copies what changed since the last call. Returns the indices of `nodes`."""
        node_table = nodes.node_table
        if node_table is not self._source:
            self._source, self._epoch = node_table, NEVER
            if self._feed:
                self._feed.forget_table()
        while True:
            if self._pods is not None:
                self._pods.follow(node_table.pods)
            indices = nodes.located(self._epoch)
            changes = node_table.changes(self._epoch, self._position)
            if changes is None and indices is not None:
                return indices
            if changes is not None:
                fits = changes.epoch == self._epoch and self._has_room(changes.entries)
                self._apply(changes if fits else node_table.everything())

    def lend(self, nodes: Nodes, indices: Sequence[int]) -> Sequence[int]:
        """Shows the guest what `nodes` carry, in the call that has begun. Returns the indices of all of them.

        They stand behind the arena, where the next change of the node table is written over them.
        """
        carried = nodes.carried
        first = -(-(self._used - layout.TABLE) // layout.ENTRY)
        end = first + len(carried)
        at = _entry(end)
        entries: list[bytes] = []
        parts: list[bytes] = []
        for text, node in carried.items():
            name = text.encode()
            entries.append(_OBJECT.pack(at, len(name), at + len(name), len(node)) + _NO_STATES)
            parts += (name, node)
            at += len(name) + len(node)
        self.ensure(at)
        self.write(_entry(first), b"".join(entries + parts))
        header = self._call_memory.header
        header.lent, header.lent_end = first, end
        lent = dict(zip(carried, range(first, end), strict=True))
        return [lent.get(name, at) for name, at in zip(nodes.names, indices, strict=True)]

    def name(self, node: int) -> str:
        """The name of the node at an index."""
        at, length, *_ = _OBJECT.unpack(self.read(_entry(node), _OBJECT.size))
        return self.read(at, length).decode(errors="replace")

    def _has_room(self, count: int) -> bool:
        return count <= self._capacity and self._waste <= self._used // 2 + layout.PAGE

    def _apply(self, changes: Changes) -> None:
        # Should memory run out halfway, then everything is copied anew.
        self._epoch = NEVER
        if len(changes.nodes) == changes.entries:
            self._lay_out(changes.entries)
        known = len(self._places)
        renamed = [at for at, _, _ in changes.nodes if at < known and self._places[at] == _NOWHERE]
        self._places += [_NOWHERE] * (changes.entries - known)
        self._write_objects(changes.nodes)
        if self._images is not None:
            self._write_states(self._images.update((at, node) for at, _, node in changes.nodes))
        self._call_memory.header.live = changes.live
        self._index(known, changes.entries)
        for at in renamed:
            self._index(at, at + 1)
        if self._feed:
            self._feed.add(changes)
        self._epoch, self._position = changes.epoch, changes.position

    def _lay_out(self, count: int) -> None:
        """Begins an empty table with room for `count` entries and half as many again."""
        self._capacity = max(64, count + count // 2)
        slots = 1 << (2 * self._capacity - 1).bit_length()
        start = layout.TABLE + self._capacity * layout.ENTRY
        self._places = []
        if self._images is not None:
            self._images = ImageStates()
        self._waste = 0
        self._used = start + 4 * slots
        self.ensure(self._used)
        ctypes.memset(self.base + layout.TABLE, 0, self._used - layout.TABLE)
        header = self._call_memory.header
        header.slots, header.slot_mask = start, slots - 1

    def _write_objects(self, nodes: Sequence[tuple[int, str, bytes]]) -> None:
        """Writes name and object of nodes, over those before if they fit; their image states stay what they are."""
        parts: list[bytes] = []
        entries: list[tuple[int, bytes]] = []
        end = self._used
        for at, text, node in nodes:
            name = text.encode()
            start, room = self._places[at]
            size = len(name) + len(node)
            if size > room:
                self._waste += room
                start, room = end, size
                parts += (name, node)
                end += size
            else:
                self.write(start, name + node)
                if not node:
                    self._waste += room - size
                    room = size
            self._places[at] = (start, room) if room else _NOWHERE
            entries.append((_entry(at), _OBJECT.pack(start, len(name), start + len(name), len(node))))
        self._append(parts, entries)

    def _write_states(self, states: Mapping[int, bytes]) -> None:
        """Writes image states by node: over those before if they are as long, as most are when a count changes."""
        parts: list[bytes] = []
        entries: list[tuple[int, bytes]] = []
        end = self._used
        for at, text in states.items():
            entry = _entry(at) + _OBJECT.size
            before, length = _PAIR.unpack(self.read(entry, _PAIR.size))
            if length == len(text):
                self.write(before, text)
                continue
            entries.append((entry, _PAIR.pack(end, len(text))))
            parts.append(text)
            end += len(text)
            self._waste += length
        self._append(parts, entries)

    def _append(self, parts: Iterable[bytes], entries: Iterable[tuple[int, bytes]]) -> None:
        """Puts bytes at the arena's end, then what points to them into the table, by address."""
        data = b"".join(parts)
        self.ensure(self._used + len(data))
        self.write(self._used, data)
        self._used += len(data)
        for at, entry in entries:
            self.write(at, entry)


def _entry(node: int) -> int:
    """The address of a node's entry."""
    return layout.TABLE + node * layout.ENTRY
