"""Guests of the ABI of kube-scheduler-wasm-extension: core modules."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import compress
from operator import not_
from typing import Final, ParamSpec, TypeVar

import msgspec

from wasm_runtime import abi
from wasm_runtime.abi import ClusterEvent, Code, GuestResult, HostDocument
from wasm_runtime.engine import Call, CallResult, GuestJournal, Instance, NodeResults, Span
from wasm_runtime.errors import Fault, GuestError
from wasm_runtime.guests import binding_annotations
from wasm_runtime.guests.guest import (
    GC_IDLE_S,
    NO_PRE_FILTER,
    SUCCESS,
    CycleStage,
    Guest,
    Nomination,
    Permission,
    Pod,
    PreFilter,
    Status,
    name,
)
from wasm_runtime.nodes.node_feed import ALL_NODES
from wasm_runtime.nodes.node_table import Nodes

P = ParamSpec("P")
T = TypeVar("T")


def _mask(*codes: Code) -> int:
    return sum(1 << code for code in codes)


# The codes that exports may return, a bit a code.
_SUCCESS: Final = _mask(Code.SUCCESS)
_ANSWER: Final = _mask(Code.SUCCESS, *abi.REJECTED)
_ANSWER_OR_SKIP: Final = _ANSWER | _mask(Code.SKIP)
_ANSWER_OR_WAIT: Final = _ANSWER | _mask(Code.WAIT)

_CODES: Final = tuple(Code)

MAX_CLUSTER_EVENTS: Final = 256
"""Events that a guest may name. Kubernetes has some ten resources and as many actions."""

GC_INTERVAL_S: Final = 10.0
"""Seconds between two collections of a guest that learns of nodes and is not called."""

_ORDER: Final[tuple[CycleStage, ...]] = ("filter", "score", "preempt", "postFilter", "bind", "permit")
"""Stages as they may follow each other in one cycle."""


class CoreGuest(Guest):
    """A guest whose module is a core module with the exports of `abi.EXPORTS`."""

    def __init__(self, instance: Instance, exports: Collection[str]) -> None:
        super().__init__()
        self._instance = instance
        self._exports = exports
        self._at = 0
        self._collected = time.monotonic()
        self._is_called = False
        """Whether an extension point was called since the last garbage collection."""
        self._has_synced = False
        """Whether nodes were announced since the last garbage collection."""

    def enter(self, pod: Pod, nodes: Nodes, stage: CycleStage, deadline: float) -> None:
        """Goes on to a stage of the pod's cycle, beginning a new cycle where that is due.

        It is due when the guest is on another pod, at filter, which opens every cycle, and at a stage
        that this cycle has come to or passed: the scheduler is then trying the pod again. A pod that waits on
        Permit comes to `permit` as often as it is asked about.
        """
        at = _ORDER.index(stage)
        self._is_called = True
        if self.uid != pod.uid or (at <= self._at and stage != "permit"):
            self._begin(pod, nodes, deadline)
        self._at = at

    def _begin(self, pod: Pod, nodes: Nodes, deadline: float) -> None:
        """Sets the current pod and calls PreFilter."""
        self.uid = None
        self.pre_filter = NO_PRE_FILTER
        self._ask(self._instance.begin, pod.object)
        if "prefilter" in self._exports:
            call = Call(nodes, deadline)
            status, _ = self._once("prefilter", call, _ANSWER_OR_SKIP)
            if status is not SUCCESS or call.guest_results:
                names = abi.split_names(call.guest_results.get(GuestResult.NODE_NAMES, b""))
                self.pre_filter = PreFilter(status, frozenset(names) or None)
        self.uid = pod.uid

    def enqueue(self, nodes: Nodes, deadline: float) -> list[ClusterEvent]:
        """Calls enqueue: the changes after which a pod that the guest rejected is worth another attempt."""
        self._is_called = True
        call = Call(nodes, deadline)
        try:
            self._once("enqueue", call, _SUCCESS)
        except GuestError as error:
            # No node need be known yet when a module is loaded, and its guest is told so by an empty answer.
            if error.fault is not Fault.NO_NODE_DATA or error.fatal:
                raise
        events = list(dict.fromkeys(abi.cluster_events(call.guest_results.get(GuestResult.CLUSTER_EVENTS, b""))))
        if len(events) > MAX_CLUSTER_EVENTS:
            cause = f"{len(events)} cluster events were handed over, at most {MAX_CLUSTER_EVENTS} are taken"
            raise GuestError(Fault.RESULT, "enqueue", cause)
        return events

    def filter(self, nodes: Nodes, deadline: float) -> NodeResults:
        """Calls Filter on each node: the codes are Success or rejections."""
        return self._each("filter", nodes, deadline, _ANSWER)

    def add_pod(self, target: bytes, node: Nodes, deadline: float) -> None:
        """Calls AddPod: what would be if the target, a protobuf v1.Pod, were on the node as well."""
        self._once("addpod", Call(node, deadline, target=target), _SUCCESS)

    def remove_pod(self, target: bytes, node: Nodes, deadline: float) -> None:
        """Calls RemovePod: what would be if the target, a protobuf v1.Pod, were not on the node any more."""
        self._once("removepod", Call(node, deadline, target=target), _SUCCESS)

    def post_filter(self, nodes: Nodes, deadline: float) -> Nomination:
        """Calls PostFilter, for which every one of `nodes` was found unschedulable."""
        statuses = dict.fromkeys(nodes.names, int(Code.UNSCHEDULABLE))
        call = Call(nodes, deadline, {HostDocument.NODE_STATUSES: lambda: msgspec.json.encode(statuses)})
        status, mode = self._once("postfilter", call, _ANSWER)
        node = call.guest_results.get(GuestResult.NOMINATED_NODE_NAME, b"").decode(errors="replace")
        return Nomination(status, mode, node)

    def score(self, nodes: Nodes, deadline: float) -> bytes | None:
        """Calls PreScore, Score on each node and NormalizeScore. None if PreScore says Skip.

        One byte a node: a score is in 0..100, as the framework demands of a plugin after NormalizeScore.
        """
        if "prescore" in self._exports:
            filtered = {HostDocument.FILTERED_NODES: lambda: msgspec.json.encode(nodes.names)}
            status, _ = self._once("prescore", Call(nodes, deadline, filtered), _mask(Code.SUCCESS, Code.SKIP))
            if status.code is Code.SKIP:
                return None
        scores = self._each("score", nodes, deadline, _SUCCESS).values
        if "normalizescore" not in self._exports:
            return _in_range("score", nodes, scores)
        self.raw_scores = scores
        return _in_range("normalizescore", nodes, self._normalize(nodes, scores, deadline))

    def reserve(self, node: Nodes, deadline: float) -> Status:
        """Calls Reserve for the node that was chosen: Success or a rejection."""
        return self._once("reserve", Call(node, deadline), _ANSWER)[0]

    def binding_annotations(self, node: Nodes, deadline: float) -> dict[str, str]:
        """Asks for the annotations that the bind is to give the pod, after Reserve."""
        export, call = "bindingannotations", Call(node, deadline)
        result = self._run_once(export, call)
        at, length = result.high & 0xFFFF_FFFF, result.low & 0xFFFF_FFFF
        try:
            return binding_annotations.parse(self._read(at, length, binding_annotations.MAX_BYTES))
        except ValueError as error:
            output = self._instance.output()
            raise GuestError(Fault.RESULT, export, str(error), node=node.names[0], output=output) from None

    def unreserve(self, node: Nodes, deadline: float) -> None:
        """Calls Unreserve: the pod will not come to the node after all."""
        self._once("unreserve", Call(node, deadline), _SUCCESS)

    def permit(self, node: Nodes, deadline: float) -> Permission:
        """Calls Permit. The halves of its result are the other way round: the code is the high one."""
        call = Call(node, deadline)
        result = self._run_once("permit", call)
        status = self._status("permit", call, result.high, result.reason, _ANSWER_OR_WAIT)
        return Permission(status, (result.low & 0xFFFF_FFFF) / 1000)

    def pre_bind(self, node: Nodes, deadline: float) -> Status:
        """Calls PreBind: Success or a rejection."""
        return self._once("prebind", Call(node, deadline), _ANSWER)[0]

    def bind(self, node: Nodes, deadline: float) -> Status:
        """Calls Bind: Success if the guest has bound the pod, Skip if it leaves that to others, or a rejection."""
        return self._once("bind", Call(node, deadline), _ANSWER_OR_SKIP)[0]

    def post_bind(self, node: Nodes, deadline: float) -> None:
        """Calls PostBind: the pod is bound."""
        self._once("postbind", Call(node, deadline), _SUCCESS)

    def sync_nodes(self, nodes: Nodes, deadline: float, max_nodes: int = ALL_NODES) -> bool:
        """Brings the guest's view of the nodes up to date before a call needs it.

        Announces at most `max_nodes` nodes to a guest that keeps them, then a batch of pods, as an instance does.
        Returns whether it knows all.
        """
        if self._ask(self._instance.sync_nodes, nodes, deadline, 0):
            return True
        self._has_synced = True
        return self._ask(self._instance.sync_nodes, nodes, deadline, max_nodes)

    @property
    def is_garbage_collection_due(self) -> bool:
        """Whether the guest has garbage and has been idle long enough to collect it."""
        now = time.monotonic()
        is_idle = now - self.left >= GC_IDLE_S
        is_due = self._is_called or (self._has_synced and now - self._collected >= GC_INTERVAL_S)
        return "collectgarbage" in self._exports and is_idle and is_due

    def collect(self, deadline: float) -> None:
        """Lets the guest collect its garbage."""
        self._collected = time.monotonic()
        self._is_called = self._has_synced = False
        self._ask(self._instance.collect, deadline)

    def take_journal(self) -> GuestJournal:
        """Takes what the guest logged and recorded since this was last called."""
        return self._instance.take_journal()

    def close(self) -> None:
        """Gives the instance back."""
        self._instance.close()

    def _run_once(self, export: str, call: Call) -> CallResult:
        begun = time.perf_counter()
        try:
            return self._instance.once(export, call)
        except BaseException as error:
            self._consider(error)
            raise
        finally:
            self._note(export, call, begun)

    def _once(self, export: str, call: Call, tolerated: int) -> tuple[Status, int]:
        """Calls an export once. Returns its status, and the number that it packs with its code if it does."""
        result = self._run_once(export, call)
        return self._status(export, call, result.low, result.reason, tolerated), result.high

    def _each(self, export: str, nodes: Nodes, deadline: float, tolerated: int) -> NodeResults:
        """Calls an export's list for all nodes that have an object, and then the export for each of the others.

        A guest that keeps nodes is not told of those that the request carries: it judges each by itself.
        """
        if abi.LISTS[export] not in self._exports or nodes.carried:
            return self._singly(export, nodes, deadline, tolerated)
        if listed := self._listed(export, nodes, deadline, tolerated):
            return listed
        absent = set(nodes.node_table.without_object(nodes.names))
        are_known = [name not in absent for name in nodes.names]
        listed = self._listed(export, nodes.select(are_known), deadline, tolerated) if any(are_known) else None
        if listed is None:  # Others have lost their objects meanwhile, if any had one.
            return self._singly(export, nodes, deadline, tolerated)
        others = nodes.select(list(map(not_, are_known)))
        return _joined(are_known, listed, self._singly(export, others, deadline, tolerated))

    def _listed(self, export: str, nodes: Nodes, deadline: float, tolerated: int) -> NodeResults | None:
        """What the list of an export says of nodes; None if one of them has no object."""
        call, called = Call(nodes, deadline), abi.LISTS[export]
        listed = self._timed(called, call, self._instance.at_once, tolerated)
        if listed is None:
            return None
        self._status(called, call, listed.status.low, listed.status.reason, _SUCCESS)
        return self._tolerated(export, nodes, listed.nodes, tolerated)

    def _singly(self, export: str, nodes: Nodes, deadline: float, tolerated: int) -> NodeResults:
        """What an export says of each node by itself."""
        results = self._timed(export, Call(nodes, deadline), self._instance.each, tolerated)
        return self._tolerated(export, nodes, results, tolerated)

    def _tolerated(self, export: str, nodes: Nodes, results: NodeResults, tolerated: int) -> NodeResults:
        if results.refused:
            node, output = nodes.names[results.called - 1], self._instance.output()
            raise _unexpected(export, results.refused, results.reasons[-1], tolerated, node=node, output=output)
        return results

    def _timed(self, called: str, call: Call, ask: Callable[[str, Call, int], T], tolerated: int) -> T:
        begun = time.perf_counter()
        try:
            return ask(called, call, tolerated)
        except BaseException as error:
            self._consider(error)
            raise
        finally:
            self._note(called, call, begun)

    def _read(self, at: int, length: int, most: int) -> bytes:
        """Bytes of its memory that the guest has named. Raises ValueError if they are too many, or not in it."""
        if not length:
            return b""
        if length > most:
            raise ValueError(f"{length} bytes were handed over, at most {most} are taken")
        if at + length > self._instance.memory_size:
            raise ValueError(f"{length} bytes at {at} are not in the memory")
        return self._ask(self._instance.read, at, length)

    def _note(self, export: str, call: Call, begun: float) -> None:
        """Notes how long a call took that began then, on the clock of `time.perf_counter`."""
        self.spans.append(Span(export, call.sync_seconds, time.perf_counter() - begun - call.sync_seconds))

    def _ask(self, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Asks something of the instance."""
        try:
            return ask(*args, **kwargs)
        except BaseException as error:
            self._consider(error)
            raise

    def _consider(self, error: BaseException) -> None:
        """Notes whether the instance can be used again after an error. After an error of an unknown kind it cannot."""
        self.is_broken |= error.fatal if isinstance(error, GuestError) else True

    def _status(self, export: str, call: Call, code: int, reason: str, tolerated: int) -> Status:
        """The status of a call that is done once. Raises for a code that the export may not return."""
        if not (code or reason):
            return SUCCESS
        if 0 <= code < len(_CODES) and tolerated >> code & 1:
            return Status(_CODES[code], reason)
        node = call.nodes.names[0] if export in abi.EXPORTS and abi.EXPORTS[export].on_node else ""
        raise _unexpected(export, code, reason, tolerated, node=node, output=self._instance.output())

    def _normalize(self, nodes: Nodes, scores: list[int], deadline: float) -> list[int]:
        """Calls NormalizeScore. A guest that hands nothing over leaves the scores as they are."""

        def given() -> bytes:
            return msgspec.json.encode(dict(zip(nodes.names, scores, strict=True)))

        call = Call(nodes, deadline, {HostDocument.NODE_SCORES: given})
        self._once("normalizescore", call, _SUCCESS)
        delivered = call.guest_results.get(GuestResult.NORMALIZED_SCORES, b"")
        normalized = _scores(delivered) if delivered else {}
        if not normalized:
            return scores
        try:
            return list(map(normalized.__getitem__, nodes.names))
        except KeyError as missing:
            cause = f"the normalized scores have none for node {missing.args[0]}"
            raise GuestError(Fault.RESULT, "normalizescore", cause) from None


