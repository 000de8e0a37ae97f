"""The outcome of a call for people to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from rich.text import Text

from extender.cluster import PodKey
from extender.commands.call.call import Outcome, Verb
from extender.commands.journal import event_line, log_line
from extender.commands.terminal import MORE, Part, Table
from extender.scheduling.profile import SHORT_DIGEST
from extender.telemetry.printable import printable
from extender.webhook.decoding import RequestDecoder, decode_binding
from wasm_runtime.engine import GuestEvent

MAX_NODES: Final = 50
"""Nodes that a table shows."""

SCORE: Final = "Score of 10"
"""Heading of the scores: prioritize answers 0 to 10, whatever range a guest uses."""

_NUMBERS: Final = {SCORE, "Victims"}
"""Headings of columns that are set to the right."""

_STYLES: Final = {"passes": "green", "stays": "green", "rejected": "red", "unresolvable": "red", "dropped": "red"}


class _View(NamedTuple):
    """What people are shown of an answer."""

    pod: str
    """The pod's `namespace/name`."""
    summary: str
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    """A row for each node, whose name comes first."""


def table(verb: Verb, request: bytes, outcome: Outcome) -> Iterator[Part]:
    """A line on the answer, then what it says of the nodes."""
    view = _VIEWS[verb.value](request, msgspec.json.decode(outcome.body))
    plugin = f"{outcome.plugin} ({outcome.digest[:SHORT_DIGEST]})"
    took = f"in {outcome.seconds * 1e3:.2f} ms"
    yield Text(f"{verb.value} of pod {printable(view.pod)} by {plugin}: {printable(view.summary)}, {took}")
    if view.rows:
        yield Table(view.headings, view.rows[:MAX_NODES], _NUMBERS, _STYLES)
    if len(view.rows) > MAX_NODES:
        yield Text(MORE.format(len(view.rows) - MAX_NODES))


def journal(outcome: Outcome) -> Iterator[str]:
    """The log lines and Events of the guest, a line each."""
    for each in outcome.journals:
        for record in each.records:
            yield f"guest {printable(event_line(record) if isinstance(record, GuestEvent) else log_line(record))}"
        if each.dropped:
            yield f"guest: {each.dropped} more lines and Events, for which there was no room"


def _filter(request: bytes, answer: Any) -> _View:
    asked, candidates = RequestDecoder().decode_args(request)
    verdicts = {
        **{name: ("rejected", reason) for name, reason in answer["FailedNodes"].items()},
        **{name: ("unresolvable", reason) for name, reason in answer["FailedAndUnresolvableNodes"].items()},
    }
    rows = [(name, *verdicts.get(name, ("passes", ""))) for name in candidates.names]
    passing = sum(verdict == "passes" for _, verdict, _ in rows)
    return _View(asked.pod.name, f"{passing} of {len(rows)} nodes pass", ("Node", "Verdict", "Reason"), rows)


def _prioritize(request: bytes, answer: Any) -> _View:
    asked, candidates = RequestDecoder().decode_args(request)
    scores = {each["Host"]: each["Score"] for each in answer}
    rows = [(name, str(scores.get(name, 0))) for name in candidates.names]
    return _View(asked.pod.name, f"scores of {len(rows)} nodes", ("Node", SCORE), rows)


def _preempt(request: bytes, answer: Any) -> _View:
    asked, preemption = RequestDecoder().decode_preemption(request)
    kept = answer["NodeNameToMetaVictims"]
    rows = [
        (name, "stays" if name in kept else "dropped", str(len(preemption.uids(name)))) for name in preemption.victims
    ]
    return _View(asked.pod.name, f"{len(kept)} of {len(rows)} candidates stay", ("Node", "Verdict", "Victims"), rows)


def _bind(request: bytes, _answer: Any) -> _View:
    args = decode_binding(request)
    pod = PodKey(args.PodNamespace, args.PodName, args.PodUID)
    return _View(str(pod), f"it would be bound to {args.Node}")


_VIEWS: Final = {
    "filter": _filter,
    "prioritize": _prioritize,
    "preempt": _preempt,
    "bind": _bind,
}
