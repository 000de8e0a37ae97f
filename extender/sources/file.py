"""Modules in files."""

from __future__ import annotations

import os
import re
import stat
import time
from pathlib import Path
from typing import Final

from extender.sources.download import Limit
from extender.sources.file_version import FileVersion
from extender.sources.signing import SIGNATURE_LIMIT, SIGNATURE_SUFFIX, detached_signatures
from extender.sources.source import Fetched, SourceError
from wasm_runtime.blob import Blob

MAX_ATTEMPTS: Final = 5
PAUSE_S: Final = 0.1
"""Seconds between two attempts to read a file that is being written, where nothing is known of it yet."""


class FileSource:
    """The module at a path.

    It is looked at by path, links followed, so that an editor's rename and the exchanged link of a mounted ConfigMap or
    Secret are seen alike. A file has changed once it looks the same in two fetches in a row: one that is still being
    written is left alone.
    """

    interval: Final = 0.5
    is_remote: Final = False

    def __init__(self, path: Path, limit: Limit, *, signed: bool = False) -> None:
        self._path = path
        self._limit = limit
        self._signature = Path(f"{path}{SIGNATURE_SUFFIX}") if signed else None
        self._last: str | None = None

    def has_changed(self, known: str) -> bool:
        """Whether the file looks different."""
        return self._version() != known

    def fetch(self, known: str | None = None) -> Fetched | None:
        """The module as it is now; None if it is still of the `known` version, or if it is being written.

        Where nothing is known it is read at once.
        """
        if known is None:
            return self._insist()
        version = self._version()
        steady = version == self._last
        self._last = version
        return self._read(version) if steady and version != known else None

    def _insist(self) -> Fetched:
        for _ in range(MAX_ATTEMPTS):
            fetched = self._read(self._version())
            if fetched:
                return fetched
            time.sleep(PAUSE_S)
        raise SourceError(
            f"{self._path} changes while it is read; wait until it is written, or rename it into its place"
        )

    def _version(self) -> str:
        return " ".join(str(FileVersion.of(path) or _MISSING) for path in (self._path, self._signature) if path)

    def _read(self, version: str) -> Fetched | None:
        """What is in the files; None if they are of that version no more."""
        wasm = read(self._path, self._limit)
        text = read(self._signature, SIGNATURE_LIMIT) if self._signature and FileVersion.of(self._signature) else None
        if self._version() != version:
            return None
        return Fetched(
            Blob(wasm),
            os.fsencode(self._path).decode(errors="replace"),
            version,
            detached_signatures(str(self._signature), wasm, text),
        )


_MISSING: Final = "-"

_URL: Final = re.compile(r"(oci|https?|file):/")
"""How a URL begins that was given in the place of a path."""


def read(path: Path, limit: Limit) -> bytes:
    """What is in a file. Raises SourceError."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise SourceError(f"{path} is no regular file; name a .wasm file")
        if status.st_size > limit.size:
            raise SourceError(f"{path} has {status.st_size} bytes, {limit.by} allows {limit.size}")
        with path.open("rb") as file:
            return file.read(status.st_size + 1)
    except ValueError as error:
        raise SourceError(f"{str(path)!r} is no path: it holds a NUL") from error
    except OSError as error:
        missing = "fetch it by kwx pull" if _URL.match(str(path)) else "build it or mend the path"
        hint = f"; {missing}" if isinstance(error, FileNotFoundError) else ""
        raise SourceError(f"{path} cannot be read: {error.strerror}{hint}") from error
