"""The views of the API beside the records that they show."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pydantic import TypeAdapter

from extender.admin.api.views import EXAMPLE_ROLLOUT, RevisionView, RolloutView
from extender.rollouts.report import Difference, Failure, NodeDifference, ProbeReport, VerbReport
from extender.rollouts.revision import Revision, RolloutStage
from extender.rollouts.rollout import Rollout

REPORT = ProbeReport(
    verbs={"filter": VerbReport(40, 37, 1, 1, 2, 0, 0.25, None)},
    differences=[Difference("default/web-7", "filter", 12, [NodeDifference("node-1", "passes", 7)], "why")],
    failures=[Failure("candidate", "filter", "trapped", 2)],
    notes=["preempt is not compared"],
)
ROLLOUT = Rollout(
    id=7, profile="default", plugin="nodenumber", by="alice", why="so", report=REPORT, began=0, changed=1.9
)


def test_a_rollout_is_shown_in_the_words_of_kubernetes() -> None:
    shown: Any = RolloutView.of(ROLLOUT).model_dump(mode="json", by_alias=True)
    assert shown == {
        "id": 7,
        "profile": "default",
        "plugin": "nodenumber",
        "stage": "fetching",
        "requestedBy": "alice",
        "reason": "so",
        "dryRun": False,
        "revision": None,
        "module": None,
        "origin": "",
        "replaces": None,
        "message": "",
        "report": msgspec.to_builtins(REPORT)
        | {"verbs": [{"verb": "filter"} | msgspec.to_builtins(REPORT.verbs["filter"])]},
        "startTime": "1970-01-01T00:00:00Z",
        "lastTransitionTime": "1970-01-01T00:00:01Z",
        "conditions": [
            {
                "type": "Succeeded",
                "status": "Unknown",
                "reason": "Fetching",
                "message": "",
                "lastTransitionTime": "1970-01-01T00:00:00Z",
            }
        ],
    }


@pytest.mark.parametrize("stage", RolloutStage)
def test_a_rollout_is_over_in_the_view_when_it_is_over(stage: RolloutStage) -> None:
    rollout = msgspec.structs.replace(ROLLOUT, stage=stage)
    assert RolloutView.of(rollout).is_over == rollout.is_over


def test_a_revision_is_shown_with_its_stage_and_its_settings_as_the_file_writes_them() -> None:
    settings = {"weight": 2, "args": [], "memoryLimit": 256 * 1024**2, "outputLimit": 1025, "timeout": "500ms"}
    revision = Revision("sha256:1", "sha256:2", settings, "file", "sha256:3")
    shown = RevisionView.of(revision, RolloutStage.DRAINING).model_dump(mode="json", by_alias=True)
    written = settings | {"memoryLimit": "256Mi", "outputLimit": "1025"}
    assert shown == msgspec.to_builtins(revision) | {"stage": "draining", "settings": written}


def test_the_example_is_a_rollout() -> None:
    example = TypeAdapter(RolloutView).validate_python(EXAMPLE_ROLLOUT)
    assert list(example.model_dump(by_alias=True)) == list(EXAMPLE_ROLLOUT)
