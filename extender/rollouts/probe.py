"""The probe: a candidate judges requests beside the active revision, before it has a say."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from statistics import median
from typing import Any, Final, NamedTuple

from extender.config import SwapConfig
from extender.rollouts.report import (
    MAX_FAILURES,
    MAX_NODES,
    MAX_POD_LENGTH,
    MAX_PODS,
    MAX_REASON_LENGTH,
    Difference,
    Failure,
    NodeDifference,
    ProbeReport,
    Side,
    VerbReport,
)
from extender.scheduling.node_source import NotSyncedError
from extender.scheduling.pod_source import PodNotKnownError
from extender.scheduling.profile import Profile, mend
from extender.scheduling.request_samples import MAX_SAMPLES
from extender.scheduling.requests import RequestError
from extender.scheduling.sample import Sample
from extender.scheduling.verb import JudgingVerbName, Question
from extender.scheduling.verbs import JUDGING
from wasm_runtime import abi
from wasm_runtime.errors import MAX_CAUSE_CHARS, GuestError, shorten
from wasm_runtime.guests.guest import Pod
from wasm_runtime.guests.plugin import MAX_PREPARE_TIMEOUTS, Plugin
from wasm_runtime.nodes.node_table import Nodes

__all__ = ["CandidateRefusedError", "ProbeReport", "probe"]

WINDOW: Final = 256
"""Requests of a verb, the last ones, that its median is taken of."""

MIN_SAMPLES: Final = 5
"""Times that a median is taken of at least: where there are fewer requests, they are judged again."""

PERSISTENCE: Final = 2.0
"""Seconds for which the requests of a verb are judged again."""


class CandidateRefusedError(Exception):
    """A candidate must not take over. `str()` says why and what mends it; `report` is what was seen until then."""

    def __init__(self, problem: str, report: ProbeReport) -> None:
        super().__init__(problem)
        self.report = report


def probe(
    active: Plugin | None,
    candidate: Plugin,
    samples: Iterable[Sample],
    nodes: Callable[[Sequence[str]], Nodes],
    limits: SwapConfig,
    is_cancelled: Callable[[], bool],
) -> ProbeReport:
    """Lets a candidate judge requests beside the active revision, if there is one, and tells what they say.

    Both plugins are for this thread alone; what their guests log goes nowhere. Each request is a cycle of its own, and
    is about all of its nodes as `nodes` knows them now, those included that an earlier plugin of the profile would
    have rejected. Time is the processor's in this thread, so that other load refuses nobody, and begins when the guest
    has been told of the nodes. Samples may go on coming: what is kept of them is bounded, and so is the time that each
    takes, by the plugins' timeouts.

    Raises CandidateRefusedError if the candidate fails on a request that the active revision judges, or if it is slower
    in a verb than `limits` allow, twice in a row. Ends early, with what was seen until then, if it `is_cancelled`.
    """
    trial = _Trial(active, candidate, limits, is_cancelled)
    for sample in samples:
        if is_cancelled():
            break
        trial.add(sample, nodes(sample.names))
    trial.check_pace()
    return trial.report()


class _Request(NamedTuple):
    """A sample, and what it takes to judge it as often as one likes."""

    verb: JudgingVerbName
    question: Question

    @property
    def pod_name(self) -> str:
        """The pod's, as reports show it."""
        return shorten(self.question.pod.name, MAX_POD_LENGTH)


class _Judgement(NamedTuple):
    """What a plugin says of a request."""

    decision: Any = None
    seconds: float = 0.0
    failure: str = ""


def _ask(plugin: Plugin, request: _Request) -> _Judgement:
    """Lets a plugin judge a request. A cycle that filter would have begun has begun before the time is taken."""
    pod, nodes, _ = request.question
    try:
        tell_nodes(plugin, nodes)
        if request.verb != "filter":
            with plugin.guest(pod, nodes, "filter"):
                pass
        begun = time.thread_time()
        decision = JUDGING[request.verb].decide(plugin, request.question)
        return _Judgement(decision, time.thread_time() - begun)
    except GuestError as error:
        return _Judgement(failure=f"{error}{mend(error)}")
    finally:
        plugin.end_cycle(pod)


def tell_nodes(plugin: Plugin, nodes: Nodes) -> None:
    """Tells the guest of the nodes in bounded time, as maintenance does with those that serve. Raises GuestError."""
    until = time.monotonic() + MAX_PREPARE_TIMEOUTS * plugin.settings.timeout
    while plugin.maintain(nodes.node_table) and time.monotonic() < until:
        pass


