"""What the admin API answers about plugins, revisions and rollouts; its clients read answers by the same models."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any, Final

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

from extender.config.urls import public
from extender.rollouts import conditions
from extender.rollouts.conditions import ConditionStatus, StatusCondition
from extender.rollouts.revision import NEXT, Revision, RolloutStage, settings_as_written
from extender.rollouts.rollout import Rollout
from extender.rollouts.slot import Slot
from extender.scheduling.profile import Profile

_REVISION: Final = "sha256:9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab"
_MODULE: Final = "sha256:0263829989b6fd954f72baaf2fc64bc2e2f01d692d4de72986ea808f6e99813f"
EXAMPLE_ROLLOUT: Final[JsonDict] = {
    "id": 12,
    "profile": "default",
    "plugin": "nodenumber",
    "stage": "active",
    "requestedBy": "alice",
    "reason": "spread the batch jobs",
    "dryRun": False,
    "revision": _REVISION,
    "module": _MODULE,
    "origin": "https://modules.example/nodenumber.wasm",
    "replaces": "sha256:1b4f0e9851971998e732078544c96b36c3d01cedf7caa332359d6f1d83567014",
    "message": "",
    "report": None,
    "startTime": "2026-01-31T12:00:00Z",
    "lastTransitionTime": "2026-01-31T12:00:01Z",
    "conditions": [
        {
            "type": "Succeeded",
            "status": "True",
            "reason": "Active",
            "message": "",
            "lastTransitionTime": "2026-01-31T12:00:01Z",
        }
    ],
}


class ApiModel(BaseModel):
    """An answer, which can be validated from any object with the same attributes. Its JSON is in camelCase."""

    model_config = ConfigDict(
        alias_generator=to_camel, from_attributes=True, populate_by_name=True, use_attribute_docstrings=True
    )


def _as_meta_time(time: datetime) -> str:
    return f"{time.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


Time = Annotated[
    datetime,
    PlainSerializer(_as_meta_time, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""RFC 3339 in UTC and to the second, as Kubernetes' metav1.Time."""


def time_of_epoch(seconds: float) -> datetime:
    """A moment on the clock of `time.time`."""
    return datetime.fromtimestamp(seconds, timezone.utc)


def time_of_monotonic(seconds: float) -> datetime:
    """A moment on the clock of `time.monotonic`, past or to come."""
    return datetime.now(timezone.utc) + timedelta(seconds=seconds - time.monotonic())


class ConditionView(ApiModel):
    """One aspect of a state, as Kubernetes' metav1.Condition."""

    type: str
    status: ConditionStatus
    """`True`, `False` or `Unknown`."""
    reason: str
    """Why the condition has this status: one word in CamelCase."""
    message: str
    """Why the condition has this status, for people; may be empty."""
    last_transition_time: Time
    """When `status` became what it is."""

    @classmethod
    def of(cls, found: Iterable[StatusCondition]) -> list[ConditionView]:
        """The views of conditions."""
        return [cls.model_validate(each) for each in found]


class NodeDifferenceView(ApiModel):
    """What each revision says of a node: `passes`, the reason of a rejection, the plugin's score, or `skipped`."""

    node: str
    active: str | int
    candidate: str | int


class DifferenceView(ApiModel):
    """A request that the candidate judges differently than the active revision."""

    pod: str
    """`namespace/name`."""
    verb: str
    total: int
    """Nodes on which the two differ."""
    nodes: list[NodeDifferenceView]
    """The first of the nodes on which the two differ."""
    failure: str
    """Why the active revision has no answer for the pod at all, where the candidate has one."""


class FailureView(ApiModel):
    """A failure of a revision, and how often it occurred."""

    side: str
    """`active` or `candidate`."""
    verb: str
    message: str
    count: int


class VerbReportView(ApiModel):
    """How the two revisions judged the requests of a verb."""

    verb: str
    requests: int
    """Number of requests that were judged."""
    alike: int
    """Requests that both revisions judge alike, or both fail."""
    different: int
    """Requests that the two revisions judge differently."""
    active_failures: int
    """Requests for which the active revision had no answer."""
    candidate_failures: int
    """Requests for which the candidate had no answer."""
    left_out: int
    """Requests that could not be judged any more, through no fault of a revision."""
    active_milliseconds: float | None
    """The active revision's CPU time per request, in the median of the last requests; null if none was measured."""
    candidate_milliseconds: float | None
    """The candidate's CPU time per request, measured likewise."""


def _with_names(verbs: Any) -> Any:
    """The reports as a list in which each names its verb: Kubernetes' API conventions avoid maps of objects."""
    if not isinstance(verbs, Mapping):
        return verbs
    return [{"verb": verb, **msgspec.structs.asdict(report)} for verb, report in verbs.items()]


class ReportView(ApiModel):
    """What the candidate and the active revision have said of the same requests."""

    verbs: Annotated[list[VerbReportView], BeforeValidator(_with_names)]
    differences: list[DifferenceView]
    """The first requests that the two judge differently."""
    failures: list[FailureView]
    """The first failures; those with the same message are counted together."""
    notes: list[str]
    """What was not compared, and why."""


