"""What a recording is made of."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import msgspec
import pytest

from extender.admin.recording import file_format
from extender.admin.recording.file_format import (
    FORMAT,
    BegunRecord,
    CycleRecord,
    EndedRecord,
    NodeRecord,
    Record,
    RecordingWriter,
)
from extender.scheduling.filter_recording import RecordedRequest
from extender.scheduling.node_source import NodeSource
from extender.scheduling.requests import Candidates
from extender.scheduling.sample import Sample
from extender.webhook.decoding import RequestDecoder
from tests.extender.cache import Cache
from tests.extender.objects import node, nodes_args
from wasm_runtime.guests.guest import Pod
from wasm_runtime.nodes.node_table import SLACK, NodeTable
from wasm_runtime.protobuf import encode_node, encode_pod

POD = encode_pod({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "main", "args": ["hidden"]}]}})
BLANK = POD.replace(b"hidden", b"xxxxxx")
BEGIN = 1000.0


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings begin at BEGIN."""
    monkeypatch.setattr(file_format, "time", SimpleNamespace(monotonic=lambda: BEGIN))


def request(seconds: float, asked: Candidates, pod: bytes = POD) -> RecordedRequest:
    return RecordedRequest(BEGIN + seconds, Sample("filter", Pod("uid", "default/web", pod), asked.names), asked)


def names(*names: str) -> Candidates:
    return Candidates(list(names))


def whole(*nodes: str, version: str = "1") -> Candidates:
    return RequestDecoder().decode_args(
        msgspec.json.encode(nodes_args([node(name, version=version) for name in nodes]))
    )[1]


def cycle(seconds: float, *nodes: int) -> CycleRecord:
    return CycleRecord(seconds, "uid", "default/web", BLANK, list(nodes))


def records(pieces: Sequence[bytes]) -> Iterator[Record]:
    """As the description of the format has it."""
    rest = gzip.decompress(b"".join(pieces))
    while rest:
        end = 4 + int.from_bytes(rest[:4], "big")
        yield msgspec.msgpack.decode(rest[4:end], type=Record)
        rest = rest[end:]


def content(pieces: Sequence[bytes], reason: str = "pods", dropped: int = 0) -> list[Record]:
    """All between the beginning and the end."""
    begun, *between, ended = records(pieces)
    assert isinstance(begun, BegunRecord)
    assert (begun.format, begun.profile, begun.at[10:11], begun.at[-6:]) == (FORMAT, "default", "T", "+00:00")
    assert isinstance(ended, EndedRecord)
    assert (ended.reason, ended.dropped) == (reason, dropped)
    return between


def test_of_a_cluster_it_holds_all_nodes_and_what_changes_between_pods() -> None:
    cluster = NodeTable()
    cluster.put([("a", b"a1"), ("b", b"b1"), ("c", b"c1")])
    writer = RecordingWriter(NodeSource(Cache(), cluster))
    pieces = [writer.begin("default"), writer.add([request(0.5, names("b", "a")), request(0.75, names("a", "b"))])]
    cluster.put([("a", b"a2"), ("d", b"d1")])
    cluster.put([("a", b"a3")])
    cluster.remove("c")
    pieces.append(writer.add([request(1.5, names("d", "unknown", "a"))]))
    cluster.put([("unknown", b"u1")])
    pieces += [writer.add([]), writer.add([request(2.5, names("unknown"))]), writer.end("pods", 7)]
    assert content(pieces, dropped=7) == [
        *(NodeRecord(name, f"{name}1".encode()) for name in "abc"),
        cycle(0.5, 1, 0),
        cycle(0.75, 0, 1),
        NodeRecord("a", b"a3"),
        NodeRecord("c", b""),
        NodeRecord("d", b"d1"),
        NodeRecord("unknown", b""),
        cycle(1.5, 3, 4, 0),
        NodeRecord("unknown", b"u1"),
        cycle(2.5, 4),
    ]


def test_nodes_that_are_dropped_with_their_epoch_are_told_to_be_gone() -> None:
    cluster = NodeTable()
    cluster.put([("a", b"a1"), ("b", b"b1")])
    writer = RecordingWriter(NodeSource(Cache(), cluster))
    pieces = [writer.begin("default")]
    cluster.remove("a")
    cluster.locate([f"gone-{at}" for at in range(SLACK + 10)])
    cluster.put([("c", b"c1")])
    assert cluster.changes(0, 0).epoch == 1  # type: ignore[union-attr]
    pieces += [writer.add([request(1.0, names("b"))]), writer.end("time", 0)]
    assert content(pieces, "time") == [
        NodeRecord("a", b"a1"),
        NodeRecord("b", b"b1"),
        NodeRecord("a", b""),
        NodeRecord("c", b"c1"),
        cycle(1.0, 1),
    ]


def test_nodes_that_come_whole_are_those_of_the_requests() -> None:
    writer = RecordingWriter(NodeSource(None, NodeTable()))
    asked = [whole("a", "b"), whole("b", "a"), whole("a", "b", version="2"), names("c", "b")]
    pieces = [writer.begin("default"), writer.add(request(at, each) for at, each in enumerate(asked))]
    assert content([*pieces, writer.end("pods", 0)]) == [
        NodeRecord("a", encode_node(node("a"))),
        NodeRecord("b", encode_node(node("b"))),
        cycle(0, 0, 1),
        cycle(1, 1, 0),
        NodeRecord("a", encode_node(node("a", version="2"))),
        NodeRecord("b", encode_node(node("b", version="2"))),
        cycle(2, 0, 1),
        NodeRecord("c", b""),
        cycle(3, 2, 1),
    ]


def test_what_cannot_be_read_is_counted_with_what_was_dropped() -> None:
    broken = RequestDecoder().decode_args(
        b'{"Pod": {"metadata": {}}, "Nodes": {"items": [{"metadata": {"name": "b"}, "spec": 5}]}}'
    )[1]
    writer = RecordingWriter(NodeSource(None, NodeTable()))
    requests = [request(0, broken), request(1, names("a"), pod=b"\x0a\x64x"), request(2, names("a"))]
    pieces = [writer.begin("default"), writer.add(requests), writer.end("pods", 3)]
    assert content(pieces, dropped=5) == [NodeRecord("a", b""), cycle(2, 0)]


def test_it_is_full_when_it_has_grown_large_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_format, "END_AT_BYTES", 300)
    writer = RecordingWriter(NodeSource(None, NodeTable()))
    pieces = [writer.begin("default")]
    assert not writer.is_full
    pieces.append(writer.add(request(at, names("a")) for at in range(100)))
    assert writer.is_full
    found = content([*pieces, writer.end("size", 0)], "size")
    assert found == [NodeRecord("a", b""), *(cycle(at, 0) for at in range(len(found) - 1))]
    assert 1 < len(found) < 10


def test_whatever_came_of_it_can_be_unfolded_at_once() -> None:
    writer = RecordingWriter(NodeSource(None, NodeTable()))
    writer_pieces = writer.begin("default") + writer.add([request(0, names("a"))])
    unfolded = zlib.decompressobj(file_format.GZIP).decompress(writer_pieces)
    assert unfolded.endswith(msgspec.msgpack.encode(cycle(0.0, 0)))
