"""What the admin API takes and answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
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

REVISION = "sha256:9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab"
MODULE = "sha256:0263829989b6fd954f72baaf2fc64bc2e2f01d692d4de72986ea808f6e99813f"
EXAMPLE_ROLLOUT: JsonDict = {
    "id": 12,
    "profile": "default",
    "plugin": "nodenumber",
    "stage": "active",
    "requestedBy": "alice",
    "reason": "spread the batch jobs",
    "dryRun": False,
    "revision": REVISION,
    "module": MODULE,
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
    """Read off the attributes of what it shows."""

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


class ConditionView(ApiModel):
    """One aspect of a state, as Kubernetes' metav1.StatusCondition."""

    type: str
    status: ConditionStatus
    """`True`, `False` or `Unknown`."""
    reason: str
    """Why it has this status: one word in CamelCase."""
    message: str
    """The same for people; may be empty."""
    last_transition_time: Time
    """When the status became what it is."""

    @classmethod
    def of(cls, found: Iterable[StatusCondition]) -> list[ConditionView]:
        """Shows conditions."""
        return [cls.model_validate(each) for each in found]


class NodeDifferenceView(ApiModel):
    """What each revision says of a node: `passes`, why it is rejected, the plugin's score, or `skipped`."""

    node: str
    active: str | int
    candidate: str | int


class DifferenceView(ApiModel):
    """A request on which the candidate says something else."""

    pod: str
    """`namespace/name`."""
    verb: str
    total: int
    """Nodes on which the two differ."""
    nodes: list[NodeDifferenceView]
    """The first of them."""
    failure: str
    """Why the active revision has no answer for the pod at all, where the candidate has one."""


class FailureView(ApiModel):
    """How a revision has failed, and how often."""

    side: str
    """`active` or `candidate`."""
    verb: str
    message: str
    count: int


class VerbReportView(ApiModel):
    """What became of the requests of a verb."""

    verb: str
    requests: int
    """Those that were judged."""
    alike: int
    """Those that both judge alike, or both fail."""
    different: int
    active_failures: int
    candidate_failures: int
    left_out: int
    """Those that could not be judged any more, through no fault of a revision."""
    active_milliseconds: float | None
    """Time of the processor for a request, in the median of the last ones."""
    candidate_milliseconds: float | None


def _with_names(verbs: Any) -> Any:
    """A list of named objects for the map that a rollout has, as Kubernetes has no maps of objects."""
    if not isinstance(verbs, Mapping):
        return verbs
    return [{"verb": verb, **msgspec.structs.asdict(report)} for verb, report in verbs.items()]


class ReportView(ApiModel):
    """What the candidate and the active revision have said of the same requests."""

    verbs: Annotated[list[VerbReportView], BeforeValidator(_with_names)]
    differences: list[DifferenceView]
    """The first ones."""
    failures: list[FailureView]
    """The first ones, those of the same message counted together."""
    notes: list[str]
    """What was not compared, and why."""


class RolloutView(ApiModel):
    """One attempt to bring a module and its configuration live: who wants what and why, how far it has come."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_ROLLOUT]})

    id: int
    """Counts up, over restarts, too."""
    profile: str
    plugin: str
    stage: RolloutStage
    """It is over at `active`, `unchanged`, `rehearsed` or `failed`; what is replaced is `draining`, then `retired`."""
    requested_by: str
    """Who asked for it: `source`, `configuration`, `start`, `rollback`, `local`, or the name of a token."""
    reason: str
    """Why it was asked for, in the words of who did."""
    dry_run: bool
    revision: str | None
    """Its id, once the module is there."""
    module: str | None
    """The module's digest, once it is there."""
    origin: str
    """Where the module is from."""
    replaces: str | None
    """The revision that was active when this one took over, or would have."""
    message: str
    """Why it has failed, or has been rolled back."""
    report: ReportView | None
    """What the probe has seen."""
    start_time: Time
    last_transition_time: Time
    """When `stage` became what it is."""
    conditions: list[ConditionView]
    """`Succeeded`: Unknown until it is over, False if it has failed or was rolled back."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be waited for."""
        return RolloutStage.FAILED not in NEXT[self.stage]

    @classmethod
    def of(cls, rollout: Rollout) -> RolloutView:
        """Shows a rollout."""
        fields = {_NAMES.get(name, name): getattr(rollout, name) for name in rollout.__struct_fields__}
        return cls.model_validate(fields | {"conditions": conditions.of_rollout(rollout)})


