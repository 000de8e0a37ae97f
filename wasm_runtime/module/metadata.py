"""What a plugin's module says of itself to those who configure it: a custom section with JSON.

It is part of the bytes, so a digest and a signature are of it too, wherever the module comes from. Hosts that do not
know the section leave it alone.
"""

from __future__ import annotations

from typing import Final

import msgspec

from wasm_runtime.errors import ModuleError
from wasm_runtime.module.binary import EMPTY, PREAMBLE, BinaryReader, leb128
from wasm_runtime.module.sections import custom_sections

SECTION: Final = "kwx.plugin"

MAX_METADATA_BYTES: Final = 128 * 1024

_CUSTOM: Final = 0


class Metadata(msgspec.Struct, rename="camel", omit_defaults=True):
    """What `kwx build` knows of a plugin."""

    sdk: str = ""
    """Language and version of the library that it was written with, such as `go 0.1.0`."""
    config_schema: msgspec.Raw = msgspec.Raw()
    """JSON Schema of its guestConfig; empty if the author gives none."""


_DECODER: Final = msgspec.json.Decoder(Metadata)


def read(wasm: bytes) -> Metadata:
    """What a valid module says; nothing where it has no such section. Raises ModuleError."""
    section = custom_sections(wasm).get(SECTION, b"{}")
    if len(section) > MAX_METADATA_BYTES:
        raise ModuleError([f"has {len(section)} bytes in its section {SECTION}, the limit is {MAX_METADATA_BYTES}"])
    try:
        return _DECODER.decode(section)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModuleError([f"has a section {SECTION} that cannot be read: {error}; build it by `kwx build`"]) from error


def embed(wasm: bytes, metadata: Metadata) -> bytes:
    """A valid module that says this of itself, and nothing else that it said before."""
    content = _text(SECTION.encode()) + msgspec.json.encode(metadata)
    return EMPTY + _without(wasm) + bytes([_CUSTOM]) + _text(content)


def _without(wasm: bytes) -> bytes:
    """The sections of a module but this one."""
    reader = BinaryReader(wasm, PREAMBLE)
    kept = bytearray()
    begin = reader.at
    for section, length in reader.sections():
        end = reader.at + length
        if section != _CUSTOM or reader.text() != SECTION:
            kept += wasm[begin:end]
        begin = end
    return bytes(kept)


def _text(content: bytes) -> bytes:
    """Bytes with their length before them."""
    return leb128(len(content)) + content
