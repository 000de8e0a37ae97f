"""A proxy between scheduler and extender that keeps what passes."""

from __future__ import annotations

import http.server
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx

from bench.controlplane.ports import LOOPBACK, free_port
from tests.patience import Beside


class Recorder:
    """Passes requests on to the extender at `target` and keeps their bodies by verb."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._port = free_port()
        self._bodies: list[tuple[str, bytes]] = []

    @property
    def url(self) -> str:
        """What the scheduler is to call."""
        return f"http://{LOOPBACK}:{self._port}"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Serves in a thread."""
        with _Server(self._port, self._pass_on) as server:
            beside = Beside(server.serve_forever)
            try:
                yield
            finally:
                server.shutdown()
                beside.end()

    def bodies(self, verb: str, pod: str) -> list[bytes]:
        """The bodies of a verb's requests about a pod, in their order."""
        return [body for name, body in self._bodies if name == verb and f'"{pod}"'.encode() in body[:200]]

    def _pass_on(self, path: str, body: bytes) -> httpx.Response:
        self._bodies.append((path.rpartition("/")[2], body))
        return httpx.post(self._target + path, content=body, trust_env=False, timeout=30)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, pass_on: Callable[[str, bytes], httpx.Response]) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.pass_on = pass_on


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        answer = self.server.pass_on(self.path, self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(answer.status_code)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, *_: object) -> None:
        pass
