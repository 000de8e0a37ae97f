"""Digests of code, which change with every edit, as version numbers do not."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import ModuleType
from typing import Final

DIGITS: Final = 12
"""Digits of a digest that are kept."""


def source(*packages: ModuleType) -> str:
    """The digest of the sources of packages, released or not."""
    state = hashlib.sha256()
    for package in packages:
        state.update(contents(Path(package.__path__[0]), "*.py"))
    return state.hexdigest()[:DIGITS]


def contents(folder: Path, *patterns: str) -> bytes:
    """Names and contents of the files below a folder that match one of the patterns, in a fixed order."""
    files = sorted(each for pattern in patterns for each in folder.rglob(pattern))
    return b"".join(f"{file.relative_to(folder)}\n".encode() + file.read_bytes() for file in files)
