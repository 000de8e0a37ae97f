"""The views of the API beside the records that they show."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pydantic import TypeAdapter

from extender.admin.api.views import EXAMPLE_ROLLOUT, RevisionView, RolloutView
from extender.rollouts.report import Difference, Failure, NodeDifference, Report, VerbReport
from extender.rollouts.revision import Revision, Stage
from extender.rollouts.rollout import Rollout

REPORT = Report(
    verbs={"filter": VerbReport(40, 37, 1, 1, 2, 0, 0.25, None)},
    differences=[Difference("default/web-7", "filter", 12, [NodeDifference("node-1", "passes", 7)], "why")],
    failures=[Failure("candidate", "filter", "trapped", 2)],
    notes=["preempt is not compared"],
)
ROLLOUT = Rollout(id=7, profile="default", plugin="nodenumber", by="alice", why="so", report=REPORT, began=0, changed=1)


def test_a_rollout_is_shown_as_it_is_kept_but_for_its_times() -> None:
    shown: Any = RolloutView.of(ROLLOUT).model_dump(mode="json", by_alias=True)
    assert shown == msgspec.to_builtins(ROLLOUT) | {"began": "1970-01-01T00:00:00Z", "changed": "1970-01-01T00:00:01Z"}


@pytest.mark.parametrize("stage", Stage)
def test_a_rollout_is_over_in_the_view_when_it_is_over(stage: Stage) -> None:
    rollout = msgspec.structs.replace(ROLLOUT, stage=stage)
    assert RolloutView.of(rollout).is_over == rollout.is_over


def test_a_revision_is_shown_as_it_is_kept_with_its_stage() -> None:
    revision = Revision("sha256:1", "sha256:2", {"weight": 2, "args": []}, "file", "sha256:3")
    shown = RevisionView.of(revision, Stage.DRAINING).model_dump(mode="json", by_alias=True)
    assert shown == msgspec.to_builtins(revision) | {"stage": "draining"}


def test_the_example_is_a_rollout() -> None:
    example = TypeAdapter(RolloutView).validate_python(EXAMPLE_ROLLOUT)
    assert list(example.model_dump(by_alias=True)) == list(EXAMPLE_ROLLOUT)
