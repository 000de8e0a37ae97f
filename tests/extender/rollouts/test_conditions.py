"""The conditions of plugins, profiles and rollouts."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from extender.config import PluginConfig
from extender.rollouts.conditions import StatusCondition, of_profile, of_rollout, of_slot
from extender.rollouts.revision import Revision, RolloutStage
from extender.rollouts.rollout import Rollout
from extender.rollouts.slot import ActiveRevision, Slot

ROLLOUT = Rollout(id=1, profile="default", plugin="page", by="source", began=10.0, changed=20.0)
REVISION = Revision("sha256:" + "1" * 64, "sha256:2", {}, "https://a.example/page.wasm")
OTHER = "sha256:" + "3" * 64
CONFIG = PluginConfig.model_validate({"name": "page", "guestURL": "https://a.example/page.wasm"})


def slot(**state: Any) -> Slot:
    """A slot whose plugin and source nobody asks for."""
    return Slot("profiles[0].plugins[0]", "default", CONFIG, source=None, **state)  # type: ignore[arg-type]


def serving(**state: Any) -> Slot:
    live = ActiveRevision(REVISION, None, ROLLOUT)  # type: ignore[arg-type]
    return slot(**{"live": live, "offered": REVISION.id} | state)


def told(found: list[StatusCondition]) -> dict[str, tuple[str, str, str]]:
    return {each.type: (each.status, each.reason, each.message) for each in found}


WELL = {
    "Ready": ("True", "Serving", ""),
    "SourceReady": ("True", "SourceAvailable", ""),
    "SourceInSync": ("True", "SameRevision", ""),
    "RequirementsMet": ("True", "Verified", ""),
}


@pytest.mark.parametrize(
    ("state", "otherwise"),
    [
        ({}, {}),
        (
            {"problem": "it is away"},
            {
                "SourceReady": ("False", "SourceFailed", "it is away"),
                "SourceInSync": ("Unknown", "SourceFailed", ""),
            },
        ),
        (
            {"refusal": "it traps"},
            {
                "SourceInSync": (
                    "False",
                    "CandidateRefused",
                    "what https://a.example/page.wasm gives is refused: it traps",
                )
            },
        ),
        (
            {"offered": OTHER, "problem": "it is away"},
            {
                "SourceReady": ("False", "SourceFailed", "it is away"),
                "SourceInSync": (
                    "False",
                    "OtherRevision",
                    "revision sha256:111111111111 serves, not sha256:333333333333 that https://a.example/page.wasm"
                    " gives; kwx plugin history page tells why",
                ),
            },
        ),
        ({"offered": None}, {"SourceInSync": ("Unknown", "NoRevision", "")}),
        ({"unmet": "it is not signed"}, {"RequirementsMet": ("False", "RequirementsChanged", "it is not signed")}),
    ],
)
def test_a_plugin_that_serves(state: dict[str, Any], otherwise: dict[str, tuple[str, str, str]]) -> None:
    assert told(of_slot(serving(**state))) == WELL | otherwise


def test_a_plugin_that_is_not_there_yet() -> None:
    assert told(of_slot(slot(problem="it is away"))) == {
        "Ready": ("False", "NoRevision", "it is away"),
        "SourceReady": ("False", "SourceFailed", "it is away"),
        "SourceInSync": ("Unknown", "NoRevision", ""),
        "RequirementsMet": ("Unknown", "NoRevision", ""),
    }


def test_a_transition_is_of_the_status_not_of_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def dates(now: float) -> list[float]:
        monkeypatch.setattr(time, "time", lambda: now)
        return [each.last_transition_time for each in of_slot(found)]

    found = serving()
    assert dates(100.0) == dates(200.0) == [100.0] * 4
    found.problem = "it is away"
    assert dates(300.0) == [100.0, 300.0, 300.0, 100.0]
    found.problem = "it is gone"
    assert dates(400.0) == [100.0, 300.0, 300.0, 100.0]
    found.problem = ""
    assert dates(500.0) == [100.0, 500.0, 500.0, 100.0]


def test_a_profile_is_ready_since_its_last_plugin_is(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = serving(), slot(problem="it is away")
    for now, each in ((100.0, first), (200.0, second)):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        of_slot(each)
    assert of_profile("plugin page is not there", [first, second]) == [
        StatusCondition("Ready", "False", "PluginMissing", "plugin page is not there", 200.0)
    ]
    monkeypatch.setattr(time, "time", lambda: 300.0)
    second.live = first.live
    assert of_profile("", [first, second]) == [StatusCondition("Ready", "True", "Serving", "", 300.0)]


@pytest.mark.parametrize(
    ("stage", "problem", "status", "reason"),
    [
        (RolloutStage.FETCHING, "", "Unknown", "Fetching"),
        (RolloutStage.FETCHED, "", "Unknown", "Fetched"),
        (RolloutStage.VERIFIED, "", "Unknown", "Verified"),
        (RolloutStage.COMPILED, "", "Unknown", "Compiled"),
        (RolloutStage.PROBED, "", "Unknown", "Probed"),
        (RolloutStage.WARMED, "", "Unknown", "Warmed"),
        (RolloutStage.ACTIVE, "", "True", "Active"),
        (RolloutStage.UNCHANGED, "", "True", "Unchanged"),
        (RolloutStage.REHEARSED, "", "True", "Rehearsed"),
        (RolloutStage.DRAINING, "", "True", "Replaced"),
        (RolloutStage.RETIRED, "", "True", "Replaced"),
        (RolloutStage.DRAINING, "it failed", "False", "RolledBack"),
        (RolloutStage.RETIRED, "it failed", "False", "RolledBack"),
        (RolloutStage.FAILED, "it traps", "False", "Failed"),
    ],
)
def test_a_rollout_that_an_older_version_has_written(
    stage: RolloutStage, problem: str, status: Any, reason: str
) -> None:
    """It did not write down since when."""
    kept = msgspec.structs.replace(ROLLOUT, stage=stage, problem=problem)
    since = 10.0 if status == "Unknown" else 20.0
    assert of_rollout(kept) == [StatusCondition("Succeeded", status, reason, problem, since)]


def test_a_rollout_has_succeeded_since_it_was_active_until_it_is_rolled_back() -> None:
    warmed = msgspec.structs.replace(ROLLOUT, stage=RolloutStage.WARMED)
    active = warmed.at(RolloutStage.ACTIVE)
    replaced = active.at(RolloutStage.DRAINING)
    rolled_back = active.at(RolloutStage.DRAINING, problem="it failed")
    retired = rolled_back.at(RolloutStage.RETIRED)
    dates = [of_rollout(each)[0].last_transition_time for each in (warmed, active, replaced, rolled_back, retired)]
    assert dates == [10.0, active.changed, active.changed, rolled_back.changed, rolled_back.changed]
