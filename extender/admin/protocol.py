"""HTTP/1.1 at the admin address: uvicorn's protocol, with bounds on what a client may take before it is let in."""

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
"""Of a request: small ones take many times their bytes."""

MAX_UNREAD_BYTES: Final = 1024 * 1024
"""Of what comes faster than it can be parsed; reading is paused long before."""

TOO_MANY_HEADERS: Final = (HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"there are more than {MAX_HEADERS} headers")


class AdminConnection(HttpToolsProtocol):
    """One connection. It ends with an answer for which the next request has not waited."""

    def __init__(self, clients: Clients, denial: str | None, **rest: Any) -> None:
        """`clients` are all those of the port; `denial` is why this one may ask for nothing; the rest is uvicorn's."""
        super().__init__(**rest)
        if denial:
            self.app = FailureResponse(HTTPStatus.FORBIDDEN, denial)
        self._clients = clients
        self._turn: asyncio.Handle | None = None
        self._received = ReceiveBuffer()
        self._piece_length = self._stray = 0  # As in Reader.
        self._left: int | None = 0
        self._is_over = self._is_in_head = False
        self.heard = self.loop.time()
        self.began: float | None = None
        self.good_answers = 0

    # -- what asyncio calls ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there. One too many is told so, and left."""
        super().connection_made(transport)
        if not self._clients.join(self):
            self.connections.discard(self)
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "there are too many connections; ask again later")

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._clients.part(self)
        self._end()
        if self._turn:
            self._turn.cancel()
            self._turn = None
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # It forgets that after an error, and the timer keeps all.

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request, of the rest of one, or of several."""
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

    # -- what those who look after all clients call ------------------------------------------------

    @property
    def is_awaited(self) -> bool:
        """Whether the client is to send something; not while an answer is under way, such as a stream of events."""
        if self.began is not None:
            return not (self.flow.read_paused or self._turn)
        return not self._is_answering

    def give_up(self, problem: str) -> None:
        """Ends the connection since a request does not come to its end."""
        if self._is_in_head:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, problem)
        else:
            self.transport.abort()

    def leave(self) -> None:
        """Ends the connection."""
        self.transport.abort()

    # -- reading -----------------------------------------------------------------------------------

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _go_on(self) -> None:
        """Parses what has come, as far as it is the turn of this client."""
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
        super().data_received(piece)  # type: ignore[arg-type]  # It passes it on to the parser, which takes both.
        if self._stray > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(*HEAD_TOO_LONG)

    def _refuse(self, status: HTTPStatus, problem: str) -> None:
        """Answers what is no request, and closes the connection."""
        self._end()
        body = json.dumps(failure_status(status, problem))
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
        self.transport.close()

    def _end(self) -> None:
        """Reads nothing any more."""
        self._is_over = True
        self._received = ReceiveBuffer()

    # -- what the parser calls ---------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._stray = self._piece_length
        self._is_in_head = True
        self.began = self.heard

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or one after a body."""
        if len(self.headers) <= MAX_HEADERS:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The body is to come."""
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
        """A part of the body."""
        self._stray = 0
        if self._left:
            self._left -= len(body)
        if not self._is_over:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is there."""
        self.began = None
        self._left = 0
        if not self._is_over:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """The answer has been written."""
        self.good_answers += 1
        super().on_response_complete()
