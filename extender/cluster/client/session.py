"""The HTTP client that a Kubernetes client configuration describes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

import httpx

from extender.cluster.client.access import authorization, proxy, tls_context
from extender.cluster.client.errors import AccessError

if TYPE_CHECKING:
    from kubernetes.client import Configuration

CONNECT_TIMEOUT_S: Final = 5.0
"""Seconds for a connection to be made, TLS included."""
IDLE_CONNECTION_TIMEOUT_S: Final = 60.0
"""Seconds that an idle connection is kept."""


class ApiSession:
    """Connections to one API server with one configuration. Use it from one event loop only."""

    def __init__(self, configuration: Configuration) -> None:
        """Reads the certificates; no I/O on the network. Raises AccessError."""
        self.address = str(configuration.host)
        name = configuration.tls_server_name
        self.extensions = {"sni_hostname": name} if name else {}
        try:
            self.client = _client(configuration)
        except (httpx.InvalidURL, ValueError, ImportError) as error:
            raise AccessError(f"cannot use the address {self.address} or its proxy: {error}") from error


def _client(configuration: Configuration) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=configuration.host,
        auth=_Authorization(configuration),
        verify=tls_context(configuration),
        proxy=proxy(configuration),
        # The configuration has taken the proxy from the environment; a .netrc must not speak for us.
        trust_env=False,
        limits=httpx.Limits(keepalive_expiry=IDLE_CONNECTION_TIMEOUT_S),
        # Compressing lists of nodes costs the server more time than it saves in a cluster's network.
        headers={"Accept-Encoding": "identity", "User-Agent": "kube-wasm-extender"},
    )


class _Authorization(httpx.Auth):
    """Puts the credentials of the moment on each request."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._lock = threading.Lock()

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        # In a thread: a credential plugin may run for seconds, and this loop answers health checks.
        header = await asyncio.to_thread(self._read)
        if header:
            request.headers["Authorization"] = header
        yield request

    def _read(self) -> str | None:
        with self._lock:
            return authorization(self._configuration)
