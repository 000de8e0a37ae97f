"""Host functions under any numbers that a guest may pass: each does what a short model says, or traps."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from wasmtime import Memory

from tests.wasm_runtime.guest_modules import POD, SIGNATURES, WRITE, binary, module
from tests.wasm_runtime.world import world
from wasm_runtime import Fault, GuestError, Settings, WasmtimeEngine, driver
from wasm_runtime.abi import GuestResult, HostDocument, Severity
from wasm_runtime.driver import layout
from wasm_runtime.engine import KIBIBYTE, Call, GuestEvent, GuestJournal, Log
from wasm_runtime.engines.wasmtime.engine import WasmtimeModule
from wasm_runtime.engines.wasmtime.instance import WasmtimeInstance

SLEEP = "wasi_snapshot_preview1/poll_oneoff"
RANDOM = "wasi_snapshot_preview1/random_get"
SIZE = 2 * 65_536
MEMORY = bytes(at % 251 for at in range(SIZE))
"""What the guests' memory holds before each call; `abcdef` is at 97 and every 251 bytes on."""
NUMBERS = 100_000
"""Where the guests put the numbers that they pass on."""

EDGES = [0, 1, 7, 8, 97, 1024, 4095, 4096, 4097, 8192, 65_535, 65_536, SIZE - 8, SIZE - 1, SIZE, SIZE + 1]
WRAPS = [2**31 - 1, 2**31, 2**32 - SIZE, 2**32 - 65_536, 2**32 - 8, 2**32 - 1]
U32 = st.one_of(st.sampled_from(EDGES + WRAPS), st.integers(0, SIZE), st.integers(0, 2**32 - 1))

NODE_OBJECT = b"the object of a node"
CONFIG = b"settings"
OUTPUT_LIMIT = 8 * KIBIBYTE
RECORD_HEAD = 20
DOCUMENT = b"a document of some length"
WAITING = b"the pod that waits"
UID = b"abcdef"
"""Of that pod, and the name of the node that is known."""


class Outcome(NamedTuple):
    """What a call leaves behind."""

    answer: int = 0
    written: Mapping[int, bytes] = {}
    reason: str = ""
    journal: GuestJournal = GuestJournal([], 0)
    guest_results: Mapping[GuestResult, bytes] = {}
    output: str = ""


Model = Callable[..., Outcome]


class TrapError(Exception):
    """What a model raises instead of an outcome."""


def span(memory: bytes, at: int, length: int) -> bytes:
    if at + length > len(memory):
        raise TrapError
    return memory[at : at + length]


def gives(value: bytes) -> Model:
    def model(memory: bytes, buffer: int, limit: int) -> Outcome:
        if not 0 < len(value) <= limit:
            return Outcome(len(value))
        span(memory, buffer, len(value))
        return Outcome(len(value), {buffer: value})

    return model


def gives_of_node(known: bytes, unknown: bytes) -> Model:
    def model(memory: bytes, name: int, length: int, buffer: int, limit: int) -> Outcome:
        return gives(known if span(memory, name, length) == UID else unknown)(memory, buffer, limit)

    return model


def takes(kind: GuestResult) -> Model:
    return lambda memory, at, length: Outcome(guest_results={kind: span(memory, at, length)})


def severity(_: bytes) -> Outcome:
    return Outcome()


def reason(memory: bytes, at: int, length: int) -> Outcome:
    try:
        return Outcome(reason=span(memory, at, length)[: layout.REASON_LIMIT].decode(errors="replace"))
    except TrapError:
        return Outcome(reason="BUG: out of memory reading message")


def log(memory: bytes, level: int, at: int, length: int, pairs: int = 0, pairs_length: int = 0) -> Outcome:
    if level >= 2**31:
        return Outcome()
    try:
        message, more = span(memory, at, length), span(memory, pairs, pairs_length)
    except TrapError:
        return Outcome()
    if RECORD_HEAD + len(message) + len(more) > OUTPUT_LIMIT:
        return Outcome(journal=GuestJournal([], 1))
    keys = tuple(each.decode(errors="replace") for each in more.split(b"\0")[:-1] if each)
    return Outcome(journal=GuestJournal([Log(Severity(min(level, 3)), message.decode(errors="replace"), keys)], 0))


