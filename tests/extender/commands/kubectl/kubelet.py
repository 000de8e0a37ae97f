"""What a kubelet is to a port-forward: an HTTPS server that carries bytes between a WebSocket and ports of pods."""

from __future__ import annotations

import base64
import hashlib
import select
import socket
import ssl
import struct
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from websocket import ABNF
from websocket._abnf import frame_buffer

from tests.certificates import Issued
from tests.patience import PATIENCE_S

LOOPBACK = "127.0.0.1"
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
DATA, ERROR = b"\0", b"\1"
"""Channels of the one port of a connection."""


class Kubelet(ThreadingHTTPServer):
    """Speaks `/portForward` with WebSockets as kubelets do; a context manager.

    https://github.com/kubernetes/kubelet/blob/v0.34.0/pkg/cri/streaming/portforward/websocket.go
    """

    daemon_threads = True

    def __init__(self, issued: Issued, ports: Mapping[int, int]) -> None:
        """`ports` are those of pods, and where on loopback their bytes go."""
        self.ports = ports
        self.asked: list[str] = []
        """The paths of the requests until now."""
        super().__init__((LOOPBACK, 0), _PortForward)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(issued.cert, issued.key)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self._thread = Thread(target=self.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Kubelet:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown()
        self._thread.join(PATIENCE_S)
        self.server_close()


class _PortForward(BaseHTTPRequestHandler):
    server: Kubelet
    connection: ssl.SSLSocket
    protocol_version = "HTTP/1.1"
    rbufsize = 0

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self.server.asked.append(url.path)
        accept = hashlib.sha1((self.headers["Sec-WebSocket-Key"] + GUID).encode(), usedforsecurity=False).digest()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(accept).decode())
        self.send_header("Sec-WebSocket-Protocol", "v4.channel.k8s.io")
        self.end_headers()
        self.close_connection = True
        (port,) = map(int, parse_qs(url.query)["port"])
        for channel in (DATA, ERROR):
            self._send(channel + struct.pack("<H", port))
        try:
            pod = socket.create_connection((LOOPBACK, self.server.ports[port]))
        except OSError as error:
            self._send(ERROR + f"error forwarding port {port} to pod: {error.strerror}".encode())
            self._receive(frame_buffer(self._bytes, True))
            return
        with pod:
            self._carry(pod)

    def log_message(self, *_: object) -> None:
        """Nothing on standard error."""

    def _carry(self, pod: socket.socket) -> None:
        frames = frame_buffer(self._bytes, True)
        while True:
            ready = [self.connection] if self.connection.pending() else select.select([self.connection, pod], [], [])[0]
            for each in ready:
                data = pod.recv(1 << 16) if each is pod else self._receive(frames)
                if not data:
                    return
                if each is pod:
                    self._send(DATA + data)
                else:
                    pod.sendall(data)

    def _bytes(self, most: int) -> bytes:
        data = self.connection.recv(most)
        if not data:
            raise ConnectionError("the client is gone")
        return data

    def _receive(self, frames: frame_buffer) -> bytes:
        """What the client sends on the channel of data; nothing when it ends."""
        try:
            frame = frames.recv_frame()
        except ConnectionError:
            return b""
        return frame.data[1:] if frame.opcode == ABNF.OPCODE_BINARY and isinstance(frame.data, bytes) else b""

    def _send(self, data: bytes) -> None:
        frame = ABNF.create_frame(data, ABNF.OPCODE_BINARY)
        frame.mask_value = 0
        self.wfile.write(frame.format())
