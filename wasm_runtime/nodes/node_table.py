"""The nodes that guests see: one copy for the process, shared by all instances."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import compress
from typing import Final, NamedTuple

from wasm_runtime.change_log import ChangeLog
from wasm_runtime.pods.pod_table import PodTable
from wasm_runtime.protobuf.varint import varint
from wasm_runtime.weak import weak_method

ABSENT = b""
"""The object of a node of which only the name is known, or of one that was removed."""

NEVER: Final = -1
"""The epoch of an instance that has copied nothing yet."""

NOWHERE: Final = -1
"""Stands for the index of a node without one."""

SLACK = 16_384
"""Names without an object that are kept beyond three times the nodes that are live, or that pods are on."""

MAX_NODE_NAME_CHARS: Final = 253
"""Characters of a node's name (a DNS subdomain, RFC 1123)."""


class Located(NamedTuple):
    """The indices of a request's nodes, valid while `epoch` lasts."""

    epoch: int
    indices: Sequence[int]


class Changes(NamedTuple):
    """What an instance has to copy to be in step with the node table."""

    epoch: int
    position: int
    entries: int
    """Number of entries, those without an object included: every index is below it."""
    live: int
    """Number of entries with an object."""
    nodes: list[tuple[int, str, bytes]]
    """Index, name and protobuf of each entry to write; `ABSENT` where there is no object, "" where there is no name."""


