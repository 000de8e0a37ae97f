"""What of a request is bounded beside the length of its body."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from extender.scheduling.requests import RequestError
from extender.webhook.decoding import RequestDecoder, decode_binding
from extender.webhook.limits import MAX_NODES, MAX_UNCOUNTED_BYTES, MAX_VICTIMS, MIN_VALUE_BYTES
from tests.extender.objects import (
    Object,
    binding_args,
    meta_victims,
    names_args,
    node,
    nodes_args,
    pod,
    preemption_args,
    victims_args,
)

DECODER = RequestDecoder()

LONG = "x" * 254
TOO_MANY = "{}: more than {} are too many; Kubernetes is made for 5000 nodes and 150000 pods, send fewer"
POD = json.dumps(pod()).encode()


def with_metadata(made: Object, **metadata: Any) -> Object:
    return {**made, "metadata": {**made["metadata"], **metadata}}


def refusal(decode: Callable[[bytes], object], request: Object | bytes) -> str:
    body = request if isinstance(request, bytes) else json.dumps(request, separators=(",", ":")).encode()
    with pytest.raises(RequestError) as refused:
        decode(body)
    return str(refused.value)


TOO_LONG = "Expected `str` of length <= 253 - at `$.{}`"


@pytest.mark.parametrize("key", ["name", "namespace", "uid", "resourceVersion"])
def test_what_tells_a_pod_from_others_is_as_long_as_a_name_at_most(key: str) -> None:
    problem = f"Pod: {TOO_LONG.format(f'metadata.{key}')}"
    assert refusal(DECODER.decode_args, names_args([], with_metadata(pod(), **{key: LONG}))) == problem
    DECODER.decode_args(json.dumps(names_args([], with_metadata(pod(), **{key: LONG[1:]}))).encode())


def test_so_is_the_name_of_its_scheduler() -> None:
    assert (
        refusal(DECODER.decode_args, names_args([], pod(scheduler=LONG)))
        == f"Pod: {TOO_LONG.format('spec.schedulerName')}"
    )


@pytest.mark.parametrize("key", ["name", "uid", "resourceVersion"])
def test_so_is_what_tells_a_node_from_others(key: str) -> None:
    asked = nodes_args([node("a"), with_metadata(node("b"), **{key: LONG})])
    assert refusal(DECODER.decode_args, asked) == f"Nodes.items[1]: {TOO_LONG.format(f'metadata.{key}')}"


def test_so_are_names_and_uids_of_preemption_and_bind() -> None:
    args = "the body is no ExtenderPreemptionArgs: "
    assert refusal(DECODER.decode_preemption, preemption_args({LONG: meta_victims("a")})) == (
        f"{args}Expected `str` of length <= 253 - at `key` in `$.NodeNameToMetaVictims`"
    )
    assert refusal(DECODER.decode_preemption, preemption_args({"a": meta_victims(LONG)})) == (
        f"{args}{TOO_LONG.format('NodeNameToMetaVictims[...].Pods[0].UID')}"
    )
    assert refusal(DECODER.decode_preemption, victims_args({"a": [with_metadata(pod(), uid=LONG)]})) == (
        f"NodeNameToVictims['a'].Pods[0]: {TOO_LONG.format('metadata.uid')}"
    )
    for key in ("PodName", "PodNamespace", "PodUID", "Node"):
        problem = f"the body is no ExtenderBindingArgs: {TOO_LONG.format(key)}"
        assert refusal(decode_binding, binding_args() | {key: LONG}) == problem


def test_as_many_nodes_are_taken_as_may_be_and_no_more() -> None:
    names = ["n"] * MAX_NODES
    _, candidates = DECODER.decode_args(json.dumps(names_args(names)).encode())
    assert len(candidates.names) == MAX_NODES
    assert refusal(DECODER.decode_args, names_args([*names, "n"])) == TOO_MANY.format("NodeNames", MAX_NODES)
    whole = b'{"Pod":%s,"Nodes":{"items":[%s{}]}}' % (POD, b"{}," * MAX_NODES)
    assert refusal(DECODER.decode_args, whole) == TOO_MANY.format("Nodes.items", MAX_NODES)
    victims = {f"node-{at}": meta_victims() for at in range(MAX_NODES + 1)}
    assert refusal(DECODER.decode_preemption, preemption_args(victims)) == TOO_MANY.format(
        "nodes with victims", MAX_NODES
    )


def test_as_many_victims_are_taken_as_may_be_and_no_more() -> None:
    half = {name: {"Pods": [{"UID": str(uuid4())}] * (MAX_VICTIMS // 2)} for name in "ab"}
    _, preemption = DECODER.decode_preemption(json.dumps(preemption_args(half)).encode())
    assert len(preemption.uids("a")) == MAX_VICTIMS // 2
    more = {**half, "c": meta_victims("u")}
    assert refusal(DECODER.decode_preemption, preemption_args(more)) == TOO_MANY.format("victims", MAX_VICTIMS)


LONG_BODIES = {
    "names": (DECODER.decode_args, b'"Nodes":null,"NodeNames":[', b'"node-1234567",', b'""]', ("NodeNames", MAX_NODES)),
    "uids": (
        DECODER.decode_preemption,
        b'"NodeNameToVictims":null,"NodeNameToMetaVictims":{',
        b'"n":{"Pods":[{"UID":"u"}]},',
        b'"n":{"Pods":[]}}',
        ("nodes and victims", 2 * MAX_NODES + MAX_VICTIMS),
    ),
    "victims": (
        DECODER.decode_preemption,
        b'"NodeNameToVictims":{',
        b'"node-1234567":{"Pods":[]},',
        b'"n":{"Pods":[]}}',
        ("nodes with victims", MAX_NODES),
    ),
}
"""What asks, how a field begins, what comes again and again, how it ends, what is too much."""


@pytest.mark.parametrize("name", LONG_BODIES)
def test_too_many_are_refused_before_they_are_decoded(name: str) -> None:
    decode, begins, again, ends, what = LONG_BODIES[name]
    body = b'{"Pod":%s,%s%s%s}' % (POD, begins, again * 700_000, ends)
    tracemalloc.start()
    try:
        assert refusal(decode, body) == TOO_MANY.format(*what)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("item", [b"1,", b"{},", b'"a",'])
def test_a_long_body_of_nothing_but_small_values_is_refused_before_it_is_decoded(item: bytes) -> None:
    body = b'{"Pod":%s,"Nodes":{"items":[%s1]}}' % (POD, item * (MAX_UNCOUNTED_BYTES // len(item)))
    tracemalloc.start()
    try:
        assert refusal(DECODER.decode_args, body) == (
            f"the body has more than a value to {MIN_VALUE_BYTES} bytes, which no objects of Kubernetes have;"
            " send what kube-scheduler sends"
        )
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_long_body_of_a_large_cluster_is_taken() -> None:
    labels = {f"example.com/label-{at}": "value" for at in range(40)}
    nodes = [node(f"node-{at}", labels=labels) for at in range(5_000)]
    body = json.dumps(nodes_args(nodes), separators=(",", ":")).encode()
    assert len(body) > MAX_UNCOUNTED_BYTES
    assert len(DECODER.decode_args(body)[1].names) == len(nodes)
