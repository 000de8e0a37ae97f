"""Rounds of scheduling cycles: how long they took, and which parts that time has."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from bench.errors import BenchError
from bench.plugin.subject import Answer, Reply, Status, Subject, SubjectError, Took
from bench.plugin.variants import Spent, Started
from bench.plugin.workload import PERIOD, Cycle, Workload
from bench.run import PARTS

VERBS: Final = ("filter", "prioritize")
METRICS: Final = (*VERBS, "cycle")

MICRO: Final = 1e6

_PLUGIN: Final = re.compile(r" \(\S+-\d+\)\Z")
"""Matches the name of a plugin behind a reason, where there are several plugins."""

MOST: Final = 96
"""Cycles of a variant that are timed in a turn; at least there is one."""

STRIDE: Final = MOST + 1
"""Pods from the first one of a turn to that of the next: a prime, which is no divisor of most recordings' lengths."""

TRIED: Final = 3
"""Cycles that tell how many there can be."""

WARM_UP: Final = 24
"""Cycles that all variants must answer alike before any is timed: some pods of each wish."""

WARM_UP_SECONDS: Final = 0.5
"""Seconds for which a variant goes on to warm up, for MOST cycles at most."""


SETTLE_SECONDS: Final = 0.02
"""Seconds at the beginning of a turn that are not timed: caches are cold, and the last variant may still be busy."""


class Round(NamedTuple):
    """The durations of one variant in a round, in microseconds."""

    samples: Mapping[str, list[float]]
    """Durations by metric, in the order in which they were measured."""
    parts: Mapping[str, Mapping[str, float]]
    """The mean of each part, by metric and part."""
    at: list[float]
    """When each cycle was over, on the clock of `time.monotonic`."""


class DifferentAnswersError(BenchError):
    """Variants do not answer alike, so that their times cannot be compared. `str()` names a cycle and both answers."""


def settle(
    subject: Subject,
    workload: Workload,
    before: Callable[[Subject, Cycle], None] = lambda *_: None,
    pods: Iterable[int] = range(WARM_UP + MOST),
    seconds: float = SETTLE_SECONDS,
) -> None:
    """Goes through untimed cycles for some seconds, one at least; `before` is as for `play`. Raises SubjectError.

    Each is of another pod: after many of one and the same, the next one takes longer. Recorded changes of nodes are
    left out: they belong to the pods' own order.
    """
    end = time.monotonic() + seconds
    for at in pods:
        cycle = workload.cycle(at)._replace(changes={})
        before(subject, cycle)
        subject.ask(cycle)
        if time.monotonic() >= end:
            break


def play(
    started: Started, cycles: Iterable[Cycle], before: Callable[[Subject, Cycle], None] = lambda *_: None
) -> Round:
    """Puts pods through cycles, one after the other. `before` is called before each. Raises SubjectError."""
    subject = started.subject
    replies: list[Reply] = []
    at = []
    spent = started.spent()
    for cycle in cycles:
        before(subject, cycle)
        replies.append(subject.ask(cycle))
        at.append(time.monotonic())
    return Round(*_figures(replies, _difference(started.spent(), spent)), at)


def _figures(
    replies: Sequence[Reply], spent: Spent
) -> tuple[Mapping[str, list[float]], Mapping[str, Mapping[str, float]]]:
    took: dict[str, list[Took]] = {verb: [getattr(reply, verb) for reply in replies] for verb in VERBS}
    took["prioritize"] = [each for each in took["prioritize"] if each]
    samples = {verb: [_micro(each.seconds) for each in took[verb]] for verb in VERBS}
    samples["cycle"] = [_micro(each.seconds) for each in replies]
    totals = {
        verb: _totals(took[verb], {part: value for (of, part), value in spent.items() if of == verb}) for verb in VERBS
    }
    totals["cycle"] = {
        part: sum(totals[verb].get(part, 0.0) for verb in VERBS)
        for part in PARTS
        if any(part in totals[verb] for verb in VERBS)
    }
    means = {
        metric: {part: _micro(value / max(1, len(samples[metric]))) for part, value in totals[metric].items()}
        for metric in METRICS
    }
    return samples, means


