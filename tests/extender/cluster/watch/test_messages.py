"""Lists, events and statuses of the API server are read, and what is none of them is refused."""

from __future__ import annotations

import pytest

from bench.peers.protobuf import enveloped, event, integer, node, node_list, status, text
from extender.cluster.client.errors import ProtocolError
from extender.cluster.client.status import MAX_MESSAGE, MAX_TEXT, ApiStatus, decode_status, read_status
from extender.cluster.watch.messages import EventType, decode_event, decode_list
from wasm_runtime.protobuf.read import Identity, identity


def test_a_list_gives_each_object_byte_for_byte() -> None:
    first, second = node("a", "5"), node("b", "6", padding=1000)
    page = decode_list(node_list("7", first, second, continuation="more"))
    assert page == ("7", "more", [(identity(first), first), (identity(second), second)])


def test_an_empty_list_is_a_page_without_objects() -> None:
    assert decode_list(node_list("7")) == ("7", "", [])


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_an_event_gives_the_object_byte_for_byte(kind: str) -> None:
    content = node("a", "5")
    assert decode_event(event(kind, content)) == (EventType[kind], Identity("a", resource_version="5"), content)


def test_a_bookmark_has_only_a_version() -> None:
    content = text(1, text(6, "9"))
    assert decode_event(event("BOOKMARK", content)) == (EventType.BOOKMARK, Identity(resource_version="9"), content)


def test_an_error_event_carries_a_status() -> None:
    failed = decode_event(event("ERROR", status(410, "too old resource version: 1 (2)")))
    assert failed.type is EventType.ERROR
    assert decode_status(failed.object) == ApiStatus(410, "too old resource version: 1 (2)")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "expected Kubernetes protobuf, got b''"),
        (b'{"kind":"NodeList"}', "expected Kubernetes protobuf, got b'{"),
        (b"k8s\x00\xff", "a list that is no valid protobuf"),
        (enveloped(text(1, b"\xff")), "a list that is no valid protobuf"),
        (enveloped(text(1, text(2, b"\xff"))), "a list that is no valid protobuf"),
        (enveloped(b""), "a list has no resourceVersion"),
    ],
)
def test_what_is_no_list_is_refused(body: bytes, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        decode_list(body)


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (b"", "an event of the unknown type b''"),
        (event("RENAMED", node("a")), "an event of the unknown type b'RENAMED'"),
        (text(1, "ADDED") + text(2, text(1, b"bare")), "expected Kubernetes protobuf, got b'bare'"),
        (event("ADDED", b"\xff"), "a watch event that is no valid protobuf"),
    ],
)
def test_what_is_no_event_is_refused(frame: bytes, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        decode_event(frame)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (enveloped(status(404, 'pods "a" not found'), "Status"), 'pods "a" not found'),
        (b'{"kind":"Status","message":"Unauthorized","code":401}', "Unauthorized"),
        (b"Too many requests, please try again later.\n", "Too many requests, please try again later."),
        (b'{"kind":"Status"}', '{"kind":"Status"}'),
        (b"[]", "[]"),
        (b"", ""),
        (b"\xff" * 5000, "\N{REPLACEMENT CHARACTER}" * MAX_TEXT),
        (b'{"message":7}', '{"message":7}'),
        (b'{"kind":"Status","message":"%s"}' % (b"x" * 5000), "x" * MAX_MESSAGE),
        (b'{"message":"no route"}', '{"message":"no route"}'),
        (b"k8s\x00\xff", "k8s\x00\N{REPLACEMENT CHARACTER}"),
        (b"[" * 200_000, "[" * MAX_TEXT),
        (b'{"message":"why","details":' + b"[" * 200_000, '{"message":"why","details":' + "[" * 273),
    ],
)
def test_the_message_of_a_refusal_is_found_in_any_form(body: bytes, message: str) -> None:
    assert read_status(body).message == message


@pytest.mark.parametrize(
    ("body", "is_success"),
    [
        (b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}', True),
        (enveloped(text(1, b"") + text(2, "Success") + integer(6, 201), "Status"), True),
        (b'{"kind":"Status","status":"Failure","message":"no","code":500}', False),
        (enveloped(status(500, "no"), "Status"), False),
        (b'{"kind":"Pod","status":"Success"}', False),
        (b'{"status":"Success"}', False),
        (b"Success", False),
        (b"", False),
    ],
)
def test_only_a_status_that_says_so_is_a_success(body: bytes, is_success: bool) -> None:
    assert read_status(body).is_success == is_success


def test_a_status_without_a_code_has_code_0() -> None:
    assert decode_status(text(3, "why")) == ApiStatus(0, "why")


def test_a_status_that_is_none_is_refused() -> None:
    with pytest.raises(ProtocolError, match="a status that is no valid protobuf"):
        decode_status(integer(6, 1) + b"\xff")
