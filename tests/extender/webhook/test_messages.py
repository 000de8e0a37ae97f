"""The webhook's JSON, decoded and encoded without a server."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.scheduling import requests
from extender.scheduling.requests import Candidates, MetaPod, MetaVictims, PodRequest, Preemption, RequestError
from extender.webhook import decoding, encoding
from extender.webhook.decoding import ExtenderBindingArgs, RequestDecoder, decode_binding
from tests.extender.objects import node, pod
from wasm_runtime.guests.guest import Pod
from wasm_runtime.protobuf import encode_pod

DECODER = RequestDecoder()

ODD_NODE = (
    b'{ "x-unknown" : [1E400, 123456789012345678901234567890, -0.0, 1.10, true , null],\t'
    b'"metadata":{"labels":{"b":"2","a":"\\u00e9\\/\\n","b":"3"},\n "name" :"node-1" ,"resourceVersion":"7"},'
    b'"kind":"Node","status":{"allocatable":{"cpu":"4"}, "images":[ ] },"spec":{ }  }'
)
"""A node as no encoder of ours would write it."""


def args(**fields: bytes | str) -> bytes:
    """An object of JSON that is given piece by piece."""
    parts = [
        f'"{name}": '.encode() + (json.encode() if isinstance(json, str) else json) for name, json in fields.items()
    ]
    return b"{" + b", ".join(parts) + b"}"


POD = json.dumps(pod())
DECODED_POD = DECODER.decode_args(args(Pod=POD, NodeNames="[]"))[0]


# -- the pod ---------------------------------------------------------------------------------------


def test_a_pod_is_known_by_uid_name_and_scheduler() -> None:
    request, _ = DECODER.decode_args(args(Pod=json.dumps(pod("web-7", scheduler="gpu")), NodeNames="[]"))
    assert (request.pod.uid, request.pod.name, request.scheduler_name) == ("uid-of-web-7", "default/web-7", "gpu")


@pytest.mark.parametrize(
    ("json", "uid", "name", "scheduler"),
    [
        ('{"metadata": {"name": "a", "namespace": "b"}}', "b/a", "b/a", ""),
        ('{"metadata": {"name": "a"}}', "default/a", "default/a", ""),
        ('{"metadata": {"name": "a", "uid": null, "namespace": null}, "spec": null}', "default/a", "default/a", ""),
        ('{"metadata": {"name": "a"}, "spec": {"schedulerName": null}}', "default/a", "default/a", ""),
        ('{"metadata": {}}', "default/", "default/", ""),
        ('{"metadata": {"name": null, "uid": "u"}, "spec": {}}', "u", "default/", ""),
        (
            '{"kind": "Pod", "spec": {"schedulerName": "s"}, "metadata": {"uid": "u", "name": "a"}}',
            "u",
            "default/a",
            "s",
        ),
    ],
)
def test_fields_of_a_pod_that_are_absent_or_null_are_empty(json: str, uid: str, name: str, scheduler: str) -> None:
    request, _ = DECODER.decode_args(args(Pod=json, NodeNames="[]"))
    assert request == PodRequest(Pod(uid, name, request.pod.object), scheduler)


@pytest.mark.parametrize(
    ("spec", "is_in_group"),
    [
        ({"schedulingGroup": {"podGroupName": "ring"}}, True),
        ({"schedulingGroup": {}}, True),
        ({"schedulingGroup": None}, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_pod_of_a_group_is_known_as_such(spec: object, is_in_group: bool) -> None:
    the_pod = json.dumps({"metadata": {"name": "a"}, "spec": spec})
    assert DECODER.decode_args(args(Pod=the_pod, NodeNames="[]"))[0].is_in_group == is_in_group


@pytest.mark.parametrize(
    ("status", "nominated"),
    [({"nominatedNodeName": "node-1"}, "node-1"), ({"nominatedNodeName": None}, ""), ({}, ""), (None, "")],
)
def test_the_node_that_a_pod_is_nominated_for_is_known(status: object, nominated: str) -> None:
    the_pod = json.dumps({"metadata": {"name": "a"}, "status": status})
    assert DECODER.decode_args(args(Pod=the_pod, NodeNames="[]"))[0].nominated_node == nominated


def test_a_pod_that_is_known_at_its_version_is_not_converted() -> None:
    """Nor is it looked for without a UID and a version."""
    asked = []

    def find(uid: str, version: str) -> bytes | None:
        asked.append((uid, version))
        return b"known" if version == "7" else None

    for metadata, content in (
        ({"uid": "u", "resourceVersion": "7"}, b"known"),
        ({"uid": "u", "resourceVersion": "8"}, encode_pod({"metadata": {"uid": "u", "resourceVersion": "8"}})),
        ({"uid": "u"}, encode_pod({"metadata": {"uid": "u"}})),
        ({"resourceVersion": "7"}, encode_pod({"metadata": {"resourceVersion": "7"}})),
    ):
        the_pod = json.dumps({"metadata": metadata})
        decoder = RequestDecoder(find)
        assert decoder.decode_args(args(Pod=the_pod, NodeNames="[]"))[0].pod.object == content
        assert decoder.decode_preemption(args(Pod=the_pod, NodeNameToMetaVictims="{}"))[0].pod.object == content
    assert asked == [("u", "7"), ("u", "8")]


def test_the_same_bytes_are_converted_once() -> None:
    first, _ = DECODER.decode_args(args(Pod=POD, NodeNames='["a"]'))
    second, _ = DECODER.decode_args(args(Pod=POD, NodeNames='["b"]'))
    assert first is second


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (args(NodeNames="[]"), "the request has no Pod"),
        (args(Pod="null", NodeNames="[]"), "the request has no Pod"),
        (b'{"Pod" :\n null , "NodeNames": []}', "the request has no Pod"),
        (args(Pod="5", NodeNames="[]"), "Pod: Expected `object`, got `int`"),
        (args(Pod='"web"', NodeNames="[]"), "Pod: Expected `object`, got `str`"),
        (args(Pod="[]", NodeNames="[]"), "Pod: Expected `object`, got `array`"),
        (args(Pod="{}", NodeNames="[]"), "Pod: Object missing required field `metadata`"),
        (args(Pod='{"metadata": null}', NodeNames="[]"), "Pod: Expected `object`, got `null` - at `$.metadata`"),
        (
            args(Pod='{"metadata": {"name": 7}}', NodeNames="[]"),
            "Pod: Expected `str | null`, got `int` - at `$.metadata.name`",
        ),
        (
            args(Pod='{"metadata": {}, "spec": {"schedulerName": []}}', NodeNames="[]"),
            "Pod: Expected `str | null`, got `array` - at `$.spec.schedulerName`",
        ),
        (
            args(Pod='{"metadata": {}, "spec": {"containers": [{}, {"name": 5}]}}', NodeNames="[]"),
            "Pod: spec.containers[1].name: expected a string, got 5",
        ),
        (
            args(Pod='{"metadata": {"labels": {"a": 1}}}', NodeNames="[]"),
            'Pod: metadata.labels["a"]: expected a string, got 1',
        ),
        (
            args(Pod=b'{"metadata": {"annotations": {"a": "\xff"}}}', NodeNames="[]"),
            "Pod: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        ),
    ],
)
def test_a_pod_that_is_none_is_refused_by_the_path_of_what_is_wrong(body: bytes, problem: str) -> None:
    for decode in (DECODER.decode_args, DECODER.decode_preemption):
        with pytest.raises(RequestError) as refused:
            decode(body.replace(b'"NodeNames": []', b'"NodeNames": [], "NodeNameToMetaVictims": {}'))
        assert str(refused.value) == problem


# -- nodes -----------------------------------------------------------------------------------------


def test_names_are_kept_in_their_order_with_duplicates() -> None:
    names = ["b", "a", "", "b", "größer", "\u0000"]
    _, candidates = DECODER.decode_args(args(Pod=POD, Nodes="null", NodeNames=json.dumps(names)))
    assert candidates == Candidates(names, metadata=candidates.metadata)


def test_names_win_over_nodes() -> None:
    """As in `HTTPExtender.Filter` of kube-scheduler, which never sends both."""
    _, candidates = DECODER.decode_args(
        args(Pod=POD, Nodes='{"items": [{"metadata": {"name": "a"}}]}', NodeNames='["b"]')
    )
    assert (candidates.names, candidates.items) == (["b"], None)


def test_nodes_are_known_by_name_and_by_all_that_they_say() -> None:
    items = [node("b", version="2"), node("a"), node("b", version="2"), node("b", version="2", labels={"x": "1"})]
    for _ in range(2):
        _, candidates = DECODER.decode_args(args(Pod=POD, Nodes=json.dumps({"items": items})))
        assert candidates.names == ["b", "a", "b", "b"]
        assert [candidates.hashes.index(each) for each in candidates.hashes] == [0, 1, 0, 3]
        assert [json.loads(bytes(item)) for item in candidates.items or ()] == items


def test_nodes_that_begin_alike_are_told_apart() -> None:
    """What a node's JSON begins with only says with which one to compare it."""
    alike = [
        {"spec": {"providerID": "x" * decoding.KEY_BYTES}, **node(name, version=str(at))}
        for at, name in enumerate("abb")
    ]
    for items in ([alike[0]], alike, alike[::-1]):
        _, candidates = DECODER.decode_args(args(Pod=POD, Nodes=json.dumps({"items": items})))
        assert candidates.names == [item["metadata"]["name"] for item in items]
        assert len(set(candidates.hashes)) == len(items)