def _totals(took: Sequence[Took], spent: Mapping[str, float]) -> dict[str, float]:
    """Seconds of each part, in the order of PARTS. What the extender says that it has spent is no transport."""
    totals: defaultdict[str, float] = defaultdict(float)
    for each in took:
        for part, seconds in each.parts.items():
            totals[part] += seconds
    if spent:
        totals["transport"] -= sum(spent.values())
        for part, seconds in spent.items():
            totals[part] += seconds
    return {part: totals[part] for part in PARTS if part in totals}


def _difference(after: Spent, before: Spent) -> Spent:
    return {key: value - before.get(key, 0.0) for key, value in after.items()}


def _micro(seconds: float) -> float:
    return round(seconds * MICRO, 2)


def warm_up(started: Mapping[str, Started], workload: Workload) -> dict[str, str]:
    """Lets all answer the same cycles, and then go on until they are warm.

    Returns those that answer differently from the first one that answers all nodes which pass, and how. Without such a
    one only what is rejected is compared: nobody tells which nodes are the best. Nor are the best nodes compared of a
    pod that comes again: it is sent elsewhere then. Raises SubjectError.
    """
    different: dict[str, str] = {}
    asked: set[bytes] = set()
    first = min(started, key=lambda name: started[name].top > 0, default="")
    for at in range(WARM_UP if started else 0):
        cycle = workload.cycle(at)
        answers = {name: _answer(each.subject, cycle) for name, each in started.items()}
        for name, answer in answers.items():
            told = Answer(rejected=answers[first].rejected, scores=answers[first].scores)
            if started[name].top and (started[first].top or cycle.pod in asked):
                told.scores = answer.scores
            if found := difference(best(told, answer, started[name].top), answer):
                different.setdefault(name, f"it does not answer as {first}: in cycle {at}, {found}")
        asked.add(cycle.pod)
    for each in started.values():
        settle(each.subject, workload, pods=range(WARM_UP, WARM_UP + MOST), seconds=WARM_UP_SECONDS)
    return different


def _answer(subject: Subject, cycle: Cycle) -> Answer:
    answer = subject.ask(cycle, answer=True).answer
    if answer is None:
        raise SubjectError(f"{subject.name} has not told what came of a cycle")
    return answer


def best(whole: Answer, told: Answer, top: int) -> Answer:
    """What an answer of the best `top` nodes has to be beside that of all, which is due where `top` is 0.

    Which ones of equal nodes it has is its own choice.
    """
    if not top:
        return whole
    chosen = sorted(whole.scores, key=lambda name: (-whole.scores[name], name not in told.scores))[:top]
    return Answer(rejected=whole.rejected, scores={name: whole.scores[name] * (len(chosen) > 1) for name in chosen})


def difference(first: Answer, other: Answer) -> str:
    """What differs in two answers, in words; empty if nothing does. The extender alone tells which plugin rejects."""
    rejected = _unsigned(first), _unsigned(other)
    for what, there, here in (("filter", *rejected), ("prioritize", first.scores, other.scores)):
        differ = [name for name in sorted(there.keys() | here.keys()) if there.get(name) != here.get(name)]
        if differ:
            name = differ[0]
            nodes = "1 node" if len(differ) == 1 else f"{len(differ)} nodes"
            return f"{what} differs for {nodes}, as {name}: {there.get(name)} there, {here.get(name)} here"
    return ""


def _unsigned(answer: Answer) -> dict[str, Status]:
    """What is rejected, without the name of one of several plugins behind each reason."""
    return {name: Status(each.code, _PLUGIN.sub("", each.reason)) for name, each in answer.rejected.items()}


def first_pod(turn: int) -> int:
    """The number of the pod that begins a turn, the same for all variants; no other turn has any of its pods.

    Each turn begins at the kind of pod after that of the turn before. So in PERIOD turns a variant that manages one pod
    in each is asked about every kind once, which is the mix of those that manage many. Recorded pods have no
    such kinds, and come round again after the last one.
    """
    return WARM_UP + MOST + turn * STRIDE


def how_many(started: Started, workload: Workload, seconds: float) -> int:
    """The number of cycles that fit into so many seconds, in bounds; a multiple of PERIOD where that many do.

    Else it is odd: the median of an even number may lie between two kinds of pod.
    """
    begun = time.monotonic()
    for at in range(TRIED):
        started.subject.ask(workload.cycle(at))
    took = (time.monotonic() - begun) / TRIED
    fit = max(1, min(MOST, round(seconds / took)))
    return fit // PERIOD * PERIOD or (fit - 1) | 1
