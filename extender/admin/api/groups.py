"""The admin API's part for groups of pods: the members of each group, and what the group needs."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query

from extender.admin.api.context import AdminContext, ContextDep
from extender.admin.api.paging import Key, ListView, PagingDep, page
from extender.admin.api.views import ApiModel, Time, time_of_epoch
from extender.scheduling.groups import GroupEntry
from wasm_runtime.abi import GroupSource
from wasm_runtime.pods.pod_table import ResidentPod
from wasm_runtime.protobuf.read import identity

router = APIRouter()

NamedBy = Literal["schedulingGroup", "label"]
MemberState = Literal["pending", "tentative", "binding", "bound"]

_NAMED_BY: Final[dict[GroupSource, NamedBy]] = {
    GroupSource.SCHEDULING_GROUP: "schedulingGroup",
    GroupSource.LABEL: "label",
}


class GroupMemberView(ApiModel):
    """A pod of a group."""

    name: str
    uid: str
    state: MemberState
    """`pending`: the pod has no node. `tentative`: the pod is expected on the node, and may not come. `binding`: the
    same, and a bind is under way. `bound`: the pod is on the node."""
    node: str
    """The name of the node; empty for a pending pod."""

    @classmethod
    def of(cls, uid: str, pod: ResidentPod) -> GroupMemberView:
        """The view of a pod."""
        return cls(name=identity(pod.object).name, uid=uid, state=_state(pod), node=pod.node)


class GroupView(ApiModel):
    """A group of pods."""

    namespace: str
    name: str
    named_by: NamedBy
    """How the pods name the group: by `spec.schedulingGroup`, or by a label."""
    has_object: bool
    """Whether there is a PodGroup of that name."""
    minimum: int | None
    """How many pods of the group need a node before any of them may run; null if unknown."""
    timeout_seconds: int | None
    """Seconds for which the pods of the group may wait for each other; null if unknown."""
    priority: int
    creation_time: Time | None
    """Creation of the PodGroup, else of the oldest pod; null if unknown."""
    message: str
    """What of the PodGroup or of its pods cannot be read; empty if all can."""
    pods: list[GroupMemberView]

    @classmethod
    def of(cls, entry: GroupEntry) -> GroupView:
        """The view of a group."""
        (source, namespace, name), (minimum, timeout, priority, created), has_object, problems, pods = entry
        members = [GroupMemberView.of(uid, pod) for uid, pod in pods.items()]
        return cls(
            namespace=namespace,
            name=name,
            named_by=_NAMED_BY[source],
            has_object=has_object,
            minimum=minimum or None,
            timeout_seconds=timeout or None,
            priority=priority,
            creation_time=time_of_epoch(created) if created else None,
            message="; ".join(problems),
            pods=sorted(members, key=lambda member: member.name),
        )


@router.get("/groups")
def list_groups(
    context: ContextDep,
    paging: PagingDep,
    namespace: Annotated[str | None, Query(description="Only groups of this namespace.")] = None,
    name: Annotated[str | None, Query(description="Only groups of this name.")] = None,
) -> ListView[GroupView]:
    """The groups of pods; none without a cluster, or where no plugin wants to know groups.

    A page ends before its groups have more than 5,000 pods together, unless it has a single group.
    """
    entries = group_entries(context)
    chosen = (entry for entry in entries if namespace in {None, entry.key.namespace} and name in {None, entry.key.name})
    return page(chosen, _key, GroupView.of, paging, lambda entry: len(entry.pods))


def group_entries(context: AdminContext) -> list[GroupEntry]:
    """All groups, in the order of their names."""
    return sorted(context.groups.entries() if context.groups else [], key=_key)


def _key(entry: GroupEntry) -> Key:
    source, namespace, name = entry.key
    return (namespace, name, _NAMED_BY[source])


def _state(pod: ResidentPod) -> MemberState:
    if not pod.node:
        return "pending"
    if not pod.is_tentative:
        return "bound"
    return "binding" if pod.is_binding else "tentative"
