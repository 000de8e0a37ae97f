"""The application of the dashboard, which the application of the admin address mounts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from pydantic import ValidationError
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from extender.admin.api.context import AdminContext
from extender.admin.api.routes import REFUSED
from extender.admin.auth.access import TokenAccess
from extender.admin.dashboard import actions, pages
from extender.admin.dashboard.rendering import render
from extender.admin.health import Health
from extender.telemetry.metrics import Metrics

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""Browsers run no scripts but the package's, load nothing from elsewhere, and show no page in a frame."""


def create_dashboard(
    context: AdminContext, health: Health, metrics: Metrics, access: TokenAccess, module_limit: int
) -> FastAPI:
    """The application. The caller's AuthMiddleware lets users in, and bounds an upload by `module_limit` bytes."""
    app = FastAPI(openapi_url=None)
    app.state.context = context
    app.state.health = health
    app.state.metrics = metrics
    app.state.access = access
    app.state.module_limit = module_limit
    app.include_router(pages.router)
    app.include_router(actions.router)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"))
    app.add_middleware(_SecurityHeaders)
    app.add_exception_handler(HTTPException, _refuse_as_told)
    app.add_exception_handler(RequestValidationError, _refuse_malformed)
    app.add_exception_handler(ValidationError, _refuse_malformed)
    for error, status in REFUSED.items():
        app.add_exception_handler(error, _refuse(status))
    return app


class _SecurityHeaders:
    """Adds HEADERS to each answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request, as ASGI has it."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _refuse(status: int) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def refuse(request: Request, error: Exception) -> Response:
        return render(request, "refusal.html", status, status=status, message=str(error))

    return refuse


async def _refuse_as_told(request: Request, error: Any) -> Response:
    return render(request, "refusal.html", error.status_code, status=error.status_code, message=error.detail)


async def _refuse_malformed(request: Request, error: Any) -> Response:
    """Says what is wrong with a request without quoting it: what was sent may be long or secret."""
    message = "; ".join(f"{each['loc'][-1] if each['loc'] else 'form'}: {each['msg']}" for each in error.errors())
    return render(request, "refusal.html", 422, status=422, message=message)