def test_the_memory_for_nodes_that_came_is_that_which_is_counted() -> None:
    """However small they are: what is made of the JSON takes more than that."""
    for filler in ("", "x" * 5_000):
        items = [node(f"node-{at}", labels={"filler": filler}) for at in range(2_000)]
        body = args(Pod=POD, Nodes=json.dumps({"items": items}))
        heads = decoding._Heads()
        decoded = decoding._decode(body, decoding.ExtenderArgs)
        assert decoded is not None
        assert decoded.Nodes
        gc.collect()
        tracemalloc.start()
        try:
            heads.read(decoded.Nodes.items or [])
            gc.collect()
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert 0.8 * heads._bytes <= taken <= heads._bytes


def test_the_memory_for_nodes_that_came_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MAX_CACHED_NODES_BYTES", 6_000)
    decoder = RequestDecoder()
    for at in range(50):
        names = [f"node-{at}-{each}" for each in range(3)]
        nodes = [node(name, version=str(version)) for version in range(2) for name in names]
        _, candidates = decoder.decode_args(args(Pod=POD, Nodes=json.dumps({"items": nodes})))
        assert candidates.names == 2 * names
        assert 0 < sum(map(decoding._size, decoder._heads._known.values())) <= 6_000


@pytest.mark.parametrize("nodes", ['{"items": null}', '{"items": []}', '{"metadata": {}}', "{}", '{"Items": null}'])
def test_a_list_without_items_is_no_nodes(nodes: str) -> None:
    _, candidates = DECODER.decode_args(args(Pod=POD, Nodes=nodes, NodeNames="null"))
    assert (candidates.names, candidates.items) == ([], [])


