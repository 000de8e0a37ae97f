"""What stands before the admin API."""

from __future__ import annotations

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from extender.admin.auth.access import DeniedError, TokenAccess, Visitor
from extender.admin.status import FailureResponse
from wasm_runtime.engine import KIBIBYTE

PREFIX = "/api/v1"
"""The part of the paths that is not open to all."""

MODULE = "/module"
"""The end of the paths that take modules."""

MAX_BODY_BYTES = 256 * KIBIBYTE
"""Bytes of a body that is no module."""


class AuthMiddleware:
    """Lets in who may come in, and no more of a body than is asked for."""

    def __init__(self, app: ASGIApp, access: TokenAccess, module_limit: int) -> None:
        self._app = app
        self._access = access
        self._module_limit = module_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a connection, as ASGI has it."""
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        try:
            user = self._access.admit(_visitor(scope))
        except DeniedError as error:
            challenge = {"WWW-Authenticate": error.challenge} if error.challenge else None
            refusal = FailureResponse(error.status, str(error), challenge)
            await refusal(scope, receive, send)
            return
        scope.setdefault("state", {})["user"] = user
        is_module = scope["path"].endswith(MODULE)
        limit = self._module_limit if is_module else MAX_BODY_BYTES
        named = "runtime.moduleLimit allows" if is_module else "a body may have"
        await self._app(scope, _bounded(receive, limit, f"the body has more than the {limit} bytes that {named}"), send)


def _bounded(receive: Receive, limit: int, refusal: str) -> Receive:
    """Receives a body, and raises HTTPException when it is too long."""
    left = limit

    async def receive_bounded() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise HTTPException(413, refusal)
        return message

    return receive_bounded


def _visitor(scope: Scope) -> Visitor:
    peer = scope.get("client")
    return Visitor(peer[0] if peer else "", scope["method"], Headers(scope=scope))
