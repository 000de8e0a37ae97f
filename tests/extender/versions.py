"""Modules that differ by a version, which shows in all that they answer, and cycles of pods that look for it."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec
import wasmtime

from bench.client import Connection, post
from tests.extender import guests
from tests.extender.objects import filtered, pod
from tests.patience import Beside

VERSIONS: Final = range(10, 100)
"""Of two neighbours the filter rejects other nodes. Reasons and scores of all differ."""


def module(version: int, salt: str = "") -> bytes:
    """The module of a version; with another salt it does the same and has another digest."""
    text = guests.text("tell_version").replace("VERSION", str(version)).replace("SALT", salt)
    return bytes(wasmtime.wat2wasm(text))


class WrongAnswerError(Exception):
    """An answer that no version gives."""


class Cycle(NamedTuple):
    """Filter and prioritize of one pod, as kube-scheduler asks: prioritize for the nodes that passed."""

    began: float
    """When the cycle began, on the clock of `time.monotonic`."""
    ended: float
    filter: float
    """Milliseconds of filter."""
    prioritize: float
    versions: tuple[int, int]
    """The versions that have answered filter and prioritize."""

    @property
    def is_mixed(self) -> bool:
        """Whether two versions have judged the pod."""
        return len(set(self.versions)) > 1


class Questions:
    """Requests to a profile about pods, always with the same nodes, and how versions answer them."""

    def __init__(self, nodes: int, profile: str = "default") -> None:
        names = [f"node-{at}" for at in range(nodes)]
        self.profile = profile
        self._path = f"/profiles/{profile}"
        self._nodes = _nodes(names)
        self._filtered = {str(version): _filtered(names, str(version)) for version in VERSIONS}
        self._passing = {version: _nodes(each["NodeNames"]) for version, each in self._filtered.items()}

    def cycle(self, connection: Connection, name: str) -> Cycle:
        """Asks about a pod with a name of its own. Raises WrongAnswerError, or ConnectionError."""
        start = b'{"Pod":' + msgspec.json.encode(pod(name))
        began = time.monotonic()
        answer = connection.ask(post(f"{self._path}/filter", start, self._nodes))
        first = self._version_that_filtered(answer.body)
        scores = connection.ask(post(f"{self._path}/prioritize", start, self._passing[first]))
        second = self._version_that_scored(scores.body, self._filtered[first]["NodeNames"])
        return Cycle(began, time.monotonic(), answer.elapsed, scores.elapsed, (int(first), second))

    def _version_that_filtered(self, body: bytes) -> str:
        answer = msgspec.json.decode(body)
        version = next(iter(answer["FailedNodes"].values()), "").removeprefix("version ")
        if answer != self._filtered.get(version):
            raise WrongAnswerError(f"filter: {body.decode()}")
        return version

    def _version_that_scored(self, body: bytes, names: Sequence[str]) -> int:
        answer = msgspec.json.decode(body)
        versions = {each["Score"] for each in answer}
        if len(versions) != 1 or [each["Host"] for each in answer] != names:
            raise WrongAnswerError(f"prioritize: {body.decode()}")
        return int(versions.pop())


class Answered(NamedTuple):
    """The results of many cycles."""

    cycles: dict[str, list[Cycle]]
    """The cycles by profile; those of one asker are in order."""
    failures: list[str]


@contextmanager
def asking(port: int, questions: Sequence[Questions], connections: int = 1) -> Iterator[Answered]:
    """Asks each of some questions in turn, time and again, over several connections, about ever new pods."""
    answered = Answered({each.profile: [] for each in questions}, [])
    numbers = itertools.count()
    ended = threading.Event()

    def ask() -> None:
        with Connection(port) as connection:
            for each in itertools.cycle(questions):
                if ended.is_set():
                    break
                try:
                    answered.cycles[each.profile].append(each.cycle(connection, f"pod-{next(numbers)}"))
                except WrongAnswerError as error:
                    answered.failures.append(f"{each.profile}: {error}")

    askers = [Beside(ask) for _ in range(connections)]
    try:
        yield answered
    finally:
        ended.set()
        for asker in askers:
            asker.end()


def _filtered(names: Sequence[str], version: str) -> Mapping[str, Any]:
    passing = [name for name in names if name[-1] != version[-1]]
    return filtered(passing, failed={name: f"version {version}" for name in names if name[-1] == version[-1]})


def _nodes(names: Sequence[str]) -> bytes:
    """The end of a request, which names the nodes."""
    return b',"Nodes":null,"NodeNames":' + msgspec.json.encode(names) + b"}"
