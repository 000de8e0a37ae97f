"""Whether a file has changed."""

from __future__ import annotations

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
