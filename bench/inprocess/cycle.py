"""A pod's scheduling cycle in this runtime, as filter and prioritize put it through, and what it came to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from operator import not_
from typing import NamedTuple

import msgspec

from wasm_runtime import GuestError, Nodes, Plugin, Pod, Snapshot
from wasm_runtime.abi import Code


class Status(msgspec.Struct, frozen=True):
    """A code that is not Success, and its reason; zero and empty for Success."""

    code: int = 0
    reason: str = ""


class Answer(msgspec.Struct):
    """What a cycle came to, the same in both hosts; what was not called is empty."""

    failure: str = ""
    """The first status or error that ended it; the hosts word it differently."""
    pre_filter: Status = Status()
    rejected: dict[str, Status] = {}
    """The nodes that did not pass Filter."""
    scores: dict[str, int] = {}
    """The nodes that passed, after NormalizeScore."""


class Cycle(msgspec.Struct):
    """A cycle that was measured."""

    seconds: float
    answer: Answer


class _Filtered(NamedTuple):
    pre_filter: Status
    nodes: Nodes
    """Those that PreFilter left."""
    codes: list[int]
    """A code for each of them; none if all are Success."""
    reasons: list[str]

    @property
    def kept(self) -> Nodes:
        return self.nodes.select(list(map(not_, self.codes))) if self.codes else self.nodes

    @property
    def rejected(self) -> dict[str, Status]:
        failed = ((name, code) for name, code in zip(self.nodes.names, self.codes, strict=False) if code)
        return {name: Status(code, reason) for (name, code), reason in zip(failed, self.reasons, strict=True)}


def run(plugin: Plugin, snapshot: Snapshot, names: Sequence[str], pod: Pod) -> Cycle:
    """Puts a pod through filter and then prioritize. Decoding the requests is not a part of what is measured."""
    asked = _fresh(names)
    begun = time.perf_counter()
    try:
        filtered = _filter(plugin, pod, Nodes(snapshot, asked))
        seconds = time.perf_counter() - begun
        asked = _fresh(filtered.kept.names)
        begun = time.perf_counter()
        scores = _score(plugin, pod, Nodes(snapshot, asked)) if asked else []
        seconds += time.perf_counter() - begun
    except GuestError as error:
        return Cycle(0.0, Answer(str(error)))
    scored = dict(zip(asked, scores, strict=True)) if scores else {}
    return Cycle(seconds, Answer("", filtered.pre_filter, filtered.rejected, scored))


def _fresh(names: Sequence[str]) -> list[str]:
    """The names as decoding a request makes them: strings of their own, whose hashes nobody has asked for."""
    return msgspec.json.decode(msgspec.json.encode(names), type=list[str])


def _filter(plugin: Plugin, pod: Pod, nodes: Nodes) -> _Filtered:
    if not (plugin.runs("prefilter") or plugin.runs("filter")):
        plugin.end_cycle(pod)
        return _Filtered(Status(), nodes, [], [])
    with plugin.guest(pod, nodes, "filter") as (guest, deadline):
        (code, reason), named = guest.pre_filter
        status = Status(code, reason) if code else Status()
        if code is Code.SKIP:
            return _Filtered(status, nodes, [], [])
        if code is not Code.SUCCESS:
            return _Filtered(status, nodes.select(()), [], [])
        if named is not None:
            nodes = nodes.select(list(map(named.__contains__, nodes.names)))
        if not plugin.runs("filter"):
            return _Filtered(status, nodes, [], [])
        results = guest.filter(nodes, deadline)
    return _Filtered(status, nodes, results.codes, results.reasons)


def _score(plugin: Plugin, pod: Pod, nodes: Nodes) -> list[int]:
    if not plugin.runs("score"):
        return []
    with plugin.guest(pod, nodes, "score") as (guest, deadline):
        return guest.score(nodes, deadline) or []
