"""How much memory the control group of this process leaves.

Sources: https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files and
https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple


class _Version(NamedTuple):
    """The files of a version of control groups."""

    controllers: str
    """As the second field of a line of `/proc/self/cgroup` has them."""
    mount: str
    limit: str
    usage: str
    inactive: str
    """What the kernel gives up before it ends a process, in `memory.stat`."""


_VERSIONS: Final = (
    _Version("", "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    _Version("memory", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def memory_left(root: Path = Path("/")) -> int | None:
    """Bytes that may still be used, by the tightest of the group and those that it is in. None without a limit."""
    left = [each for version in _VERSIONS for group in _groups(root, version) for each in _left(group, version)]
    return max(0, min(left)) if left else None


def _groups(root: Path, version: _Version) -> Iterator[Path]:
    """The group of this process and those that it is in. In a container they may all be mounted as one."""
    lines: list[str] = []
    with suppress(OSError):
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if version.controllers in controllers.split(","):
            inner = PurePosixPath(path.lstrip("/"))
            for each in dict.fromkeys((inner, *inner.parents)):
                yield root / version.mount / each


def _left(group: Path, version: _Version) -> Iterator[int]:
    with suppress(OSError, ValueError, KeyError):  # The root has no such files, and "max" is no limit.
        limit = int((group / version.limit).read_text())
        statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        yield limit - int((group / version.usage).read_text()) + int(statistics[version.inactive])
