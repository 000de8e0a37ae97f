"""Code that is told apart by what it says: a version number does not change with it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import ModuleType
from typing import Final

DIGITS: Final = 12
"""Of a digest: enough to tell one state from others."""


def source(*packages: ModuleType) -> str:
    """What tells one state of packages from others, be they released or not."""
    state = hashlib.sha256()
    for package in packages:
        state.update(contents(Path(package.__path__[0]), "*.py"))
    return state.hexdigest()[:DIGITS]


def contents(folder: Path, *patterns: str) -> bytes:
    """Names and contents of the files below a folder that are like one of the patterns, in an order of their own."""
    files = sorted(each for pattern in patterns for each in folder.rglob(pattern))
    return b"".join(f"{file.relative_to(folder)}\n".encode() + file.read_bytes() for file in files)