def tell_plugins(profile: Profile, pod: Pod, nodes: Nodes) -> None:
    """Does that for each plugin of a profile. One that fails there has failed in filter. Raises PluginFailedError."""
    for each in profile.plugins:
        each.attempt("filter", lambda plugin, _: tell_nodes(plugin, nodes), pod)


@dataclass(slots=True)
class _Tally:
    """What was seen of a verb."""

    requests: int = 0
    alike: int = 0
    different: int = 0
    left_out: int = 0
    failures: Counter[Side] = field(default_factory=Counter)
    seconds: dict[Side, deque[float]] = field(
        default_factory=lambda: {"active": deque(maxlen=WINDOW), "candidate": deque(maxlen=WINDOW)}
    )
    """Seconds that requests took which neither has failed."""
    answered: deque[_Request] = field(default_factory=lambda: deque(maxlen=MAX_SAMPLES))
    """Some of those requests, to be judged again."""

    def time(self, answers: dict[Side, _Judgement]) -> bool:
        """Notes how long a request took. Returns False if one has failed it, and there is nothing to compare."""
        if any(answer.failure for answer in answers.values()):
            return False
        for side, answer in answers.items():
            self.seconds[side].append(answer.seconds)
        return True

    def report(self) -> VerbReport:
        return VerbReport(
            requests=self.requests,
            alike=self.alike,
            different=self.different,
            active_failures=self.failures["active"],
            candidate_failures=self.failures["candidate"],
            left_out=self.left_out,
            active_milliseconds=self._milliseconds("active"),
            candidate_milliseconds=self._milliseconds("candidate"),
        )

    def _milliseconds(self, side: Side) -> float | None:
        seconds = self.seconds[side]
        return round(median(seconds) * 1000, 3) if seconds else None


