"""Decisions, for people to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import Final

from rich.text import Text

from extender.admin.api.decision_views import DecisionView, NodeDecisionView
from extender.commands.explain.margin import margins
from extender.commands.terminal import Part, Table
from extender.scheduling.judgements import Outcome
from extender.telemetry.printable import printable

MAX_SHOWN: Final = 5
"""Nodes, and reasons of each plugin, that are shown; the JSON has all."""

WIDTH: Final = 10
"""Characters of a label."""

OWN_FILTERS: Final = "kube-scheduler's own filters had taken {} out, or it had found enough nodes before"

ELSEWHERE: Final = "Where kube-scheduler binds a pod by itself, kwx explain pod says on which node it is."

_NUMBERS: Final = {"Nodes", "Total", "Answer"}

TRIED_AGAIN: Final = "kube-scheduler tries the pod again."

_AFTER_FAILURE: Final = {"prioritize": "kube-scheduler goes on without these scores."}
"""What kube-scheduler does after a failure of a verb, where it does not try the pod again."""

_PLACED: Final = {Outcome.BOUND: "bound", Outcome.NOT_BOUND: "bind failed", Outcome.WAITING: "waits on Permit"}
"""Words for the node that the pod goes to, by outcome. If kube-scheduler alone binds the pod, it is expected there."""


def pod(attempts: Sequence[DecisionView], most: int = MAX_SHOWN) -> Iterator[Part]:
    """The last attempt to schedule a pod, with at most `most` nodes and reasons, and how earlier attempts ended.

    `attempts` has the latest first.
    """
    last, *earlier = attempts
    profile = f" of profile {last.profile}" if last.profile else ""
    yield _line(f"Pod {last.namespace}/{last.name}{profile}: {_outcome(last)}")
    before = f"; before that {', '.join(each.outcome.value for each in earlier)}" if earlier else ""
    yield from _fact("Tried", f"{_when(last.time)}{before}")
    if last.nodes_asked:
        yield from _fact("Nodes", f"{last.nodes_asked} asked about, {last.nodes_answered} answered")
        if (others := last.nodes_known - last.nodes_asked) > 0:
            yield from _fact("", f"{others} more in the cluster: {OWN_FILTERS.format('them')}")
    elif last.nodes:
        yield from _fact("Nodes", f"{len(last.nodes) + last.nodes_left_out} scored; filter was not asked")
    yield from _fact(
        "Plugins", ", ".join(f"{each.plugin} {each.point} {each.milliseconds:g} ms" for each in last.calls)
    )
    if last.permit:
        plugins = ", ".join(f"{name} (at most {seconds:g} s)" for name, seconds in last.permit.plugins.items())
        yield from _fact("Permit", f"had to wait for {plugins}, from {_when(last.permit.time)}")
    if last.preemption:
        kept = ", ".join(last.preemption.kept[:most]) or "none"
        yield from _fact("Preempt", f"{len(last.preemption.candidates)} candidates; without the victims pass: {kept}")
    yield from _fact("Error", last.message)
    yield from _fact("Scheduler", last.scheduler_message and f"says: {last.scheduler_message}")
    if last.rejections:
        yield Text()
        yield rejections(last, most)
    if scored := [each for each in last.nodes if each.total is not None]:
        yield Text()
        yield scores(last, scored, most)
    yield Text()
    yield from map(_line, _reasons(last))


def pod_on_node(attempts: Sequence[DecisionView], name: str) -> Iterator[Part]:
    """What was said of the node `name` in each attempt to schedule a pod, the latest first."""
    last = attempts[0]
    yield _line(f"Pod {last.namespace}/{last.name} on node {name}; {_outcome(last)}")
    rows = []
    for each in attempts:
        rows.append((_when(each.time), each.outcome.value, _said(each.nodes[0] if each.nodes else None)))
    yield Table(("Tried", "Pod", "Node"), rows)


def node(decisions: Sequence[DecisionView], name: str) -> Iterator[Part]:
    """What was decided about the node `name` for the last pods."""
    if not decisions:
        yield _line(
            f"Of the pods that are remembered, none was asked about for node {name}: {OWN_FILTERS.format('it')}"
        )
        return
    rows = [
        (
            _when(each.time),
            f"{each.namespace}/{each.name}",
            "bound here" if each.outcome is Outcome.BOUND and each.node == name else _outcome(each),
            _said(each.nodes[0]),
        )
        for each in decisions
    ]
    yield Table(("Tried", "Pod", "Became", f"Node {printable(name)}"), rows)
    if any(each.outcome is Outcome.ANSWERED and not each.node for each in decisions):
        yield _line(ELSEWHERE)


def _outcome(decision: DecisionView) -> str:
    answered = f"{decision.nodes_answered} nodes answered" if decision.nodes_asked else "nodes were scored"
    if _is_preemption_alone(decision):
        answered = "asked about preemption alone"
    words = {
        Outcome.BOUND: f"bound to {decision.node}",
        Outcome.NOT_BOUND: f"the bind to {decision.bind.node if decision.bind else ''} failed",
        Outcome.WAITING: f"waits on Permit for {decision.node}",
        Outcome.FAILED: "not judged",
        Outcome.REJECTED: "no node passed",
        Outcome.ANSWERED: f"expected on {decision.node}" if decision.node else answered,
    }
    return words[decision.outcome]


def _is_preemption_alone(decision: DecisionView) -> bool:
    return decision.preemption is not None and not (decision.nodes_asked or decision.calls)


def rejections(decision: DecisionView, most: int = MAX_SHOWN) -> Table:
    """Why the plugins rejected nodes: the first `most` reasons, and how many more there are."""
    rows = [
        (str(each.nodes), each.plugin or "the extender", "cannot help" if each.is_final else "may help", each.reason)
        for each in decision.rejections[:most]
    ]
    if rest := decision.rejections[most:]:
        rows.append((str(sum(each.nodes for each in rest)), "", "", f"{len(rest)} more reasons; see --output json"))
    return Table(("Nodes", "Taken out by", "Preemption", "Reason"), rows, _NUMBERS)


def scores(decision: DecisionView, scored: Sequence[NodeDecisionView], most: int = MAX_SHOWN) -> Table:
    """The best `most` of the nodes that were scored, and the node that the pod goes to."""
    plugins = [f"{each.plugin} x{each.weight}" for each in scored[0].scores]
    chosen = _chosen(decision)
    shown = [each for at, each in enumerate(scored) if at < most or each.name == chosen]
    rows = [
        (
            each.name,
            f"{each.total:.1f}",
            str(each.answer),
            *(str(score.score) if score.raw is None else f"{score.score} of raw {score.raw}" for score in each.scores),
            _PLACED.get(decision.outcome, "expected")
            if each.name == chosen
            else ""
            if each.is_answered
            else "not answered",
        )
        for each in shown
    ]
    return Table(("Node", "Total", "Answer", *map(printable, plugins), ""), rows, {*_NUMBERS, *plugins})


def _reasons(decision: DecisionView) -> Iterator[str]:
    """Why the pod is on its node, or has none."""
    asked, answered = decision.nodes_asked, decision.nodes_answered
    name = _chosen(decision)
    chosen = next((each for each in decision.nodes if each.name == name), None)
    if decision.outcome is Outcome.REJECTED:
        yield f"The plugins took out all {asked} nodes that they were asked about."
    elif decision.outcome is Outcome.FAILED:
        yield _AFTER_FAILURE.get(decision.message.partition(":")[0], TRIED_AGAIN)
    elif chosen and chosen.total is None:
        alone = "It is the only node that passed." if answered == 1 else "Nodes were not scored."
        yield f"{alone} kube-scheduler's own filters and scores decided about the rest."
    elif chosen:
        yield from _compared(decision, chosen, chosen.total or 0.0)
    elif _is_preemption_alone(decision):
        yield "Neither filter nor prioritize was asked in this attempt."
    elif decision.outcome is Outcome.ANSWERED:
        nodes = f"{answered} nodes that were answered" if asked else "nodes that were scored,"
        yield (
            f"kube-scheduler chooses one of the {nodes} by its own scores and these."
            " It has not asked the extender to bind the pod."
        )
    if decision.outcome is Outcome.NOT_BOUND:
        yield TRIED_AGAIN


def _compared(decision: DecisionView, chosen: NodeDecisionView, total: float) -> Iterator[str]:
    """Why the chosen node has won, with its `total` score, and what would have to differ for another node to win."""
    others = [each for each in decision.nodes if each.total is not None and each.name != chosen.name]
    if not others:
        yield f"{chosen.name} was the only node with a score."
        return
    second = others[0]
    alike = [each.name for each in others if each.answer == chosen.answer]
    if (second.total or 0.0) > total:
        yield f"{second.name} has a better total than {chosen.name}, by {(second.total or 0.0) - total:.1f}."
        if not second.is_answered:
            yield "It was answered in an earlier attempt that came to nothing, so it comes last now."
        elif second.answer == chosen.answer:
            yield "Rounded they are equal: kube-scheduler's own scores decided."
        else:
            yield "kube-scheduler's own scores, which the extender does not see, outweigh that."
        return
    if second.total == total:
        equal = sum(each.total == total for each in others)
        yield f"{equal} more with the same total as {chosen.name}: kube-scheduler's own scores decided, or chance."
        return
    yield f"{chosen.name} has the best total; {second.name} comes next, {total - (second.total or 0.0):.1f} behind."
    changes = " or ".join(margins(chosen, second))
    if changes:
        yield f"{second.name} would win if {changes}, with all other scores as they are."
    if alike and second.is_answered:
        yield (
            f"Rounded to {chosen.answer} it is equal to {len(alike)} others, among which kube-scheduler's own scores"
            " decided."
        )


def _chosen(decision: DecisionView) -> str:
    """The node that the pod goes to; empty if that is not known."""
    known = decision.node or (decision.bind.node if decision.bind else "")
    if known or decision.nodes_answered != 1:
        return known
    return next((each.name for each in decision.nodes if each.is_answered), "")


def _said(found: NodeDecisionView | None) -> str:
    if found is None:
        return f"not asked about: {OWN_FILTERS.format('it')}"
    if found.rejection:
        return f"taken out by {found.rejection.plugin or 'the extender'}: {found.rejection.reason}"
    scores = ", ".join(f"{each.plugin} {each.score} x{each.weight}" for each in found.scores)
    total = "" if found.total is None else f", total {found.total:.1f}" + (f" ({scores})" if scores else "")
    return f"passed{total}" + ("" if found.is_answered else ", not among the best")


def _fact(label: str, text: str) -> Iterable[Text]:
    return [_line(f"{label:{WIDTH}}{text}")] if text else []


def _line(text: str) -> Text:
    return Text(printable(text))


def _when(time: datetime) -> str:
    return f"{time.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
