"""Protobuf written by hand, so that the runtime's own writer is not its judge."""

from __future__ import annotations

from collections.abc import Iterable


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def image(names: Iterable[str], size: int) -> bytes:
    """A v1.ContainerImage."""
    return b"".join(field(1, name.encode()) for name in names) + field(2, size)


def node_with_images(images: Iterable[bytes]) -> bytes:
    """A v1.Node with nothing but a name of two bytes and those images in its status."""
    metadata = field(1, b"nm")
    return field(1, metadata) + field(3, b"".join(field(8, each) for each in images))


def node_list(nodes: Iterable[bytes]) -> bytes:
    """A v1.NodeList."""
    return b"".join(field(2, node) for node in nodes)
