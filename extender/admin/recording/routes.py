"""The admin API's part for recordings of the traffic."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, HTTPException, Query
from fastapi.responses import StreamingResponse
from pydantic import BeforeValidator

from extender.admin.api.context import ContextDep, CurrentUser, EndingDep, IntentRequired, find_profile
from extender.admin.auth.tokens import Role
from extender.admin.recording.recorders import MAX_PODS, MAX_RECORDING_S, BusyError, OngoingRecording
from extender.admin.status import FailureStatus
from extender.config import quantity

logger = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/vnd.kwx.recording.v1+gzip"

_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The recording", "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}},
    429: {"model": FailureStatus, "description": "Too many recordings at a time"},
}

router = APIRouter()


class _RecordingResponse(StreamingResponse):
    media_type = MEDIA_TYPE


def _check_role(user: CurrentUser) -> None:
    """Refuses users with the role read: the recording shows whole pods, although the request changes nothing."""
    if user.role is not Role.WRITE:
        reason = f"the token of {user.name} has the role read, which does not show pods; use one with the role write"
        raise HTTPException(403, reason, {"WWW-Authenticate": 'Bearer realm="kwx", error="insufficient_scope"'})


def _duration(text: str) -> float:
    """The seconds of a recording. Raises ValueError for what is no duration, or too long."""
    duration = quantity.seconds(text)
    if duration > MAX_RECORDING_S:
        raise ValueError(f"expected a duration of {MAX_RECORDING_S}s at most, found {text!r}")
    return duration


async def _recording(
    context: ContextDep,
    user: CurrentUser,
    ending: EndingDep,
    profile: Annotated[
        str | None, Query(description="The one whose traffic it is; by default that of pods of any other scheduler.")
    ] = None,
    pods: Annotated[int, Query(ge=1, le=MAX_PODS, description="It ends after so many pods.")] = 500,
    duration: Annotated[
        float,
        BeforeValidator(_duration, json_schema_input_type=str),
        Query(description="It ends after this time at the latest.", json_schema_extra={"default": "60s"}),
    ] = 60,
) -> AsyncIterator[OngoingRecording]:
    _check_role(user)
    found = find_profile(context, profile)
    try:
        with context.recorders.recording(found.name, pods, duration, ending) as recording:
            told = {"profile": found.name, "requested_by": user.name}
            logger.info("traffic is recorded", extra=told)
            try:
                yield recording
            finally:
                reason = recording.ended or "cut off"
                logger.info("the recording is over", extra={**told, "pods": recording.pods, "why": reason})
    except BusyError as error:
        raise HTTPException(429, str(error)) from error


@router.get("/traffic", response_class=_RecordingResponse, responses=_ANSWERS, dependencies=[IntentRequired])
async def record_traffic(recording: Annotated[OngoingRecording, Depends(_recording)]) -> AsyncIterator[bytes]:
    """Records what filter is asked from now on, and the nodes: a file for `kwx bench plugin --record`.

    The file holds pods, which may hold secrets: keep it private. x's replace the commands, arguments and variables of
    containers and what their probes send (extender/admin/recording/redact.py has the list). The request needs the role
    write. If server.adminTokens is not set, all clients on this machine have that role, and the request needs the
    header X-Requested-With with any value.
    """
    async for piece in recording.pieces():
        yield piece
