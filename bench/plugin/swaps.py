"""A module that is uploaded again and again, and goes live each time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Final

from bench.errors import BenchError
from bench.plugin.cases import SWAP_EVERY
from extender.commands.plugin.client import AdminClient, RemoteError
from extender.rollouts.revision import RolloutStage
from wasm_runtime.protobuf.varint import varint

PATIENCE: Final = "60s"
"""The longest time of a swap, as a duration of the configuration."""

_CUSTOM: Final = b"\x00"
"""The id of a custom section. https://webassembly.github.io/spec/core/binary/modules.html#custom-section"""


class Swapper:
    """Swaps two modules with equal behaviour and different digests in turn."""

    def __init__(self, module: Path, plugin: str, admin: str) -> None:
        """`admin` is the URL of the extender's admin API."""
        wasm = module.read_bytes()
        self._modules = cycle([stamped(wasm, b"other"), wasm])
        self._plugin = plugin
        self._admin = admin

    @contextmanager
    def swapping(self, times: int) -> Iterator[tuple[threading.Event, list[float]]]:
        """Swaps so often, `SWAP_EVERY` after the one before.

        Yields what is set once all are live, and when each went live, on the clock of `time.monotonic`. Raises
        BenchError, also if one does not go live.
        """
        done, marks = threading.Event(), list[float]()
        with ThreadPoolExecutor(1, "swaps") as pool:
            swapping = pool.submit(self._swap_all, times, done, marks)
            yield done, marks
        swapping.result(0)  # It is over.

    def _swap_all(self, times: int, done: threading.Event, marks: list[float]) -> None:
        try:
            with AdminClient(self._admin) as client:
                for _ in range(times):
                    time.sleep(SWAP_EVERY)
                    self._swap(client)
                    marks.append(time.monotonic())
        except RemoteError as error:
            raise BenchError(f"a module could not be swapped: {error}") from error
        finally:
            done.set()

    def _swap(self, client: AdminClient) -> None:
        rollout = client.put_module(self._plugin, next(self._modules), None, {})
        for step in client.follow(rollout.id, PATIENCE):
            rollout = step
            if step.stage is RolloutStage.ACTIVE:
                return
        raise BenchError(f"a module did not go live, but is {rollout.stage.value}: {rollout.message}")


def stamped(wasm: bytes, name: bytes) -> bytes:
    """The module with an additional custom section, which changes its digest and not its behaviour."""
    content = varint(len(name)) + name
    return wasm + _CUSTOM + varint(len(content)) + content
