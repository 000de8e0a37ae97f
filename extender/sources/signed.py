"""Modules that have to be signed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from extender.sources.signing import PublicKey
from extender.sources.source import Fetched, Source, SourceError
from wasm_runtime.blob import digest as digest_of


class SignedSource:
    """A source whose modules a key has to have signed: under another key what it gives is judged anew.

    A version is the key's, then the source's own.
    """

    def __init__(self, source: Source, key: Path) -> None:
        """`source` gives signatures."""
        self._source = source
        self._key = key
        self.interval = source.interval
        self.is_remote = source.is_remote

    def has_changed(self, known: str) -> bool:
        """Whether the key is another one, or the source can tell that it has changed."""
        by, _, version = known.partition(" ")
        return by != self._version_of_key() or self._source.has_changed(version)

    def fetch(self, known: str | None = None) -> Fetched | None:
        """The module as it is now; None if it is still of the `known` version."""
        key = self._version_of_key()
        by, _, version = (known or "").partition(" ")
        fetched = self._source.fetch(version if by == key else None)
        return fetched and dataclasses.replace(fetched, version=f"{key} {fetched.version}")

    def _version_of_key(self) -> str:
        try:
            return PublicKey.read(self._key).fingerprint
        except SourceError as error:
            return digest_of(str(error).encode())