NEITHER = "the request has neither NodeNames (nodeCacheCapable: true) nor Nodes (nodeCacheCapable: false)"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (args(Pod=POD), NEITHER),
        (args(Pod=POD, Nodes="null", NodeNames="null"), NEITHER),
        (args(Pod=POD, Unknown="[]"), NEITHER),
        (
            args(Pod=POD, NodeNames='["a", null]'),
            "the body is no ExtenderArgs: Expected `str`, got `null` - at `$.NodeNames[1]`",
        ),
        (
            args(pod=POD, nodenames='["a", 5]'),
            "the body is no ExtenderArgs: Expected `str`, got `int` - at `$.NodeNames[1]`",
        ),
        (
            args(Pod=POD, NodeNames='{"a": 1}'),
            "the body is no ExtenderArgs: Expected `array | null`, got `object` - at `$.NodeNames`",
        ),
        (
            args(Pod=POD, Nodes="[]"),
            "the body is no ExtenderArgs: Expected `object | null`, got `array` - at `$.Nodes`",
        ),
        (
            args(Pod=POD, Nodes='{"items": {}}'),
            "the body is no ExtenderArgs: Expected `array | null`, got `object` - at `$.Nodes.items`",
        ),
        (args(Pod=POD, Nodes='{"items": [5]}'), "Nodes.items[0]: Expected `object`, got `int`"),
        (args(Pod=POD, Nodes='{"items": [null]}'), "Nodes.items[0]: Expected `object`, got `null`"),
        (args(Pod=POD, Nodes='{"items": [{}]}'), "Nodes.items[0]: Object missing required field `metadata`"),
        (
            args(Pod=POD, Nodes='{"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": 5}}]}'),
            "Nodes.items[1]: Expected `str | null`, got `int` - at `$.metadata.name`",
        ),
        (args(Pod=POD, Nodes='{"items": [{"metadata": {}}]}'), "Nodes.items[0]: the node has no metadata.name"),
        (
            args(Pod=POD, Nodes='{"items": [{"metadata": {"name": ""}}]}'),
            "Nodes.items[0]: the node has no metadata.name",
        ),
        (
            args(Pod=POD, Nodes='{"items": [{"metadata": {"name": null}}]}'),
            "Nodes.items[0]: the node has no metadata.name",
        ),
        (
            args(Pod=POD, Nodes=b'{"items": [{"metadata": {"name": "\xff"}}]}'),
            "Nodes.items[0]: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        ),
    ],
)
def test_nodes_of_other_types_are_refused_by_their_path(body: bytes, problem: str) -> None:
    with pytest.raises(RequestError) as refused:
        DECODER.decode_args(body)
    assert str(refused.value) == problem


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        (
            b'{"metadata": {"name": "n", "labels": {"a": 5}}}',
            'Nodes: node n: metadata.labels["a"]: expected a string, got 5',
        ),
        (
            b'{"metadata": {"name": "n"}, "status": {"x": "\xff"}}',
            "Nodes: node n: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        ),
        (b'{"metadata": {"name": "n"}, "spec": 5}', "Nodes: node n: spec: expected an object, got 5"),
    ],
)
def test_a_node_that_cannot_be_converted_is_refused_when_a_guest_wants_it(item: bytes, problem: str) -> None:
    _, candidates = DECODER.decode_args(args(Pod=POD, Nodes=b'{"items": [' + item + b"]}"))
    assert candidates.items
    with pytest.raises(RequestError) as refused:
        requests.encode_candidate("n", candidates.items[0])
    assert str(refused.value) == problem