class _Trial:
    """Two revisions, and what was seen of them."""

    def __init__(
        self, active: Plugin | None, candidate: Plugin, limits: SwapConfig, is_cancelled: Callable[[], bool]
    ) -> None:
        self._candidate = candidate
        self._plugins: list[tuple[Side, Plugin]] = [("candidate", candidate)]
        if active is not None:
            self._plugins.append(("active", active))
        self._limits = limits
        self._is_cancelled = is_cancelled
        self._tallies: dict[JudgingVerbName, _Tally] = {verb: _Tally() for verb in JUDGING}
        self._differences: dict[tuple[str, JudgingVerbName], Difference] = {}
        self._failures: Counter[tuple[Side, JudgingVerbName, str]] = Counter()
        self._left_out_for = ""

    def add(self, sample: Sample, nodes: Nodes) -> None:
        """Lets both judge a request. Raises CandidateRefusedError."""
        tally = self._tallies[sample.verb]
        try:
            request = _Request(sample.verb, Question(sample.pod, nodes, self._victims(sample)))
        except (NotSyncedError, PodNotKnownError, RequestError) as error:
            tally.left_out += 1
            self._left_out_for = self._left_out_for or shorten(str(error), MAX_CAUSE_CHARS)
            return
        answers = self._ask_both(request)
        if not tally.requests and not answers["candidate"].failure:
            answers = self._ask_both(request)  # The first time was to warm up.
        if tally.time(answers):
            tally.answered.append(request)
        self._count(tally, request, answers)

    def check_pace(self) -> None:
        """Raises CandidateRefusedError if the candidate is too slow in a verb, twice in a row."""
        for verb, tally in self._tallies.items():
            if not self._is_slow(tally):
                continue
            for seconds in tally.seconds.values():
                seconds.clear()
            if self._is_slow(tally):
                raise CandidateRefusedError(self._describe_pace(verb, tally), self.report())

    def report(self) -> ProbeReport:
        """What was seen until now."""
        return ProbeReport(
            {verb: tally.report() for verb, tally in self._tallies.items()},
            list(self._differences.values()),
            [Failure(*failure, count) for failure, count in self._failures.items()],
            list(self._notes()),
        )

    def _victims(self, sample: Sample) -> dict[str, Sequence[bytes]]:
        """The victims on each node if they are asked for. Raises what `sample.victims` raises."""
        wanted = any(plugin.runs(export) for _, plugin in self._plugins for export in ("addpod", "removepod"))
        return {name: sample.victims(name) for name in sample.names} if wanted and sample.victims else {}

    def _ask_both(self, request: _Request) -> dict[Side, _Judgement]:
        """What each says; the other one is asked first the next time."""
        answers = {side: _ask(plugin, request) for side, plugin in self._plugins}
        self._plugins.reverse()
        return dict(sorted(answers.items()))

    def _count(self, tally: _Tally, request: _Request, answers: dict[Side, _Judgement]) -> None:
        """Raises CandidateRefusedError if the candidate fails, and fails alone."""
        tally.requests += 1
        for side, answer in answers.items():
            if answer.failure:
                tally.failures[side] += 1
                failure = (side, request.verb, answer.failure)
                if failure in self._failures or len(self._failures) < MAX_FAILURES:
                    self._failures[failure] += 1
        self._require_answer(request, answers)
        if "active" in answers:
            self._compare(tally, request, answers["active"], answers["candidate"])

    def _require_answer(self, request: _Request, answers: dict[Side, _Judgement]) -> None:
        """Raises CandidateRefusedError if the candidate fails, and fails alone."""
        problem = answers["candidate"].failure
        if not problem:
            return
        where = f"{request.verb} of pod {request.pod_name}"
        if "active" not in answers:
            raise CandidateRefusedError(f"{where} fails: {problem}", self.report())
        if not answers["active"].failure:
            difference = f"{where} fails, where the active revision has an answer: {problem}"
            raise CandidateRefusedError(difference, self.report())

    def _compare(self, tally: _Tally, request: _Request, active: _Judgement, candidate: _Judgement) -> None:
        if candidate.failure or (not active.failure and active.decision == candidate.decision):
            tally.alike += 1
            return
        tally.different += 1
        shown = (request.pod_name, request.verb)
        if shown not in self._differences and len(self._differences) < MAX_PODS:
            self._differences[shown] = _difference(request, active, candidate)

    def _is_slow(self, tally: _Tally) -> bool:
        """Whether the candidate is too slow, for all that is measured or can be. Raises CandidateRefusedError."""
        self._measure(tally)
        if self._is_cancelled() or not tally.seconds["active"]:
            return False
        active, candidate = median(tally.seconds["active"]), median(tally.seconds["candidate"])
        limits = self._limits
        return candidate > limits.slowdown_factor * active and candidate - active > limits.slowdown_floor

    def _measure(self, tally: _Tally) -> None:
        """Judges requests again until there are times enough, but not for long. Raises CandidateRefusedError."""
        enough = max(MIN_SAMPLES, len(tally.answered))
        until = time.monotonic() + PERSISTENCE
        for request in cycle(tally.answered):
            if len(tally.seconds["candidate"]) >= enough or time.monotonic() >= until or self._is_cancelled():
                break
            answers = self._ask_both(request)
            tally.time(answers)
            self._require_answer(request, answers)

    def _describe_pace(self, verb: JudgingVerbName, tally: _Tally) -> str:
        active, candidate = (median(tally.seconds[side]) * 1000 for side in ("active", "candidate"))
        return (
            f"{verb} takes {candidate:.2f} ms where the active revision takes {active:.2f} ms (median of"
            f" {len(tally.seconds['candidate'])} requests), more than swap.slowdownFactor"
            f" {self._limits.slowdown_factor:g} and swap.slowdownFloor {self._limits.slowdown_floor * 1000:g} ms"
            " allow; mend the guest or raise them"
        )

    def _notes(self) -> Iterator[str]:
        tallies = self._tallies.values()
        left_out = sum(tally.left_out for tally in tallies)
        if not any(tally.requests for tally in tallies):
            yield "there was no request to judge: nothing is known but that the candidate starts"
        elif len(self._plugins) == 1:
            yield "no revision is active: nothing was compared"
        if left_out:
            yield f"{left_out} of the preempt requests were left out: {self._left_out_for}"
        binding = [export for export in self._candidate.exports if export in abi.BIND_CYCLE]
        if binding:
            yield f"not tried, since a pod is bound but once: {', '.join(binding)}"


def _difference(request: _Request, active: _Judgement, candidate: _Judgement) -> Difference:
    names = request.question.nodes.names
    if active.failure:
        return Difference(request.pod_name, request.verb, len(names), failure=active.failure)
    describe = JUDGING[request.verb].describe
    both = zip(names, describe(active.decision, names), describe(candidate.decision, names), strict=True)
    nodes = [each for each in both if each[1] != each[2]]
    shown = [NodeDifference(name, *map(_shorten, words)) for name, *words in nodes[:MAX_NODES]]
    return Difference(request.pod_name, request.verb, len(nodes), shown)


def _shorten(words: str | int) -> str | int:
    return shorten(words, MAX_REASON_LENGTH) if isinstance(words, str) else words
