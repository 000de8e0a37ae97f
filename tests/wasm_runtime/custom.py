"""Custom sections, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping

from wasm_runtime.protobuf.varint import varint


def text(content: str | bytes) -> bytes:
    encoded = content.encode() if isinstance(content, str) else content
    return varint(len(encoded)) + encoded


def custom(name: str | bytes, content: bytes) -> bytes:
    """A custom section, to be put behind a module's bytes."""
    body = text(name) + content
    return b"\0" + varint(len(body)) + body


def made_by(fields: Mapping[str, Mapping[str, str]]) -> bytes:
    """The contents of a producers section."""
    values = {
        field: varint(len(versions)) + b"".join(text(name) + text(version) for name, version in versions.items())
        for field, versions in fields.items()
    }
    return varint(len(fields)) + b"".join(text(field) + value for field, value in values.items())
