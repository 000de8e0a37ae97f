"""What the tests of caches and recorders share."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import pytest

from wasm_runtime.nodes.node_table import NodeTable


def objects(node_table: NodeTable) -> dict[str, bytes]:
    """Name and object of each node in `node_table`."""
    changes = node_table.changes(-1, 0)
    return {name: content for _, name, content in changes.nodes if content} if changes else {}


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings of the log, each with its cause."""
    ours = [record for record in caplog.records if record.name.startswith("extender.")]
    return [record.__dict__["error"] for record in ours if record.levelno >= logging.WARNING]


def ageless(problem: str | None) -> str:
    """Why a cache is not current, with N in the place of the seconds since then."""
    return re.sub(r"\(for \d+ s\)$", "(for N s)", problem or "")


class Ends:
    """Keeps how lists and watches ended."""

    def __init__(self) -> None:
        self.all: list[tuple[str, str, str]] = []

    def __call__(self, resource: str, verb: str, end: str) -> None:
        """Counts one."""
        self.all.append((resource, verb, end))


class Runnable(Protocol):
    """A part that runs until it is cancelled."""

    async def run(self) -> None:
        """Runs until cancelled."""


@asynccontextmanager
async def running(work: Runnable) -> AsyncIterator[None]:
    """Runs a cache or a recorder; an error of `run` is an error of the test."""
    task = asyncio.create_task(work.run())
    try:
        yield
    finally:
        assert not task.done(), task.exception()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
