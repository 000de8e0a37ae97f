"""The history of rollouts on disk."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from extender.registry.folder import DAMAGE, Folder
from extender.registry.rollout import Rollout
from wasm_runtime.engine import MEBIBYTE

logger = logging.getLogger(__name__)

LIMIT: Final = 4 * MEBIBYTE
"""Bytes of a file. There are two: when the newer one is full, the older one goes."""


class History:
    """Rollouts in a folder, as JSON, one a line. Of a rollout that is there twice the later line holds.

    May be used from one thread at a time. Methods raise OSError.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._newer = folder.path / "rollouts.jsonl"
        self._older = folder.path / "rollouts.1.jsonl"

    def check(self) -> int:
        """The highest number of a rollout, 0 if there is none. Logs what is damaged."""
        return max(chain(*map(_check, (self._older, self._newer))), default=0)

    def append(self, rollout: Rollout) -> None:
        """Adds a rollout as it is now."""
        line = msgspec.json.encode(rollout)
        size = self._newer.stat().st_size if self._newer.exists() else 0
        if size and size + len(line) >= LIMIT:
            self._newer.replace(self._older)
        self._folder.append(self._newer, line)

    def last(self, limit: int, profile: str | None = None, plugin: str | None = None) -> list[Rollout]:
        """At most so many rollouts, of a profile or of plugins of a name if that is given; begun last comes first."""
        lines = {
            line.head.id: line.text
            for line in chain(_read(self._older), _read(self._newer))
            if line and profile in {None, line.head.profile} and plugin in {None, line.head.plugin}
        }
        newest = (lines[number] for number in sorted(lines, reverse=True))
        return list(islice(_decode(newest), limit))


class _Head(msgspec.Struct):
    """What of a rollout it takes to choose it, which is read ten times as fast as all of it."""

    id: int
    profile: str
    plugin: str


class _Line(NamedTuple):
    head: _Head
    text: bytes


def _read(path: Path) -> Iterator[_Line | None]:
    """The lines of a file, None for a damaged one. A half one at the end counts for nothing."""
    content = path.read_bytes() if path.exists() else b""
    for text in content.split(b"\n")[:-1]:
        try:
            yield _Line(_HEADS.decode(text), text)
        except DAMAGE:
            yield None


def _check(path: Path) -> list[int]:
    """The numbers of the rollouts in a file."""
    lines = list(_read(path))
    numbers = [line.head.id for line in lines if line]
    if damaged := len(lines) - len(numbers):
        logger.warning("%d lines of the history are damaged and left out", damaged, extra={"path": str(path)})
    return numbers


def _decode(texts: Iterator[bytes]) -> Iterator[Rollout]:
    """The rollouts of lines, without those that another version has written and this one does not understand."""
    for text in texts:
        with suppress(*DAMAGE):
            yield _ROLLOUTS.decode(text)


_HEADS: Final = msgspec.json.Decoder(_Head)
_ROLLOUTS: Final = msgspec.json.Decoder(Rollout)
