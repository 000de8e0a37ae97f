"""The running extender: what is started, in which thread, and how it ends."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

import uvicorn

from extender.admin import Check, Health, create_app
from extender.candidates import NodeSource
from extender.cluster import AccessError, ApiBinder, ApiServer, Binder, DryRunBinder, NoBinder, NodeCache
from extender.config import Address, ClusterConfig, ConfigError, ExtenderConfiguration
from extender.registry import Registry, load
from extender.registry.watcher import Watcher
from extender.server import Verbs, Webhook
from wasm_runtime.engines.wasmtime import WasmtimeEngine
from wasm_runtime.snapshot import Snapshot

logger = logging.getLogger(__name__)

KEEP_ALIVE: Final = 300
"""Seconds that an idle connection is kept: longer than Go's client does, so that it never writes to a
connection that we are closing."""


class Background:
    """An event loop in a thread of its own: health, admin and the watch go on whatever guests do."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: list[asyncio.Future[Any]] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="background", daemon=True)
        self._thread.start()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Starts a task that runs until `stop`. If it ends by an error, that is logged."""
        asyncio.run_coroutine_threadsafe(self._spawn(work, name), self._loop).result()

    async def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.add_done_callback(_log_end)
        self._tasks.append(task)

    def stop(self) -> None:
        """Cancels the tasks and ends the thread."""
        asyncio.run_coroutine_threadsafe(self._cancel(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _log_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception():
        logger.critical("%s ended", task.get_name(), exc_info=task.exception())


def serve(file: Path) -> None:
    """Serves until SIGTERM or SIGINT. Raises ConfigError."""
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    engine = WasmtimeEngine()
    configuration, registry = load(file, engine)
    try:
        _serve(file, configuration, engine, registry)
    finally:
        registry.close()


def _serve(file: Path, configuration: ExtenderConfiguration, engine: WasmtimeEngine, registry: Registry) -> None:
    server = configuration.server
    verbs_socket = _listen(file, "server.address", server.address)
    admin_socket = _listen(file, "server.adminAddress", server.admin_address)
    nodes = Snapshot()
    cache = _connect(file, configuration.cluster)
    node_cache = NodeCache(cache, nodes) if cache else None
    for slot in registry.slots:
        slot.say_what_is_not_run()
    watcher = Watcher(registry, engine)
    background = Background()
    try:
        checks = [Check("nodes", lambda: _unsynced(node_cache))] if node_cache else []
        app = create_app(registry, Health(checks))
        background.spawn(_admin(app, admin_socket), "admin server")
        if node_cache:
            background.spawn(node_cache.run(), "node cache")
        watcher.start()
        verbs = Verbs(registry, NodeSource(node_cache, nodes), _binder(file, configuration.cluster))
        webhook = Webhook(verbs, registry, server.max_request_bytes)
        logger.info(
            "serving",
            extra={
                "verbs": _url(verbs_socket),
                "admin": _url(admin_socket),
                "cluster": configuration.cluster.mode,
            },
        )
        uvicorn.Server(_uvicorn(webhook)).run(sockets=[verbs_socket])
    finally:
        watcher.stop()
        background.stop()


def _uvicorn(app: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        loop="uvloop",
        lifespan="off",
        interface="asgi3",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=10,
    )


async def _admin(app: Any, listener: socket.socket) -> None:
    await uvicorn.Server(_uvicorn(app)).serve(sockets=[listener])


def _leave(*_: object) -> None:
    """Ends the process: uvicorn finishes what is in flight before it passes the signal on to this handler."""
    raise SystemExit(0)


def _listen(file: Path, key: str, address: Address) -> socket.socket:
    try:
        return socket.create_server(tuple(address), family=_family(address), backlog=2048)
    except OSError as error:
        reason, _, _ = str(error.strerror).partition(" (while attempting")  # create_server names the address again.
        raise ConfigError(file, [f"{key}: cannot listen on {address}: {reason}"]) from error


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address.host else socket.AF_INET


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{Address(host, port)}"


def _connect(file: Path, cluster: ClusterConfig) -> ApiServer | None:
    """The API server of a configuration file. Raises ConfigError."""
    try:
        if cluster.mode == "kubeconfig":
            return ApiServer.from_kubeconfig(file.absolute().parent / cluster.kubeconfig)
        return ApiServer.in_cluster() if cluster.mode == "in-cluster" else None
    except AccessError as error:
        key = "kubeconfig" if cluster.mode == "kubeconfig" else "mode"
        raise ConfigError(file, [f"cluster.{key}: {error}"]) from error


def _binder(file: Path, cluster: ClusterConfig) -> Binder:
    api = _connect(file, cluster)
    if api:
        return ApiBinder(api)
    return DryRunBinder() if cluster.mode == "dry-run" else NoBinder()


def _unsynced(cache: NodeCache) -> str | None:
    if cache.synced:
        return None
    return cache.problem or "listing the nodes of the cluster"
