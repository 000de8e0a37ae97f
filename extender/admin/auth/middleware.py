"""The middleware of the admin address: lets users in, and bounds the bodies of requests."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from extender.admin.auth.access import DeniedError, TokenAccess, Visitor
from extender.admin.paths import DASHBOARD, JUDGE, MODULE, OPEN_PAGES, PREFIX, SIGN_IN
from extender.admin.status import FailureResponse
from wasm_runtime.engine import KIBIBYTE, MEBIBYTE

MAX_BODY_BYTES: Final = 256 * KIBIBYTE
"""Bytes of a body without a module or nodes."""

MAX_OBJECTS_BYTES: Final = 32 * MEBIBYTE
"""Bytes of the pod and the nodes of a what-if, whose body may also have a module in base64."""


class AuthMiddleware:
    """Refuses requests below PREFIX and DASHBOARD that no user may send, and bodies that are too long for their path.

    Stores the user as `request.state.user`. Other paths are open to all.
    """

    def __init__(self, app: ASGIApp, access: TokenAccess, module_limit: int) -> None:
        self._app = app
        self._access = access
        self._module_limit = module_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request, as ASGI has it."""
        if scope["type"] != "http" or not scope["path"].startswith((PREFIX, DASHBOARD)):
            await self._app(scope, receive, send)
            return
        is_page = scope["path"].startswith(DASHBOARD)
        try:
            if not (is_page and scope["path"].startswith(OPEN_PAGES)):
                admit = self._access.admit_page if is_page else self._access.admit
                scope.setdefault("state", {})["user"] = admit(visitor_of(scope))
        except DeniedError as error:
            if is_page and error.status == HTTPStatus.UNAUTHORIZED:
                await RedirectResponse(SIGN_IN, HTTPStatus.SEE_OTHER)(scope, receive, send)
                return
            challenge = {"WWW-Authenticate": error.challenge} if error.challenge else None
            refusal = FailureResponse(error.status, str(error), challenge)
            await refusal(scope, receive, send)
            return
        limit, named = self._limit(scope["path"])
        await self._app(scope, _bounded(receive, limit, f"the body has more than the {limit} bytes that {named}"), send)

    def _limit(self, path: str) -> tuple[int, str]:
        """How many bytes a body may have, and the end of the sentence by which a longer one is refused."""
        if path.endswith(MODULE):
            return self._module_limit, "runtime.moduleLimit allows"
        if path == JUDGE:
            return MAX_OBJECTS_BYTES + -(-self._module_limit // 3) * 4, "objects and a module in base64 may have"
        return MAX_BODY_BYTES, "a body may have"


def _bounded(receive: Receive, limit: int, refusal: str) -> Receive:
    """`receive`, which raises HTTPException with status 413 once a body has more than `limit` bytes."""
    left = limit

    async def receive_bounded() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise HTTPException(413, refusal)
        return message

    return receive_bounded


def visitor_of(scope: Scope) -> Visitor:
    """The visitor who sends a request, of its ASGI scope."""
    peer = scope.get("client")
    return Visitor(peer[0] if peer else "", scope["method"], Headers(scope=scope), scope["scheme"])
