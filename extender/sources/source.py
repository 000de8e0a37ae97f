"""What a source of modules is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from wasm_runtime.blob import Blob


class SourceError(Exception):
    """What a source gives cannot be used. `str()` names the source, the cause and what mends it, but no secret."""

    def __str__(self) -> str:
        """It can be encoded: names of files may hold bytes that are no UTF-8."""
        return super().__str__().encode(errors="replace").decode()


class SourceUnreachableError(SourceError):
    """A source does not answer now, so what it would give is not known."""


class Signature(NamedTuple):
    """A signature that came with a module."""

    payload: bytes
    """What was signed: the module, or a document that names it by its digest."""
    value: bytes
    """The signature itself, not encoded."""


@dataclass(frozen=True)
class Fetched:
    """A module as a source gave it."""

    module: Blob
    origin: str
    """Where exactly it was found, for people: a path, a URL, an OCI reference with the manifest's digest."""
    version: str
    """Tells it from what the source gives later: the look of a file, an ETag, a digest."""
    signatures: Sequence[Signature] = ()
    """Those that speak of this module; fetched only where a public key is required."""


class Source(Protocol):
    """Gives a module, time and again. Used by one thread at a time."""

    @property
    def interval(self) -> float:
        """Seconds between two looks, without jitter."""

    @property
    def is_remote(self) -> bool:
        """Whether it may be out of reach while the process starts, so that the last good module has to do."""

    def has_changed(self, known: str) -> bool:
        """Whether it is of another version than the `known` one, as far as that can be told without asking anybody."""

    def fetch(self, known: str | None = None) -> Fetched | None:
        """The module as it is now; None if it is still of the `known` version.

        Bounded in time and size. Raises SourceUnreachableError, or SourceError for an answer that is of no use.
        """


def fetch_now(source: Source) -> Fetched:
    """The module as it is now, whatever is known of it. Raises SourceError."""
    fetched = source.fetch()
    assert fetched, "there is no version that it could still be of"
    return fetched