# -- names in any case -----------------------------------------------------------------------------


def lower(name: str) -> str:
    return name.lower()


def camel(name: str) -> str:
    return name[:1].lower() + name[1:]


def respell(value: Any, spell: Callable[[str], str], depth: int) -> Any:
    """The object with the names of its fields spelled in another way, `depth` levels of them."""
    if isinstance(value, list):
        return [respell(item, spell, depth) for item in value]
    if not isinstance(value, dict) or not depth:
        return value
    return {spell(name): respell(item, spell, depth - 1) for name, item in value.items()}


@pytest.mark.parametrize("spell", [lower, camel, str.upper, str.swapcase])
class TestCase:
    """Go's decoder takes names of fields in any case, so clients send them as they like."""

    def test_names(self, spell: Callable[[str], str]) -> None:
        request = {"Pod": pod(), "Nodes": None, "NodeNames": ["b", "a"], "Unknown": 1}
        got, candidates = DECODER.decode_args(json.dumps(respell(request, spell, 1)).encode())
        assert (got, candidates.names, candidates.items) == (DECODED_POD, ["b", "a"], None)

    def test_nodes(self, spell: Callable[[str], str]) -> None:
        fields: dict[str, bytes | str] = {
            spell("Pod"): POD,
            spell("Nodes"): f'{{"{spell("metadata")}": {{"a": 1}}, "{spell("items")}": ['.encode() + ODD_NODE + b"]}",
            spell("NodeNames"): "null",
        }
        got, candidates = DECODER.decode_args(args(**fields))
        assert (got, candidates.names, bytes(candidates.metadata)) == (DECODED_POD, ["node-1"], b'{"a": 1}')
        assert [bytes(item) for item in candidates.items or ()] == [ODD_NODE]

    @pytest.mark.parametrize("outer", [True, False], ids=["all", "nested only"])
    def test_meta_victims(self, spell: Callable[[str], str], outer: bool) -> None:
        victims = {"Node-A": {"Pods": [{"UID": "a"}, {"UID": "B"}], "NumPDBViolations": 2}}
        name = (spell if outer else str)("NodeNameToMetaVictims")
        inner = {node: respell(each, spell, 2) for node, each in victims.items()}
        body = json.dumps({(spell if outer else str)("Pod"): pod(), name: inner}).encode()
        expected = {"Node-A": MetaVictims([MetaPod("a"), MetaPod("B")], 2)}
        assert DECODER.decode_preemption(body) == (DECODED_POD, Preemption(expected, None, 3 * len(body)))

    @pytest.mark.parametrize("outer", [True, False], ids=["all", "nested only"])
    def test_victims(self, spell: Callable[[str], str], outer: bool) -> None:
        victims = {"Node-A": {"Pods": [pod("x"), pod("Y")], "NumPDBViolations": 2}}
        name = (spell if outer else str)("NodeNameToVictims")
        inner = {node: respell(each, spell, 1) for node, each in victims.items()}
        body = json.dumps({(spell if outer else str)("Pod"): pod(), name: inner}).encode()
        request, found = DECODER.decode_preemption(body)
        assert request == DECODED_POD
        assert found.victims == {"Node-A": MetaVictims([MetaPod("uid-of-x"), MetaPod("uid-of-Y")], 2)}
        assert {uid: json.loads(bytes(raw)) for uid, raw in (found.objects or {}).items()} == {
            "uid-of-x": pod("x"),
            "uid-of-Y": pod("Y"),
        }

    def test_binding(self, spell: Callable[[str], str]) -> None:
        request = {"PodName": "Web-7", "PodNamespace": "Default", "PodUID": "Uid", "Node": "Node-7"}
        expected = ExtenderBindingArgs("Web-7", "Default", "Uid", "Node-7")
        assert decode_binding(json.dumps(respell(request, spell, 1)).encode()) == expected