class RevisionView(ApiModel):
    """A module and the settings that it runs with."""

    id: str
    """The digest over both, by which preconditions and rollbacks name it."""
    stage: RolloutStage
    """`active`, or `draining` while cycles that began on it are not over, or `retired`."""
    module: str
    """The module's digest."""
    origin: str
    """Where the module was found when this revision was first made."""
    signer: str | None
    """Fingerprint of the public key by which its signature was verified."""
    settings: dict[str, JsonValue]
    """As the configuration file writes them."""

    @classmethod
    def of(cls, revision: Revision, stage: RolloutStage) -> RevisionView:
        """Shows a revision."""
        fields = msgspec.structs.asdict(revision)
        return cls.model_validate(fields | {"stage": stage, "settings": settings_as_written(revision.settings)})


_NAMES: Final = {
    "by": "requested_by",
    "why": "reason",
    "problem": "message",
    "began": "start_time",
    "changed": "last_transition_time",
}
"""What the API calls the fields of a rollout that the history on disk names otherwise."""


class ClusterEventView(ApiModel):
    """A change in the cluster after which the guest would look at a rejected pod again."""

    resource: str
    action_type: int
    """A bit an action, as in the scheduling framework's ActionType."""


class PluginView(ApiModel):
    """A plugin, and what serves in its place."""

    name: str
    profile: str
    digest: str | None
    """The digest of the module that serves; null while there is none."""
    source: str
    """The URL of the configuration, without its query."""
    weight: int
    exports: list[str]
    """Guest exports that are called."""
    not_run: list[str]
    """Guest exports that the configuration leaves out."""
    cluster_events: list[ClusterEventView]
    """What `enqueue` registers; kube-scheduler does not ask extenders for it."""
    revision: RevisionView | None
    """The one that is active."""
    failures: int
    """Calls without an answer since the extender started, of all its revisions."""
    last_failure: str
    """What the last one was; empty if there was none."""
    standby: str | None
    """The revision that comes back by itself if the active one fails; null once that has proven good."""
    conditions: list[ConditionView]
    """`Ready`: a revision serves. `SourceReady`: the source gives something of use. `SourceInSync`: what it gives is
    what serves. `RequirementsMet`: what serves has the digest and the signature that are required now."""
    rollout: RolloutView | None
    """The one that is under way, else the one that has brought the active revision."""

    @classmethod
    def of(cls, slot: Slot, under_way: Rollout | None) -> PluginView:
        """Shows a plugin's place."""
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
    """What pods of one scheduler name are judged by."""

    name: str
    score_range: int
    """The largest score that prioritize answers."""
    top_nodes: int | None
    """How many nodes filter answers at most, the best ones; null for all that pass."""
    plugins: list[str]
    """In their order."""
    conditions: list[ConditionView]
    """`Ready`: pods can be judged by it."""

    @classmethod
    def of(cls, profile: Profile, slots: Iterable[Slot]) -> ProfileView:
        """Shows a profile."""
        own = [slot for slot in slots if slot.profile == profile.name]
        return cls(
            name=profile.name,
            score_range=profile.score_range,
            top_nodes=profile.top_nodes,
            plugins=[slot.name for slot in own],
            conditions=ConditionView.of(conditions.of_profile(profile.problem, own)),
        )
