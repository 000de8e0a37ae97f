"""A port of a pod on this machine's loopback, through the API server."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from socketserver import BaseRequestHandler, TCPServer, ThreadingMixIn
from threading import Thread
from typing import Final

from kubernetes.client import ApiClient, ApiException, Configuration, CoreV1Api
from kubernetes.stream import portforward
from kubernetes.stream.ws_client import PortForward

from extender.commands.kubectl.pods import ExtenderPod

LOOPBACK: Final = "127.0.0.1"
CHUNK: Final = 64 * 1024
"""Bytes that are read at a time."""


class Forward(ThreadingMixIn, TCPServer):
    """Listens on loopback, as `kubectl port-forward` does; each connection has a WebSocket of its own to the pod."""

    daemon_threads = True
    problem: str | None = None
    """Why a connection failed last; None if none has failed."""

    def __init__(self, configuration: Configuration, pod: ExtenderPod) -> None:
        self._configuration = configuration
        self._pod = pod
        super().__init__((LOOPBACK, 0), _Connection)

    @property
    def port(self) -> int:
        """The port on loopback."""
        return int(self.server_address[1])

    def relay(self, client: socket.socket) -> None:
        """Carries the bytes of a connection both ways until one side ends it."""
        pod = self._pod
        try:
            # The call puts a method of its own into the client, so each thread has one.
            with ApiClient(self._configuration) as api:
                ask = CoreV1Api(api).connect_get_namespaced_pod_portforward
                forward: PortForward = portforward(ask, pod.name, pod.namespace, ports=str(pod.port))
        except ApiException as error:
            self.problem = f"no port-forward to {pod}: {_cause(error)}"
            return
        with closing(forward):
            _carry(client, forward.socket(pod.port))
        if refusal := forward.error(pod.port):
            self.problem = f"port {pod.port} of {pod} cannot be reached: {refusal.strip()}"


@contextmanager
def forwarded(configuration: Configuration, pod: ExtenderPod) -> Iterator[Forward]:
    """A port-forward that lasts as long as the context."""
    with Forward(configuration, pod) as forward:
        thread = Thread(target=forward.serve_forever, args=(0.05,), name="port-forward", daemon=True)
        thread.start()
        try:
            yield forward
        finally:
            forward.shutdown()
            thread.join()


class _Connection(BaseRequestHandler):
    server: Forward

    def handle(self) -> None:
        self.server.relay(self.request)


def _carry(one: socket.socket, other: socket.socket) -> None:
    """Carries bytes both ways until one side ends or fails."""
    opposite = {one: other, other: one}
    while True:
        ready, _, _ = select.select(list(opposite), [], [])
        if not all(_pass_on(each, opposite[each]) for each in ready):
            return


def _pass_on(source: socket.socket, target: socket.socket) -> bool:
    """Passes on bytes that have come; False once a side has ended or failed."""
    try:
        data = source.recv(CHUNK)
        target.sendall(data)
    except OSError:
        return False
    return bool(data)


def _cause(error: ApiException) -> str:
    """The message of the API server; `str(error)` would quote the whole answer, headers included."""
    refusal = error.__context__ or error
    try:
        return str(json.loads(getattr(refusal, "resp_body", ""))["message"])
    except (ValueError, KeyError, TypeError):
        status = getattr(refusal, "status_code", None)
        return f"the API server answers with status {status}" if status else str(refusal)
