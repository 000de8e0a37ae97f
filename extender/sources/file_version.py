"""What a file's status tells: whether it has changed, and who may read it."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import NamedTuple


class FileVersion(NamedTuple):
    """What tells one version of a file from another without reading it.

    Neither `cp -p` nor `touch -r` makes another version look the same: nobody can set the time of the change.
    """

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int
    """When its content, its mode or its links were changed last."""

    @classmethod
    def of(cls, path: Path) -> FileVersion | None:
        """That of what is at a path now, links followed; None if nothing that can be looked at is there."""
        try:
            status = path.stat()
        except (OSError, ValueError):
            return None
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    def __str__(self) -> str:
        return "-".join(map(str, self))


def openness(file: Path) -> str | None:
    """What is wrong with a file of secrets that all users of the machine may read, if that is so."""
    try:
        mode = file.stat().st_mode
    except OSError:
        return None
    if mode & stat.S_IRWXO:
        return f"{file} is open to all users of this machine (mode {stat.S_IMODE(mode):04o}); chmod o= it"
    return None
