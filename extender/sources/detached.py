"""Signatures in a document of their own, beside the module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from extender.sources.download import Limit
from extender.sources.signing import MAX_SIGNATURE_BYTES, detached
from extender.sources.source import Signature, SourceError

SUFFIX: Final = ".sig"
"""Of the document's name, which begins with the module's."""

LIMIT: Final = Limit(MAX_SIGNATURE_BYTES)


def signatures(name: str, wasm: bytes, text: bytes | None) -> Sequence[Signature]:
    """Those in a document of that name, if there is one. Raises SourceError."""
    if text is None:
        return ()
    try:
        return (detached(wasm, text),)
    except SourceError as error:
        raise SourceError(f"{name}: {error}") from error
