"""Nodes as a protobuf v1.NodeList: what processes of a benchmark hand to each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from wasm_runtime.protobuf.read import fields, identity
from wasm_runtime.protobuf.varint import BYTES, tag, varint

_ITEM: Final = tag(2, BYTES)


def node_list(nodes: Iterable[bytes]) -> bytes:
    """A protobuf v1.NodeList of nodes."""
    return b"".join(part for node in nodes for part in (_ITEM, varint(len(node)), node))


def read_nodes(data: bytes) -> dict[str, bytes]:
    """The nodes of a protobuf v1.NodeList, by name."""
    items = (value for number, _, value in fields(data) if number == 2 and isinstance(value, bytes))
    return {identity(node).name: node for node in items}