def event(memory: bytes, at: int, length: int) -> Outcome:
    message = span(memory, at, length)
    if RECORD_HEAD + length > OUTPUT_LIMIT:
        return Outcome(journal=GuestJournal([], 1))
    return Outcome(journal=GuestJournal([GuestEvent(message)], 0))


def waiting_pod(memory: bytes, uid: int, length: int, buffer: int, limit: int) -> Outcome:
    if span(memory, uid, length) == UID:
        return gives(WAITING)(memory, buffer, limit)._replace(answer=0)
    span(memory, buffer, 8)
    return Outcome(written={buffer: bytes(8)})


def reject_waiting_pod(memory: bytes, uid: int, length: int, buffer: int, _: int) -> Outcome:
    rejected = span(memory, uid, length) == UID
    span(memory, buffer, 8)
    return Outcome(written={buffer: rejected.to_bytes(8, "little")})


def write(memory: bytes, fd: int, vectors: int, count: int, written: int) -> Outcome:
    if fd not in {1, 2}:
        return Outcome(8)
    output, total = b"", 0
    for at in range(vectors, vectors + 8 * count, 8):
        ptr, length = struct.unpack("<2I", span(memory, at, 8))
        output = (output + span(memory, ptr, length))[:OUTPUT_LIMIT]
        total += length
    span(memory, written, 4)
    return Outcome(0, {written: struct.pack("<I", total % 2**32)}, output=output.decode(errors="replace"))


MODELS: dict[str, Model] = {
    "k8s.io/api/node": gives_of_node(NODE_OBJECT, b""),
    "k8s.io/api/nodeList": gives(DOCUMENT),
    "k8s.io/klog/log": log,
    "k8s.io/klog/logs": log,
    "k8s.io/klog/severity": severity,
    "k8s.io/scheduler/currentNodeName": gives(b""),
    "k8s.io/scheduler/targetPod": gives(b""),
    "k8s.io/scheduler/filteredNodeList": gives(DOCUMENT),
    "k8s.io/scheduler/nodeToStatusMap": gives(DOCUMENT),
    "k8s.io/scheduler/nodeScoreList": gives(DOCUMENT),
    "k8s.io/scheduler/nodeImageStates": gives_of_node(b"{}", b"null"),
    "k8s.io/scheduler/get_config": gives(CONFIG),
    "k8s.io/scheduler/result.cluster_events": takes(GuestResult.CLUSTER_EVENTS),
    "k8s.io/scheduler/result.node_names": takes(GuestResult.NODE_NAMES),
    "k8s.io/scheduler/result.nominated_node_name": takes(GuestResult.NOMINATED_NODE_NAME),
    "k8s.io/scheduler/result.status_reason": reason,
    "k8s.io/scheduler/result.normalized_score_list": takes(GuestResult.NORMALIZED_SCORES),
    "k8s.io/scheduler/handle.eventrecorder.eventf": event,
    "k8s.io/scheduler/handle.reject_waiting_pod": reject_waiting_pod,
    "k8s.io/scheduler/handle.get_waiting_pod": waiting_pod,
    WRITE: write,
}
"""Each takes the guest's memory and the numbers."""


def passes_on(function: str) -> str:
    """A guest that calls a function with the numbers in the pod's object."""
    signature = SIGNATURES[function]
    numbers = " ".join(f"(i32.load (i32.const {NUMBERS + 4 * at}))" for at in range(len(signature.params)))
    return module(
        '(func (export "prefilter") (result i32)',
        f"(drop (call ${POD} (i32.const {NUMBERS}) (i32.const 64)))",
        f"(call ${function} {numbers})",
        ")" if signature.results else "(i32.const 0))",
        uses={function, POD},
        pages="2",
    )


class OneWaits:
    """The handle of a host where one pod waits."""

    def waiting_pod(self, uid: str, /) -> bytes | None:
        return WAITING if uid.encode() == UID else None

    def reject_waiting_pod(self, uid: str, /) -> bool:
        return uid.encode() == UID


