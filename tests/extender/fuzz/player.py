"""Sends streams to an extender, and judges what it answers."""

from __future__ import annotations

import json
import re
import socket
from contextlib import suppress
from typing import Any, NamedTuple

from tests.extender.fuzz.streams import Streams
from tests.extender.raw import Connection

STATUSES = frozenset((200, 400, 404, 405, 413, 431))
"""Statuses of answers to complete and malformed requests; 500 would be a fault of our own."""

HEAD = re.compile(rb"HTTP/1\.1 (\d{3}) [A-Za-z -]+\r\n((?:[a-z-]+: [^\r\n]*\r\n)*)\r\n")
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
NEIGHBOUR = 20
"""Streams between two requests of the neighbour."""


class Finding(NamedTuple):
    """A stream that was not answered as it may be."""

    number: int
    what: str


class Player:
    """A client that sends streams, and its neighbour, who must be answered all the same."""

    def __init__(self, address: tuple[str, int], streams: Streams) -> None:
        self._address = address
        self._streams = streams
        self._neighbour = Connection(address)
        self._expected = self._ask()

    def close(self) -> None:
        """Ends the neighbour's connection."""
        self._neighbour.__exit__(None, None, None)

    def play(self, number: int) -> tuple[int, list[Finding]]:
        """Sends a stream. Returns how many requests it has, and what is wrong with the answers."""
        requests = self._streams[number]
        sent = b"".join(requests)
        found = _judge(sent, self._exchange(sent), len(requests))
        if number % NEIGHBOUR == 0 and (answer := self._ask()) != self._expected:
            found.append(f"the neighbour is answered {answer[:200]!r}")
        return len(requests), [Finding(number, what) for what in found]

    def _ask(self) -> bytes:
        self._neighbour.send(self._streams.good())
        answer = self._neighbour.read()
        return b"%d %s" % (answer.status, answer.body)

    def _exchange(self, sent: bytes) -> bytes:
        """All that is answered to a stream, until the extender closes the connection."""
        answered = b""
        with socket.create_connection(self._address, timeout=30) as connection, suppress(ConnectionError):
            with suppress(OSError):  # It may have been refused before its end.
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
            while data := connection.recv(1 << 20):
                answered += data
        return answered


def _judge(sent: bytes, answered: bytes, most: int) -> list[str]:
    """What is wrong with the answers. Requests may become more by a mutation, but none is answered by half."""
    found: list[str] = []
    is_text = _is_text(sent)
    while answered:
        if answered.startswith(CONTINUE):
            answered = answered[len(CONTINUE) :]
            continue
        head = HEAD.match(answered)
        if not head:
            return [*found, f"no head of an answer: {answered[:200]!r}"]
        headers = dict(line.split(b": ", 1) for line in head[2].splitlines())
        end = head.end() + int(headers[b"content-length"])
        body, answered = answered[head.end() : end], answered[end:]
        if len(body) < int(headers[b"content-length"]) and answered == b"":
            return [*found, f"an answer that ends early: {body[-200:]!r}"] if most == 1 else found
        try:
            # Nodes are sent back as they came, byte for byte.
            content = json.loads(body if is_text else body.decode(errors="replace"))
        except ValueError:
            return [*found, f"no JSON: {body[:200]!r}"]
        if int(head[1]) not in STATUSES:
            found.append(f"status {head[1].decode()}: {body[:200]!r}")
        elif int(head[1]) == 200 and is_text and b"\\" not in sent:
            strange = [name for name in _names(content) if json.dumps(name, ensure_ascii=False).encode() not in sent]
            if strange:
                found.append(f"names that were not asked: {strange[:3]}")
    return found


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _names(answer: Any) -> list[str]:
    """The nodes of an answer."""
    if isinstance(answer, list):
        return [each["Host"] for each in answer]
    names = list(answer.get("NodeNames") or [])
    for key in ("FailedNodes", "FailedAndUnresolvableNodes", "NodeNameToMetaVictims"):
        names += answer.get(key) or {}
    return names
