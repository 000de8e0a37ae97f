"""One module through all that is done with modules. What may come out is an answer, ModuleError or GuestError."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import chain

from tests.wasm_runtime.protobuf_bytes import image, node_with_images
from tests.wasm_runtime.world import close, core_guest, idle_guests
from wasm_runtime import GuestError, ModuleError, Nodes, NodeTable, Plugin, Pod, Settings, WasmtimeEngine
from wasm_runtime.abi import GroupSource, Severity
from wasm_runtime.engine import MEBIBYTE, GuestJournal, Log, NodeResults
from wasm_runtime.errors import MAX_CAUSE_CHARS, MAX_OUTPUT_CHARS
from wasm_runtime.guests.core_guest import CoreGuest
from wasm_runtime.guests.guest import CycleStage
from wasm_runtime.module import sections
from wasm_runtime.pods.group_table import Group, GroupKey
from wasm_runtime.pods.pod_table import ResidentPod

MAX_MESSAGE_CHARS = MAX_CAUSE_CHARS + MAX_OUTPUT_CHARS + 500
MAX_PROBLEMS_CHARS = 64 * 1024
"""Characters of what is said of a guest, and of a module."""
OUTPUT_LIMIT = 1_000

SETTINGS = Settings(
    "fuzz",
    config='{"a": 1}',
    memory_limit=16 * MEBIBYTE,
    table_limit=10_000,
    output_limit=OUTPUT_LIMIT,
    timeout=0.03,
    instances=2,
)

OBJECTS = {
    "node-a": node_with_images([image(["nginx:1", "nginx@sha256:1"], 100)]),
    "node-b": b"\xff" * 100,
    "größe": b"G",
    "x" * 253: b"X" * 10_000,
}
FEW = 20
"""What `node_table.SLACK` is to be: entries of nodes that are gone, beyond which the others are given new places."""
NAMES = [*OBJECTS, "only-named"]
POD = Pod("uid", "default/pod", b"POD" * 100)

Step = Callable[[CoreGuest, Nodes, float], object]

STEPS: dict[CycleStage, dict[str, Step]] = {
    "filter": {"filter": CoreGuest.filter},
    "score": {"score": CoreGuest.score},
    "preempt": {
        "removepod": lambda guest, *node: guest.remove_pod(b"VICTIM", *node),
        "filter": CoreGuest.filter,
        "addpod": lambda guest, *node: guest.add_pod(b"VICTIM" * 1_000, *node),
    },
    "postFilter": {"postfilter": CoreGuest.post_filter},
    "bind": {
        "reserve": CoreGuest.reserve,
        "bindingannotations": CoreGuest.binding_annotations,
        "permit": CoreGuest.permit,
        "prebind": CoreGuest.pre_bind,
        "bind": CoreGuest.bind,
        "postbind": CoreGuest.post_bind,
        "unreserve": CoreGuest.unreserve,
    },
}
"""What is called at each stage, by the export that it needs."""


class PropertyError(AssertionError):
    """The runtime did what it must not do."""


class Waiting:
    """A host where some pods wait."""

    def waiting_pod(self, uid: str, /) -> bytes | None:
        return b"POD" * 1_000 if uid in OBJECTS else None

    def reject_waiting_pod(self, uid: str, /) -> bool:
        return uid in OBJECTS


class Player:
    """Plays modules with one engine."""

    def __init__(self) -> None:
        self._engine = WasmtimeEngine()
        self._begin()

    def play(self, wasm: bytes) -> str:
        """How far a module got, in a word. Raises PropertyError, or any other error that must not come out."""
        self._begin()
        try:
            node_table = self._nodes.node_table
            plugin = Plugin(self._engine, wasm, SETTINGS, sink=_check_journal, handle=Waiting(), nodes=node_table)
        except ModuleError as error:
            _require(len(str(error)) <= MAX_PROBLEMS_CHARS, f"a message of {len(str(error))} characters")
            return "refused"
        except GuestError as error:
            _check_error(error)
            return "not made"
        try:
            self._read(wasm)
            for _ in range(2):
                for stage, steps in STEPS.items():
                    self._run(plugin, stage, steps)
                    self._maintain(plugin)
        finally:
            close(plugin)
        return "played"

    def _maintain(self, plugin: Plugin) -> None:
        """What maintenance does when no pod has come for a while."""
        for guest in idle_guests(plugin._pool):
            guest.left = 0.0
        try:
            while plugin.maintain(self._nodes.node_table):
                pass
        except GuestError as error:
            _check_error(error)

    def _change_nodes(self) -> None:
        """Between two calls of a verb too: nodes and pods come, change and go, and get the numbers of others."""
        self._changes += 1
        self._nodes.node_table.replace(OBJECTS)
        others = (f"other-{at}-{self._changes % 3}" for at in range(2 * FEW))
        self._nodes.node_table.put((name, bytes([self._changes % 256]) * 5_000) for name in others)
        self._change_pods()

    def _change_pods(self) -> None:
        """Some move, some are gone, and others get their numbers. So it is with groups."""
        keys = [GroupKey(GroupSource.LABEL, "default", f"group-{(self._changes + at) % 5}") for at in range(3)]
        self._nodes.node_table.pods.groups.put(keys[0], Group(self._changes, priority=-self._changes))
        self._nodes.node_table.pods.groups.remove(keys[1])
        nodes = ("", "node-a", "gone", f"other-0-{self._changes % 3}")
        names = ((at, nodes[(self._changes + at) % len(nodes)]) for at in range(2 * FEW) if (self._changes + at) % 5)
        self._nodes.node_table.pods.replace(
            {
                f"pod-{at}-{(self._changes + at) % 7 == 0}": ResidentPod(
                    node, b"P" * (1 + 300 * (at % 3)), at % 4 == 0, keys[at % 3] if at % 2 else None
                )
                for at, node in names
            }
        )

    def _begin(self) -> None:
        """Has nodes that no module has seen, so that it is played alike each time."""
        self._changes = 0
        self._nodes = Nodes(NodeTable(), NAMES)
        self._one = Nodes(self._nodes.node_table, NAMES[:1])
        self._change_nodes()

    def _read(self, wasm: bytes) -> None:
        """Reads what a module tells of itself, without running it."""
        for content in sections.custom_sections(wasm).values():
            sections.producers(content)
        sections.memory(wasm, "memory")

    def _run(self, plugin: Plugin, stage: CycleStage, steps: Mapping[str, Step]) -> None:
        """Calls the exports of a stage one by one, failures among them, as long as there is a guest."""
        nodes = self._one if stage in {"preempt", "bind"} else self._nodes
        with ExitStack() as stack:
            try:
                guest, deadline = stack.enter_context(plugin.guest(POD, nodes, stage))
            except GuestError as error:
                _check_error(error)
                return
            for export, step in steps.items():
                if plugin.runs(export) and not guest.is_broken:
                    self._change_nodes()
                    _check_step(partial(step, core_guest(guest), nodes, deadline), nodes)


def _check_step(step: Callable[[], object], nodes: Nodes) -> None:
    """Calls an export: it answers, or raises GuestError."""
    try:
        _check_answer(step(), nodes)
    except GuestError as error:
        _check_error(error)


def _check_answer(answer: object, nodes: Nodes) -> None:
    if isinstance(answer, NodeResults):
        refused = sum(map(bool, answer.codes))
        _require(answer.called == len(nodes) and len(answer.reasons) == refused, f"results {answer}")
        _require(not answer.codes or len(answer.codes) == answer.called, f"results {answer}")
        _require({*answer.codes} <= {0, 2, 3, 6}, f"codes {[*answer.codes]}")
    elif isinstance(answer, bytes):
        _require(len(answer) == len(nodes) and all(score <= 100 for score in answer), f"scores {[*answer]}")


def _check_error(error: GuestError) -> None:
    _require(len(str(error)) <= MAX_MESSAGE_CHARS, f"a message of {len(str(error))} characters")


def _check_journal(_: str, __: Pod | None, journal: GuestJournal) -> None:
    texts = chain.from_iterable(
        (each.message.encode(), *map(str.encode, each.pairs)) if isinstance(each, Log) else (each.message,)
        for each in journal.records
    )
    # A byte that is no text becomes a character of three.
    _require(sum(map(len, texts)) <= 3 * OUTPUT_LIMIT, "a journal beyond its limit")
    _require(all(each.severity in Severity for each in journal.records if isinstance(each, Log)), "a severity")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise PropertyError(otherwise)