class Caller:
    """Calls host functions, each time in a fresh guest."""

    def __init__(self, engine: WasmtimeEngine) -> None:
        self._engine = engine
        self._modules: dict[str, WasmtimeModule] = {}
        self._world = world({"abcdef": NODE_OBJECT, "other": b"other"})

    def call(self, function: str, *numbers: int) -> Outcome:
        """Raises TrapError."""
        if function not in self._modules:
            self._modules[function] = self._engine.compile(binary(passes_on(function)))
        instance = self._modules[function].instantiate(
            Settings("plugin", config=CONFIG.decode(), output_limit=OUTPUT_LIMIT), OneWaits()
        )
        try:
            return self._call(instance, numbers)
        finally:
            instance.close()

    def _call(self, instance: WasmtimeInstance, numbers: tuple[int, ...]) -> Outcome:
        memory, store = instance._guest["memory"], instance._store
        assert isinstance(memory, Memory)
        memory.write(store, MEMORY)
        instance.begin(pack(numbers))
        made = Call(self._world.nodes, time.monotonic() + 60, dict.fromkeys(HostDocument, lambda: DOCUMENT))
        try:
            low, _, reason = instance.once("prefilter", made)
        except GuestError as error:
            assert error.fault is Fault.TRAP, error
            raise TrapError from None
        finally:
            self.after = bytes(memory.read(store, 0, SIZE))
        return Outcome(low, {}, reason, instance.take_journal(), made.guest_results, instance._memory.output())

    def check(self, function: str, *numbers: int) -> None:
        """Compares a function with its model: what is returned, written and handed over, or that it traps."""
        before = MEMORY[:NUMBERS] + pack(numbers) + MEMORY[NUMBERS + 4 * len(numbers) :]
        try:
            expected = MODELS[function](before, *numbers[: len(SIGNATURES[function].params)])
        except TrapError:
            with pytest.raises(TrapError):
                self.call(function, *numbers)
            assert self.after == before
            return
        outcome = self.call(function, *numbers)
        after = bytearray(before)
        for at, data in expected.written.items():
            after[at : at + len(data)] = data
        assert self.after == after
        assert outcome == expected._replace(written={})


def pack(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


@pytest.fixture(scope="module")
def caller(engine: WasmtimeEngine) -> Iterator[Caller]:
    yield Caller(engine)


def test_there_is_a_model_of_every_function_but_the_one_that_brings_the_numbers() -> None:
    assert MODELS.keys() == {*map(str, driver.HOST_FUNCTIONS)} - {POD, SLEEP, RANDOM}


QUICK = settings(max_examples=150, deadline=None)


@pytest.mark.parametrize("function", MODELS)
@QUICK
@given(data=st.data())
def test_any_numbers(caller: Caller, function: str, data: st.DataObject) -> None:
    caller.check(function, *data.draw(st.tuples(*[U32] * len(SIGNATURES[function].params))))


NAME = st.one_of(st.sampled_from([97, 348, 98, 0]), U32)


@pytest.mark.parametrize(
    "function",
    [
        "k8s.io/api/node",
        "k8s.io/scheduler/nodeImageStates",
        "k8s.io/scheduler/handle.get_waiting_pod",
        "k8s.io/scheduler/handle.reject_waiting_pod",
    ],
)
@QUICK
@example(name=97, length=6, buffer=SIZE - len(NODE_OBJECT), limit=2**32 - 1)
@example(name=97, length=6, buffer=SIZE - 1, limit=2**32 - 1)
@example(name=97, length=6, buffer=97, limit=100)
@given(name=NAME, length=st.one_of(st.sampled_from([0, 5, 6, 7]), U32), buffer=U32, limit=U32)
def test_any_name(caller: Caller, function: str, name: int, length: int, buffer: int, limit: int) -> None:
    caller.check(function, name, length, buffer, limit)


SHORT = st.one_of(st.integers(0, 5_000), U32)


@QUICK
@example(fd=1, pairs=[(0, 8_192), (0, 1)], written=0)
@example(fd=2, pairs=[(0, SIZE)] * 6, written=SIZE - 4)
@given(fd=st.one_of(st.sampled_from([1, 2]), U32), pairs=st.lists(st.tuples(SHORT, SHORT), max_size=6), written=SHORT)
def test_any_output(caller: Caller, fd: int, pairs: list[tuple[int, int]], written: int) -> None:
    """The vectors lie behind the numbers."""
    caller.check(WRITE, fd, NUMBERS + 16, len(pairs), written, *(number for pair in pairs for number in pair))


@QUICK
@given(numbers=st.lists(U32, min_size=4, max_size=16))
def test_any_sleep(caller: Caller, numbers: list[int]) -> None:
    """No model, but no other end than an answer or a trap."""
    with contextlib.suppress(TrapError):
        caller.call(SLEEP, *numbers)
