"""TLS between a client's connection and the protocol that answers it."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, cast

from uvicorn.server import ServerState

from extender.http.certificates import ServerCertificates
from wasm_runtime.engine import KIBIBYTE

HANDSHAKE_TIMEOUT_S: Final = 5.0
"""Seconds for a handshake: kube-scheduler gives up after five seconds by itself."""

SHUTDOWN_TIMEOUT_S: Final = 5.0
"""Seconds for a client to take what it is still sent and to end TLS, once a connection is to end."""

BUFFER_BYTES: Final = 256 * KIBIBYTE
"""Of what is decrypted in one go: as much as uvloop reads in one go, since what is left over waits for another turn."""

REPORT_INTERVAL_S: Final = 1.0
"""Seconds between two lines of the log about clients that were not let in."""

_REASONS: Final[Mapping[str, str]] = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it showed no certificate; give it one that the CA of {key}.clientCAFile has"
    " signed (certFile and keyFile in tlsConfig of kube-scheduler's extender)",
    "HTTP_REQUEST": "it speaks plain HTTP; ask by https:// (enableHTTPS in kube-scheduler's extender)",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not know the CA of {key}.certFile; name that CA to it (caFile in tlsConfig of"
    " kube-scheduler's extender)",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept {key}.certFile; see whether that has expired, who has signed it,"
    " and whether it has the name by which the client asks",
    "UNSUPPORTED_PROTOCOL": "it knows no TLS 1.2",
}
"""By OpenSSL's name of what has happened."""

logger = logging.getLogger(__name__)


class HandshakeEnd(str, Enum):
    """How a handshake ended."""

    DONE = "done"
    DENIED = "denied"
    """The client's certificate has none of the names."""
    FAILED = "failed"
    TIMED_OUT = "timed out"
    DISPLACED = "displaced"
    """Newer ones needed its place."""


Make = Callable[..., asyncio.Protocol]
"""Makes the protocol that answers a client: of why it is to be denied everything, if it is, and what uvicorn gives."""


class Handshakes:
    """The handshakes of one port: so many at a time that the oldest gives way, and one begun in a turn of the loop.

    So clients that never finish theirs keep nobody out, and many that come at once do not hold up the requests of those
    that are there. Of one event loop.
    """

    def __init__(
        self, certificates: ServerCertificates, make: Make, max_handshakes: int, count: Callable[[str], object]
    ) -> None:
        """`count` gets how each handshake ended, a value of HandshakeEnd."""
        self.certificates = certificates
        self.make = make
        self._max = max_handshakes
        self._count = count
        self._under_way: OrderedDict[_Handshake, None] = OrderedDict()
        """The oldest first."""
        self._ready: deque[_Handshake] = deque()
        """Handshakes whose client has sent something, and that have yet to begin."""
        self._not_let_in = 0
        self.buffer = memoryview(bytearray(BUFFER_BYTES))
        """What is read of any connection, until it is handed on."""

    def __call__(self, server_state: ServerState, **rest: Any) -> asyncio.Protocol:
        """A connection, as uvicorn asks for one."""
        return _Handshake(self, server_state, rest)

    def join(self, handshake: _Handshake) -> None:
        """Takes one more."""
        if len(self._under_way) >= self._max:
            oldest = next(iter(self._under_way))
            oldest.leave(HandshakeEnd.DISPLACED, "newer clients needed the place of its handshake")
        self._under_way[handshake] = None

    def queue(self, handshake: _Handshake) -> None:
        """Has one begin when it is its turn."""
        self._ready.append(handshake)
        if len(self._ready) == 1:
            asyncio.get_running_loop().call_soon(self._begin)

    def part(self, handshake: _Handshake) -> None:
        """Forgets one that is over; does nothing for one that is forgotten."""
        self._under_way.pop(handshake, None)

    def end(self, end: HandshakeEnd, peer: str, reason: str) -> None:
        """Counts one that is over, and has it told if its client was not let in."""
        self._count(end.value)
        if end is HandshakeEnd.DONE:
            return
        self._not_let_in += 1
        if self._not_let_in == 1:
            asyncio.get_running_loop().call_later(REPORT_INTERVAL_S, self._report, peer, reason)

    def _begin(self) -> None:
        self._ready.popleft().begin()
        if self._ready:
            asyncio.get_running_loop().call_soon(self._begin)

    def _report(self, peer: str, reason: str) -> None:
        count, self._not_let_in = self._not_let_in, 0
        logger.warning("clients not let in by %s: %d; the first, %s: %s", self.certificates.key, count, peer, reason)


