"""The admin API's part for the ledger: which pod is on which node, or is about to be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Query

from extender.admin.api.context import ContextDep
from extender.admin.api.views import ApiModel, Time, time_of_monotonic
from extender.scheduling.ledger_entry import Entry, State
from wasm_runtime.protobuf.read import identity

router = APIRouter()


class LedgerPodView(ApiModel):
    """A pod of the ledger."""

    namespace: str
    name: str
    uid: str
    node: str
    state: State
    """`tentative`: filter has answered this node alone. `binding`: a bind is under way. `unconfirmed`: a bind had no
    answer. `retained`: the bind of a pod of a group was refused, and its room is kept. `confirmed`: the extender has
    bound the pod. `observed`: the watch shows the pod on the node."""
    expiration_time: Time | None
    """When a pod that is neither confirmed nor observed is no longer expected; null for other pods."""

    @classmethod
    def of(cls, uid: str, entry: Entry) -> LedgerPodView:
        """The view of a pod's entry."""
        pod = identity(entry.object)
        return cls(
            namespace=pod.namespace,
            name=pod.name,
            uid=uid,
            node=entry.node,
            state=entry.state,
            expiration_time=time_of_monotonic(entry.expires) if entry.is_tentative else None,
        )


@router.get("/ledger")
def list_ledger(
    context: ContextDep,
    node: Annotated[str | None, Query(description="Only pods on this node.")] = None,
    state: Annotated[State | None, Query(description="Only pods in this state.")] = None,
) -> list[LedgerPodView]:
    """The pods that are on nodes, or expected there; none without a cluster, or where no plugin wants to know pods."""

    def found() -> Iterator[LedgerPodView]:
        for uid, entry in context.ledger.entries().items() if context.ledger else ():
            if node in {None, entry.node} and state in {None, entry.state}:
                yield LedgerPodView.of(uid, entry)

    return sorted(found(), key=lambda pod: (pod.node, pod.namespace, pod.name))
