"""The comparison compares what is alike, and says by how much."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from bench import versus
from bench.client import Connection, post
from bench.peers.apiserver import Cluster
from bench.versus import CASES, Case, DifferentAnswersError, Load, Row, check_alike, meaning

FEW = Case(12, rounds=1, requests=1, p50_bar=None)


@pytest.mark.parametrize("whole", [False, True], ids=["names", "whole nodes"])
def test_the_guest_and_the_peer_answer_alike(
    cluster: Cluster, peer: Connection, whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    load = Load(Case(12, rounds=1, requests=1, p50_bar=None, whole=whole))
    with versus.extender(versus.GUEST, None if whole else cluster) as port, Connection(port) as ours:
        for _ in range(24):
            for verb, request in load.cycle().items():
                check_alike(ours, peer, verb, request)


def test_no_two_cycles_are_about_the_same_pod() -> None:
    load = Load(FEW)
    pods = []
    for _ in range(300):
        of_filter, of_prioritize = (json.loads(b"".join(each[1:]))["Pod"]["metadata"] for each in load.cycle().values())
        assert of_filter == of_prioritize
        pods.append(of_filter)
    assert len({pod["uid"] for pod in pods}) == len({pod["name"] for pod in pods}) == 300


@contextmanager
def answering(answer: object) -> Iterator[Connection]:
    """A connection to a server that says the same to all."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.dumps(answer).encode()
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            with Connection(server.server_port) as connection:
                yield connection
        finally:
            server.shutdown()
            thread.join()


def test_answers_that_differ_are_told_with_their_request() -> None:
    left, right = {"NodeNames": ["a"], "Error": ""}, {"NodeNames": [], "Error": ""}
    with answering(left) as ours, answering(right) as peer, pytest.raises(DifferentAnswersError) as caught:
        check_alike(ours, peer, "filter", post("/filter", b"{}"))
    assert str(caught.value) == (
        "filter is answered differently: {'NodeNames': ['a'], 'Error': ''} by ours,"
        " {'NodeNames': [], 'Error': ''} by the peer; the request: {}"
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([{"Host": "a", "Score": 0}, {"Host": "b", "Score": 7}], {"b": 7}),
        ([{"Host": "b", "Score": 7}], {"b": 7}),
        ({"NodeNames": ["b", "a"]}, {"NodeNames": ["b", "a"]}),
    ],
)
def test_what_an_answer_means(answer: Any, expected: Any) -> None:
    assert meaning(answer) == expected


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (
            "500",
            "| 500 names | filter | 0.800 | 3.000 | 1.000 | 2.000 | 0.80 (within 0.8) | 1.50 (above 1.0) |",
        ),
        ("15000", "| 15,000 names | filter | 0.800 | 3.000 | 1.000 | 2.000 | 0.80 | 1.50 (above 1.0) |"),
        ("whole", "| 500 whole nodes | filter | 0.800 | 3.000 | 1.000 | 2.000 | 0.80 (above 0.3) | 1.50 |"),
    ],
)
def test_a_row_has_the_ratios_beside_their_bars(case: str, expected: str) -> None:
    assert str(Row(CASES[case], "filter", (0.8, 3.0), (1.0, 2.0))) == expected
