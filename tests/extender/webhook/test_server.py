"""What every verb has in common: HTTP, routes, limits, and whose fault it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.extender.kwx import Extender, plugin, profile
from tests.extender.objects import (
    binding_args,
    filtered,
    meta_victims,
    names_args,
    node,
    nodes_args,
    pod,
    preemption_args,
    priorities,
    scores,
)
from tests.extender.raw import Connection, chunked, request

LIMIT = 32 * 1024 * 1024
NOT_TOO_LONG = f"the body is longer than server.maxRequestBytes, which is {LIMIT} bytes"
VERBS = ("filter", "prioritize", "preempt", "bind")
KNOWN_VERBS = "there are: filter, prioritize, preempt, bind, each at / and at /profiles/PROFILE/"
REQUESTS: dict[str, Any] = {
    "filter": names_args(["node-7"]),
    "prioritize": names_args(["node-7"]),
    "preempt": preemption_args({"node-7": meta_victims("a")}),
    "bind": binding_args(),
}
ANSWERS: dict[str, Any] = {
    "filter": filtered(["node-7"]),
    "prioritize": scores(node_7=10),
    "preempt": {"NodeNameToMetaVictims": {"node-7": meta_victims("a")}},
    "bind": {"Error": ""},
}
DEEP = 100_000


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    profiles = [
        profile("first", plugin("score_from_config", "30")),
        profile("default", plugin("nodenumber")),
        profile("gpu.example-1_x", plugin("score_from_config", "50")),
    ]
    with Extender(
        tmp_path_factory.mktemp("server"), *profiles, server={"maxRequestBytes": "32Mi"}, cluster={"mode": "dry-run"}
    ) as extender:
        yield extender


@pytest.fixture
def connection(extender: Extender) -> Iterator[Connection]:
    with Connection(extender.address) as connection:
        yield connection


def encoded(verb: str) -> bytes:
    return json.dumps(REQUESTS[verb]).encode()


def ask(connection: Connection, verb: str, body: bytes) -> Any:
    """The answer of a verb; a bind has its filter before it."""
    if verb == "bind":
        connection.ask("/filter", encoded("filter"))
    return json.loads(connection.ask(f"/{verb}", body).body)


# -- routes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("path", ["/{}", "/profiles/default/{}", "/{}?timeout=5s"])
def test_a_verb_is_at_the_root_and_at_each_profile(extender: Extender, verb: str, path: str) -> None:
    extender.post(path.format("filter"), REQUESTS["filter"])
    assert extender.post(path.format(verb), REQUESTS[verb]) == ANSWERS[verb]


@pytest.mark.parametrize(
    ("path", "scheduler", "score"),
    [
        ("/prioritize", "", 10),
        ("/prioritize", "default", 10),
        ("/prioritize", "default-scheduler", 10),
        ("/prioritize", "first", 3),
        ("/prioritize", "gpu.example-1_x", 5),
        ("/prioritize", "GPU.example-1_x", 10),
        ("/profiles/first/prioritize", "gpu.example-1_x", 3),
        ("/profiles/default/prioritize", "first", 10),
    ],
)
def test_the_path_names_the_profile_else_the_pods_scheduler_else_it_is_default(
    extender: Extender, path: str, scheduler: str, score: int
) -> None:
    answer = extender.post(path, names_args(["node-7"], pod(scheduler=scheduler)))
    assert answer == scores(node_7=score)


def test_the_first_profile_takes_other_pods_where_none_is_named_default(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    profiles = [profile("b", plugin("score_from_config", "30")), profile("a", plugin("score_from_config", "50"))]
    with Extender(tmp_path_factory.mktemp("no-default"), *profiles) as extender:
        for scheduler, score in (("", 3), ("default-scheduler", 3), ("a", 5)):
            answer = extender.post("/prioritize", names_args(["node-7"], pod(scheduler=scheduler)))
            assert answer == scores(node_7=score)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/", f"/ is no verb; {KNOWN_VERBS}"),
        ("/nope", f"/nope is no verb; {KNOWN_VERBS}"),
        ("/Filter", f"/Filter is no verb; {KNOWN_VERBS}"),
        ("/filter/", f"/filter/ is no verb; {KNOWN_VERBS}"),
        ("/v1/filter", f"/v1/filter is no verb; {KNOWN_VERBS}"),
        ("/profiles/filter", f"/profiles/filter is no verb; {KNOWN_VERBS}"),
        ("/profiles/default/nope", f"/profiles/default/nope is no verb; {KNOWN_VERBS}"),
        ("/profiles/default/more/filter", f"/profiles/default/more/filter is no verb; {KNOWN_VERBS}"),
        ("/profiles/nope/filter", "no profile is named 'nope'; there are: first, default, gpu.example-1_x"),
        ("/profiles//filter", "no profile is named ''; there are: first, default, gpu.example-1_x"),
        ("/profiles/nope/nope", "no profile is named 'nope'; there are: first, default, gpu.example-1_x"),
        ("/livez", f"/livez is no verb; {KNOWN_VERBS}"),
    ],
)
def test_an_unknown_verb_or_profile_is_not_found(extender: Extender, path: str, problem: str) -> None:
    assert extender.refuse(path, encoded("filter")) == (404, problem)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS", "PATCH"])
@pytest.mark.parametrize("verb", VERBS)
def test_another_method_than_post_is_not_allowed(extender: Extender, method: str, verb: str) -> None:
    answer = extender.client.request(method, f"/{verb}")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json() == {"error": f"/{verb} takes POST, not {method}"}


def test_a_websocket_is_not_offered(extender: Extender) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    answer = extender.client.get("/filter", headers=headers | {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="})
    assert answer.status_code == 405


# -- bodies ----------------------------------------------------------------------------------------

KINDS = {
    "filter": "ExtenderArgs",
    "prioritize": "ExtenderArgs",
    "preempt": "ExtenderPreemptionArgs",
    "bind": "ExtenderBindingArgs",
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "the request has no body"),
        (b" \n\t", "the request has no body"),
        (b"{", "the body is no {}: Input data was truncated"),
        (b'{"Pod": {"metadata"', "the body is no {}: Input data was truncated"),
        (b"hello", "the body is no {}: JSON is malformed: invalid character (byte 0)"),
        (b"{'Pod': 1}", "the body is no {}: JSON is malformed: object keys must be strings (byte 1)"),
        (b'{"a": 1,}', "the body is no {}: JSON is malformed: trailing comma in object (byte 8)"),
        (b'{"a": NaN}', "the body is no {}: JSON is malformed: invalid character (byte 6)"),
        (b"{} {}", "the body is no {}: JSON is malformed: trailing characters (byte 4)"),
        (b"\xef\xbb\xbf{}", "the body is no {}: JSON is malformed: invalid character (byte 0)"),
        (b"null", "the body is no {}: Expected `object`, got `null`"),
        (b"[]", "the body is no {}: Expected `object`, got `array`"),
        (b'"Pod"', "the body is no {}: Expected `object`, got `str`"),
        (b"\x00\x01\x02", "the body is no {}: JSON is malformed: invalid character (byte 0)"),
    ],
    ids=range(14),
)
def test_a_body_that_is_no_request_is_refused_with_the_reason(
    extender: Extender, verb: str, body: bytes, problem: str
) -> None:
    assert extender.refuse(f"/{verb}", body) == (400, problem.format(KINDS[verb]))


@pytest.mark.parametrize("verb", VERBS)
def test_a_body_that_is_not_utf_8_is_refused(extender: Extender, verb: str) -> None:
    body = encoded(verb).replace(b"node-7", b"node-\xff")
    status, problem = extender.refuse(f"/{verb}", body)
    reason = "'utf-8' codec can't decode byte 0xff in position 5: invalid start byte"
    assert (status, problem) == (400, f"the body is no {KINDS[verb]}: {reason}")


@pytest.mark.parametrize("depth", [*range(900, 1_000, 3), DEEP])
def test_json_nested_without_end_is_no_fault_of_ours(extender: Extender, depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    bodies = [
        b'{"Pod": {"metadata": {"name": "p"}, "x": %s}, "NodeNames": []}' % deep,
        b'{"Pod": {"metadata": {"name": "p"}}, "NodeNames": [], "x": %s}' % deep,
        b'{"Pod": {"metadata": {"name": "p"}}, "Nodes": {"items": [{"metadata": {"name": "n"}, "x": %s}]}}' % deep,
    ]
    for body in bodies:
        assert extender.client.post("/filter", content=body).status_code in {200, 400}


@pytest.mark.parametrize("verb", VERBS)
def test_a_body_over_the_limit_is_refused(connection: Connection, verb: str) -> None:
    whole = encoded(verb)
    longest = whole + b" " * (LIMIT - len(whole))
    assert ask(connection, verb, longest) == ANSWERS[verb]
    answer = connection.ask(f"/{verb}", longest + b" ")
    assert (answer.status, json.loads(answer.body)) == (413, {"error": NOT_TOO_LONG})
    assert ask(connection, verb, whole) == ANSWERS[verb]


def test_a_body_over_the_limit_is_refused_without_a_content_length_too(connection: Connection) -> None:
    chunk = b" " * (1024 * 1024)
    connection.send(chunked("/filter", [encoded("filter"), *[chunk] * 31]))
    assert json.loads(connection.read().body) == ANSWERS["filter"]
    connection.send(chunked("/filter", [encoded("filter"), *[chunk] * 32]))
    answer = connection.read()
    assert (answer.status, json.loads(answer.body)) == (413, {"error": NOT_TOO_LONG})
    connection.send(chunked("/filter", [bytes([byte]) for byte in encoded("filter")]))
    assert json.loads(connection.read().body) == ANSWERS["filter"]


def test_a_body_that_is_announced_too_long_is_refused_before_it_comes(connection: Connection) -> None:
    connection.send(request("/filter", b"").replace(b"Content-Length: 0", b"Content-Length: %d" % (LIMIT + 1)))
    answer = connection.read()
    assert (answer.status, json.loads(answer.body)) == (413, {"error": NOT_TOO_LONG})


# -- connections -----------------------------------------------------------------------------------

REFUSED = [
    ("POST", "/filter", b"", 400),
    ("POST", "/filter", b"{", 400),
    ("POST", "/filter", b"\xff", 400),
    ("POST", "/bind", b"{}", 400),
    ("POST", "/nope", b"{}", 404),
    ("POST", "/profiles/nope/filter", b"{}", 404),
    ("GET", "/filter", b"", 405),
    ("PUT", "/filter", b"x" * 100_000, 405),
    ("POST", "/nope", b"x" * 10_000_000, 404),
    ("POST", "/filter", b"x" * (LIMIT + 1), 413),
]


def test_a_connection_is_kept_after_every_refusal(connection: Connection) -> None:
    for method, path, body, status in REFUSED:
        refusal = connection.ask(path, body, method)
        assert (refusal.status, refusal.headers["content-type"]) == (status, "application/json")
        assert "connection" not in refusal.headers
        answer = connection.ask("/filter", encoded("filter"))
        assert (answer.status, json.loads(answer.body)) == (200, ANSWERS["filter"])


def test_requests_that_come_together_are_answered_in_their_order(connection: Connection) -> None:
    in_turn = [request(f"/{verb}", encoded(verb)) for verb in VERBS]
    connection.send(b"".join([*in_turn, request("/nope", b""), *in_turn]))
    answers = [json.loads(connection.read().body) for _ in range(9)]
    in_order = [ANSWERS[verb] for verb in VERBS]
    assert answers == [*in_order, {"error": f"/nope is no verb; {KNOWN_VERBS}"}, *in_order]


def test_a_body_may_come_in_pieces(connection: Connection) -> None:
    whole = request("/filter", encoded("filter"))
    for at in range(0, len(whole), 97):
        connection.send(whole[at : at + 97])
    assert json.loads(connection.read().body) == ANSWERS["filter"]


def test_what_is_no_http_is_refused_and_the_connection_closed(connection: Connection) -> None:
    connection.send(b"hello\r\n\r\n")
    answer = connection.read()
    problem = {"error": "this is no HTTP/1.1: Invalid method encountered"}
    assert (answer.status, answer.headers["connection"], json.loads(answer.body)) == (400, "close", problem)
    assert connection.is_closed


@pytest.mark.parametrize(
    "sent", [b"", b"POST /fil", b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{"]
)
def test_a_client_that_goes_away_in_the_midst_harms_nobody(extender: Extender, sent: bytes) -> None:
    with Connection(extender.address) as connection:
        connection.send(sent)
        connection.end()
        assert connection.is_closed
    assert extender.post("/filter", REQUESTS["filter"]) == ANSWERS["filter"]


def test_a_client_that_does_not_wait_for_its_answer_harms_nobody(extender: Extender) -> None:
    for _ in range(20):
        with Connection(extender.address) as connection:
            connection.send(request("/filter", encoded("filter")))
    assert extender.post("/filter", REQUESTS["filter"]) == ANSWERS["filter"]


def test_kept_nodes_come_back_byte_for_byte(extender: Extender) -> None:
    odd = b'{ "x" : [1E2, -0.0, 123456789012345678901234567890],\t"metadata":{"name" :"\\u0031" ,"a":"\\/"},"a":{ }  }'
    body = b'{"Pod": %s, "Nodes": {"metadata": { "continue":"c" }, "items": [ %s ,\n%s]}}'
    answer = extender.client.post("/filter", content=body % (json.dumps(pod()).encode(), odd, odd))
    assert answer.content == (
        b'{"Nodes":{"metadata":{ "continue":"c" },"items":[%s,%s]},"NodeNames":null,'
        b'"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}' % (odd, odd)
    )


def test_many_connections_at_once_are_answered_each_with_its_own(extender: Extender) -> None:
    def ask(thread: int) -> list[tuple[int, Any]]:
        with Connection(extender.address) as connection:
            return [_asked(connection, thread, at) for at in range(50)]

    with ThreadPoolExecutor(max_workers=8) as executor:
        for thread, answers in enumerate(executor.map(ask, range(8))):
            for at, (status, answer) in enumerate(answers):
                assert (status, answer) == _own_answer(thread, at)


def _asked(connection: Connection, thread: int, at: int) -> tuple[int, Any]:
    path = ("/filter", "/prioritize", "/nope")[at % 3]
    request = names_args([f"node-{thread}-{at}"], pod(f"web-{thread}-{at}"))
    answer = connection.ask(path, json.dumps(request).encode())
    return answer.status, json.loads(answer.body)


def _own_answer(thread: int, at: int) -> tuple[int, Any]:
    name = f"node-{thread}-{at}"
    return (
        (200, filtered([name])),
        (200, [{"Host": name, "Score": 10}]),
        (404, {"error": f"/nope is no verb; {KNOWN_VERBS}"}),
    )[at % 3]


# -- sizes -----------------------------------------------------------------------------------------


def test_no_nodes_at_all(extender: Extender) -> None:
    nothing: dict[str, Any] = {"metadata": {}, "items": []}
    assert extender.post("/filter", names_args([])) == filtered([])
    assert extender.post("/filter", nodes_args([])) == filtered(None) | {"Nodes": nothing}
    assert extender.post("/filter", {"Pod": pod(), "Nodes": {"items": None}}) == filtered(None) | {"Nodes": nothing}
    assert extender.post("/prioritize", names_args([])) == []
    assert extender.post("/prioritize", nodes_args([])) == []
    assert extender.post("/prioritize", {"Pod": pod(), "Nodes": {"metadata": {}, "items": None}}) == []
    assert extender.post("/preempt", preemption_args({})) == {"NodeNameToMetaVictims": {}}


def test_thousands_of_whole_nodes(extender: Extender) -> None:
    nodes = [node(f"node-{at}", labels={"filler": "x" * 3_000}) for at in range(5_000)]
    body = json.dumps(nodes_args(nodes)).encode()
    assert extender.post("/filter", body)["Nodes"]["items"] == nodes
    assert extender.post("/prioritize", body) == priorities(
        {each["metadata"]["name"]: 10 * (each["metadata"]["name"][-1] == "7") for each in nodes}
    )


def test_thousands_of_candidates_for_preemption(extender: Extender) -> None:
    victims = {f"node-{at}": meta_victims(f"a-{at}", f"b-{at}", violations=at) for at in range(5_000)}
    assert extender.post("/preempt", preemption_args(victims)) == {"NodeNameToMetaVictims": victims}


# -- in the end ------------------------------------------------------------------------------------


def test_the_process_is_alive_and_ready_after_all_of_it(extender: Extender) -> None:
    assert extender.admin.get("/livez").text == "ok"
    assert extender.admin.get("/readyz").text == "ok"
    for verb in VERBS:
        assert extender.post(f"/{verb}", REQUESTS[verb]) == ANSWERS[verb]


def test_answers_are_json_and_name_no_server(extender: Extender) -> None:
    answer = extender.client.post("/filter", content=encoded("filter"))
    assert answer.status_code == httpx.codes.OK
    assert dict(answer.headers) == {"content-type": "application/json", "content-length": str(len(answer.content))}
