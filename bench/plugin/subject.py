"""What is measured: a process that puts pods through scheduling cycles and tells how long they took.

It speaks lines of JSON. The first one of its standard output, a `Ready`, says that it is ready. Then each line of its
standard input is a `Question`, and each line of output the `Reply`; one that has nodes has no reply.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

import msgspec

from bench.controlplane.process import leashed
from bench.errors import BenchError
from bench.plugin.workload import Cycle
from bench.servers import end

TIMEOUT: Final = 180.0
"""Seconds in which a subject must be ready, or reply."""
CHUNK: Final = 1 << 20


class Question(msgspec.Struct, omit_defaults=True):
    """A cycle to go through, or nodes that have changed."""

    pod: str = ""
    """Protobuf v1.Pod in base64."""
    start: int = 0
    names: Sequence[str] | None = None
    answer: bool = False
    """Whether the reply is to tell what came of it."""
    nodes: str = ""
    """Protobuf v1.NodeList in base64: what has changed, instead of a pod."""


class Ready(msgspec.Struct, rename="camel"):
    """The first line of a subject's output."""

    start_seconds: float = 0.0
    """Seconds for loading the plugin."""


class Took(msgspec.Struct):
    """How long a verb took, in seconds."""

    seconds: float
    parts: dict[str, float] = {}
    """Seconds of each of `bench.run.PARTS`, which add up to the whole."""


class Status(msgspec.Struct):
    """Why a node did not pass: the code of a status of the scheduling framework, and its message."""

    code: int
    reason: str


class Answer(msgspec.Struct):
    """The result of a cycle."""

    failure: str = ""
    """Why the cycle failed; empty if it did not."""
    rejected: dict[str, Status] = {}
    scores: dict[str, int] = {}
    """Scores of the nodes that passed, by name; 0 for an only one, which kube-scheduler does not have scored."""


class Reply(msgspec.Struct):
    """How long a cycle took, and its answer if that was asked for."""

    filter: Took
    prioritize: Took | None = None
    """Duration of prioritize; None if at most one node has passed."""
    answer: Answer | None = None

    @property
    def seconds(self) -> float:
        """Seconds of both verbs together."""
        return self.filter.seconds + (self.prioritize.seconds if self.prioritize else 0.0)


class SubjectError(BenchError):
    """A subject does not start or reply, or a cycle failed. `str()` names the subject and says what it wrote."""


class Subject:
    """A process that answers questions; a context manager that ends it."""

    def __init__(self, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
        """Starts the process without waiting for it; see `ready`."""
        self.name = name
        self._log = TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            leashed(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, env=environment
        )
        self._buffer = bytearray()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._output, selectors.EVENT_READ)

    def __enter__(self) -> Subject:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ready(self) -> Ready:
        """Waits until the process is ready. Raises SubjectError."""
        return msgspec.json.decode(self._line(), type=Ready)

    def ask(self, cycle: Cycle, *, answer: bool = False) -> Reply:
        """Puts a pod through a cycle. Raises SubjectError, also if the cycle failed."""
        self._send(Question(b64encode(cycle.pod).decode(), cycle.start, cycle.names, answer))
        reply = msgspec.json.decode(self._line(), type=Reply)
        if reply.answer and reply.answer.failure:
            raise SubjectError(f"the variant {self.name} failed: {reply.answer.failure}")
        return reply

    def update(self, nodes: bytes) -> None:
        """Tells of nodes that have changed, a protobuf v1.NodeList."""
        self._send(Question(nodes=b64encode(nodes).decode()))

    def close(self) -> None:
        """Ends the process."""
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with suppress(OSError):  # What could not be written is not wanted any more.
                    pipe.close()
        end(self._process)
        self._log.close()

    @property
    def _output(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def _send(self, message: Question) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(message) + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._ended() from None

    def _line(self) -> bytes:
        deadline = time.monotonic() + TIMEOUT
        while (at := self._buffer.find(b"\n")) < 0:
            if not self._selector.select(max(0.0, deadline - time.monotonic())):
                raise SubjectError(f"{self.name} has not replied within {TIMEOUT:.0f} s{self._written()}")
            chunk = os.read(self._output, CHUNK)
            if not chunk:
                raise self._ended()
            self._buffer += chunk
        line = bytes(self._buffer[:at])
        del self._buffer[: at + 1]
        return line

    def _ended(self) -> SubjectError:
        try:
            status = self._process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            return SubjectError(f"{self.name} speaks no more, but has not ended{self._written()}")
        return SubjectError(f"{self.name} ended with status {status}{self._written()}")

    def _written(self) -> str:
        self._log.seek(0)
        written = self._log.read().decode(errors="replace").strip()
        return f": {written}" if written else ""
