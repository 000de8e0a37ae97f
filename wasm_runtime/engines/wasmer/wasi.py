"""WASI preview 1 as the wasmtime engine has it: arguments, clocks, random numbers, exit, and output that is kept.

wasmer's own would read and write the standard streams of the process.
Source: https://github.com/WebAssembly/WASI/blob/main/legacy/preview1/witx/wasi_snapshot_preview1.witx
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final

from wasm_runtime.abi import Import
from wasm_runtime.driver.layout import NONE
from wasm_runtime.engines.wasmer.host import HostFunction
from wasm_runtime.engines.wasmer.memory import GuestMemory
from wasm_runtime.engines.wasmer.records import PrintedOutput
from wasm_runtime.module import wasi


class Errno(IntEnum):
    """Error numbers of WASI."""

    SUCCESS = 0
    BADF = 8
    INVAL = 28
    NOTDIR = 54
    NOTSOCK = 57
    NOTSUP = 58
    SPIPE = 70


STDIN: Final = 0
STDIO: Final = frozenset({0, 1, 2})
"""The descriptors that are open at first."""

_OF_STDIO: Final = {
    "fd_prestat_dir_name": (Errno.NOTDIR, STDIO),
    "fd_pread": (Errno.SPIPE, {STDIN}),
    "fd_pwrite": (Errno.SPIPE, STDIO - {STDIN}),
    "fd_seek": (Errno.SPIPE, STDIO),
    "fd_tell": (Errno.SPIPE, STDIO),
    "sock_accept": (Errno.NOTSOCK, STDIO),
    "sock_recv": (Errno.NOTSOCK, STDIO),
    "sock_send": (Errno.NOTSOCK, STDIO),
    "sock_shutdown": (Errno.NOTSOCK, STDIO),
}
"""What functions answer for some descriptors that are open. For any other one, and elsewhere, it is BADF."""

_FDSTAT: Final = struct.Struct("<BxHxxxxQQ")
"""fdstat: type of the file, flags, rights, rights inherited."""
_UNKNOWN: Final = 0
_RIGHT_READ: Final = 1 << 1
_RIGHT_WRITE: Final = 1 << 6
_FILESTAT: Final = bytes(64)

_SUBSCRIPTION: Final = 48
_SUBSCRIBED: Final = struct.Struct("<QB")
"""The beginning of a subscription: what it is to be known by, and its kind."""
_EVENT: Final = struct.Struct("<QHBxxxxxQHxxxxxx")
"""event: what its subscription is known by, error, kind, bytes to read, flags."""
_CLOCK: Final = 0
"""The kind of a subscription that waits for a time."""

_REALTIME, _MONOTONIC = 0, 1
_NO_CLOCKS: Final = frozenset({2, 3})
"""Clocks that WASI knows and this host does not have: the times of the process and of the thread."""

MAX_EXIT_STATUS: Final = 125
"""The largest exit status."""


class ExitError(Exception):
    """A guest left by proc_exit."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Wasi:
    """The functions of one guest."""

    def __init__(self, memory: GuestMemory, output: PrintedOutput, argv: tuple[str, ...]) -> None:
        self._memory = memory
        self._output = output
        self._argv = [each.encode() + b"\0" for each in argv]
        self._open = set(STDIO)
        started = time.monotonic_ns()
        self._clocks: Mapping[int, Callable[[], int]] = {
            _REALTIME: time.time_ns,
            _MONOTONIC: lambda: time.monotonic_ns() - started,
        }

    def functions(self) -> Mapping[Import, HostFunction]:
        """Every function of `wasi.FUNCTIONS`."""
        here: Mapping[str, HostFunction] = {
            "args_get": self._args_get,
            "args_sizes_get": self._args_sizes_get,
            "clock_res_get": self._clock_res_get,
            "clock_time_get": self._clock_time_get,
            "environ_get": lambda *_: Errno.SUCCESS,
            "environ_sizes_get": self._environ_sizes_get,
            "fd_close": self._fd_close,
            "fd_fdstat_get": self._fd_fdstat_get,
            "fd_filestat_get": self._fd_filestat_get,
            "fd_read": self._fd_read,
            "fd_renumber": self._fd_renumber,
            "fd_write": self._fd_write,
            "poll_oneoff": self._poll_oneoff,
            "proc_exit": self._proc_exit,
            "proc_raise": lambda _: Errno.NOTSUP,
            "random_get": self._random_get,
            "sched_yield": lambda: Errno.SUCCESS,
        }
        return {function: here.get(function.name) or self._fails(function.name) for function in wasi.FUNCTIONS}

    def _fails(self, name: str) -> HostFunction:
        errno, descriptors = _OF_STDIO.get(name, (Errno.BADF, frozenset[int]()))
        return lambda fd, *_: errno if fd in self._open and fd in descriptors else Errno.BADF

    def _args_get(self, places: int, buf: int) -> int:
        for at, argument in enumerate(self._argv):
            self._memory.write_u32(places + 4 * at, buf)
            self._memory.write(buf, argument)
            buf += len(argument)
        return Errno.SUCCESS

    def _args_sizes_get(self, count: int, size: int) -> int:
        self._memory.write_u32(count, len(self._argv))
        self._memory.write_u32(size, sum(map(len, self._argv)))
        return Errno.SUCCESS

    def _environ_sizes_get(self, count: int, size: int) -> int:
        self._memory.write_u32(count, 0)
        self._memory.write_u32(size, 0)
        return Errno.SUCCESS

    def _clock_res_get(self, clock: int, result: int) -> int:
        return self._clock(clock, result, lambda _: 1)

    def _clock_time_get(self, clock: int, _: int, result: int) -> int:
        return self._clock(clock, result, lambda now: now())

    def _clock(self, clock: int, result: int, read: Callable[[Callable[[], int]], int]) -> int:
        if clock not in self._clocks:
            return Errno.BADF if clock in _NO_CLOCKS else Errno.INVAL
        self._memory.write_u64(result, read(self._clocks[clock]))
        return Errno.SUCCESS

    def _fd_close(self, fd: int) -> int:
        if fd not in self._open:
            return Errno.BADF
        self._open.remove(fd)
        return Errno.SUCCESS

    def _fd_renumber(self, fd: int, to: int) -> int:
        if not {fd, to} <= self._open:
            return Errno.BADF
        self._open = self._open - {fd} | {to}
        return Errno.SUCCESS

    def _fd_fdstat_get(self, fd: int, result: int) -> int:
        if fd not in self._open:
            return Errno.BADF
        right = _RIGHT_READ if fd == STDIN else _RIGHT_WRITE
        self._memory.write(result, _FDSTAT.pack(_UNKNOWN, 0, right, right))
        return Errno.SUCCESS

    def _fd_filestat_get(self, fd: int, result: int) -> int:
        if fd not in self._open:
            return Errno.BADF
        self._memory.write(result, _FILESTAT)
        return Errno.SUCCESS

    def _fd_read(self, fd: int, iovs: int, count: int, read: int) -> int:
        """Standard input is empty."""
        self._memory.require(iovs, 8 * count)
        if fd != STDIN or fd not in self._open:
            return Errno.BADF
        self._memory.write_u32(read, 0)
        return Errno.SUCCESS

    def _fd_write(self, fd: int, iovs: int, count: int, written: int) -> int:
        """Keeps the beginning of what is printed in a call, and says that all was written."""
        if fd not in STDIO - {STDIN}:
            return Errno.BADF
        total = 0
        for at in range(iovs, iovs + 8 * count, 8):
            ptr, length = self._memory.u32(at), self._memory.u32(at + 4)
            self._memory.require(ptr, length)
            self._output.add(self._memory.read(ptr, min(length, self._output.room)))
            total += length
        self._memory.write_u32(written, total & NONE)
        return Errno.SUCCESS

    def _poll_oneoff(self, subscriptions: int, events: int, count: int, stored: int) -> int:
        """Says at once that each clock has come to its time, and that each descriptor is bad."""
        if not count:
            return Errno.INVAL
        self._memory.require(subscriptions, count * _SUBSCRIPTION)
        self._memory.require(events, count * _EVENT.size)
        for number in range(count):
            at = subscriptions + number * _SUBSCRIPTION
            known_by, kind = _SUBSCRIBED.unpack(self._memory.read(at, _SUBSCRIBED.size))
            errno = Errno.SUCCESS if kind == _CLOCK else Errno.BADF
            self._memory.write(events + number * _EVENT.size, _EVENT.pack(known_by, errno, kind, 0, 0))
        self._memory.write_u32(stored, count)
        return Errno.SUCCESS

    def _random_get(self, buf: int, length: int) -> int:
        self._memory.require(buf, length)
        self._memory.write(buf, os.urandom(length))
        return Errno.SUCCESS

    def _proc_exit(self, status: int) -> int:
        raise ExitError(status)