class _Handshake(asyncio.Protocol):
    """A connection until its handshake is over. Then the protocol that answers takes its place."""

    def __init__(self, handshakes: Handshakes, server_state: ServerState, rest: Mapping[str, Any]) -> None:
        self._handshakes = handshakes
        self._state = server_state
        self._rest = rest
        self._loop = asyncio.get_running_loop()
        self._received = b""
        """What has come before there was somebody to take it: of the handshake before it begins, of a request after."""
        self._is_ready = self._has_begun = self._is_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self._transport = cast(asyncio.Transport, transport)
        self._timer = self._loop.call_later(HANDSHAKE_TIMEOUT_S, self._time_out)
        self._state.connections.add(self)  # type: ignore[arg-type]
        self._handshakes.join(self)

    def data_received(self, data: bytes) -> None:
        """What begins the handshake, of which no more is read before its turn, or what came right behind it."""
        self._received += data
        if not self._is_ready:
            self._is_ready = True
            self._transport.pause_reading()
            self._handshakes.queue(self)

    def connection_lost(self, _: Exception | None) -> None:
        """The client is gone. One that has sent nothing may have been a probe."""
        if not self._has_begun:
            self._part()

    def begin(self) -> None:
        """It is its turn."""
        if not self._transport.is_closing():
            self._has_begun = True
            task = self._loop.create_task(self._run())
            self._state.tasks.add(task)
            task.add_done_callback(self._state.tasks.discard)

    def leave(self, end: HandshakeEnd, reason: str) -> None:
        """Ends it, and the connection."""
        self._end(end, reason)
        self._transport.abort()

    def shutdown(self) -> None:
        """Ends it with the server, as uvicorn asks for."""
        self._part()
        self._transport.abort()

    async def _run(self) -> None:
        certificates = self._handshakes.certificates
        coming = self._loop.create_task(
            self._loop.start_tls(
                self._transport,
                self,
                certificates.context,
                server_side=True,
                ssl_handshake_timeout=2 * HANDSHAKE_TIMEOUT_S,  # The timer of its own ends it before.
                ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,  # type: ignore[call-arg]  # uvloop has it with each Python.
            )
        )
        self._loop.call_soon(self._loop.call_soon, self._feed)  # Behind what start_tls calls soon.
        try:
            secured = await coming
        except OSError as error:  # ssl.SSLError is one
            self._end(HandshakeEnd.FAILED, self._reason(error))
            return
        if secured is None or secured.is_closing():  # So it is when the connection was aborted.
            self._part()
            return
        denial = certificates.denial(secured.get_extra_info("peercert"))
        self._end(HandshakeEnd.DENIED if denial else HandshakeEnd.DONE, denial or "")
        protocol = self._handshakes.make(denial, server_state=self._state, **self._rest)
        secured.set_protocol(_Decrypted(protocol, self._handshakes.buffer))
        protocol.connection_made(secured)
        if self._received:
            protocol.data_received(self._received)

    def _feed(self) -> None:
        """Gives TLS the bytes that came before TLS was set up."""
        received, self._received = self._received, b""
        tls = cast(asyncio.BufferedProtocol, self._transport.get_protocol())
        while received and not self._transport.is_closing():
            buffer = memoryview(tls.get_buffer(len(received)))
            size = min(len(buffer), len(received))
            buffer[:size] = received[:size]
            received = received[size:]
            tls.buffer_updated(size)

    def _time_out(self) -> None:
        self.leave(HandshakeEnd.TIMED_OUT, f"its handshake did not end within {HANDSHAKE_TIMEOUT_S:g} seconds")

    def _end(self, end: HandshakeEnd, reason: str) -> None:
        if not self._is_over:
            self._handshakes.end(end, self._peer(), reason)
        self._part()

    def _part(self) -> None:
        self._is_over = True
        self._timer.cancel()
        self._state.connections.discard(self)
        self._handshakes.part(self)

    def _peer(self) -> str:
        host, port, *_ = self._transport.get_extra_info("peername") or ("somebody", 0)
        return f"{host} port {port}"

    def _reason(self, error: OSError) -> str:
        key = self._handshakes.certificates.key
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"its certificate is not accepted: {error.verify_message}"
        told = _REASONS.get(getattr(error, "reason", None) or "")
        return told.format(key=key) if told else str(error.strerror or error or "it has cut the connection")


class _Decrypted(asyncio.BufferedProtocol):
    """Hands on to a protocol what it is sent.

    uvloop decrypts into the buffer that it is given, and else makes a large one for each read.
    """

    def __init__(self, protocol: asyncio.Protocol, buffer: memoryview) -> None:
        self._buffer = buffer
        self._data_received = protocol.data_received
        self.connection_lost = protocol.connection_lost  # type: ignore[method-assign]
        self.eof_received = protocol.eof_received  # type: ignore[method-assign]
        self.pause_writing = protocol.pause_writing  # type: ignore[method-assign]
        self.resume_writing = protocol.resume_writing  # type: ignore[method-assign]

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Where to decrypt to."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Something was decrypted."""
        self._data_received(bytes(self._buffer[:nbytes]))
