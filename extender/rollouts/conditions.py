"""Conditions of plugins and rollouts, as Kubernetes' API conventions have them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from extender.rollouts.revision import RolloutStage
from extender.rollouts.rollout import Rollout
from extender.rollouts.slot import Slot

ConditionStatus = Literal["True", "False", "Unknown"]


class StatusCondition(NamedTuple):
    """One aspect of a state. `True` is the normal status of each."""

    type: str
    status: ConditionStatus
    reason: str
    """One word in CamelCase."""
    message: str
    last_transition_time: float
    """When the status became what it is, in seconds since 1970."""


def of_slot(slot: Slot) -> list[StatusCondition]:
    """The conditions of a plugin.

    A change of status is dated when this function first sees it. The thread `rollouts` calls it in each turn, so a date
    is late by the length of a turn at most.
    """
    return [StatusCondition(*each, slot.observe(each.type, each.status)) for each in _states(slot)]


def of_profile(problem: str, slots: Iterable[Slot]) -> list[StatusCondition]:
    """The conditions of a profile: why no pod can be judged by it, if so, and its plugins."""
    since = max((of_slot(slot)[0].last_transition_time for slot in slots), default=time.time())
    if problem:
        return [StatusCondition("Ready", "False", "PluginMissing", problem, since)]
    return [StatusCondition("Ready", "True", "Serving", "", since)]


def of_rollout(rollout: Rollout) -> list[StatusCondition]:
    """`Succeeded` is Unknown until the rollout is over, and False once it is rolled back."""
    statuses: dict[bool | None, ConditionStatus] = {None: "Unknown", True: "True", False: "False"}
    since = rollout.settled or (rollout.changed if rollout.is_over else rollout.began)
    status = statuses[rollout.succeeded]
    return [StatusCondition("Succeeded", status, _reason(rollout), rollout.problem, since)]


class _State(NamedTuple):
    type: str
    status: ConditionStatus
    reason: str
    message: str = ""


def _states(slot: Slot) -> Iterator[_State]:
    yield _State("Ready", "True", "Serving") if slot.live else _State("Ready", "False", "NoRevision", slot.problem)
    if slot.problem:
        yield _State("SourceReady", "False", "SourceFailed", slot.problem)
    else:
        yield _State("SourceReady", "True", "SourceAvailable")
    yield _source_in_sync(slot)
    if slot.live is None:
        yield _State("RequirementsMet", "Unknown", "NoRevision")
    elif slot.unmet:
        yield _State("RequirementsMet", "False", "RequirementsChanged", slot.unmet)
    else:
        yield _State("RequirementsMet", "True", "Verified")


def _source_in_sync(slot: Slot) -> _State:
    """Whether what serves is what the source gives."""
    if slot.difference:
        reason = "CandidateRefused" if slot.refusal else "OtherRevision"
        return _State("SourceInSync", "False", reason, slot.difference)
    if slot.live is None or slot.offered is None:
        return _State("SourceInSync", "Unknown", "NoRevision")
    if slot.problem:
        return _State("SourceInSync", "Unknown", "SourceFailed")
    return _State("SourceInSync", "True", "SameRevision")


def _reason(rollout: Rollout) -> str:
    if rollout.stage in {RolloutStage.DRAINING, RolloutStage.RETIRED}:
        return "RolledBack" if rollout.problem else "Replaced"
    return str(rollout.stage.value).capitalize()
