"""Faults of disk, memory and threads, injected into the process that suffers them."""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TextIO

from tests.patience import delay

SLOW_S: Final = 0.4
"""Seconds that a slow disk takes for an fsync."""
HEADROOM: Final = 64 << 20
"""Bytes of address space that are left: small allocations go well, a guest's memory and a thread's stack do not."""

MEMORY_ERRORS: Final = (
    "extender.webhook.decoding:RequestDecoder.decode_args",
    "extender.webhook.decoding:RequestDecoder.decode_preemption",
    "extender.webhook.encoding:encode_filtered",
    "extender.webhook.encoding:encode_priorities",
    "extender.scheduling.filter:run",
    "extender.scheduling.prioritize:run",
    "extender.scheduling.bind:BindingCycle.begin",
    "extender.cluster.watch.reflector:Reflector._apply",
    "extender.cluster.watch.reflector:Reflector._list",
    "extender.rollouts.state.store:Store.keep_module",
    "extender.rollouts.state.history:History.append",
    "extender.rollouts.journal:Journal.record",
    "extender.scheduling.guest_log:GuestLog.report",
    "wasm_runtime.engines.wasmtime.engine:WasmtimeModule.instantiate",
    "wasm_runtime.engines.wasmtime.instance:WasmtimeInstance.sync_nodes",
    "wasm_runtime.engines.wasmtime.instance:WasmtimeInstance.once",
    "wasm_runtime.guests.plugin:Plugin.maintain",
    "wasm_runtime.nodes.node_table:NodeTable.changes",
)
"""Functions that allocate much memory, or call others that do."""


class Faults:
    """The faults of this process. Each lasts for a time, and then all is as it was."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._until = dict.fromkeys(KINDS, 0.0)
        self._share = dict.fromkeys(KINDS, 0.0)
        self._random = random.Random(0)
        self._is_squeezed = False
        """Whether there is no address space for a thread's stack. CPython's `Thread.start` waits for ever if there
        is some, but no memory for what a thread does first."""
        self._starting = threading.RLock()
        """Held while a thread starts, so that the address space does not become little meanwhile."""
        self._put_into_disk()
        self._put_into_memory()
        self._put_into_threads()

    def obey(self, orders: TextIO) -> None:
        """Reads orders in a thread: the kind of a fault, for how many seconds, and what share of calls it hits."""
        threading.Thread(target=self._obey, args=(orders,), name="faults", daemon=True).start()

    def _obey(self, orders: TextIO) -> None:
        for line in orders:
            order = json.loads(line)
            kind, seconds = order["kind"], order["seconds"]
            if kind in LIMITS:
                self._limit(kind, seconds)
            else:
                self._share[kind], self._until[kind] = order["share"], time.monotonic() + seconds

    def _limit(self, kind: str, seconds: float) -> None:
        """Sets one of LIMITS for some seconds."""
        with ExitStack() as limit:
            with self._starting:
                limit.enter_context(LIMITS[kind]())
                self._is_squeezed = kind == "little address space"
            delay(seconds)
        self._is_squeezed = False

    def _strikes(self, kind: str) -> bool:
        return time.monotonic() < self._until[kind] and self._random.random() < self._share[kind]

    def _put_into_disk(self) -> None:
        opened, synced, replaced = os.open, os.fsync, os.replace

        def fail(path: object) -> None:
            if str(path).startswith(self._folder):
                if self._strikes("no space"):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
                if self._strikes("broken disk"):
                    raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

        def open_(path: Any, flags: int, *more: Any, **named: Any) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR):
                fail(path)
            return opened(path, flags, *more, **named)

        def fsync(descriptor: int) -> None:
            if self._strikes("slow disk"):
                delay(SLOW_S)
            fail(self._folder)
            synced(descriptor)

        def replace(source: Any, target: Any, **named: Any) -> None:
            fail(target)
            replaced(source, target, **named)

        os.open, os.fsync, os.replace = open_, fsync, replace  # type: ignore[assignment]

    def _put_into_memory(self) -> None:
        for point in MEMORY_ERRORS:
            module, _, path = point.partition(":")
            *owners, name = path.split(".")
            owner = import_module(module)
            for each in owners:
                owner = getattr(owner, each)
            setattr(owner, name, self._failing(getattr(owner, name)))

    def _failing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def fail_or_call(*args: Any, **named: Any) -> Any:
            if self._strikes("no memory"):
                raise MemoryError
            return function(*args, **named)

        return fail_or_call

    def _put_into_threads(self) -> None:
        start_whole = threading.Thread.start

        def start_alone(thread: threading.Thread) -> None:
            with self._starting:
                start_whole(thread)

        threading.Thread.start = start_alone  # type: ignore[method-assign, assignment]
        name = "_start_joinable_thread" if hasattr(threading, "_start_joinable_thread") else "_start_new_thread"
        start = getattr(threading, name)

        def start_or_fail(*args: Any, **named: Any) -> Any:
            if self._strikes("no threads") or self._is_squeezed:
                raise RuntimeError("can't start new thread")
            return start(*args, **named)

        setattr(threading, name, start_or_fail)


@contextmanager
def _bounded(what: int, most: int) -> Iterator[None]:
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (hard, hard))


def _no_writes() -> Any:
    """Whatever is written to a file fails, as on a full disk, when its name is there already."""
    return _bounded(resource.RLIMIT_FSIZE, 0)


@contextmanager
def _little_address_space() -> Iterator[None]:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = 0
    try:
        while limit < _address_space() + HEADROOM // 2:  # A guest that was made meanwhile takes gigabytes of it.
            limit = _address_space() + HEADROOM
            resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _address_space() -> int:
    """Bytes of address space that this process has mapped."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


LIMITS: Final[dict[str, Callable[[], Any]]] = {
    "no writes": _no_writes,
    "little address space": _little_address_space,
}
"""Faults that are limits of the kernel; one at a time."""

KINDS: Final = ("no space", "broken disk", "slow disk", "no memory", "no threads")
"""Faults that hit some calls."""