def _joined(are_first: Sequence[bool], first: NodeResults, second: NodeResults) -> NodeResults:
    """The results of some nodes and of the others, in the order of all nodes."""

    def merged(ours: Iterable[T], theirs: Iterable[T], which: Iterable[bool]) -> list[T]:
        sources = iter(theirs), iter(ours)
        return [next(sources[is_first]) for is_first in which]

    ours, theirs = (each.codes or bytes(each.called) for each in (first, second))
    codes = bytes(merged(ours, theirs, are_first))
    rejected = list(compress(are_first, codes))
    values = merged(first.values, second.values, are_first) if first.values or second.values else []
    reasons = merged(first.reasons, second.reasons, rejected)
    return NodeResults(len(are_first), codes if rejected else b"", values, reasons)


def _scores(data: bytes) -> Mapping[str, int]:
    try:
        return msgspec.json.decode(data, type=dict[str, int] | None) or {}
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        cause = f"the normalized scores are no JSON object of node names and integers: {error}"
        raise GuestError(Fault.RESULT, "normalizescore", cause) from None


def _unexpected(export: str, code: int, reason: str, tolerated: int, *, node: str, output: str) -> GuestError:
    if code == Code.ERROR:
        return GuestError(Fault.STATUS, export, reason or "Error without a reason", node=node, output=output)
    allowed = ", ".join(f"{each.value} {name(each)}" for each in Code if each is Code.ERROR or tolerated >> each & 1)
    given = f"{code} {name(Code(code))}" if 0 <= code < len(Code) else str(code)
    said = f" ({reason})" if reason else ""
    return GuestError(Fault.RESULT, export, f"status code {given}{said} is none of {allowed}", node=node, output=output)


_RANGE: Final = bytes(range(abi.MIN_NODE_SCORE, abi.MAX_NODE_SCORE + 1))


def _in_range(export: str, nodes: Nodes, scores: list[int]) -> bytes:
    """The scores as bytes, of which thousands are looked at in a third of the time that min and max take."""
    with suppress(ValueError):
        found = bytes(scores)
        if not found.translate(None, _RANGE):
            return found
    least, most = min(scores), max(scores)
    score = least if least < abi.MIN_NODE_SCORE else most
    cause = f"score {score} is outside {abi.MIN_NODE_SCORE}..{abi.MAX_NODE_SCORE}"
    raise GuestError(Fault.RESULT, export, cause, node=nodes.names[scores.index(score)])
