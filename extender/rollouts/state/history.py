"""The history of rollouts on disk."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from extender.rollouts.rollout import Rollout
from extender.rollouts.state.folder import DAMAGE, Folder
from wasm_runtime.engine import MEBIBYTE

logger = logging.getLogger(__name__)

MAX_FILE_BYTES: Final = 4 * MEBIBYTE
"""Bytes of a file. There are two: when the newer one is full, the older one goes."""


class History:
    """Rollouts in a folder, as JSON, one a line. The last line of a rollout counts.

    Reading takes memory for the answer and for one line at a time, however long the files are. May be used from one
    thread at a time. Methods raise OSError.
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
        if size and size + len(line) >= MAX_FILE_BYTES:
            self._newer.replace(self._older)
        self._folder.append(self._newer, line)

    def last(self, limit: int, profile: str | None = None, plugin: str | None = None) -> list[Rollout]:
        """At most so many rollouts, of a profile or of plugins of a name if that is given; begun last comes first."""
        found = self._texts(lambda head: profile in {None, head.profile} and plugin in {None, head.plugin})
        return list(islice(_decode(found), limit))

    def find(self, number: int) -> Rollout | None:
        """The rollout of a number."""
        return next(_decode(self._texts(lambda head: head.id == number)), None)

    def _texts(self, is_wanted: Callable[[_Head], bool]) -> Iterator[bytes]:
        """The lines of some rollouts, the rollout that was begun last first."""
        lines = chain(_read(self._older), _read(self._newer))
        places = {line.head.id: line.place for line in lines if line and is_wanted(line.head)}
        for number in sorted(places, reverse=True):
            yield places[number].read()


class _Head(msgspec.Struct):
    """What of a rollout it takes to choose it, which is read ten times as fast as all of it."""

    id: int
    profile: str
    plugin: str


class _Place(NamedTuple):
    """Where a line begins."""

    path: Path
    at: int

    def read(self) -> bytes:
        """The line."""
        with self.path.open("rb") as file:
            file.seek(self.at)
            return file.readline()


class _Line(NamedTuple):
    head: _Head
    place: _Place


def _read(path: Path) -> Iterator[_Line | None]:
    """The lines of a file, None for a damaged one. A half one at the end counts for nothing."""
    if not path.exists():
        return
    with path.open("rb") as file:
        at = 0
        for text in file:
            if text.endswith(b"\n"):
                yield _line(text, _Place(path, at))
            at += len(text)


def _line(text: bytes, place: _Place) -> _Line | None:
    try:
        return _Line(_HEADS.decode(text), place)
    except DAMAGE:
        return None


def _check(path: Path) -> list[int]:
    """The numbers of the rollouts in a file."""
    found = [line and line.head.id for line in _read(path)]
    numbers = [number for number in found if number is not None]
    if damaged := len(found) - len(numbers):
        logger.warning("%d lines of the history are damaged and left out", damaged, extra={"path": str(path)})
    return numbers


def _decode(texts: Iterator[bytes]) -> Iterator[Rollout]:
    """The rollouts of lines, without those that another version has written and this one does not understand."""
    for text in texts:
        with suppress(*DAMAGE):
            yield _ROLLOUTS.decode(text)


_HEADS: Final = msgspec.json.Decoder(_Head)
_ROLLOUTS: Final = msgspec.json.Decoder(Rollout)
