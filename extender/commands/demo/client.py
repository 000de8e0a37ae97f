"""A client that calls the verbs as kube-scheduler does: POST, JSON, one connection that is kept."""

from __future__ import annotations

import http.client
import time
from typing import Any, NamedTuple

import msgspec

TIMEOUT_S = 10.0
"""Seconds that an answer may take."""


class Reply(NamedTuple):
    """An answer of a verb."""

    body: Any
    """The decoded JSON."""
    seconds: float
    """From the request to the last byte of the answer."""


class SchedulerClient:
    """One connection to the extender. Raises OSError or http.client.HTTPException when it breaks."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)

    def post(self, verb: str, body: bytes) -> Reply:
        """Calls a verb with JSON. Raises ValueError for an answer that kube-scheduler would not read."""
        started = time.perf_counter()
        try:
            self._connection.request("POST", f"/{verb}", body, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # The next call makes a new one.
            raise
        seconds = time.perf_counter() - started
        if answer.status != http.client.OK:
            raise ValueError(f"{verb} was answered with status {answer.status}: {content.decode(errors='replace')}")
        return Reply(msgspec.json.decode(content), seconds)

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()
