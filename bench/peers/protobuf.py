"""Answers of an API server in protobuf, written by hand."""

from __future__ import annotations

from wasm_runtime.protobuf.varint import BYTES, VARINT, tag, varint


def text(number: int, value: bytes | str) -> bytes:
    """A field that holds text or a message."""
    content = value.encode() if isinstance(value, str) else value
    return tag(number, BYTES) + varint(len(content)) + content


def integer(number: int, value: int) -> bytes:
    """A field that holds an integer."""
    return tag(number, VARINT) + varint(value)


def node(name: str, version: str = "1", padding: int = 0) -> bytes:
    """A bare v1.Node with nothing but metadata, made larger by an annotation of `padding` bytes."""
    annotation = text(12, text(1, "padding") + text(2, "x" * padding)) if padding else b""
    return text(1, text(1, name) + text(6, version) + annotation)


def status(code: int, message: str) -> bytes:
    """A bare v1.Status of a failure."""
    return text(2, "Failure") + text(3, message) + text(4, "Expired") + integer(6, code)


def enveloped(content: bytes, kind: str = "Node") -> bytes:
    r"""An object as it stands in an answer: `k8s\0` and a runtime.Unknown."""
    return b"k8s\x00" + text(1, text(1, "v1") + text(2, kind)) + text(2, content)


def node_list(version: str, *nodes: bytes, continuation: str = "") -> bytes:
    """The answer of a list of nodes."""
    metadata = text(2, version) + (text(3, continuation) if continuation else b"")
    return enveloped(text(1, metadata) + b"".join(text(2, item) for item in nodes), "NodeList")


def event(kind: str, content: bytes) -> bytes:
    """A WatchEvent without its frame's length."""
    return text(1, kind) + text(2, text(1, enveloped(content)))


def framed(payload: bytes) -> bytes:
    """A frame of a watch."""
    return len(payload).to_bytes(4, "big") + payload