class RolloutView(ApiModel):
    """An attempt to bring a module and its settings live: who wants what and why, and how far the attempt has come."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_ROLLOUT]})

    id: int
    """Number of the rollout; it counts up, over restarts, too."""
    profile: str
    plugin: str
    stage: RolloutStage
    """The rollout is over at `active`, `unchanged`, `rehearsed` or `failed`. Later, a revision that was replaced is
    `draining`, then `retired`."""
    requested_by: str
    """Who asked for the rollout: `source`, `configuration`, `start`, `rollback`, `local`, or the name of a user."""
    reason: str
    """Why the rollout was asked for, in the user's words."""
    dry_run: bool
    """Whether the rollout ends before its revision goes live."""
    revision: str | None
    """The revision's id, once the module is fetched."""
    module: str | None
    """The module's digest, once the module is fetched."""
    origin: str
    """Where the module is from."""
    replaces: str | None
    """The id of the revision that was active when this one took over, or would have."""
    message: str
    """Why the rollout has failed, or has been rolled back."""
    report: ReportView | None
    """How the candidate judged recorded and live requests beside the active revision; null if it was not probed."""
    start_time: Time
    last_transition_time: Time
    """When `stage` became what it is."""
    conditions: list[ConditionView]
    """`Succeeded`: Unknown until the rollout is over, False if it has failed or was rolled back."""

    @property
    def is_over(self) -> bool:
        """Whether the rollout has succeeded or failed."""
        return RolloutStage.FAILED not in NEXT[self.stage]

    @classmethod
    def of(cls, rollout: Rollout) -> RolloutView:
        """The view of a rollout."""
        fields = {_NAMES.get(name, name): getattr(rollout, name) for name in rollout.__struct_fields__}
        return cls.model_validate(fields | {"conditions": conditions.of_rollout(rollout)})


class RevisionView(ApiModel):
    """A module and the settings that it runs with."""

    id: str
    """The digest over module and settings, by which preconditions and rollbacks name the revision."""
    stage: RolloutStage
    """`active`, or `draining` while cycles that began on the revision are not over, or `retired`."""
    module: str
    """The module's digest."""
    origin: str
    """Where the module was found when this revision was first made."""
    signer: str | None
    """Fingerprint of the public key by which the module's signature was verified; null if none was verified."""
    settings: dict[str, JsonValue]
    """The settings, as the configuration file writes them."""

    @classmethod
    def of(cls, revision: Revision, stage: RolloutStage) -> RevisionView:
        """The view of a revision."""
        fields = msgspec.structs.asdict(revision)
        return cls.model_validate(fields | {"stage": stage, "settings": settings_as_written(revision.settings)})


_NAMES: Final = {
    "by": "requested_by",
    "why": "reason",
    "problem": "message",
    "began": "start_time",
    "changed": "last_transition_time",
}
"""Fields of Rollout, which the history on disk names so, by the names that the API gives them."""


class ClusterEventView(ApiModel):
    """A change in the cluster after which the guest would look at a rejected pod again."""

    resource: str
    action_type: int
    """Bits, one for each action, as in the scheduling framework's ActionType."""


class PluginView(ApiModel):
    """A plugin of a profile, and the revision that serves as it."""

    name: str
    profile: str
    digest: str | None
    """The digest of the module that serves; null while none serves."""
    source: str
    """The `guestURL` of the configuration, without its query."""
    weight: int
    exports: list[str]
    """Guest exports that are called."""
    not_run: list[str]
    """Guest exports that the configuration leaves out."""
    cluster_events: list[ClusterEventView]
    """The events that the guest's `enqueue` registers; kube-scheduler does not ask extenders for them."""
    revision: RevisionView | None
    """The active revision; null while none serves."""
    failures: int
    """Calls without an answer since the extender started, of all the plugin's revisions."""
    last_failure: str
    """The message of the last failure; empty if there was none."""
    standby: str | None
    """The id of the revision that an automatic rollback leads to; null once the active revision's probation is over."""
    conditions: list[ConditionView]
    """`Ready`: a revision serves. `SourceReady`: the source gives a module that can be used. `SourceInSync`: the
    source's module serves. `RequirementsMet`: what serves has the digest and the signature that are required now."""
    rollout: RolloutView | None
    """The rollout that is under way, else the rollout that has brought the active revision."""

    @classmethod
    def of(cls, slot: Slot, under_way: Rollout | None) -> PluginView:
        """The view of a slot; `under_way` is its rollout that is not over."""
        live = slot.live
        plugin = live.plugin if live else None
        rollout = under_way or (live.rollout if live else None)
        return cls(
            name=slot.name,
            profile=slot.profile,
            digest=plugin.digest if plugin else None,
            source=public(slot.config.guest_url),
            weight=live.profile_plugin.weight if live else slot.config.weight,
            exports=plugin.exports if plugin else [],
            not_run=plugin.not_run if plugin else [],
            cluster_events=[ClusterEventView.model_validate(each) for each in plugin.cluster_events] if plugin else [],
            revision=RevisionView.of(live.revision, RolloutStage.ACTIVE) if live else None,
            failures=slot.outcomes.total_failures,
            last_failure=slot.outcomes.last_failure,
            standby=slot.standby.revision.id if slot.standby else None,
            conditions=ConditionView.of(conditions.of_slot(slot)),
            rollout=RolloutView.of(rollout) if rollout else None,
        )


class ProfileView(ApiModel):
    """The plugins that judge the pods of one `schedulerName`."""

    name: str
    score_range: int
    """The largest score that prioritize answers."""
    top_nodes: int | None
    """How many nodes filter answers at most, the best ones; null if filter answers all that pass."""
    plugins: list[str]
    """Names of the plugins, in the order in which filter asks them."""
    conditions: list[ConditionView]
    """`Ready`: the profile can judge pods."""

    @classmethod
    def of(cls, profile: Profile, slots: Iterable[Slot]) -> ProfileView:
        """The view of a profile; `slots` are those of all profiles."""
        own = [slot for slot in slots if slot.profile == profile.name]
        return cls(
            name=profile.name,
            score_range=profile.score_range,
            top_nodes=profile.top_nodes,
            plugins=[slot.name for slot in own],
            conditions=ConditionView.of(conditions.of_profile(profile.problem, own)),
        )
