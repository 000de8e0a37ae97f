"""What a guest finds around it: its configuration, its arguments, and WASI without files, environment or network."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from tests.conformance.calls import calls, failed
from tests.conformance.case import Case
from tests.conformance.guests import BUFFER, export, guest, only, size, tell, tells, told
from tests.wasm_runtime.guest_modules import call
from wasm_runtime import Fault, abi
from wasm_runtime.guests.guest import PreFilter
from wasm_runtime.module import wasi

CONFIG: Final = "k8s.io/scheduler/get_config"

CONFIGS: Final = {
    "nothing": "",
    "text": "spread",
    "JSON": '{"resource": "nvidia.com/gpu", "weights": [1, 2]}',
    "several scripts": "größe-ノード 🚀",
    "a NUL": "a\0b",
    "lines": "a: 1\r\nb: 2\n",
    "as much as the memory takes": "x" * 60_000,
}


def _wasi(name: str) -> str:
    return f"{abi.WASI}/{name}"


def _configs() -> Iterator[Case]:
    for what, config in CONFIGS.items():
        length = size(config)
        yield Case(
            f"get_config is {what}",
            guest(only("prefilter", tell(call(CONFIG, BUFFER, length), BUFFER, length)), uses=[CONFIG]),
            calls("prefilter"),
            PreFilter(),
            [told(length, config)],
            settings={"config": config, "output_limit": 1 << 17},
        )
    start = f'(func (export "_start") {tells(CONFIG, BUFFER, 16)})'
    yield Case(
        "get_config is there for _start",
        guest(start, export("prefilter"), uses=[CONFIG]),
        calls("prefilter"),
        PreFilter(),
        [told(6, "spread" + "*" * 10)],
        settings={"config": "spread"},
    )


ARGS: Final = {
    (): ("plugin",),
    ("one",): ("one",),
    ("guest", "--reverse", "", "größe ☃", "a b"): ("guest", "--reverse", "", "größe ☃", "a b"),
}
"""Arguments, and the whole argv that the guest gets."""

_TEXTS: Final = BUFFER + 256


def _args() -> Iterator[Case]:
    """An argv is pointers in the buffer, and texts 256 bytes behind it."""
    for args, argv in ARGS.items():
        texts = [f"{each}\0".encode() for each in argv]
        starts = [_TEXTS + sum(map(len, texts[:at])) for at in range(len(texts))]
        sizes = struct.pack("<2I", len(texts), sum(map(len, texts)))
        pointers = struct.pack(f"<{len(starts)}I", *starts)
        data = pointers.ljust(256, b"\0") + b"".join(texts)
        yield Case(
            f"the arguments are {args}",
            guest(
                only(
                    "prefilter",
                    tells(_wasi("args_sizes_get"), BUFFER, BUFFER + 4, shown=8),
                    f"(memory.fill (i32.const {BUFFER}) (i32.const 0) (i32.const 1024))",
                    tell(call(_wasi("args_get"), BUFFER, _TEXTS), BUFFER, len(data)),
                ),
                uses=[_wasi("args_sizes_get"), _wasi("args_get")],
            ),
            calls("prefilter"),
            PreFilter(),
            [told(0, sizes.decode()), told(0, data.decode())],
            settings={"args": args},
        )
    yield Case(
        "the environment is empty",
        guest(
            only(
                "prefilter",
                tells(_wasi("environ_sizes_get"), BUFFER, BUFFER + 4, shown=8),
                tells(_wasi("environ_get"), BUFFER, BUFFER + 64, shown=8),
            ),
            uses=[_wasi("environ_sizes_get"), _wasi("environ_get")],
        ),
        calls("prefilter"),
        PreFilter(),
        [told(0, "\0" * 8), told(0, "*" * 8)],
    )


BADF: Final = 8
INVAL: Final = 28


def _constants(name: str, *arguments: int) -> str:
    """A call with the arguments that are given, and zeros behind them."""
    types = wasi.FUNCTIONS[abi.Import(abi.WASI, name)].params
    padded = [*arguments, *[0] * (len(types) - len(arguments))]
    given = " ".join(f"({kind}.const {each})" for kind, each in zip(types, padded, strict=True))
    return f"(call ${_wasi(name)} {given})"


def _errno(name: str, what: str, errno: int, *arguments: int) -> Case:
    body = tell(_constants(name, *arguments))
    return Case(
        f"{name} {what} is errno {errno}",
        guest(only("prefilter", body), uses=[_wasi(name)]),
        calls("prefilter"),
        PreFilter(),
        [told(errno)],
    )


def _descriptors() -> Iterator[Case]:
    for each in wasi.FUNCTIONS:
        name = each.name
        if name.startswith(("fd_", "path_", "sock_")):
            for descriptor in (3, 4, 2**31 - 1, -1):
                yield _errno(name, f"of descriptor {descriptor}, which is not there,", BADF, descriptor)
    yield _errno("fd_write", "to standard input", BADF, 0)
    for descriptor in (1, 2):
        yield _errno("fd_write", f"of nothing to descriptor {descriptor}", 0, descriptor)
        yield _errno("fd_read", f"of descriptor {descriptor}", BADF, descriptor, 64, 1, 128)
        yield _errno("fd_fdstat_get", f"of descriptor {descriptor}", 0, descriptor, BUFFER)
    yield Case(
        "standard input is at its end",
        guest(
            only(
                "prefilter",
                f"(i32.store (i32.const 64) (i32.const {BUFFER})) (i32.store (i32.const 68) (i32.const 8))",
                "(i32.store (i32.const 128) (i32.const 42))",
                tells(_wasi("fd_read"), 0, 64, 1, 128, shown=8),
                tell("(i32.load (i32.const 128))"),
            ),
            uses=[_wasi("fd_read")],
        ),
        calls("prefilter"),
        PreFilter(),
        [told(0, "*" * 8), told(0)],
    )


def _clocks() -> Iterator[Case]:
    """Clocks tell a time that is not the zero there was before."""
    for clock, name in ((0, "realtime"), (1, "monotonic")):
        for function in ("clock_time_get", "clock_res_get"):
            arguments = (clock, 0, BUFFER) if function == "clock_time_get" else (clock, BUFFER)
            runs = tell(f"(i64.ne (i64.load (i32.const {BUFFER})) (i64.const 0))")
            yield Case(
                f"{function} of the {name} clock",
                guest(only("prefilter", f"(drop {_constants(function, *arguments)})", runs), uses=[_wasi(function)]),
                calls("prefilter"),
                PreFilter(),
                [told(1)],
            )
    twice = (f"(drop {_constants('clock_time_get', 1, 0, at)})" for at in (BUFFER, BUFFER + 8))
    grows = tell(f"(i64.ge_u (i64.load (i32.const {BUFFER + 8})) (i64.load (i32.const {BUFFER})))")
    yield Case(
        "the monotonic clock does not go back",
        guest(only("prefilter", *twice, grows), uses=[_wasi("clock_time_get")]),
        calls("prefilter"),
        PreFilter(),
        [told(1)],
    )


def _random() -> Iterator[Case]:
    random = _wasi("random_get")
    for buffer, length in ((BUFFER, 0), (65_536, 0), (65_520, 16), (BUFFER, 61_440)):
        yield Case(
            f"random_get fills {length} bytes at {buffer}",
            guest(only("prefilter", tell(call(random, buffer, length))), uses=[random]),
            calls("prefilter"),
            PreFilter(),
            [told(0)],
        )
    yield Case(
        "random_get fills all of what it is given, and no more",
        guest(
            only(
                "prefilter",
                f"(drop {call(random, 65_536 - 4096, 4000)})",
                *(
                    tell(f"(i64.ne (i64.const 0) (i64.or (i64.load (i32.const {at})) (i64.load (i32.const {at + 8}))))")
                    for at in (61_440, 61_440 + 4000 - 16, 61_440 + 4000)
                ),
            ),
            uses=[random],
        ),
        calls("prefilter"),
        PreFilter(),
        [told(1), told(1), told(0)],
    )
    for buffer, length in ((65_529, 8), (65_537, 0), (2**32 - 1, 1), (0, 65_537), (1, 2**32 - 1)):
        yield Case(
            f"random_get fills {length} bytes at {buffer}, out of memory",
            guest(only("prefilter", f"(drop {call(random, buffer, length)})"), uses=[random]),
            calls("prefilter"),
            failed(Fault.TRAP, f"prefilter: trap: memory out of bounds in {random} < prefilter"),
        )


POLL: Final = _wasi("poll_oneoff")
HOUR: Final = 3600 * 10**9
CLOCK, READ, WRITE = range(3)
"""Kinds of what a guest may wait for."""
SLEEPS: Final = {
    "an hour": [(CLOCK, 0)],
    "two hours": [(CLOCK, 0), (CLOCK, 0)],
    "standard input": [(READ, BADF)],
    "an hour and standard output": [(CLOCK, 0), (WRITE, BADF)],
}
"""What a guest may wait for, and the errno of each of its events."""


def _sleeps() -> Iterator[Case]:
    """Subscriptions of 48 bytes at 1024, events of 32 bytes in the buffer, their number 512 bytes behind it."""
    for what, sleeps in SLEEPS.items():
        subscriptions = (struct.pack("<QB7xI4xQQH6x", at, kind, 1, HOUR, 0, 0) for at, (kind, _) in enumerate(sleeps))
        events = b"".join(struct.pack("<QHB21x", at, errno, kind) for at, (kind, errno) in enumerate(sleeps))
        asked = tell(call(POLL, 1024, BUFFER, len(sleeps), BUFFER + 512), BUFFER, len(events))
        count = tell(f"(i32.load (i32.const {BUFFER + 512}))")
        yield Case(
            f"poll_oneoff of {what} is over at once",
            guest(only("prefilter", asked, count), uses=[POLL], data={1024: b"".join(subscriptions)}),
            calls("prefilter"),
            PreFilter(),
            [told(0, events.decode()), told(len(sleeps))],
        )
    yield _errno("poll_oneoff", "of nothing", INVAL)
    yield _errno("sched_yield", "", 0)


CASES = [*_configs(), *_args(), *_descriptors(), *_clocks(), *_random(), *_sleeps()]
