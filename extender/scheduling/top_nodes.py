"""topNodes: of the nodes that pass only the best, and pods spread over nodes that are equally good."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from heapq import nlargest
from itertools import chain, compress, islice, repeat
from typing import Final, NamedTuple

from extender.config import ProfileConfig
from extender.scheduling import prioritize
from extender.scheduling.cycle_pins import Key
from extender.scheduling.prioritize import Totals
from extender.scheduling.profile import Profile
from wasm_runtime.abi import MAX_NODE_SCORE, MIN_NODE_SCORE
from wasm_runtime.engine import MEBIBYTE
from wasm_runtime.guests.guest import Pod
from wasm_runtime.nodes.node_table import Nodes

ATTEMPT_S: Final = 1.0
"""Seconds for which a pod's filters belong to one attempt. After an error in Reserve, PreBind or Bind kube-scheduler
lets the pod rest longer (`podInitialBackoffSeconds`, `pkg/scheduler/backend/queue/backoff_queue.go`)."""

MAX_ANSWERS_BYTES: Final = 32 * MEBIBYTE
"""What all answers may take; beyond it the pods go that were answered longest ago."""

ANSWER_BYTES: Final = 512
NAME_BYTES: Final = 128
"""What an answer takes with its pod, and each name in it."""

MAX_TURNS: Final = 32_768
"""Nodes of which it is known when they were answered, some 10 MiB; beyond it those go that were longest ago."""

MAX_COMPARED: Final = 32
"""Equally good nodes that are compared by when they were answered. If there are more, each call compares others of
them."""

_STRIDE: Final = 2_654_435_761
"""A prime that is 2**32 divided by the golden ratio: its multiples are spread evenly."""

_SCORES: Final = range(MIN_NODE_SCORE, MAX_NODE_SCORE + 1)

MAX_TRIED: Final = 256
"""Names that are remembered of a pod's earlier attempts, the last ones."""


def notices(profiles: Iterable[ProfileConfig], before: Iterable[ProfileConfig] = ()) -> Iterator[str]:
    """What each profile with topNodes gives up, unless it had the same `before`."""
    known = {profile.name: profile.top_nodes for profile in before}
    for profile in profiles:
        most = profile.top_nodes
        if most and most != known.get(profile.name):
            counts = "do not count" if most == 1 else f"count among these {most} alone"
            yield (
                f"profile {profile.name} has topNodes {most}: scores of in-tree plugins (topology spread, preferred"
                f" affinity, image locality and others) {counts}; what in-tree plugins require counts as ever"
            )


class Best(NamedTuple):
    """The nodes that filter answers."""

    nodes: Nodes
    scores: dict[str, int]
    """What prioritize answers about them, by name."""
    totals: Totals
    """Of all nodes that pass."""


class _Best(NamedTuple):
    """The best of some nodes, by their positions."""

    surely: list[int]
    """Those with a better score than the lowest that is still answered."""
    tied: bytes
    """A byte a node: 1 if it has that lowest score, else 0."""
    ties: int
    """How many nodes have that lowest score."""
    room: int
    """How many of these nodes are to be answered."""


class _Answer(NamedTuple):
    """What filter has answered for a pod."""

    names: Sequence[str]
    began: float
    """When the attempt did, on the clock of `time.monotonic`."""
    tried: Mapping[str, int]
    """How often each node was answered in earlier attempts."""

    @property
    def size(self) -> int:
        """Bytes that it takes, by a rule of thumb."""
        return ANSWER_BYTES + NAME_BYTES * (len(self.names) + len(self.tried))


