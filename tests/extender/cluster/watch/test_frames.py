"""Frames come out whole however the network cuts the stream."""

from __future__ import annotations

import pytest

from extender.cluster.client.errors import ProtocolError
from extender.cluster.watch import frames
from extender.cluster.watch.frames import MAX_FRAME_BYTES, FrameDecoder, LineDecoder

PAYLOADS = [b"first", b"", b"x" * 300, b"last"]
STREAM = b"".join(len(payload).to_bytes(4, "big") + payload for payload in PAYLOADS)


def test_a_stream_cut_at_any_byte_gives_the_same_frames() -> None:
    for cut in range(len(STREAM) + 1):
        decoder = FrameDecoder()
        assert decoder.feed(STREAM[:cut]) + decoder.feed(STREAM[cut:]) == PAYLOADS, cut
        assert decoder.is_between_frames


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 64])
def test_chunks_of_any_size_give_the_same_frames(size: int) -> None:
    decoder = FrameDecoder()
    chunks = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert [frame for chunk in chunks for frame in decoder.feed(chunk)] == PAYLOADS


def test_a_frame_is_given_as_soon_as_its_last_byte_is_here() -> None:
    decoder = FrameDecoder()
    assert decoder.feed(STREAM[:8]) == []
    assert decoder.feed(STREAM[8:9]) == [b"first"]


def test_many_frames_in_one_chunk_come_in_order() -> None:
    payloads = [str(number).encode() for number in range(10_000)]
    stream = b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)
    assert FrameDecoder().feed(stream) == payloads


@pytest.mark.parametrize("kept", [1, 3, 4, 5, 8])
def test_a_stream_that_ends_within_a_frame_is_not_between_frames(kept: int) -> None:
    decoder = FrameDecoder()
    decoder.feed(STREAM[:kept])
    assert not decoder.is_between_frames


def test_the_largest_frame_is_allowed_and_one_byte_more_is_not() -> None:
    assert FrameDecoder().feed(MAX_FRAME_BYTES.to_bytes(4, "big")) == []
    with pytest.raises(ProtocolError, match="frame of 67108865 bytes: this is no protobuf watch"):
        FrameDecoder().feed((MAX_FRAME_BYTES + 1).to_bytes(4, "big"))


def test_text_is_refused_at_once() -> None:
    with pytest.raises(ProtocolError, match="no protobuf watch"):
        FrameDecoder().feed(b"<html>")


LINES = [b"first", b"x" * 300, b"last"]
TEXT = b"first\n\n" + b"x" * 300 + b"\n\r\nlast\n"


def test_text_cut_at_any_byte_gives_the_same_lines() -> None:
    for cut in range(len(TEXT) + 1):
        decoder = LineDecoder()
        assert decoder.feed(TEXT[:cut]) + decoder.feed(TEXT[cut:]) == LINES, cut
        assert decoder.is_between_frames


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_chunks_of_any_size_give_the_same_lines(size: int) -> None:
    decoder = LineDecoder()
    chunks = [TEXT[at : at + size] for at in range(0, len(TEXT), size)]
    assert [line for chunk in chunks for line in decoder.feed(chunk)] == LINES


def test_a_line_is_given_as_soon_as_its_end_is_here() -> None:
    decoder = LineDecoder()
    assert (decoder.feed(b"fir"), decoder.feed(b"st"), decoder.is_between_frames) == ([], [], False)
    assert (decoder.feed(b"\nl"), decoder.is_between_frames) == ([b"first"], False)
    assert (decoder.feed(b"\n"), decoder.is_between_frames) == ([b"l"], True)


def test_the_longest_line_is_allowed_and_one_byte_more_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 10)
    assert LineDecoder().feed(b"x" * 10) == []
    with pytest.raises(ProtocolError, match=r"^a watch sent a line of more than 10 bytes: this is no watch in JSON$"):
        LineDecoder().feed(b"x" * 11)
