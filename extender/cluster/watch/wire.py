"""How a resource comes over the wire: in protobuf, or in JSON where the API server has nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from extender.cluster.client.api import JSON, PROTOBUF
from extender.cluster.client.status import ApiStatus, decode_status, read_status
from extender.cluster.watch.frames import FrameDecoder, LineDecoder
from extender.cluster.watch.json_messages import decode_json_event, decode_json_list
from extender.cluster.watch.messages import Page, WatchEvent, decode_event, decode_list

WATCH_STREAM: Final = f"{PROTOBUF};stream=watch"
"""The media type of a watch in protobuf."""


class Decoder(Protocol):
    """Cuts the byte stream of a watch into events."""

    def feed(self, chunk: bytes, /) -> list[bytes]:
        """The events that `chunk` completes, in order. Raises ProtocolError."""

    @property
    def is_between_frames(self) -> bool:
        """Whether the stream may end here without loss."""


class Wire(NamedTuple):
    """What lists and watches are asked for, and how they are read. What reads them raises ProtocolError."""

    list_type: str
    """The media type of a list."""
    watch_type: str
    decoder: Callable[[], Decoder]
    decode_list: Callable[[bytes], Page]
    decode_event: Callable[[bytes], WatchEvent]
    decode_status: Callable[[bytes], ApiStatus]
    """Reads the object of an event of type ERROR."""


PROTOBUF_WIRE: Final = Wire(PROTOBUF, WATCH_STREAM, FrameDecoder, decode_list, decode_event, decode_status)
JSON_WIRE: Final = Wire(JSON, JSON, LineDecoder, decode_json_list, decode_json_event, read_status)
"""Objects are bare JSON. Custom resources come in JSON alone."""
