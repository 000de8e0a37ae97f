"""The two servers: that of the verbs and that of the admin API, their sockets and their limits."""

from __future__ import annotations

import asyncio
import resource
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import uvicorn

from extender.admin.protocol import AdminConnection
from extender.config import Address, ConfigError
from extender.http.certificates import ServerCertificates
from extender.http.clients import Clients, RequestBudget
from extender.http.handshakes import Handshakes, Make
from extender.scheduling.waiting_pods import WaitingPods
from extender.webhook.overload import Overload
from extender.webhook.protocol import Connection
from extender.webhook.router import Denial, Router
from wasm_runtime import supervision

TICKS_PER_CHECK: Final = 10
"""Ticks of uvicorn, ten a second, between two looks at the threads that others rely on."""

STALLED_TIMEOUT_MS: Final = 30_000
"""Milliseconds after which a client that takes nothing of what it is sent is cut off."""

IDLE_TIMEOUT_S: Final = 300.0
"""Seconds that a client of the verbs may be idle: longer than Go's client keeps an idle connection, so that it never
writes to one that we are closing."""

ADMIN_IDLE_TIMEOUT_S: Final = 30.0
"""The same for the admin address, where probes and people can just connect again."""

ARRIVAL_TIMEOUT_S: Final = 45.0
"""Seconds for a whole request to arrive: kube-scheduler gives up after five seconds by itself."""

ADMIN_ARRIVAL_TIMEOUT_S: Final = 75.0
"""More than a module may take to come in, which is told otherwise."""

MAX_CONNECTIONS: Final = 2_048
"""Connections of clients of the verbs: kube-scheduler has one for each pod that is being bound."""

MAX_ADMIN_CONNECTIONS: Final = 128

MAX_HANDSHAKES: Final = 256
MAX_ADMIN_HANDSHAKES: Final = 32
"""TLS handshakes under way, beside the connections: some ten times as many as are begun while one takes a few ms."""

OWN_DESCRIPTORS: Final = 128
"""File descriptors that are kept for other things than clients: the API server, sources, files, compiling."""

VERBS_SHARE: Final = 2 / 3
ADMIN_SHARE: Final = 1 / 3
"""The part of the remaining descriptors that the admin address gets."""

HANDSHAKES_SHARE: Final = 1 / 4
"""The part of a TLS port's descriptors that handshakes get."""


class VerbServer(uvicorn.Server):
    """Serves the verbs, in the main thread.

    When it is to end, it ends the waits on Permit: their pods go back to the queue, and nobody waits for them. The main
    thread is the one that cannot end before the process, so it looks after the others.
    """

    def __init__(
        self, config: uvicorn.Config, waiting: WaitingPods, overload: Overload, on_start: Callable[[], object]
    ) -> None:
        """`on_start` is called as soon as verbs are served."""
        super().__init__(config)
        self._waiting = waiting
        self._overload = overload
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Serves from now on."""
        await super().startup(sockets)
        self._overload.beat()
        self._on_start()

    async def on_tick(self, counter: int) -> bool:
        """Begins threads anew that have ended, once a second."""
        self._overload.beat()
        if counter % TICKS_PER_CHECK == 0:
            supervision.revive()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the waits on Permit, then serves what is in flight to its end."""
        self._overload.end()
        self._waiting.close()
        await super().shutdown(sockets)


def max_connections(wanted: int, share: float) -> int:
    """`wanted`, or fewer: at most a share of the descriptors that are left beside our own."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, int(share * max(descriptors - OWN_DESCRIPTORS, descriptors / 2)))


def make_connections(
    router: Router,
    hear: Callable[[], object],
    certificates: ServerCertificates | None = None,
    count: Callable[[str], object] = lambda _: None,
) -> Callable[..., asyncio.Protocol]:
    """The factory of connections that uvicorn calls for each client of the verbs.

    `hear` is as of Connection, `count` as of Handshakes.
    """
    most = max_connections(MAX_CONNECTIONS, _share(VERBS_SHARE, certificates))
    clients, budget = Clients(most, IDLE_TIMEOUT_S, ARRIVAL_TIMEOUT_S), RequestBudget(router.max_request_bytes)

    def make(denial: str | None, **rest: Any) -> Connection:
        return Connection(Denial(denial) if denial else router, clients, budget, hear, **rest)

    if certificates is None:
        return partial(make, None)
    return Handshakes(certificates, make, max_connections(MAX_HANDSHAKES, VERBS_SHARE * HANDSHAKES_SHARE), count)


def make_admin_connections(
    certificates: ServerCertificates | None = None, count: Callable[[str], object] = lambda _: None
) -> Callable[..., asyncio.Protocol]:
    """The same for the admin address."""
    most = max_connections(MAX_ADMIN_CONNECTIONS, _share(ADMIN_SHARE, certificates))
    make: Make = partial(AdminConnection, Clients(most, ADMIN_IDLE_TIMEOUT_S, ADMIN_ARRIVAL_TIMEOUT_S))
    if certificates is None:
        return partial(make, None)
    return Handshakes(certificates, make, max_connections(MAX_ADMIN_HANDSHAKES, ADMIN_SHARE * HANDSHAKES_SHARE), count)


def _share(share: float, certificates: ServerCertificates | None) -> float:
    """What connections get of the descriptors of a port."""
    return share * (1 - HANDSHAKES_SHARE) if certificates else share


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


async def serve_admin(app: Any, connections: Callable[..., asyncio.Protocol], listener: socket.socket) -> None:
    """Serves the admin API until it is cancelled; the listener stays open. `connections` as uvicorn asks for them."""
    own = listener.dup()  # The server closes it; another one may have to go on with the listener.
    server = uvicorn.Server(uvicorn_config(app, connections))
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


def url(listener: socket.socket, certificates: ServerCertificates | None = None) -> str:
    """Where a listener is reached."""
    host, port = listener.getsockname()[:2]
    return f"{'https' if certificates else 'http'}://{Address(host, port)}"
