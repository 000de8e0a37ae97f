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
"""Those that differ from what HTTP calls the code in some version of Python."""


class Cause(BaseModel):
    """What is wrong with a part of a request."""

    reason: str = "FieldValueInvalid"
    message: str
    field: str
    """The path of it; empty for the whole body."""


class Details(BaseModel):
    """More about what is wrong."""

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
    """Tells a failure.

    In ASCII: JSON can hold lone surrogates, which a message that quotes them cannot be encoded with otherwise.
    """

    def __init__(
        self, code: int, message: str, headers: Mapping[str, str] | None = None, causes: Sequence[Cause] = ()
    ) -> None:
        super().__init__(failure_status(code, message, causes), code, headers)

    def render(self, content: Any) -> bytes:
        """As starlette has it."""
        return json.dumps(content).encode()


def failure_status(code: int, message: str, causes: Sequence[Cause] = ()) -> dict[str, Any]:
    """The document of a failure."""
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
