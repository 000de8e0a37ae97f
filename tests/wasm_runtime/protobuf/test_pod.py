"""What a pod asks for, and the pod as it was before it had a node: what Go reads there, without the node's name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from wasm_runtime.protobuf import DecodeError, encode_pod
from wasm_runtime.protobuf.pod import asks_alike, unplaced

from .oracle import GoTypes, Object

SPEC = {"containers": [{"name": "c"}], "priority": -5, "schedulerName": "gpus"}
POD = {"metadata": {"name": "web-1", "labels": {"app": "web"}}, "spec": SPEC, "status": {"phase": "Running"}}
PLACED = {**POD, "spec": {**SPEC, "nodeName": "node-1"}}


@pytest.mark.parametrize(
    ("changed", "alike"),
    [
        ({"status": {"phase": "Running", "podIP": "10.0.0.1"}}, True),
        ({"metadata": {"uid": "a", "resourceVersion": "2", "managedFields": [{"manager": "kubelet"}]}}, True),
        ({"spec": {"nodeName": "node-1", "containers": [{"name": "c"}]}}, True),
        ({"spec": {"containers": [{"name": "d"}]}}, False),
        ({"spec": {}}, False),
        ({"metadata": {"uid": "a", "labels": {"app": "web"}}}, False),
        ({"metadata": {"uid": "a", "annotations": {"gpus": "0,3"}}}, False),
    ],
    ids=["status", "who wrote it", "node", "container", "no spec", "label", "annotation"],
)
def test_what_a_pod_asks_for_is_in_its_labels_annotations_and_spec(changed: Mapping[str, Any], alike: bool) -> None:
    pod: dict[str, Any] = {"metadata": {"uid": "a"}, "spec": {"containers": [{"name": "c"}]}, "status": {}}
    assert asks_alike(encode_pod(pod), encode_pod({**pod, **changed})) is alike


def test_an_unplaced_pod_has_all_but_the_name_of_its_node(gotypes: GoTypes) -> None:
    assert gotypes.check([Object("Pod", json.dumps(POD))], [unplaced(encode_pod(PLACED))]) == ["OK"]


def test_a_pod_without_a_node_stays_as_it_is() -> None:
    assert unplaced(encode_pod(POD)) == encode_pod(POD)
    assert unplaced(b"") == b""


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(DecodeError):
        unplaced(b"\x0a\x05a")
