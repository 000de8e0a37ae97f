"""How servers are waited for that are measured."""

from __future__ import annotations

import ssl
import sys
import time
from types import SimpleNamespace

import pytest

from bench import servers
from bench.controlplane.ports import free_port
from bench.servers import ServerError, running

BECOMES_READY = """
import http.server, socket, sys

port, *statuses = map(int, sys.argv[1:])
with socket.create_server(("127.0.0.1", port)) as listener:
    listener.accept()

class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status = statuses.pop(0) if statuses[1:] else statuses[0]
        if not status:
            server.server_close()
            sys.exit("there is no disk")
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b"pods are listed")

server = http.server.HTTPServer(("127.0.0.1", port), Health)
server.handle_error = lambda *_: None
while True:
    server.handle_request()
"""
"""A server that hangs up on the first client, is away for a moment, and then tells how it is, the last for good."""


def play(*statuses: int) -> None:
    port = free_port()
    with running([sys.executable, "-c", BECOMES_READY, str(port), *map(str, statuses)], port, says_ready=True):
        assert servers.get(port, "/readyz") == (200, "pods are listed")


def test_one_that_is_not_there_yet_and_then_not_ready_yet_is_waited_for() -> None:
    play(503, 503, 200)


def test_one_that_ends_before_it_is_ready_is_told_with_its_status_and_words() -> None:
    with pytest.raises(ServerError) as caught:
        play(503, 0)
    _, _, told = str(caught.value).rpartition(" did not start: ")
    assert told.startswith("it ended with status 1\n")
    assert told.endswith("there is no disk\n")


def test_one_that_does_not_become_ready_is_told_with_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    now, get = [0.0], servers.get

    def get_at_last(port: int, path: str, tls: ssl.SSLContext | None) -> tuple[int, str]:
        answer = get(port, path, tls)
        now[0] = servers.START_TIMEOUT + 1
        return answer

    monkeypatch.setattr(servers, "get", get_at_last)
    monkeypatch.setattr(servers, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=time.sleep))
    with pytest.raises(ServerError, match=r" did not start: port \d+ is not ready: pods are listed\n"):
        play(503)
