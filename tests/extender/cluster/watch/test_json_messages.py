"""Lists and watch events in JSON, down to the JSON of each object."""

from __future__ import annotations

import pytest

from extender.cluster.client.errors import ProtocolError
from extender.cluster.watch.json_messages import decode_json_event, decode_json_list
from extender.cluster.watch.messages import EventType, Page, WatchEvent
from wasm_runtime.protobuf.read import Identity

TRAIN = b'{"metadata": {"name": "train", "namespace": "ml", "uid": "u1", "resourceVersion": "7"}, "spec": {"a": 1}}'
IDENTITY = Identity("train", "ml", "u1", "7")


@pytest.mark.parametrize(
    ("body", "page"),
    [
        (b'{"metadata": {"resourceVersion": "9"}, "items": [' + TRAIN + b"]}", Page("9", "", [(IDENTITY, TRAIN)])),
        (b'{"metadata": {"resourceVersion": "9", "continue": "c"}, "items": null}', Page("9", "c", [])),
        (b'{"metadata": {"resourceVersion": "9"}}', Page("9", "", [])),
    ],
)
def test_a_list_is_read(body: bytes, page: Page) -> None:
    assert decode_json_list(body) == page


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"metadata": {}, "items": []}', "a list has no resourceVersion"),
        (b"<html>", "a list that is no valid JSON: JSON is malformed: invalid character (byte 0)"),
        (b'{"items": {}}', "a list that is no valid JSON: Expected `array | null`, got `object` - at `$.items`"),
        (
            b'{"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": 1}}]}',
            "a list that is no valid JSON: Expected `str`, got `int` - at `$.metadata.name`",
        ),
    ],
)
def test_a_list_that_cannot_be_read_is_told(body: bytes, message: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_json_list(body)
    assert str(caught.value) == message


@pytest.mark.parametrize("kind", [EventType.ADDED, EventType.MODIFIED, EventType.DELETED, EventType.BOOKMARK])
def test_an_event_is_read(kind: EventType) -> None:
    line = b'{"type": "' + kind.value + b'", "object": ' + TRAIN + b"}"
    assert decode_json_event(line) == WatchEvent(kind, IDENTITY, TRAIN)


def test_an_error_has_its_status_alone() -> None:
    status = b'{"kind": "Status", "code": 410, "message": "too old"}'
    line = b'{"type": "ERROR", "object": ' + status + b"}"
    assert decode_json_event(line) == WatchEvent(EventType.ERROR, Identity(), status)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"<html>", "a watch event that is no valid JSON: JSON is malformed: invalid character (byte 0)"),
        (b"{}", "a watch event that is no valid JSON: Object missing required field `type`"),
        (b'{"type": "NEW", "object": {}}', "a watch sent an event of the unknown type 'NEW'"),
    ],
)
def test_an_event_that_cannot_be_read_is_told(line: bytes, message: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_json_event(line)
    assert str(caught.value) == message
