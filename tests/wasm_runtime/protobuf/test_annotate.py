"""Annotations that are put into a pod are what Go reads there, beside all that was there before."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from wasm_runtime.protobuf import DecodeError, encode_pod, fields
from wasm_runtime.protobuf.annotate import MAX_ANNOTATIONS_BYTES, annotated

from .oracle import GoTypes, Object

GIVEN = {"example.com/gpus": "0,3", "größe": "☃" * 100, "empty": ""}
SEED, PODS = 7, 200


def pod(annotations: Mapping[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    """A pod as JSON, which has metadata behind its annotations, and a status."""
    return {
        "metadata": {
            "name": "web-1",
            "labels": {"example.com/gpus": "a label"},
            "annotations": dict(annotations or {}),
            "finalizers": ["example.com/last"],
            **metadata,
        },
        "spec": {"nodeName": "node-1", "priority": -5, "containers": [{"name": "c"}]},
        "status": {"phase": "Pending"},
    }


def metadata(data: bytes) -> list[bytes]:
    """Each ObjectMeta of a pod, by its place among the fields."""
    return [value if number == 1 and isinstance(value, bytes) else b"" for number, _, value in fields(data)]


@pytest.mark.parametrize("before", [{}, {"a": "1"}, {"a": "1", "example.com/gpus": "1", "z": "2"}, {"empty": "not"}])
def test_go_reads_them(gotypes: GoTypes, before: dict[str, str]) -> None:
    data = annotated(encode_pod(pod(before)), GIVEN)
    assert gotypes.check([Object("Pod", json.dumps(pod({**before, **GIVEN})))], [data]) == ["OK"]


def test_go_reads_them_in_any_pod(gotypes: GoTypes) -> None:
    pods = [json.loads(each.json) for each in gotypes.random(SEED, 2 * PODS) if each.kind == "Pod"]
    encoded = []
    for each in pods:
        encoded.append(annotated(encode_pod(each), GIVEN))
        each["metadata"] = each.get("metadata") or {}
        each["metadata"]["annotations"] = {**(each["metadata"].get("annotations") or {}), **GIVEN}
    verdicts = gotypes.check([Object("Pod", json.dumps(each)) for each in pods], encoded)
    assert set(verdicts) == {"OK"}
    assert len(verdicts) > PODS // 2


def test_a_pod_has_one_object_meta_which_comes_first() -> None:
    """Readers that look at the first alone, or at the last, find them."""
    whole = annotated(encode_pod(pod()), GIVEN)
    found = metadata(whole)
    assert found[0]
    assert not any(found[1:])
    first, second = {"name": "web-1"}, {"uid": "u", "annotations": {"a": ""}}
    split = encode_pod({"metadata": first}) + encode_pod({"metadata": second})
    assert annotated(split, {"b": "2"}) == annotated(
        encode_pod({"metadata": {"name": "web-1", "uid": "u", "annotations": {"a": ""}}}), {"b": "2"}
    )
    assert annotated(b"", {"b": "2"}) == encode_pod({"metadata": {"annotations": {"b": "2"}}})


def test_what_the_api_has_no_name_for_stays() -> None:
    later = b"\xf8\x06\x96\x01" + b"\xf9\x06" + b"8" * 8 + b"\xfd\x06" + b"4" * 4
    data = annotated(later + b"\x0a" + bytes([len(later)]) + later, {"a": "1"})
    assert data == b"\x0a" + bytes([len(later) + 8]) + later + b"\x62\x06\x0a\x01a\x12\x011" + later


@pytest.mark.parametrize(("others", "fits"), [(3, True), (4, False)])
def test_all_annotations_together_are_bounded(others: int, fits: bool) -> None:
    before = encode_pod(pod({"long": "x" * (MAX_ANNOTATIONS_BYTES // 2 - 4), "new": "y" * MAX_ANNOTATIONS_BYTES}))
    given = {"new": "z" * (MAX_ANNOTATIONS_BYTES // 2 - 3 - 3), "one": "." * (others - 3)}
    if fits:
        assert annotated(before, given)
        return
    with pytest.raises(ValueError, match=r".") as caught:
        annotated(before, given)
    assert str(caught.value) == "its annotations would take 262145 bytes, at most 262144 are allowed"


def test_bytes_that_are_no_message() -> None:
    with pytest.raises(DecodeError):
        annotated(b"POD", {"a": "1"})
