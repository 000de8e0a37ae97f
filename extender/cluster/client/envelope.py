"""What the API server wraps around protobuf objects; no I/O.

Field numbers here and in the modules that use this:
https://github.com/kubernetes/kubernetes/tree/v1.36.3/staging/src/k8s.io/apimachinery/pkg, the files
runtime/generated.proto (Unknown, RawExtension), apis/meta/v1/generated.proto (ListMeta, Status, WatchEvent).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from extender.cluster.client.errors import ProtocolError
from wasm_runtime.protobuf.errors import DecodeError
from wasm_runtime.protobuf.read import fields

MAGIC: Final = b"k8s\x00"


def unwrap(content: bytes) -> bytes:
    r"""The bare object inside `k8s\0` and Unknown{2: raw}. Raises ProtocolError or DecodeError."""
    if not content.startswith(MAGIC):
        raise ProtocolError(f"expected Kubernetes protobuf, got {content[:40]!r}")
    return member(content[len(MAGIC) :], 2)


def member(message: bytes, number: int) -> bytes:
    """The text or message in field `number`, empty where it is absent. Raises DecodeError."""
    return next((value for found, value in members(message) if found == number), b"")


def members(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and value of each field that holds text or a message. Raises DecodeError."""
    return ((number, value) for number, _, value in fields(message) if isinstance(value, bytes))


@contextmanager
def decoding(what: str) -> Iterator[None]:
    """Makes errors of decoding `what` ProtocolError, which says that the server's answer is at fault."""
    try:
        yield
    except (DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"{what} that is no valid protobuf: {error}") from error
