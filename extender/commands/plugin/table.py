"""The answers of the admin API about plugins, for people to read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Final

from rich.text import Text

from extender.admin.api.views import (
    ConditionView,
    DifferenceView,
    FailureView,
    PluginView,
    ReportView,
    RevisionView,
    RolloutView,
    VerbReportView,
)
from extender.commands.terminal import MORE, Part, Table
from extender.rollouts.revision import RolloutStage
from extender.telemetry.printable import printable

SHORT: Final = 12
"""Hexadecimal digits of a digest that are shown; they suffice for the API, too."""

WIDTH: Final = 9
"""Characters of a label."""

_STYLES: Final[Mapping[str, str]] = {"active": "green", "serves": "green", "missing": "red"}

_REPLACED: Final = {RolloutStage.DRAINING, RolloutStage.RETIRED}

_ENDS: Final[Mapping[RolloutStage, str]] = {
    **dict.fromkeys(RolloutStage, "is on its way"),
    **dict.fromkeys(_REPLACED, "was active and is replaced"),
    RolloutStage.ACTIVE: "is active",
    RolloutStage.UNCHANGED: "was active already",
    RolloutStage.REHEARSED: "could take over; nothing was changed",
    RolloutStage.FAILED: "was refused; what served still serves",
}

_JUDGED: Final = ("Verb", "Judged", "Alike", "Different", "Revision", "Failed", "Median, ms")

_NUMBERS: Final = {"Weight", "Judged", "Alike", "Different", "Failed", "Failures", "Median, ms", "Times"}
"""Headings of columns that are set to the right."""


def plugins(found: Sequence[PluginView], *, is_wide: bool = False) -> Iterator[Part]:
    """A row for each plugin, and below them the conditions that do not hold."""
    headings = ["Plugin", "Profile", "Revision", "State", "Failures", "Source"]
    rows = [
        [
            each.name,
            each.profile,
            short(each.revision.id if each.revision else None),
            _state(each),
            str(each.failures),
            each.source,
        ]
        for each in found
    ]
    if is_wide:
        headings[-1:] = ["Weight", "Module", "Policy", "Exports", "Source"]
        for row, each in zip(rows, found, strict=True):
            policy = str(each.revision.settings.get("failurePolicy", "")) if each.revision else ""
            row[-1:] = [str(each.weight), short(each.digest), policy, ",".join(each.exports), each.source]
    yield _table(headings, rows)
    for each in found:
        told = {condition.message: condition for condition in reversed(each.conditions) if condition.message}
        for condition in reversed(told.values()):  # Where two have one cause, the first.
            yield _line(f"{each.name} of {each.profile}: {_reported(condition)}")


def plugin(found: PluginView) -> Iterator[Text]:
    """All about a plugin; each line has a label and a fact."""
    revision = found.revision
    facts = {
        "Plugin": found.name,
        "Profile": found.profile,
        "State": _state(found),
        "Source": found.source,
        "Failures": f"{found.failures}, the last one: {found.last_failure}" if found.failures else "",
        "Status": "\n".join(map(_reported, found.conditions)),
        "Weight": str(found.weight),
        "Exports": ", ".join(found.exports),
        "Left out": ", ".join(found.not_run),
    }
    if revision:
        facts |= _facts(revision)
    if found.standby:
        facts["Standby"] = f"{found.standby}, comes back by itself if the active one fails"
    if found.rollout:
        facts["Rollout"] = _told(found.rollout)
    return _facts_lines(facts)


def revision(found: RevisionView) -> Iterator[Text]:
    """All about a revision; each line has a label and a fact."""
    return _facts_lines({"Stage": found.stage.value, **_facts(found)})


def revisions(found: Sequence[RevisionView], *, is_wide: bool = False) -> Iterator[Part]:
    """A row for each revision, the newest first."""
    shown: Callable[[str | None], str] = (lambda digest: digest or "") if is_wide else short
    rows = [[shown(each.id), each.stage.value, shown(each.module), each.origin] for each in found]
    headings = ["Revision", "Stage", "Module", "Origin"]
    if is_wide:
        headings[-1:] = ["Signer", "Origin"]
        for row, each in zip(rows, found, strict=True):
            row[-1:] = [each.signer or "", each.origin]
    yield _table(headings, rows)


def history(found: Sequence[RolloutView]) -> Iterator[Part]:
    """A paragraph for each rollout, the newest first."""
    rows = [(when(each.start_time), _story(each)) for each in found]
    yield _table(("Started (UTC)", "Rollout"), rows)


def _story(rollout: RolloutView) -> str:
    stage = rollout.stage.value
    if rollout.stage in _REPLACED:
        stage = "rolled back" if rollout.message else "replaced"
    told = f"{_about(rollout)}: {short(rollout.revision) or 'candidate'} {stage}, by {rollout.requested_by}"
    return "\n".join(filter(None, (told, rollout.reason, rollout.message)))


def outcome(rollout: RolloutView) -> Iterator[Part]:
    """How a rollout has ended, and the report of its probe."""
    yield _line(f"{_about(rollout)}: {_revision(rollout)} {_ENDS[rollout.stage]}")
    if rollout.report:
        yield from report(rollout.report)


def _about(rollout: RolloutView) -> str:
    return f"{rollout.plugin} of {rollout.profile}"


def _revision(rollout: RolloutView) -> str:
    return f"revision {short(rollout.revision)}" if rollout.revision else "the candidate"


def step(rollout: RolloutView) -> Text:
    """How far a rollout has come."""
    details = {
        RolloutStage.FETCHED: f"module {short(rollout.module)} of {rollout.origin}",
        RolloutStage.COMPILED: "now tried on requests",
        RolloutStage.PROBED: _judged(rollout.report),
        RolloutStage.WARMED: f"revision {short(rollout.revision)}",
    }
    return _line(f"{rollout.stage.value:{WIDTH}}{details.get(rollout.stage, '')}".rstrip())


def _judged(found: ReportView | None) -> str:
    verbs = found.verbs if found else ()
    return (
        f"{sum(verb.requests for verb in verbs)} recorded requests,"
        f" {sum(verb.different for verb in verbs)} decided otherwise"
    )


def report(found: ReportView) -> Iterator[Part]:
    """What a candidate did with recorded requests beside the active revision."""
    judged = [row for each in found.verbs if each.requests for row in _verb(each)]
    if judged:
        yield _table(_JUDGED, judged)
    for each in found.differences:
        yield from _difference(each)
    if found.failures:
        yield _failures(found.failures)
    for note in found.notes:
        yield _line(note)


def _verb(found: VerbReportView) -> Iterator[Sequence[str]]:
    """A row for each revision."""
    judged = (found.verb, str(found.requests), str(found.alike), str(found.different))
    yield (*judged, "active", str(found.active_failures), _milliseconds(found.active_milliseconds))
    yield ("", "", "", "", "candidate", str(found.candidate_failures), _milliseconds(found.candidate_milliseconds))


def _milliseconds(time: float | None) -> str:
    return "" if time is None else f"{time:.3f}"


def _difference(found: DifferenceView) -> Iterator[Part]:
    about = f"{found.verb} of pod {found.pod}"
    if found.failure:
        yield _line(f"{about}: only the candidate answers; the active revision: {found.failure}")
        return
    yield _line(f"{about}: {found.total} {'node' if found.total == 1 else 'nodes'} decided otherwise")
    yield _table(
        ("Node", "Active", "Candidate"), [(each.node, str(each.active), str(each.candidate)) for each in found.nodes]
    )
    if found.total > len(found.nodes):
        yield _line(MORE.format(found.total - len(found.nodes)))


def _failures(found: Sequence[FailureView]) -> Table:
    rows = [(each.verb, each.side, str(each.count), each.message) for each in found]
    return _table(("Verb", "Revision", "Times", "Failure"), rows)


def _state(found: PluginView) -> str:
    state = "serves" if found.revision else "missing"
    return f"{state}, next {found.rollout.stage.value}" if found.rollout and not found.rollout.is_over else state


def _facts(found: RevisionView) -> dict[str, str]:
    return {
        "Revision": found.id,
        "Module": found.module,
        "Origin": found.origin,
        "Signer": found.signer or "",
        "Settings": "\n".join(f"{key}: {_value(value)}" for key, value in found.settings.items()),
    }


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _told(rollout: RolloutView) -> str:
    reason = f": {rollout.reason}" if rollout.reason else ""
    since = f"{rollout.stage.value} since {when(rollout.last_transition_time)} UTC"
    return f"{rollout.id}, {since}, by {rollout.requested_by}{reason}"


def _reported(condition: ConditionView) -> str:
    """A condition as Kubernetes' tables write it."""
    told = f": {condition.message}" if condition.message else ""
    return f"{condition.type}={condition.status} ({condition.reason}){told}"


def _facts_lines(facts: Mapping[str, str]) -> Iterator[Text]:
    for label, fact in facts.items():
        for at, line in enumerate(fact.splitlines()):
            yield _line(f"{'' if at else label:{WIDTH}}{line}".rstrip())


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    return Table(headings, list(rows), _NUMBERS, _STYLES)


def _line(text: str) -> Text:
    return Text(printable(text))


def short(digest: str | None) -> str:
    """The beginning of a digest."""
    return (digest or "").removeprefix("sha256:")[:SHORT]


def when(time: datetime) -> str:
    """A time in UTC, to the second."""
    return f"{time.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S}"
