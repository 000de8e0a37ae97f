"""Cutting the byte stream of a watch into events: frames of protobuf, lines of JSON; no I/O."""

from __future__ import annotations

from typing import Final

from extender.cluster.client.errors import ProtocolError

LENGTH_BYTES: Final = 4
MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a frame; far more than etcd stores in one object. A larger length is no frame's, but a proxy's text."""


class FrameDecoder:
    """Takes chunks as the network delivers them and gives back whole frames.

    A frame is a length of four bytes, big-endian, and as many bytes of payload.
    https://github.com/kubernetes/kubernetes/blob/v1.36.3/staging/src/k8s.io/apimachinery/pkg/util/framer/framer.go
    """

    def __init__(self) -> None:
        """Nothing has been received yet."""
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads that `chunk` completes, in order; often none, sometimes many.

        Raises ProtocolError where a length is beyond MAX_FRAME_BYTES.
        """
        self._buffer += chunk
        frames: list[bytes] = []
        start = 0
        while (end := self._end_of_frame(start)) is not None:
            frames.append(bytes(self._buffer[start + LENGTH_BYTES : end]))
            start = end
        del self._buffer[:start]
        return frames

    @property
    def is_between_frames(self) -> bool:
        """Whether the stream may end here without loss."""
        return not self._buffer

    def _end_of_frame(self, start: int) -> int | None:
        if len(self._buffer) < start + LENGTH_BYTES:
            return None
        length = int.from_bytes(self._buffer[start : start + LENGTH_BYTES], "big")
        if length > MAX_FRAME_BYTES:
            raise ProtocolError(f"a watch sent a frame of {length} bytes: this is no protobuf watch")
        end = start + LENGTH_BYTES + length
        return end if len(self._buffer) >= end else None


class LineDecoder:
    """Takes chunks as the network delivers them and gives back whole lines, of which a watch in JSON has one an event.

    https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
    """

    def __init__(self) -> None:
        """Nothing has been received yet."""
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, in order, without those that are empty.

        Raises ProtocolError where a line is longer than MAX_FRAME_BYTES.
        """
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = bytes(self._buffer) + lines[0]
            self._buffer.clear()
        self._buffer += rest
        if len(self._buffer) > MAX_FRAME_BYTES:
            raise ProtocolError(f"a watch sent a line of more than {MAX_FRAME_BYTES} bytes: this is no watch in JSON")
        return [line for line in lines if line.strip()]

    @property
    def is_between_frames(self) -> bool:
        """Whether the stream may end here without loss."""
        return not self._buffer
