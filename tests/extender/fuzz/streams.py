"""What a client sends: each stream depends on the seed and its number alone, so that it can be made again."""

from __future__ import annotations

from pathlib import Path
from random import Random

import extender
from tests.extender.raw import chunked, request

CYCLE = Path(extender.__file__).parent / "examples" / "cycle"
"""The folder with requests that a kube-scheduler has sent."""

TOKENS = (
    b"null", b"true", b"-1", b"1e999", b"9" * 400, b"{}", b"[]", b'""', b"[" * 5_000, b'{"a":' * 2_000,
    b"\\ud800", b"\\u0000", b"\xff\xfe", b"\0", b"\r\n", b"\r\n\r\n", b"\n", b'"', b",", b":",
    b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n", b"Connection: keep-alive\r\n", b"Expect: 100-continue\r\n",
    b"Upgrade: h2c\r\nConnection: Upgrade\r\n", b"0\r\n\r\n", b"ffffffffffffffff\r\n", b"X: " + b"y" * 70_000,
    b"0" * 5_000, b"HTTP/1.0", b"HTTP/9.9", b"GET ", b"CONNECT ", b"OPTIONS ", b"/profiles/default/filter",
    b"/nowhere", b"http://[", b"%00", b"..", b'"Nodes":null', b'"NodeNames":null', b'"Pod":null',
    b'"nodenames":["node-0"]',
)  # fmt: skip
"""Bytes that a mutation inserts, or puts in the place of others."""


class Streams:
    """Streams of requests by number."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._bodies = {
            verb: (CYCLE / f"{verb}.json").read_bytes() for verb in ("filter", "prioritize", "preempt", "bind")
        }

    def __getitem__(self, number: int) -> list[bytes]:
        """The pieces of a stream: some requests, most of them malformed."""
        dice = Random(f"{self._seed} {number}")
        return [self._request(dice) for _ in range(dice.choice((1, 1, 1, 2, 4)))]

    def good(self) -> bytes:
        """A request that must be answered with status 200."""
        return request("/filter", self._bodies["filter"])

    def _request(self, dice: Random) -> bytes:
        verb, body = dice.choice(list(self._bodies.items()))
        if dice.random() < 0.1:
            body = dice.choice(list(self._bodies.values()))
        kind = dice.random()
        if kind < 0.45:  # A body that is as long as it should be.
            for _ in range(dice.choice((1, 1, 2, 8))):
                body = _mutate(dice, body, self._bodies[verb])
            if kind < 0.1:
                cuts = sorted(dice.randrange(len(body) + 1) for _ in range(3))
                pieces = [body[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]
                return chunked(f"/{verb}", [piece for piece in pieces if piece])
            return request(f"/{verb}", body)
        sent = request(f"/{verb}", body)
        head = sent.index(b"\r\n\r\n") + 4
        for _ in range(dice.choice((1, 1, 2, 4))):
            if kind < 0.9:
                sent = _mutate(dice, sent[:head], self._bodies[verb]) + sent[head:]
            else:
                sent = _mutate(dice, sent, self._bodies[verb])
        return sent


def _mutate(dice: Random, data: bytes, other: bytes) -> bytes:
    begin = dice.randrange(len(data) + 1)
    end = min(len(data), begin + dice.choice((0, 1, 1, 4, 30, 1_000)))
    match dice.randrange(6):
        case 0:
            return data[:begin] + dice.choice(TOKENS) + data[end:]
        case 1:
            return data[:begin] + dice.randbytes(end - begin) + data[end:]
        case 2:
            return data[:begin] + data[end:]
        case 3:
            return data[:begin] + data[begin:end] * dice.choice((2, 3, 50)) + data[end:]
        case 4:
            at = dice.randrange(len(other))
            return data[:begin] + other[at : at + end - begin] + data[end:]
        case _:
            return data[:begin]
