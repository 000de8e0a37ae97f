"""A folder on disk that is one process's own: what is written there is there whole, or not at all."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import msgspec

from wasm_runtime.compile import directories

logger = logging.getLogger(__name__)

VERSION: Final = 1
"""Of the layout: raised when an older process would misread what lies in the folder, or destroy it."""

MEND: Final = "name a server.stateDirectory that can be read and written and has room"

DAMAGE: Final = (msgspec.DecodeError, ValueError, RecursionError)
"""What decoding raises for anything that was not encoded."""

_FORMAT: Final = "format.json"
_UNFINISHED: Final = "unfinished"


class FolderError(Exception):
    """A folder is not for this process. `str()` names the cause and how to mend it."""


class _Format(msgspec.Struct, rename="camel"):
    """What the folder says of itself."""

    version: int
    config_file: str = ""
    """Whose folder it is, for people."""


class Folder:
    """The folder that belongs to a configuration file below a base directory. May be used from one thread at a time.

    Nobody but the user can read what is in it, and no other process has it open. After a kill or a loss of power each
    file holds what was written to it last, or what it held before. Methods raise OSError.
    """

    def __init__(self, path: Path, lock: IO[bytes], config_file: Path) -> None:
        self.path = path
        self._lock = lock
        self._config_file = config_file

    @classmethod
    def open(cls, base: Path, config_file: Path) -> Folder:
        """Makes it if need be. Raises FolderError, DirectoryError or OSError."""
        # Not resolved: links to a configuration file are exchanged, as in a mounted ConfigMap.
        config_file = Path(os.path.abspath(config_file))  # noqa: PTH100
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = directories.private(base / hashlib.sha256(os.fsencode(config_file)).hexdigest())
        lock = _lock(path / "lock")
        try:
            folder = cls(path, lock, config_file)
            folder._check_format()
        except BaseException:
            lock.close()
            raise
        return folder

    def _check_format(self) -> None:
        path = self.path / _FORMAT
        try:
            version = msgspec.json.decode(path.read_bytes(), type=_Format).version
        except FileNotFoundError:
            return
        except DAMAGE as error:
            self.set_aside(path, str(error))
            return
        if version > VERSION:
            raise FolderError(
                f"{self.path} was written by a newer kwx (format {version}, this one knows {VERSION});"
                " run that one, or name another server.stateDirectory"
            )

    def sign(self) -> None:
        """Writes down the folder's format, which shows whether it can be written."""
        name = os.fsencode(self._config_file).decode(errors="replace")
        self.write(self.path / _FORMAT, msgspec.json.encode(_Format(VERSION, name)))
        _sync(self.path.parent)

    def write(self, path: Path, content: bytes) -> None:
        """Makes a file of the folder, or of one in it, hold something else."""
        if not path.parent.exists():
            path.parent.mkdir(mode=0o700)
            _sync(self.path)
        unfinished = self.path / _UNFINISHED
        try:
            with _open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, "wb") as file:
                file.write(content)
                _flush(file)
            unfinished.replace(path)
        except OSError:
            with suppress(OSError):
                unfinished.unlink()
            raise
        _sync(path.parent)

    def append(self, path: Path, line: bytes) -> None:
        """Adds a line to a file of the folder, in the place of a half one that a kill or a full disk has left."""
        with _open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, "a+b") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            if file.read() not in {b"", b"\n"}:
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
            file.write(line + b"\n")
            _flush(file)
        if not end:
            _sync(self.path)

    def set_aside(self, path: Path, reason: str) -> None:
        """Renames a file that is of no use."""
        logger.warning("a damaged file is set aside: %s", reason, extra={"path": str(path)})
        with suppress(OSError):
            path.replace(path.with_suffix(".damaged"))

    def close(self) -> None:
        """Lets another process have it."""
        self._lock.close()


def _lock(path: Path) -> IO[bytes]:
    """The file, locked for as long as it is open. Raises FolderError or OSError."""
    try:
        file = _open(path, os.O_WRONLY | os.O_CREAT, "wb")
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        file = _open(path, os.O_RDONLY, "rb")  # What is kept there serves all the same.
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise FolderError(
            f"{path.parent} is in use by another kwx with this configuration file;"
            " end that one, or name another server.stateDirectory"
        ) from None
    except OSError as error:
        file.close()
        raise FolderError(f"{path} cannot be locked: {error.strerror}; {MEND}") from error
    return file


def _open(path: Path, flags: int, mode: str) -> IO[bytes]:
    """A file that only the user may read."""
    return os.fdopen(os.open(path, flags, 0o600), mode)


def _flush(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    """Makes names in a directory as durable as the files."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
