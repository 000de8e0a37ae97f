"""How requests are refused: Kubernetes' metav1.Status."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, Literal

from pydantic import BaseModel
from starlette.responses import JSONResponse

_REASONS: Final[Mapping[int, str]] = {
    HTTPStatus.REQUEST_TIMEOUT: "Timeout",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "RequestEntityTooLarge",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Invalid",
}
"""Reasons of status codes whose phrase gives another word in some version of Python."""


class Cause(BaseModel):
    """What is wrong with a part of a request, as Kubernetes' metav1.StatusCause."""

    reason: str = "FieldValueInvalid"
    message: str
    field: str
    """The path of the part, with dots; empty for the whole body."""


class Details(BaseModel):
    """All that is wrong with a request."""

    causes: list[Cause]


class FailureStatus(BaseModel):
    """Why a request was refused."""

    kind: Literal["Status"]
    apiVersion: Literal["v1"]  # noqa: N815
    status: Literal["Failure"]
    message: str
    """For people: the cause, and what to do."""
    reason: str
    """For programs: one word in CamelCase."""
    details: Details | None = None
    code: int
    """The HTTP status."""


class FailureResponse(JSONResponse):
    """An answer with a FailureStatus.

    The JSON is ASCII: a message may quote lone surrogates, which JSON can escape and UTF-8 cannot encode.
    """

    def __init__(
        self, code: int, message: str, headers: Mapping[str, str] | None = None, causes: Sequence[Cause] = ()
    ) -> None:
        super().__init__(failure_status(code, message, causes), code, headers)

    def render(self, content: Any) -> bytes:
        """The bytes of the body."""
        return json.dumps(content).encode()


def failure_status(code: int, message: str, causes: Sequence[Cause] = ()) -> dict[str, Any]:
    """The JSON of a FailureStatus; `code` is the HTTP status."""
    reason = _REASONS.get(code) or "".join(word.capitalize() for word in HTTPStatus(code).phrase.split())
    details = {"details": {"causes": [cause.model_dump() for cause in causes]}} if causes else {}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        **details,
        "code": code,
    }
