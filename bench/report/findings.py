"""The findings of a run in sentences: the answer first, then where the time goes and how it grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from bench.report.results import OURS, PEERS, Comparison, Figures, Results
from bench.report.words import (
    BEST,
    STARTS,
    bounds,
    capital,
    count,
    explained,
    factor,
    known,
    listed,
    quoted,
    rough,
    times,
)
from bench.run import Case, Level, Run, Variant
from bench.statistics import FEWEST_ROUNDS, measured

TIME_GOES_TO: Final[Mapping[str, Sequence[str]]] = {
    "transport and JSON": ("clientEncode", "transport", "decode", "encode", "clientDecode"),
    "finding nodes and bringing guests up to date": ("map",),
    "the policy and what it asks its host": ("guest",),
}
NOTHING: Final = "Nothing has been measured yet."
UNASKED: Final = (
    "No more than one node was left by filter for any pod: prioritize was never asked, and a cycle is filter alone."
)
DECIDES: Final = (
    "With topNodes: 1 filter leaves one node. So kube-scheduler asks no prioritize and computes no scores of its own. "
    "What in-tree plugins prefer (topology spread, affinity, images) does not count. What they require does."
)
"""A sentence on what an extender that answers the best node alone gives up."""
ASKED: Final[Mapping[str, tuple[str, str]]] = {
    "kwx": ("All nodes that pass", "When filter answers all nodes that pass, and prioritize is asked"),
    "kwx-top5": ("The best five nodes", "When filter answers the best five nodes"),
    "kwx-whole": ("Whole nodes", "Sent whole nodes and not their names"),
}
"""Other ways of asking our extender: the topic, and the beginning of its sentence."""
SUBJECTS: Final[Mapping[Level, Sequence[str]]] = {
    "plugin": ("cycle", "filter", "prioritize"),
    "scheduler": ("throughput", "pod"),
    "gangs": ("gang",),
}
"""Metrics that the answer can be about, by level; the first that was measured is taken."""
UNEVEN: Final = 1.5
"""Times that a round's median may be another's of the same series, before the answer tells of it."""


class Finding(NamedTuple):
    """Some sentences, and their topic."""

    topic: str
    text: str


class Findings(NamedTuple):
    """The findings of a run: the answer, what limits it, and further findings."""

    answer: str
    """One sentence."""
    more: list[Finding]
    aside: str = ""
    """What limits or explains the answer, in sentences; empty if nothing does."""

    @property
    def whole_answer(self) -> str:
        """The answer and its aside."""
        return f"{self.answer} {self.aside}".strip()


def findings(results: Results) -> Findings:
    """The findings of a run's figures."""
    found = subject_of(results)
    if found is None:
        return Findings(_start(results) or NOTHING, [])
    metric, case = found
    answer, aside = _answer(results, case, metric, explained)
    more = [each for each in _more(results, case, metric) if each.text]
    return Findings(answer, more, " ".join(filter(None, (given_up(_subject(results, case, metric)), aside))))


def subject_of(results: Results) -> tuple[str, Case] | None:
    """The metric and the case that the answer is about; None if nothing of that kind was measured."""
    return next(((metric, case) for metric in SUBJECTS[results.run.level] if (case := results.typical(metric))), None)


def _more(results: Results, case: Case, metric: str) -> Iterator[Finding]:
    subject = _subject(results, case, metric)
    if results.run.level == "plugin":
        yield Finding("What was asked", UNASKED if results.unasked("prioritize") else "")
        yield Finding("Where the time goes", _time_goes(subject))
        yield Finding("What the module costs in our runtime", _module(results, case, metric))
        yield Finding("How it grows", _growth(results, metric, subject.variant.name))
        yield Finding("What else matters", _changes(results, metric, subject.variant.name))
        yield Finding("Cold start", _start(results))
    else:
        others = [each for each in results.scale(metric if metric == "gang" else "throughput") if each is not case]
        yield Finding(
            "With gangs of other sizes" if metric == "gang" else "With other numbers of nodes",
            " ".join(filter(None, chain.from_iterable(_answer(results, each, metric, known) for each in others))),
        )
    for name, (topic, start) in ASKED.items():
        if name != subject.variant.name:
            yield Finding(topic, _asked(results, case, metric, name, start))
    if results.run.level == "scheduler":
        yield Finding("Pods that are alike", _alike(results))
        yield Finding("How long pods wait", _waiting(results))
        yield Finding("What an extender adds", _choosing(results))
        yield Finding("What it takes of the machine", _usage(results, case, metric))