def test_names_may_be_of_several_cases() -> None:
    body = json.dumps({"PodName": "p", "podNamespace": "n", "poduid": "u", "NODE": "x"}).encode()
    assert decode_binding(body) == ExtenderBindingArgs("p", "n", "u", "x")
    got, candidates = DECODER.decode_args(args(pod=POD, NodeNames='["a"]'))
    assert (got, candidates.names) == (DECODED_POD, ["a"])


# -- preempt and bind ------------------------------------------------------------------------------


def test_victims_are_kept_by_uid_in_the_order_of_the_request() -> None:
    victims = {
        "b": {"Pods": [pod("x"), pod("y")], "NumPDBViolations": 1},
        "a": {"Pods": None, "NumPDBViolations": 0},
        "c": {"Pods": [], "unknown": {}},
    }
    _, found = DECODER.decode_preemption(
        args(Pod=POD, NodeNameToVictims=json.dumps(victims), NodeNameToMetaVictims="null")
    )
    assert list(found.victims.items()) == [
        ("b", MetaVictims([MetaPod("uid-of-x"), MetaPod("uid-of-y")], 1)),
        ("a", MetaVictims([], 0)),
        ("c", MetaVictims([], 0)),
    ]
    assert [found.uids(node) for node in victims] == [["uid-of-x", "uid-of-y"], [], []]
    assert {uid: json.loads(bytes(raw)) for uid, raw in (found.objects or {}).items()} == {
        "uid-of-x": pod("x"),
        "uid-of-y": pod("y"),
    }


