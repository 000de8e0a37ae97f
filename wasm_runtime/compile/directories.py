"""Directories of the user that the process runs as, for what is kept from run to run."""

from __future__ import annotations

import os
import stat
from pathlib import Path


class DirectoryError(Exception):
    """A directory cannot be trusted with code. `str()` names the cause and how to mend it."""


def of_user(variable: str, default: str) -> Path:
    """The base directory that an environment variable names, else the default below `~`.

    Raises RuntimeError if there is no home. Source: the XDG Base Directory Specification, by which a relative path
    counts as unset.
    """
    base = Path(os.environ.get(variable, ""))
    return base if base.is_absolute() else Path(default).expanduser()


def private(directory: Path) -> Path:
    """The directory, made if need be, links resolved.

    Raises DirectoryError if it is somebody else's or others can write to it, OSError if it cannot be made.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory = directory.resolve(strict=True)
    status = directory.stat()
    if status.st_uid != os.geteuid():
        owner = f"belongs to user {status.st_uid}, not to user {os.geteuid()}"
        raise DirectoryError(f"{directory} {owner} that runs the code kept there; name a directory of that user's own")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = f"can be written by others (mode {stat.S_IMODE(status.st_mode):o})"
        raise DirectoryError(f"{directory} {mode}, and the code kept there is run; chmod 700 it")
    return directory
