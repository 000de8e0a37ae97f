"""v1.Status: how an API server says what is wrong; no I/O."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from extender.cluster.envelope import MAGIC, decoding, member, unwrap
from wasm_runtime.protobuf.read import fields

LONGEST_TEXT: Final = 300
"""Characters that are kept of an answer that is no Status, such as a proxy's page of HTML."""


class Status(NamedTuple):
    """The code, an HTTP status, and the sentence of a v1.Status."""

    code: int
    message: str


def decode_status(content: bytes) -> Status:
    """Read a bare v1.Status{3: message, 6: code}. Raises ProtocolError."""
    with decoding("a status"):
        codes = [value for number, _, value in fields(content) if number == 6 and isinstance(value, int)]
        return Status(codes[0] if codes else 0, member(content, 3).decode())


def read_message(body: bytes) -> str:
    """The sentence in the body of a failed request: a Status in protobuf or JSON, or any text.

    The API server mixes all three, whatever was asked for. Raises ProtocolError.
    """
    if body.startswith(MAGIC):
        with decoding("a status"):
            return decode_status(unwrap(body)).message
    text = body.decode(errors="replace").strip()
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:LONGEST_TEXT]
