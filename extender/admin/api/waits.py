"""The admin API's part for pods that wait on Permit."""

from __future__ import annotations

import logging
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Path
from pydantic import BaseModel, ConfigDict

from extender.admin.api.context import ContextDep, CurrentUser
from extender.admin.api.requests import Reason
from extender.admin.api.views import ApiModel, Time, time_of_monotonic
from extender.scheduling.waiting_pods import Wait
from wasm_runtime.protobuf.read import identity

logger = logging.getLogger(__name__)

router = APIRouter(prefix="/waits")


class PendingPluginView(ApiModel):
    """A plugin that has said Wait and does not let the pod go on yet."""

    name: str
    expiration_time: Time
    """When the pod is rejected unless the plugin has let it go on before."""


class WaitView(ApiModel):
    """A pod that waits on Permit."""

    namespace: str
    name: str
    uid: str
    node: str
    """The node on which the pod is to be bound."""
    start_time: Time
    plugins: list[PendingPluginView]
    """The plugins that do not let the pod go on yet."""

    @classmethod
    def of(cls, wait: Wait) -> WaitView:
        """The view of a wait."""
        pod = identity(wait.pod.object)
        return cls(
            namespace=pod.namespace,
            name=pod.name,
            uid=wait.pod.uid,
            node=wait.node,
            start_time=time_of_monotonic(wait.began),
            plugins=[
                PendingPluginView(name=name, expiration_time=time_of_monotonic(until))
                for name, until in wait.plugins.items()
            ],
        )


class RejectRequest(BaseModel):
    """The rejection of a pod that waits on Permit."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    reason: Reason = ""
    """Why the pod is rejected, for the pod's Event and the log."""


def _wait(context: ContextDep, uid: Annotated[str, Path(description="The pod's UID.")]) -> Wait:
    wait = context.waiting.find(uid)
    if wait is None:
        raise HTTPException(404, f"no pod of UID {uid!r} waits on Permit; GET /api/v1/waits lists those that do")
    return wait


_WaitDep = Annotated[Wait, Depends(_wait)]


@router.get("")
async def list_waits(context: ContextDep) -> list[WaitView]:
    """The pods that wait on Permit, the oldest first."""
    return [WaitView.of(wait) for wait in context.waiting.waits()]


@router.post("/{uid}/allow")
async def allow(wait: _WaitDep, user: CurrentUser) -> WaitView:
    """Lets a pod go on, whatever the plugins say. The answer is the wait as it was."""
    view = WaitView.of(wait)
    _require(wait, ended=wait.allow())
    logger.info("a pod that waited on Permit was let go on", extra=_fields(wait, user.name))
    return view


@router.post("/{uid}/reject")
async def reject(wait: _WaitDep, user: CurrentUser, request: RejectRequest | None = None) -> WaitView:
    """Ends a pod's wait with a rejection; kube-scheduler tries the pod again. The answer is the wait as it was."""
    view, reason = WaitView.of(wait), request.reason if request else ""
    cause = f"{user.name} rejected the pod while it waited" + (f": {reason}" if reason else "")
    _require(wait, ended=wait.reject(cause))
    logger.info("a pod that waited on Permit was rejected", extra={**_fields(wait, user.name), "reason": reason})
    return view


def _require(wait: Wait, *, ended: bool) -> None:
    """Raises HTTPException with status 409 for a wait that was over before the operator could end it."""
    if not ended:
        raise HTTPException(409, f"pod {wait.pod.name} does not wait on Permit any more")


def _fields(wait: Wait, user: str) -> dict[str, str]:
    return {"pod": wait.pod.name, "node": wait.node, "requested_by": user}
