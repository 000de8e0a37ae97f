"""The application of the admin address: health, metrics, the admin API and the dashboard."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query, Response
from fastapi.responses import PlainTextResponse, RedirectResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from extender.admin.api.context import AdminContext
from extender.admin.api.routes import add_api
from extender.admin.auth.access import TokenAccess
from extender.admin.auth.middleware import AuthMiddleware
from extender.admin.dashboard import create_dashboard
from extender.admin.health import Health
from extender.admin.paths import DASHBOARD
from extender.admin.status import FailureStatus
from extender.telemetry.metrics import Metrics


def create_app(
    health: Health,
    metrics: Metrics,
    context: AdminContext,
    access: TokenAccess,
    module_limit: int,
) -> FastAPI:
    """The application of the admin address. An uploaded module may have `module_limit` bytes."""
    app = FastAPI(title="kube-wasm-extender", docs_url=None, redoc_url=None)

    @app.get("/livez", response_class=PlainTextResponse)
    async def livez() -> str:
        """Whether the process runs."""
        return "ok"

    @app.get(
        "/readyz",
        response_class=PlainTextResponse,
        responses={422: {"model": FailureStatus, "description": "invalid"}},
    )
    async def readyz(verbose: Annotated[str | None, Query()] = None) -> Response:
        """Whether verbs can be answered; `?verbose` names each condition."""
        ready, report = health.report()
        text = report if verbose is not None or not ready else "ok"
        return PlainTextResponse(text, status_code=200 if ready else 503)

    @app.get("/metrics", response_class=PlainTextResponse)
    def prometheus() -> Response:
        """The metrics of verbs, guests and the process, in Prometheus' text format."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/", include_in_schema=False)
    async def root() -> Response:
        """Redirects to the dashboard."""
        return RedirectResponse(f"{DASHBOARD}/")

    app.state.access = access
    add_api(app, context)
    app.mount(DASHBOARD, create_dashboard(context, health, metrics, access, module_limit))
    app.add_middleware(AuthMiddleware, access=access, module_limit=module_limit)
    return app