class NodeTable:
    """Names and protobuf objects of nodes, each at an index that is its own while an epoch lasts.

    Each change is numbered, so that an instance copies only what changed since it last looked. A new epoch begins
    when the names without an object outgrow the live nodes: those names are dropped and their indices given to
    names to come. Live nodes keep theirs, since guests that keep nodes would else decode all of them again. So do names
    that are held, since guests know pods by the indices of their nodes. Memory is bounded by the most nodes that were
    ever live or held, however many names come and go. All methods may be called from any thread.
    """

    def __init__(self, on_change: Callable[[], object] = lambda: None) -> None:
        """`on_change` is called after each change of a node's object or of pods, by the thread that made it."""
        self.pods = PodTable(weak_method(self.hold), weak_method(self.release), on_change)
        """The pods of this table's cluster."""
        self._on_change = on_change
        self._lock = threading.Lock()
        self._epoch = 0
        self._names: list[str] = []
        self._objects: list[bytes] = []
        self._index: dict[str, int] = {}
        self._free: list[int] = []
        self._held: dict[int, int] = {}
        """How often each entry is held; entries that are not held are left out."""
        self._log = ChangeLog()
        self._live = 0
        self._last: tuple[list[str], Located] = ([], Located(0, []))
        """The names and indices that were located last, or are likely to be next."""

    def __len__(self) -> int:
        """The number of nodes with an object."""
        return self._live

    def put(self, nodes: Iterable[tuple[str, bytes]]) -> None:
        """Adds or replaces nodes, each a name and a protobuf v1.Node."""
        with self._changing():
            for name, node in nodes:
                self._write(name, node)

    def copy(self) -> NodeTable:
        """A table of its own that has the same nodes, pods and groups, at places of its own."""
        copied = NodeTable()
        with self._lock:
            nodes = [(name, node) for name, node in zip(self._names, self._objects, strict=True) if node]
        copied.put(nodes)
        self.pods.copy_into(copied.pods)
        return copied

    def remove(self, name: str) -> None:
        """Forgets a node's object. A name that is not known is not an error."""
        with self._changing():
            if name in self._index:
                self._write(name, ABSENT)

    def replace(self, nodes: Mapping[str, bytes]) -> None:
        """Makes `nodes` all that is known, as a fresh list from the API server does."""
        with self._changing():
            for name in self._index.keys() - nodes.keys():
                self._write(name, ABSENT)
            for name, node in nodes.items():
                self._write(name, node)

    def find(self, names: Sequence[str]) -> Located | None:
        """The index of each name; None if one is not known.

        Those that were located last are found by a comparison, which takes a fifth of looking each one up: prioritize
        asks for what filter has kept.
        """
        with self._lock:
            last, located = self._last
            if located.epoch == self._epoch and last == names:
                return located
            try:
                located = Located(self._epoch, list(map(self._index.__getitem__, names)))
            except KeyError:
                return None
            self._last = list(names), located
            return located

    def locate(self, names: Sequence[str]) -> Located:
        """The index of each name; a name that is not known becomes an entry without an object.

        Raises ValueError for a new name that no node can have.
        """
        if located := self.find(names):
            return located
        with self._lock:
            self._begin_epoch_when_wasteful()
            if len(max(names, key=len)) > MAX_NODE_NAME_CHARS:
                raise ValueError(f"a node name has more than {MAX_NODE_NAME_CHARS} characters")
            for name in names:
                if name not in self._index:
                    self._write(name, ABSENT)
            return Located(self._epoch, list(map(self._index.__getitem__, names)))

    def names(self) -> list[str]:
        """The names of all nodes that have an object."""
        with self._lock:
            return [name for name, node in zip(self._names, self._objects, strict=True) if node]

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Those of some names that have no entry, each once."""
        with self._lock:
            return [name for name in dict.fromkeys(names) if name not in self._index]

    def without_object(self, names: Iterable[str]) -> list[str]:
        """Those of some names that have no object, known or not."""
        with self._lock:
            return [name for name in names if name not in self._index or not self._objects[self._index[name]]]

    def position_of(self, located: Located, name: str) -> int | None:
        """The position of a name among those that were located; None if it is not there, or that epoch is over."""
        with self._lock:
            index = self._index.get(name)
            if index is None or located.epoch != self._epoch or index not in located.indices:
                return None
            return located.indices.index(index)

    def names_of(self, located: Located) -> list[str]:
        """The name of each node that was located; "" for each once that epoch is over."""
        with self._lock:
            if located.epoch != self._epoch:
                return [""] * len(located.indices)
            return list(map(self._names.__getitem__, located.indices))

    def hold(self, name: str) -> int:
        """The index of a name, which no other name gets until this one is released as often as it was held.

        It need be no node's: one that is held is no more live than others.
        """
        with self._lock:
            if name not in self._index:
                self._begin_epoch_when_wasteful()
                self._write(name, ABSENT)
            at = self._index[name]
            self._held[at] = self._held.get(at, 0) + 1
            return at

    def release(self, name: str) -> None:
        """Ends what `hold` began. Raises KeyError for a name that is not held."""
        with self._lock:
            at = self._index[name]
            self._held[at] -= 1
            if not self._held[at]:
                del self._held[at]

    def expect(self, names: Sequence[str], located: Located) -> None:
        """Says which names are likely to be located next, and where they are."""
        with self._lock:
            self._last = list(names), located

    def node_list(self) -> bytes:
        """All nodes that have an object, as a protobuf v1.NodeList."""
        with self._lock:
            return b"".join(_item(node) for node in self._objects if node)

    def changes(self, epoch: int, position: int) -> Changes | None:
        """What changed after `position` of `epoch`, or all of it once that epoch is over."""
        if epoch == self._epoch and position == self._log.position:
            return None  # Without the lock: each change moves one of them, and most calls come between two changes.
        with self._lock:
            if epoch != self._epoch:
                return self._changes(range(len(self._names)))
            return self._changes(self._log.since(position))

    def everything(self) -> Changes:
        """What an instance has to copy that has no copy yet, or has to begin again."""
        with self._lock:
            return self._changes(range(len(self._names)))

    def _changes(self, indices: Iterable[int]) -> Changes:
        nodes = [(at, self._names[at], self._objects[at]) for at in indices]
        return Changes(self._epoch, self._log.position, len(self._names), self._live, nodes)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock:
            before = self._log.position
            yield
            changed = self._log.position != before
            self._begin_epoch_when_wasteful()
        if changed:
            self._on_change()

    def _write(self, name: str, node: bytes) -> None:
        at = self._index.get(name)
        if at is None:
            at = self._new_entry(name)
        elif self._objects[at] == node:
            return
        self._live += bool(node) - bool(self._objects[at])
        self._objects[at] = node
        self._log.note(at)

    def _new_entry(self, name: str) -> int:
        if self._free:
            at = self._free.pop()
            self._names[at] = name
        else:
            at = len(self._names)
            self._names.append(name)
            self._objects.append(ABSENT)
        self._index[name] = at
        return at

    def _begin_epoch_when_wasteful(self) -> None:
        if len(self._index) <= SLACK + 4 * max(self._live, len(self._held)):
            return
        self._epoch += 1
        dropped = [at for at in self._index.values() if not self._objects[at] and at not in self._held]
        for at in dropped:
            del self._index[self._names[at]]
            self._names[at] = ""
        self._free += dropped


def _item(node: bytes) -> bytes:
    """A node as an item of a list: field 2, length-delimited."""
    return b"".join((b"\x12", varint(len(node)), node))


class NodeSet:
    """Which nodes a request had: their indices in the place of their names. Does not keep the node table alive."""

    __slots__ = ("_located", "_node_table")

    def __init__(self, node_table: NodeTable, located: Located) -> None:
        self._node_table = weakref.ref(node_table)
        self._located = located

    def __len__(self) -> int:
        return len(self._located.indices)

    def __contains__(self, name: str) -> bool:
        """Whether it was one of them; False where nobody knows any more."""
        return self.position(name) is not None

    def position(self, name: str) -> int | None:
        """The position of a name in the request; None if it is not there, or its epoch is over."""
        node_table = self._node_table()
        return None if node_table is None else node_table.position_of(self._located, name)

    def names(self) -> list[str]:
        """The name of each, in the order of the request. Once their epoch is over each name is ""."""
        node_table = self._node_table()
        return [""] * len(self) if node_table is None else node_table.names_of(self._located)


_NO_OBJECTS: Final[Mapping[str, bytes]] = {}


class Nodes:
    """The nodes of a request, in its order, and where they stand in the node table."""

    __slots__ = ("_located", "carried", "names", "node_table")

    def __init__(
        self,
        node_table: NodeTable,
        names: Sequence[str],
        located: Located | None = None,
        carried: Mapping[str, bytes] = _NO_OBJECTS,
    ) -> None:
        self.node_table = node_table
        self.names = names
        self.carried = carried
        """The objects of those that the request alone has, by name. Guests see them in its calls and nowhere else."""
        self._located = located or self._locate()

    def __len__(self) -> int:
        return len(self.names)

    def located(self, epoch: int) -> Sequence[int] | None:
        """The index of each node in that epoch; None if it is over, or not begun when last looked.

        That of a node which the request carries is `NOWHERE`.
        """
        if self._located.epoch != epoch:
            self._located = self._locate()
        return self._located.indices if self._located.epoch == epoch else None

    def select(self, selectors: Sequence[object]) -> Nodes:
        """The nodes whose selector is true."""
        epoch, indices = self._located
        located = Located(epoch, list(compress(indices, selectors)))
        names = list(compress(self.names, selectors))
        if not self.carried:
            self.node_table.expect(names, located)
        return Nodes(self.node_table, names, located, self.carried)

    def at(self, positions: Sequence[int]) -> Nodes:
        """The nodes at some positions of the request."""
        epoch, indices = self._located
        names = list(map(self.names.__getitem__, positions))
        located = Located(epoch, list(map(indices.__getitem__, positions)))
        return Nodes(self.node_table, names, located, self.carried)

    def without_names(self) -> NodeSet:
        """The nodes by their indices alone, for those who keep the nodes of many requests."""
        return NodeSet(self.node_table, self._located)

    def singly(self) -> Iterator[Nodes]:
        """Each node by itself."""
        epoch, indices = self._located
        for name, index in zip(self.names, indices, strict=True):
            yield Nodes(self.node_table, [name], Located(epoch, [index]), self.carried)

    def _locate(self) -> Located:
        if not self.carried:
            return self.node_table.locate(self.names)
        known = [name for name in self.names if name not in self.carried]
        epoch, indices = self.node_table.locate(known)
        at = dict(zip(known, indices, strict=True))
        return Located(epoch, [at.get(name, NOWHERE) for name in self.names])
