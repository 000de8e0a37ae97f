"""The admin application."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel

from extender.admin.health import Health
from extender.metrics import Metrics
from extender.registry import Registry, Slot


class ClusterEventView(BaseModel):
    """A change in the cluster after which the guest would look at a rejected pod again."""

    resource: str
    action_type: int
    """A bit an action, as in the scheduling framework's ActionType."""


class PluginView(BaseModel):
    """A plugin that is live."""

    name: str
    profile: str
    digest: str
    source: str
    weight: int
    exports: list[str]
    """Guest exports that are called."""
    not_run: list[str]
    """Guest exports that the configuration leaves out."""
    cluster_events: list[ClusterEventView]
    """What `enqueue` registers; kube-scheduler does not ask extenders for it."""


def create_app(registry: Registry, health: Health, metrics: Metrics) -> FastAPI:
    """The application for the admin address."""
    app = FastAPI(title="kube-wasm-extender", docs_url=None, redoc_url=None)

    @app.get("/livez", response_class=PlainTextResponse)
    async def livez() -> str:
        """Whether the process runs."""
        return "ok"

    @app.get("/readyz", response_class=PlainTextResponse)
    async def readyz(verbose: Annotated[str | None, Query()] = None) -> Response:
        """Whether verbs can be answered; `?verbose` names each condition."""
        ready, report = health.report()
        text = report if verbose is not None or not ready else "ok"
        return PlainTextResponse(text, status_code=200 if ready else 503)

    @app.get("/metrics", response_class=PlainTextResponse)
    def prometheus() -> Response:
        """What verbs, guests and the process take, in Prometheus' text format."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/api/v1/plugins")
    async def plugins() -> list[PluginView]:
        """The plugins of all profiles, in their order."""
        return [_view(slot) for slot in registry.slots]

    return app


def _view(slot: Slot) -> PluginView:
    plugin = slot.entry.plugin
    return PluginView(
        name=slot.config.name,
        profile=slot.profile,
        digest=plugin.digest,
        source=slot.config.guest_url,
        weight=slot.entry.weight,
        exports=plugin.exports,
        not_run=plugin.not_run,
        cluster_events=[ClusterEventView(**event._asdict()) for event in plugin.cluster_events],
    )