def _subject(results: Results, case: Case, metric: str) -> Figures:
    """The figures that the sentences are about: those of our extender, or of the variant that was measured first."""
    return (results.ours(case, metric) or results.all(case, metric))[0]


def given_up(subject: Figures) -> str:
    """What does not count with the variant of a figure; empty if everything does."""
    return DECIDES if subject.variant.name == BEST else ""


def _answer(results: Results, case: Case, metric: str, called: Callable[[Variant], str]) -> tuple[str, str]:
    """The answer, and its aside."""
    subject = _subject(results, case, metric)
    beside = results.beside(case, subject.variant.name, metric)
    takes = _takes(subject, case, metric, called(subject.variant))
    rounds = _rounds(chief(results, case, metric), enough=all(each.verdict != "open" for each in beside))
    return f"{takes}{_beside(results, beside)}.", " ".join(filter(None, (transport(subject), rounds)))


def _beside(results: Results, compared: Sequence[Comparison], start: str = ": ") -> str:
    """What follows a figure: how it compares, or the other figures alone where rounds are too few for ratios."""
    alike = [each for each in compared if each.verdict == "alike"]
    found = [_compared(results, each) for each in compared if each.verdict != "alike"]
    found += [f"no difference is shown to {listed([_alike_to(each) for each in alike])}"] if alike else []
    if not found:
        return ""
    joined = ", and ".join(filter(None, (", ".join(found[:-1]), found[-1])))
    return f"{', ' if compared[0].verdict == 'open' else start}{joined}"


def _alike_to(comparison: Comparison) -> str:
    """As `“kube-scheduler as it is” (0.95 times, 0.72 to 1.25)`."""
    return f"{known(comparison.base)} ({factor(comparison.ratio.value)} times, {bounds(comparison.ratio)})"


def _rounds(chief: Sequence[Figures], *, enough: bool) -> str:
    """A sentence that rounds are too few to compare variants, or on how far they are apart."""
    if not enough:
        few = min(len(each.middles) for each in chief)
        if few == 1:
            return "1 round is too few to tell."
        to = "and" if few == 2 else "to"
        ranges = [f"{rough(min(each.middles))} {to} {rough(max(each.middles))}" for each in chief]
        return f"{few} rounds ({'; '.join(ranges)}) are too few to tell."
    ranges = [
        f"{rough(min(each.middles))} to {rough(max(each.middles))} with {known(each.variant)}"
        for each in chief
        if max(each.middles) > UNEVEN * min(each.middles)
    ]
    return f"Rounds differ much, in {_unit(chief[0])}: {listed(ranges)}." if ranges else ""


def _unit(figures: Figures) -> str:
    return "pods a second" if figures.series.metric == "throughput" else figures.unit


def transport(subject: Figures) -> str:
    """A sentence on the parts of the time that an in-process plugin does not have; empty if none was measured."""
    time = sum(subject.parts.get(part, 0) for part in TIME_GOES_TO["transport and JSON"])
    share = f"{time / sum(subject.parts.values()):.0%}" if time else ""
    return f"{share} of the time of {known(subject.variant)} is transport and JSON." if share else ""


def _takes(subject: Figures, case: Case, metric: str, called: str) -> str:
    """A sentence with the figure itself."""
    value, nodes = rough(subject.p50.value), count(case.nodes, "node")
    if metric == "throughput":
        return f"At {nodes} kube-scheduler binds {value} pods a second with {called}"
    if metric == "gang":
        return f"A gang of {case.title} is bound {value} ms after its last member was created with {called}"
    if metric == "pod":
        return f"At {nodes} a pod is bound after {value} ms with {called}"
    return f"{capital(called)} takes {value} ms for a pod's {metric} at {nodes}"


def _compared(results: Results, comparison: Comparison) -> str:
    """The ratio; without an interval the base's figure alone."""
    base = known(comparison.base)
    if comparison.verdict == "open":
        figures = results.of(comparison.case, comparison.base.name, comparison.metric)
        return f"{rough(figures.p50.value)} {_unit(figures)} with {base}" if figures else ""
    measure = MEASURES.get(comparison.metric, "as long as")
    return f"{times(comparison.ratio)} {measure} {base}"


MEASURES: Final[Mapping[str, str]] = {
    "throughput": "as many as with",
    "pod": "as long as with",
    "gang": "as long as with",
    "memory extender": "as much as",
}
"""The words of a comparison, by metric."""