@pytest.mark.parametrize("pods", ['"Pods": null', '"Pods": []', ""])
def test_a_node_without_victims_has_none(pods: str) -> None:
    _, found = DECODER.decode_preemption(args(Pod=POD, NodeNameToMetaVictims=f'{{"n": {{{pods}}}}}'))
    assert (found.uids("n"), found.objects) == ([], None)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (args(Pod=POD), "the request has neither NodeNameToMetaVictims nor NodeNameToVictims"),
        (
            args(Pod=POD, NodeNameToVictims="null", NodeNameToMetaVictims="null"),
            "the request has neither NodeNameToMetaVictims nor NodeNameToVictims",
        ),
        (
            args(Pod=POD, NodeNameToMetaVictims="[]"),
            "the body is no ExtenderPreemptionArgs:"
            " Expected `object | null`, got `array` - at `$.NodeNameToMetaVictims`",
        ),
        (
            args(Pod=POD, NodeNameToMetaVictims='{"n": null}'),
            "the body is no ExtenderPreemptionArgs: Expected `object`, got `null` - at `$.NodeNameToMetaVictims[...]`",
        ),
        (
            args(Pod=POD, NodeNameToMetaVictims='{"n": {"Pods": [{"UID": 5}]}}'),
            "the body is no ExtenderPreemptionArgs:"
            " Expected `str`, got `int` - at `$.NodeNameToMetaVictims[...].Pods[0].UID`",
        ),
        (
            args(pod=POD, nodenametometavictims='{"n": {"pods": [{"uid": "a"}, {"uid": 5}]}}'),
            "the body is no ExtenderPreemptionArgs:"
            " Expected `str`, got `int` - at `$.NodeNameToMetaVictims[...].Pods[1].UID`",
        ),
        (
            args(Pod=POD, NodeNameToMetaVictims='{"n": {"Pods": [{}]}}'),
            "the body is no ExtenderPreemptionArgs:"
            " Object missing required field `UID` - at `$.NodeNameToMetaVictims[...].Pods[0]`",
        ),
        (
            args(Pod=POD, NodeNameToMetaVictims='{"n": {"Pods": [], "NumPDBViolations": "1"}}'),
            "the body is no ExtenderPreemptionArgs:"
            " Expected `int`, got `str` - at `$.NodeNameToMetaVictims[...].NumPDBViolations`",
        ),
        (
            args(Pod=POD, NodeNameToVictims='{"n": {"Pods": [{"metadata": {"uid": "a"}}, 5]}}'),
            "NodeNameToVictims['n'].Pods[1]: Expected `object`, got `int`",
        ),
        (
            args(Pod=POD, NodeNameToVictims='{"n": {"Pods": [{"metadata": {"uid": 5}}]}}'),
            "NodeNameToVictims['n'].Pods[0]: Expected `str | null`, got `int` - at `$.metadata.uid`",
        ),
        (
            args(Pod=POD, NodeNameToVictims='{"n": {"Pods": [{"metadata": {"name": "a"}}]}}'),
            "NodeNameToVictims['n'].Pods[0]: the pod has no metadata.uid",
        ),
    ],
)
def test_victims_of_other_types_are_refused_by_their_path(body: bytes, problem: str) -> None:
    with pytest.raises(RequestError) as refused:
        DECODER.decode_preemption(body)
    assert str(refused.value) == problem


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{}", "the request has no PodName, PodNamespace, PodUID, Node"),
        (args(PodName='"p"', Node='"n"'), "the request has no PodNamespace, PodUID"),
        (args(PodName='""', PodNamespace='"d"', PodUID='"u"', Node='"n"'), "the request has no PodName"),
        (
            args(PodName='"p"', PodNamespace='"d"', PodUID='"u"', Node="7"),
            "the body is no ExtenderBindingArgs: Expected `str`, got `int` - at `$.Node`",
        ),
        (
            args(podname='"p"', podnamespace='"d"', poduid="null", node='"n"'),
            "the body is no ExtenderBindingArgs: Expected `str`, got `null` - at `$.PodUID`",
        ),
    ],
)
def test_a_binding_that_lacks_something_is_refused(body: bytes, problem: str) -> None:
    with pytest.raises(RequestError) as refused:
        decode_binding(body)
    assert str(refused.value) == problem


# -- answers ---------------------------------------------------------------------------------------


def filter_answer(body: bytes, *kept: str) -> bytes:
    _, candidates = DECODER.decode_args(body)
    return encoding.encode_filtered(candidates, kept, {"x": "no"}, {"y": "never"})


REJECTED = b'"FailedNodes":{"x":"no"},"FailedAndUnresolvableNodes":{"y":"never"},"Error":""}'


def test_names_are_answered_with_names() -> None:
    body = args(Pod=POD, NodeNames='["a", "b", "c"]')
    assert filter_answer(body, "a", "c") == b'{"Nodes":null,"NodeNames":["a","c"],' + REJECTED


