"""Compiled code on disk, kept from run to run."""

from __future__ import annotations

import hashlib
import logging
import os
import struct
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from wasm_runtime.compile import directories
from wasm_runtime.compile.directories import DirectoryError
from wasm_runtime.engine import MEBIBYTE

logger = logging.getLogger(__name__)

SUFFIX: Final = ".compiled"
"""How the names of our files end: no other file in the directory is ever touched."""

FORMAT: Final = 1
"""Raised when entries are laid out in another way, or `binary` reads another interface off the same module."""

DEFAULT_CACHE_BYTES: Final = 512 * MEBIBYTE
"""Bytes of all entries of a cache."""

_CODE_SIZE: Final = struct.Struct("<Q")
_CHUNK: Final = MEBIBYTE


class CacheError(Exception):
    """A directory cannot be trusted with code. `str()` names the cause and how to mend it."""


class CodeFile(NamedTuple):
    """Code at the beginning of a file that may be mapped: nobody writes to it any more.

    What comes after the code is not the engine's. The file may be deleted at any time, which does no harm to
    a mapping of it.
    """

    path: Path
    size: int

    def read(self) -> bytes:
        """The code alone."""
        with self.path.open("rb") as file:
            return file.read(self.size)


class Entry(NamedTuple):
    """What is kept of a module."""

    interface: bytes
    """`Interface.to_json`."""
    code: CodeFile


class CompileCache:
    """Entries in a directory that nobody else can write to, for what lies there is run.

    Of an entry the cache knows the key that it was put under and a checksum over all of it, so one that is
    damaged, or lies under another key, is deleted and not returned. Any number of threads and processes may
    use a directory at once: a file is complete before it has its name, and is never changed afterwards. Once
    there are more than `limit` bytes, the least recently used entries go, but never the one just put.
    """

    def __init__(self, directory: Path | None = None, limit: int = DEFAULT_CACHE_BYTES) -> None:
        """Makes the directory, `default_directory` if none is given. One that cannot be made keeps nothing.

        Raises CacheError for a directory that others can write to.
        """
        self._limit = limit
        self._has_complained = False
        self._directory: Path | None = None
        try:
            self._directory = directories.private(directory or default_directory())
        except DirectoryError as error:
            raise CacheError(str(error)) from error
        except (OSError, RuntimeError) as error:
            self._complain(error)

    def get(self, key: str) -> Entry | None:
        """The entry of a key, which counts as used now; None if there is none, or it was damaged."""
        if self._directory is None:
            return None
        path = _path(self._directory, key)
        try:
            with path.open("rb") as file:
                entry = _read(file, path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self.discard(key, str(error))
            return None
        with suppress(OSError):  # A directory that can only be read serves, too.
            os.utime(path)
        return entry

    def put(self, key: str, interface: bytes, code: bytes | memoryview) -> None:
        """Keeps an entry. What the disk does not take is not kept; that is said once."""
        if self._directory is None:
            return
        path = _path(self._directory, key)
        try:
            _write(path, interface, code)
            _evict(self._directory, self._limit, path)
        except OSError as error:
            self._complain(error)

    def discard(self, key: str, reason: str) -> None:
        """Deletes an entry that is of no use."""
        if self._directory is None:
            return
        path = _path(self._directory, key)
        logger.warning("compiled code is thrown away: %s", reason, extra={"path": str(path)})
        with suppress(OSError):
            path.unlink()

    def _complain(self, error: Exception) -> None:
        if not self._has_complained:
            self._has_complained = True
            logger.warning(
                "compiled code cannot be kept, so modules are compiled again after a restart: %s;"
                " name a directory that can be written and has room",
                error,
            )


def default_directory() -> Path:
    """`$XDG_CACHE_HOME/kwx/compiled`, else `~/.cache/kwx/compiled`. Raises RuntimeError if there is no home."""
    return directories.of_user("XDG_CACHE_HOME", "~/.cache") / "kwx" / "compiled"


def _path(directory: Path, key: str) -> Path:
    return directory / f"{key}-{FORMAT}{SUFFIX}"


def _write(path: Path, interface: bytes, code: bytes | memoryview) -> None:
    """Code, interface, size of the code and a checksum over the file's name and all that."""
    checksum = hashlib.sha256(path.name.encode())
    descriptor, name = tempfile.mkstemp(suffix=SUFFIX, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for part in (code, interface, _CODE_SIZE.pack(len(code))):
                checksum.update(part)
                file.write(part)
            file.write(checksum.digest())
        with suppress(FileNotFoundError):  # Another process has already evicted it.
            Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _read(file: BinaryIO, path: Path) -> Entry:
    """What `_write` has written. Raises ValueError for anything else."""
    checksum = hashlib.sha256(path.name.encode())
    end = max(0, os.fstat(file.fileno()).st_size - checksum.digest_size)
    while chunk := file.read(min(_CHUNK, end - file.tell())):
        checksum.update(chunk)
    if file.read() != checksum.digest():
        raise ValueError("its checksum is wrong")
    end -= _CODE_SIZE.size
    file.seek(end)
    (size,) = _CODE_SIZE.unpack(file.read(_CODE_SIZE.size))
    file.seek(size)
    return Entry(file.read(end - size), CodeFile(path, size))


def _evict(directory: Path, limit: int, newest: Path) -> None:
    """Deletes the least recently used files beyond the limit, among them what a writer that died has left behind."""
    files = []
    for path in directory.glob(f"*{SUFFIX}"):
        with suppress(FileNotFoundError):
            status = path.stat()
            files.append((status.st_mtime_ns, status.st_size, path))
    excess = sum(size for _, size, _ in files) - limit
    for _, size, path in sorted(files):
        if excess > 0 and path != newest:
            path.unlink(missing_ok=True)
            excess -= size