def _time_goes(subject: Figures) -> str:
    total = sum(subject.parts.values())
    sums = {what: sum(subject.parts.get(part, 0) for part in parts) for what, parts in TIME_GOES_TO.items()}
    shares = [f"{rough(time)} ms ({time / total:.0%}) are {what}" for what, time in sums.items() if time]
    return f"Of {rough(total)} ms on average, {listed(shares)}." if len(shares) > 1 else ""


def _module(results: Results, case: Case, metric: str) -> str:
    native, inside = (results.compare(case, "wasmtime", "native", metric), results.of(case, "wasmtime", metric))
    if native is None or inside is None:
        return ""
    outside = results.compare(case, "kwx", "wasmtime", metric)
    http = f"; our extender takes {times(outside.ratio)} as long as that" if outside and bounds(outside.ratio) else ""
    takes = f"In-process ({quoted(inside.variant)}) the module takes {rough(inside.p50.value)} ms"
    return f"{takes}{_beside(results, [native])}{http}."


def _growth(results: Results, metric: str, variant: str) -> str:
    cases = [case for case in results.scale(metric) if results.of(case, variant, metric)]
    if len(cases) < 2:
        return ""
    few, many = cases[0], cases[-1]
    base = results.base(few, metric)
    names = dict.fromkeys((variant, PEERS.get(variant, ""), base.name if base else ""))
    grown = [each for name in names for each in _grown(results, few, many, name, metric)]
    rise = f"From {few.nodes:,} to {many.nodes:,} nodes, {many.nodes / few.nodes:,.3g} times as many"
    return f"{rise}, {'; '.join(grown)}."


def _grown(results: Results, few: Case, many: Case, variant: str, metric: str) -> Iterator[str]:
    before, after = results.of(few, variant, metric), results.of(many, variant, metric)
    if before and after:
        a, b = before.p50.value, after.p50.value
        rise = f", {rough(b / a)} times" if len(measured(before.series)) >= FEWEST_ROUNDS else ""
        yield f"{known(after.variant)} goes from {rough(a)} to {rough(b)} ms{rise}"


def _changes(results: Results, metric: str, variant: str) -> str:
    found: dict[str, list[str]] = {}
    for change in results.changes(metric):
        pairs = {after.variant.name: (before, after) for before, after in results.pairs(change)}
        name = next((each for each in (variant, *OURS) if each in pairs), "")
        if name:
            before, after = pairs[name]
            of = "" if name == variant else f" of {known(after.variant)}"
            at = f"At {count(change.after.nodes, 'node')}"
            start = f"{at} {rough(before.p50.value)} ms{of} (p99: {rough(before.p99.value)}) become"
            what = f"{rough(after.p50.value)} ({rough(after.p99.value)}) with {change.what}"
            found.setdefault(start, []).append(what)
    return " ".join(f"{start} {listed(each)}." for start, each in found.items())


def _start(results: Results) -> str:
    for case in results.run.cases:
        for name in OURS:
            if took := _first(results, case, name):
                go = results.compare(case, name, PEERS.get(name, ""), "first")
                start = "From the start of its process until it is ready, and for the first cycle, our extender takes"
                inside = _first(results, case, "wasmtime")
                load = f" In-process, loading the same module and the first cycle take {inside}." if inside else ""
                return f"{start} {took}{_beside(results, [go] if go else [])}.{load}"
    return ""


def _first(results: Results, case: Case, variant: str) -> str:
    """The time of a first cycle, as `920 ms (690 if compiled code is cached)`; empty if it was not measured."""
    first, cached = (results.of(case, variant, metric) for metric in STARTS)
    less = f" ({rough(cached.p50.value)} if compiled code is cached)" if cached else ""
    return f"{rough(first.p50.value)} ms{less}" if first else ""


def _asked(results: Results, case: Case, metric: str, name: str, start: str) -> str:
    """What our extender takes if it is asked in another way."""
    found = results.of(case, name, metric)
    if found is None:
        return ""
    compared = _beside(results, results.beside(case, name, metric), ", ")
    return f"{start} ({quoted(found.variant)}): {rough(found.p50.value)} {_unit(found)}{compared}."


def _alike(results: Results) -> str:
    """What batching brings where kube-scheduler may batch pods."""
    told = []
    for case in results.alike():
        rates = [_batched(results, case, each) for each in results.all(case, "throughput")]
        of = f"At {count(case.nodes, 'node')}, of pods that are alike and have a node each"
        told.append(f"{of}, kube-scheduler binds a second: {listed(rates)}.")
    return " ".join([*told, BATCHES]) if told else ""


