"""HTTP/1.1 at the admin address: uvicorn's protocol, with bounds on what a client may use before it is let in."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from extender.admin.status import FailureResponse, failure_status
from extender.http.clients import Clients
from extender.http.request_parser import HEAD_TOO_LONG, MAX_HEAD_BYTES, MAX_PIECE_BYTES, ReceiveBuffer, body_length

MAX_HEADERS: Final = 100
"""Headers of a request. Small headers use many times their bytes of memory."""

MAX_UNREAD_BYTES: Final = 1024 * 1024
"""Bytes that were received and not parsed yet. Reading is paused long before."""

TOO_MANY_HEADERS: Final = (HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"there are more than {MAX_HEADERS} headers")


class AdminConnection(HttpToolsProtocol):
    """One connection. It is closed after an answer if the client sent its next request before that (pipelining).

    asyncio calls `connection_made`, `connection_lost` and `data_received`, Clients what follows up to `leave`, the
    parser what begins with `on_`.
    """

    def __init__(self, clients: Clients, denial: str | None, **rest: Any) -> None:
        """`clients` are all clients of the port; `denial` is why this client may not ask; `rest` is uvicorn's."""
        super().__init__(**rest)
        if denial:
            self.app = FailureResponse(HTTPStatus.FORBIDDEN, denial)
        self._clients = clients
        self._turn: asyncio.Handle | None = None
        """When the parser goes on, if received bytes wait for it."""
        self._received = ReceiveBuffer()
        self._piece_length = 0
        """Bytes of the piece that is being parsed."""
        self._stray = 0
        """Bytes of a head, or since a piece of a body came."""
        self._left: int | None = 0
        """Bytes that are left of a body; 0 in a head, None for a body in chunks."""
        self._is_over = self._is_in_head = False
        self.heard = self.loop.time()
        """When bytes came last, on the loop's clock."""
        self.began: float | None = None
        """When the request that is being received began, on the loop's clock; None if there is none."""
        self.good_answers = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes a client in, or refuses it if the port is full."""
        super().connection_made(transport)
        if not self._clients.join(self):
            self.connections.discard(self)
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "there are too many connections; ask again later")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the client, which has gone."""
        self._clients.part(self)
        self._end()
        if self._turn:
            self._turn.cancel()
            self._turn = None
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # uvicorn forgets this after an error; its timer would keep the connection.

    def data_received(self, data: bytes) -> None:
        """Takes bytes that were received: a part of a request, or several requests."""
        self.heard = self.loop.time()
        if self._is_over:
            return
        self._received.add(data)
        if self._turn is None:
            self._go_on()
        elif self._received.size > MAX_UNREAD_BYTES:
            self.transport.abort()
        else:
            self.transport.pause_reading()

    @property
    def is_awaited(self) -> bool:
        """Whether the server waits for the client to send; not while an answer is under way, such as a stream."""
        if self.began is not None:
            return not (self.flow.read_paused or self._turn)
        return not self._is_answering

    def give_up(self, problem: str) -> None:
        """Closes the connection because a request is not complete in time; `problem` says so to the client."""
        if self._is_in_head:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, problem)
        else:
            self.transport.abort()

    def leave(self) -> None:
        """Closes the connection without an answer."""
        self.transport.abort()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _go_on(self) -> None:
        """Parses what was received, at most MAX_PIECE_BYTES at a time; then other clients have their turn."""
        self._turn = None
        budget = MAX_PIECE_BYTES
        while self._received.size and budget > 0 and not self.transport.is_closing():
            if self.began is None and self._is_answering:
                self.cycle.keep_alive = False
                self._end()
                return
            left = self._left
            piece = self._received.take(left)
            self._parse(piece)
            if not left:
                budget -= len(piece)
        if self.transport.is_closing():
            return
        if self._received.size:
            self._turn = self.loop.call_soon(self._go_on)
            self.transport.pause_reading()
        elif not self.flow.read_paused:
            self.transport.resume_reading()

    def _parse(self, piece: bytes | memoryview) -> None:
        self._piece_length = len(piece)
        self._stray += self._piece_length
        super().data_received(piece)  # type: ignore[arg-type]  # uvicorn hands it to the parser, which takes both.
        if self._stray > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(*HEAD_TOO_LONG)

    def _refuse(self, status: HTTPStatus, problem: str) -> None:
        """Answers with a failure without asking the application, and closes the connection."""
        self._end()
        body = json.dumps(failure_status(status, problem))
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
        self.transport.close()

    def _end(self) -> None:
        """Ignores what is received from now on."""
        self._is_over = True
        self._received = ReceiveBuffer()

    def on_message_begin(self) -> None:
        """Notes that a request begins."""
        super().on_message_begin()
        self._stray = self._piece_length
        self._is_in_head = True
        self.began = self.heard

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a header, or a trailer after a body in chunks."""
        if len(self.headers) <= MAX_HEADERS:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Refuses a request whose headers are too many, too long or wrong; otherwise its body may come."""
        headers = dict(self.headers)
        length, problem = body_length(headers)
        if self._stray > MAX_HEAD_BYTES:
            self._refuse(*HEAD_TOO_LONG)
        elif len(self.headers) > MAX_HEADERS:
            self._refuse(*TOO_MANY_HEADERS)
        elif problem:
            self._refuse(HTTPStatus.BAD_REQUEST, problem)
        else:
            self._left = length
            self._is_in_head = False
            super().on_headers_complete()
            if self.parser.should_upgrade():
                self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Takes a part of the body."""
        self._stray = 0
        if self._left:
            self._left -= len(body)
        if not self._is_over:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Notes that a request is complete."""
        self.began = None
        self._left = 0
        if not self._is_over:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Counts an answer that was written."""
        self.good_answers += 1
        super().on_response_complete()