class TopNodes:
    """Chooses the best nodes for pods. May be used from any thread.

    Among equally good nodes those come first that were answered least recently, so that pods in a row do not pile up.
    A pod that is asked about again in the same attempt gets the same nodes, if they are as good as others. In a later
    attempt they come last: something else than filter has kept the pod off them, and may do so for ever.
    """

    def __init__(self) -> None:
        self._answers: OrderedDict[Key, _Answer] = OrderedDict()
        """The oldest first."""
        self._bytes = 0
        """What all answers take."""
        self._turns: OrderedDict[str, int] = OrderedDict()
        """When each node was last answered, in turns, the oldest first."""
        self._turn = 0
        self._lock = threading.Lock()

    def choose(self, key: Key, profile: Profile, pod: Pod, nodes: Nodes, most: int) -> Best:
        """The `most` best of the nodes that pass, in their order, by PreScore, Score and NormalizeScore of all plugins.

        Raises PluginFailedError.
        """
        totals = prioritize.run(profile, pod, nodes)
        now = time.monotonic()
        last = self._answers.get(key)
        if last and now - last.began < ATTEMPT_S:
            began, tried, again = last.began, last.tried, last.names
        else:
            began, tried, again = now, _tried(last) if last else {}, ()
        best = _find_best(_demoted(nodes.names, totals.scores, tried), most)
        with self._lock:  # Pods at the same time take turns, too.
            positions = sorted(best.surely + self._least_recent(nodes.names, best, again))
            chosen = nodes.at(positions)
            self._remember(key, _Answer(chosen.names, began, tried))
        return Best(chosen, {nodes.names[at]: totals.mean(totals.scores[at]) for at in positions}, totals)

    def _least_recent(self, names: Sequence[str], best: _Best, again: Sequence[str]) -> list[int]:
        """As many of the tied nodes as there is room for: those in `again` first, then the least recently answered."""
        most = None if again else MAX_COMPARED + best.room
        first = 0 if again or best.ties <= MAX_COMPARED else self._turn * _STRIDE % len(names)
        tied = list(islice(_marked(best.tied, first), most))
        turns = list(map(self._turns.get, map(names.__getitem__, tied), repeat(0)))
        if again:
            turns = [-1 if names[at] in again else turn for at, turn in zip(tied, turns, strict=True)]
        if best.room == 1:
            return [tied[turns.index(min(turns))]]
        return [tied[at] for at in sorted(range(len(tied)), key=turns.__getitem__)[: best.room]]

    def _remember(self, key: Key, answer: _Answer) -> None:
        for name in answer.names:
            self._turn += 1
            self._turns.pop(name, None)
            self._turns[name] = self._turn
        while len(self._turns) > MAX_TURNS:
            self._turns.popitem(last=False)
        before = self._answers.pop(key, None)
        self._answers[key] = answer
        self._bytes += answer.size - (before.size if before else 0)
        while self._bytes > MAX_ANSWERS_BYTES:
            _, oldest = self._answers.popitem(last=False)
            self._bytes -= oldest.size


def _tried(last: _Answer) -> dict[str, int]:
    """How often each node was answered until now. The nodes of the last answer come last."""
    tried = {name: count for name, count in last.tried.items() if name not in last.names}
    tried |= {name: last.tried.get(name, 0) + 1 for name in last.names}
    return dict(islice(tried.items(), max(0, len(tried) - MAX_TRIED), None))


def _demoted(names: Sequence[str], scores: Sequence[int], tried: Mapping[str, int]) -> Sequence[int]:
    """The scores, so much less for each time that a node was tried that all others come first."""
    if not tried:
        return scores
    demoted, step = list(scores), max(scores) - min(scores) + 1
    for at in _positions(names, tried):
        demoted[at] -= tried[names[at]] * step
    return demoted


def _positions(names: Sequence[str], wanted: Collection[str]) -> list[int]:
    """The positions of the `wanted` names among all `names`. Names that are not there are left out."""
    if not wanted:
        return []
    places = dict(zip(names, range(len(names)), strict=True))
    return [places[name] for name in wanted if name in places]


def _find_best(scores: Sequence[int], most: int) -> _Best:
    """The best of more than `most` scores. Those of one plugin are bytes, which are quick to search."""
    if isinstance(scores, bytes):
        last = bisect_right(_SCORES, -most, key=lambda score: -len(scores.translate(None, _below(score)))) - 1
        tied, better = scores.translate(_equal(last)), scores.translate(_above(last))
    else:
        last = nlargest(most, scores)[-1]
        tied, better = bytes(map(last.__eq__, scores)), bytes(map(last.__lt__, scores))
    surely = list(_marked(better)) if most > 1 else []
    return _Best(surely, tied, tied.count(1), most - len(surely))


def _marked(marks: bytes, first: int = 0) -> Iterator[int]:
    """The positions of the bytes that are not 0: those from `first` on, then those before it."""
    around = chain(range(first, len(marks)), range(first))
    return compress(around, marks[first:] + marks[:first])


@cache
def _below(score: int) -> bytes:
    """The scores below this one."""
    return bytes(range(score))


@cache
def _equal(score: int) -> bytes:
    """Whether each score is this one, for `bytes.translate`."""
    return bytes(map(score.__eq__, range(256)))


@cache
def _above(score: int) -> bytes:
    """Whether each score is above this one."""
    return bytes(map(score.__lt__, range(256)))