BATCHES: Final = (
    "It batches such pods until an extender is registered, if it has no default constraints of topology spread; those "
    "are switched off here."
)


def _batched(results: Results, case: Case, each: Figures) -> str:
    shares = results.of(case, each.variant.name, "batched")
    share = f" ({rough(shares.p50.value)}% of them batched)" if shares and shares.p50.value else ""
    return f"{rough(each.p50.value)} with {known(each.variant)}{share}"


def _waiting(results: Results) -> str:
    case = results.typical("pod")
    if case is None:
        return ""
    rate = case.settings.get("podsPerSecond")
    load = f"At {count(case.nodes, 'node')}" + (
        f" and {rate:g} pods a second" if isinstance(rate, (int, float)) else ""
    )
    waits = [
        f"{rough(each.p50.value)} and {rough(each.p99.value)} ms with {known(each.variant)}"
        for each in chief(results, case, "pod")
    ]
    return f"{load} half of the pods are bound within, and 99 in 100 within: {listed(waits)}."


def _choosing(results: Results) -> str:
    """What kube-scheduler takes until it has chosen a node, which is all that an extender has a part in."""
    case, metric = results.typical("pod"), "algorithm"
    told = chief(results, case, metric) if case and results.all(case, metric) else []
    takes = [f"{rough(each.p50.value)} ms with {known(each.variant)}" for each in told]
    if case is None or len(takes) < 2:
        return ""
    return f"At {count(case.nodes, 'node')} choosing a node, without binding, takes on average {listed(takes)}."


def _usage(results: Results, case: Case, metric: str) -> str:
    processes = [f"cpu {each}" for each in results.processes(case, "cpu")]
    totals = []
    for variant in (each.variant for each in chief(results, case, metric)):
        figures = {each: found for each in processes if (found := results.of(case, variant.name, each))}
        extender = figures.get("cpu extender")
        of_it = f" ({rough(extender.p50.value)} of it in the extender)" if extender else ""
        if figures:
            total = rough(sum(each.p50.value for each in figures.values()))
            totals.append(f"{total} ms{of_it} with {known(variant)}")
    start = f"At {count(case.nodes, 'node')} a pod takes of the processor, in all processes but the harness"
    return f"{start}, {listed(totals)}.{_memory(results, case, metric)}" if totals else ""


def _memory(results: Results, case: Case, metric: str) -> str:
    name = _subject(results, case, metric).variant.name
    own = results.of(case, name, "memory extender")
    if own is None:
        return ""
    compared = _beside(results, results.beside(case, name, "memory extender"))
    return f" Of memory {known(own.variant)} takes up to {rough(own.p50.value)} MB{compared}."


def chief(results: Results, case: Case, metric: str) -> list[Figures]:
    """The figures that sentences mention: our extender's, and those that it is compared with."""
    subject = _subject(results, case, metric)
    compared = results.beside(case, subject.variant.name, metric)
    found = (results.of(case, name, metric) for name in [subject.variant.name, *(each.base.name for each in compared)])
    return [each for each in found if each]


def unfinished(run: Run) -> str:
    """What is missing of a run that has not ended; empty if it has."""
    if run.ended:
        return ""
    begun = [case for case in run.cases if case.series]
    done = sum(case.done >= case.rounds for case in begun)
    missing = [f"{case.title} {_missing(case)}" for case in run.cases if case.done < case.rounds]
    so_far = f": {done} of the {count(len(begun), 'case')} begun are complete" if begun else ""
    some = f" {'; '.join(missing)}." if missing else ""
    return f"This run has not ended{so_far}.{some}"


def _missing(case: Case) -> str:
    return f"has {case.done} of {count(case.rounds, 'round')}" if case.series else "has not begun"


def too_few(run: Run) -> str:
    """A sentence on where rounds are too few to tell differences from chance; empty if they are enough."""
    few = sum(any(0 < len(measured(series)) < FEWEST_ROUNDS for series in case.series) for case in run.cases)
    where = f"{few} of {count(len(run.cases), 'case')}"
    return (
        f"There are too few rounds in {where}: with fewer than {FEWEST_ROUNDS} nobody knows how far rounds disagree, "
        "there are no intervals, and any difference may be chance. Run again with more rounds."
        if few
        else ""
    )
