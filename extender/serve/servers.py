"""The two servers: that of the verbs and that of the admin API, their sockets and their limits."""

from __future__ import annotations

import resource
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import uvicorn

from extender.admin import AdminConnection
from extender.config import Address, ConfigError
from extender.http.clients import Clients, RequestBudget
from extender.scheduling.waiting_pods import WaitingPods
from extender.webhook.protocol import Connection
from extender.webhook.router import Router
from wasm_runtime import supervision

TICKS_PER_CHECK: Final = 10
"""Ticks of uvicorn, ten a second, between two looks at the threads that others rely on."""

STALLED_TIMEOUT_MS: Final = 30_000
"""Milliseconds after which a client that takes nothing of what it is sent is cut off."""

IDLE_TIMEOUT_S: Final = 300.0
"""Of a client of the verbs: longer than Go's client keeps an idle connection, so that it never writes to one that we
are closing."""

ADMIN_IDLE_TIMEOUT_S: Final = 30.0
"""Of one of the admin address, where probes and people need not find theirs again."""

ARRIVAL_TIMEOUT_S: Final = 45.0
"""For a request to come: kube-scheduler gives up after five seconds by itself."""

ADMIN_ARRIVAL_TIMEOUT_S: Final = 75.0
"""More than a module may take to come in, which is told otherwise."""

MAX_CONNECTIONS: Final = 2_048
"""Of clients of the verbs: kube-scheduler has one for each pod that is being bound."""

MAX_ADMIN_CONNECTIONS: Final = 128

OWN_DESCRIPTORS: Final = 128
"""Kept for what is not a client: the API server, sources, files, compiling."""

VERBS_SHARE: Final = 2 / 3
ADMIN_SHARE: Final = 1 / 3
"""Of the descriptors that are left."""


class VerbServer(uvicorn.Server):
    """Serves the verbs, in the main thread.

    When it is to end, it ends the waits on Permit: their pods go back to the queue, and nobody waits for them. The main
    thread is the one that cannot end before the process, so it looks after the others.
    """

    def __init__(self, config: uvicorn.Config, waiting: WaitingPods) -> None:
        super().__init__(config)
        self._waiting = waiting

    async def on_tick(self, counter: int) -> bool:
        """Begins threads anew that have ended, once a second."""
        if counter % TICKS_PER_CHECK == 0:
            supervision.revive()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the waits on Permit, then serves what is in flight to its end."""
        self._waiting.close()
        await super().shutdown(sockets)


def max_connections(wanted: int, share: float) -> int:
    """`wanted`, or fewer: at most a share of the descriptors that are left beside our own."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, int(share * max(descriptors - OWN_DESCRIPTORS, descriptors / 2)))


def make_connections(router: Router) -> Callable[..., Connection]:
    """The factory of connections that uvicorn calls for each client of the verbs."""
    clients = Clients(max_connections(MAX_CONNECTIONS, VERBS_SHARE), IDLE_TIMEOUT_S, ARRIVAL_TIMEOUT_S)
    return partial(Connection, router, clients, RequestBudget(router.max_request_bytes))


def uvicorn_config(app: Any, http: Any) -> uvicorn.Config:
    """How uvicorn serves an application, or connections that need none."""
    return uvicorn.Config(
        app,
        http=http,
        ws="none",
        loop="uvloop",
        lifespan="off",
        interface="asgi3",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=round(IDLE_TIMEOUT_S),  # Clients are left before.
        timeout_graceful_shutdown=10,
    )


async def serve_admin(app: Any, listener: socket.socket) -> None:
    """Serves the admin API until it is cancelled; the listener stays open."""
    own = listener.dup()  # The server closes it; another one may have to go on with the listener.
    most = max_connections(MAX_ADMIN_CONNECTIONS, ADMIN_SHARE)
    clients = Clients(most, ADMIN_IDLE_TIMEOUT_S, ADMIN_ARRIVAL_TIMEOUT_S)
    server = uvicorn.Server(uvicorn_config(app, partial(AdminConnection, clients)))
    server.servers = []
    try:
        await server.serve(sockets=[own])
    finally:
        for each in server.servers:
            each.close()


def listen(file: Path, key: str, address: Address) -> socket.socket:
    """A socket that listens; `key` is where the configuration file has the address. Raises ConfigError."""
    try:
        listener = socket.create_server(tuple(address), family=_family(address), backlog=2048)
    except OSError as error:
        reason, _, _ = str(error.strerror).partition(" (while attempting")  # create_server names the address again.
        raise ConfigError(file, [f"{key}: cannot listen on {address}: {reason}"]) from error
    # Connections inherit these. asyncio sets the first only where a socket's protocol is given by number.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "linux":
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_TIMEOUT_MS)
    return listener


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address.host else socket.AF_INET


def url(listener: socket.socket) -> str:
    """Where a listener is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://{Address(host, port)}"
