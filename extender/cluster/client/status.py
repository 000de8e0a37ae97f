"""v1.Status: how an API server says what is wrong; no I/O."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from extender.cluster.client.envelope import MAGIC, decoding, member, unwrap
from extender.cluster.client.errors import ProtocolError
from wasm_runtime.protobuf.errors import DecodeError
from wasm_runtime.protobuf.read import fields

MAX_TEXT: Final = 300
"""Characters that are kept of an answer that is no Status, such as a proxy's page of HTML."""
MAX_MESSAGE: Final = 4_000
"""Characters that are kept of a Status' own sentence."""

_SUCCESS: Final = "Success"


class ApiStatus(NamedTuple):
    """The code, an HTTP status, and the sentence of a v1.Status."""

    code: int
    message: str
    is_success: bool = False
    is_text: bool = False
    """Whether it is no v1.Status but other text, such as a proxy's page. Then `message` is that text."""


class _JsonObject(msgspec.Struct):
    kind: str = ""


class _JsonStatus(_JsonObject):
    status: str = ""
    code: int = 0
    message: str = ""


_OBJECT: Final = msgspec.json.Decoder(_JsonObject)
_STATUS: Final = msgspec.json.Decoder(_JsonStatus)


def decode_status(content: bytes) -> ApiStatus:
    """Read a bare v1.Status{2: status, 3: message, 6: code}. Raises ProtocolError."""
    with decoding("a status"):
        codes = [value for number, _, value in fields(content) if number == 6 and isinstance(value, int)]
        is_success = member(content, 2) == _SUCCESS.encode()
        return ApiStatus(codes[0] if codes else 0, member(content, 3).decode()[:MAX_MESSAGE], is_success)


def read_status(body: bytes) -> ApiStatus:
    """The Status in the body of an answer, in protobuf or JSON. Any other text is a failure with that text.

    The API server mixes all three, whatever was asked for.
    """
    try:
        return _decode(body)
    except (ProtocolError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ApiStatus(0, body[: 4 * MAX_TEXT].decode(errors="replace").strip()[:MAX_TEXT], is_text=True)


def says_success(body: bytes) -> bool:
    """Whether the body of an answer is a Status of success."""
    return read_status(body).is_success


def is_object(kind: str, body: bytes) -> bool:
    """Whether the body of an answer is an object of a kind, in protobuf or JSON."""
    try:
        if body.startswith(MAGIC):
            return member(member(body[len(MAGIC) :], 1), 2) == kind.encode()
        return _OBJECT.decode(body).kind == kind
    except (DecodeError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _decode(body: bytes) -> ApiStatus:
    if body.startswith(MAGIC):
        with decoding("a status"):
            return decode_status(unwrap(body))
    status = _STATUS.decode(body)
    is_success = status.status == _SUCCESS
    if status.kind != "Status" or not (status.message or is_success):
        raise ProtocolError("it is no Status, or there is no sentence in it")
    return ApiStatus(status.code, status.message[:MAX_MESSAGE], is_success)
