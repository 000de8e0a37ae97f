"""The admin API's part for the ledger: which pod is on which node, or is about to be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query

from extender.admin.api.context import AdminContext, ContextDep
from extender.admin.api.paging import Key, ListView, PagingDep, page
from extender.admin.api.views import ApiModel, Time, time_of_monotonic
from extender.scheduling.ledger_entry import Entry, State
from wasm_runtime.protobuf.read import identity

router = APIRouter()


class LedgerRow(NamedTuple):
    """A pod of the ledger, and what tells it from all others."""

    node: str
    namespace: str
    name: str
    uid: str
    entry: Entry

    @classmethod
    def of(cls, uid: str, entry: Entry) -> LedgerRow:
        """Reads what the pod is called."""
        pod = identity(entry.object)
        return cls(entry.node, pod.namespace, pod.name, uid, entry)


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
    def of(cls, row: LedgerRow) -> LedgerPodView:
        """The view of a pod's row."""
        entry = row.entry
        return cls(
            namespace=row.namespace,
            name=row.name,
            uid=row.uid,
            node=row.node,
            state=entry.state,
            expiration_time=time_of_monotonic(entry.expires) if entry.is_tentative else None,
        )


@router.get("/ledger")
def list_ledger(
    context: ContextDep,
    paging: PagingDep,
    node: Annotated[str | None, Query(description="Only pods on this node.")] = None,
    namespace: Annotated[str | None, Query(description="Only pods of this namespace.")] = None,
    state: Annotated[State | None, Query(description="Only pods in this state.")] = None,
) -> ListView[LedgerPodView]:
    """The pods that are on nodes, or expected there, node by node.

    There are none without a cluster, or where no plugin wants to know pods.
    """
    begin = paging.after[0] if paging.after else ""

    def is_wanted(entry: Entry) -> bool:
        return begin <= entry.node and node in {None, entry.node} and state in {None, entry.state}

    rows = ledger_rows(context, is_wanted)
    return page((row for row in rows if namespace in {None, row.namespace}), _key, LedgerPodView.of, paging)


def ledger_rows(context: AdminContext, is_wanted: Callable[[Entry], bool]) -> Iterator[LedgerRow]:
    """Some pods of the ledger, in the order of nodes and names. Pods are read a node at a time, which takes longest."""
    entries = context.ledger.entries() if context.ledger else {}
    wanted = sorted(((uid, entry) for uid, entry in entries.items() if is_wanted(entry)), key=_node)
    for _, pods in groupby(wanted, _node):
        yield from sorted((LedgerRow.of(*pod) for pod in pods), key=_key)


def _node(pod: tuple[str, Entry]) -> str:
    return pod[1].node


def _key(row: LedgerRow) -> Key:
    return row[:-1]