@pytest.mark.parametrize(
    ("metadata", "answered"),
    [
        (b"", b"{}"),
        (
            b'"metadata": { "resourceVersion":"1",\n"continue" : "\\u0041" },',
            b'{ "resourceVersion":"1",\n"continue" : "\\u0041" }',
        ),
        (b'"metadata": null,', b"null"),
    ],
)
def test_nodes_are_answered_byte_for_byte_with_the_metadata_of_their_list(metadata: bytes, answered: bytes) -> None:
    other = b'{"metadata":{"name":"node-2"}}'
    for items, kept, expected in (
        (ODD_NODE + b" ,\n" + other, ["node-1", "node-2"], ODD_NODE + b"," + other),
        (other + b"," + ODD_NODE, ["node-1", "node-2"], other + b"," + ODD_NODE),
        (ODD_NODE + b"," + other + b"," + ODD_NODE, ["node-1"], ODD_NODE + b"," + ODD_NODE),
        (ODD_NODE, ["node-3"], b""),
    ):
        nodes = b'{"kind": "NodeList", ' + metadata + b'"items":[' + items + b"]}"
        whole = b'{"Nodes":{"metadata":' + answered + b',"items":[' + expected + b']},"NodeNames":null,' + REJECTED
        assert filter_answer(args(Pod=POD, Nodes=nodes), *kept) == whole


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(
    unknown=st.dictionaries(st.text(max_size=5).filter(lambda name: name != "metadata"), JSON, max_size=4),
    separators=st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r\n")]),
    ascii_only=st.booleans(),
    spelled=st.sampled_from([str, lower, camel]),
)
def test_any_node_is_answered_byte_for_byte(
    unknown: dict[str, Any], separators: tuple[str, str], ascii_only: bool, spelled: Callable[[str], str]
) -> None:
    text = json.dumps(unknown | {"metadata": {"name": "node-1"}}, separators=separators, ensure_ascii=ascii_only)
    item = text.encode(errors="surrogatepass" if ascii_only else "strict")
    fields: dict[str, bytes | str] = {spelled("Pod"): POD, spelled("Nodes"): b'{"items": [' + item + b"]}"}
    assert filter_answer(args(**fields), "node-1").startswith(b'{"Nodes":{"metadata":{},"items":[' + item + b"]}")


@given(names=st.lists(st.text(max_size=6), max_size=8))
def test_any_names_are_answered_as_they_came(names: list[str]) -> None:
    _, candidates = DECODER.decode_args(args(Pod=POD, NodeNames=json.dumps(names)))
    answer = json.loads(encoding.encode_filtered(candidates, candidates.names, {}, {}))
    assert answer["NodeNames"] == names


@given(body=st.binary(max_size=40) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_other_body_is_refused(body: bytes) -> None:
    for decode in (DECODER.decode_args, DECODER.decode_preemption, decode_binding):
        with pytest.raises(RequestError):
            decode(body)


@given(
    changes=st.dictionaries(st.sampled_from(["Pod", "pod", "Nodes", "nodes", "NodeNames", "NodeNameToVictims"]), JSON)
)
def test_any_value_of_a_field_is_read_or_refused(changes: dict[str, Any]) -> None:
    body = json.dumps({"Pod": pod(), "NodeNames": ["a"], "NodeNameToMetaVictims": {}} | changes).encode()
    for decode in (DECODER.decode_args, DECODER.decode_preemption):
        try:
            decode(body)
        except RequestError as refused:
            assert str(refused)


def test_the_other_answers_are_as_extender_v1_has_them() -> None:
    assert encoding.encode_filter_error('broken "twice"') == (
        b'{"Nodes":null,"NodeNames":null,"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":"broken \\"twice\\""}'
    )
    assert encoding.encode_priorities(["a", "b"], [10, 0]) == b'[{"Host":"a","Score":10}]'
    both = b'[{"Host":"a","Score":10},{"Host":"b","Score":0}]'
    assert encoding.encode_priorities(["a", "b"], [10, 0], zeros=True) == both
    assert encoding.encode_priorities((), ()) == b"[]"
    assert encoding.encode_victims({"a": MetaVictims([MetaPod("u")], 1)}) == (
        b'{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"u"}],"NumPDBViolations":1}}}'
    )
    assert encoding.encode_victims({}) == b'{"NodeNameToMetaVictims":{}}'
    assert encoding.encode_bound() == b'{"Error":""}'
    assert encoding.encode_bound("no") == b'{"Error":"no"}'
    assert encoding.encode_problem("no") == b'{"error":"no"}'
