"""The admin API of `kwx serve`, as an operator's tools use it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from fastapi import HTTPException, Request

from bench.controlplane.ports import free_port
from extender.admin.api import event_stream, uploads
from extender.admin.api.context import MAX_UPLOADS
from extender.admin.auth.middleware import MAX_BODY_BYTES, MAX_OBJECTS_BYTES
from extender.admin.status import Cause, failure_status
from extender.config import PluginConfig
from extender.rollouts.revision import Revision
from tests.extender import guests
from tests.extender.kwx import ON_PURPOSE, Extender, condition, plugin, profile
from tests.patience import PATIENCE_S
from wasm_runtime.blob import digest

API = "/api/v1"
NODENUMBER = digest(guests.module("nodenumber"))
MODULE_LIMIT = 100_000
OTHER = guests.constant_score(50)
WASM = {"Content-Type": "application/wasm"}

OWN = ["looked", "changed", "expected", "tagged", "uploaded", "tried", "returned", "refused", "named", "followed"]
"""Plugins that a test each may change."""

HELD = [f"held-{number}" for number in range(MAX_UPLOADS)]
"""Plugins whose rollouts wait for a request to their profiles, which have their names."""

Json = Any


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    profiles = [
        profile("default", *(plugin("nodenumber", name=name) for name in OWN)),
        profile("batch", plugin("nodenumber", name="named")),
        profile("slow", plugin("nodenumber", name="slow", swap={"shadowRequests": 1})),
        *(profile(name, plugin("nodenumber", name=name, swap={"shadowRequests": 1})) for name in HELD),
    ]
    runtime = {"moduleLimit": str(MODULE_LIMIT)}
    with Extender(tmp_path_factory.mktemp("api"), *profiles, runtime=runtime) as extender:
        yield extender


def get(extender: Extender, path: str, **query: str | int) -> Json:
    answer = extender.admin.get(API + path, params=query)
    assert answer.status_code == httpx.codes.OK, answer.text
    return answer.json()


def swap(extender: Extender, name: str, **order: Json) -> httpx.Response:
    return extender.admin.post(f"{API}/plugins/{name}/swap", params={"wait": "30s"}, json=order)


def upload(extender: Extender, name: str, module: bytes = OTHER, **query: str) -> httpx.Response:
    return extender.admin.put(
        f"{API}/plugins/{name}/module", content=module, headers=WASM, params={"wait": "30s", **query}
    )


def active(extender: Extender, name: str) -> str:
    return str(get(extender, f"/plugins/{name}")["revision"]["id"])


def revision(module: str = NODENUMBER, **settings: Json) -> str:
    """The id of a revision of a plugin of these tests."""
    config = PluginConfig.model_validate({"name": "any", "guestURL": "file://any.wasm", **settings})
    return Revision.of(module, config, "anywhere").id


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """The status of an answer and its message, if it is a Status of Kubernetes without more than these."""
    found = answer.json()
    assert found == failure_status(answer.status_code, found["message"])
    return answer.status_code, found["message"]


def timeless(rollout: Json) -> Json:
    """A rollout without what differs from run to run."""
    (succeeded,) = rollout["conditions"]
    times = [rollout["startTime"], succeeded["lastTransitionTime"], rollout["lastTransitionTime"]]
    assert times == sorted(times)
    timely = {"id", "startTime", "lastTransitionTime", "conditions", "report"}
    return {key: value for key, value in rollout.items() if key not in timely} | {
        "succeeded": (succeeded["status"], succeeded["reason"], succeeded["message"])
    }


def dateless(conditions: Json) -> Json:
    return [{key: value for key, value in each.items() if key != "lastTransitionTime"} for each in conditions]


def told(extender: Extender, name: str, **more: Json) -> Json:
    """A rollout as it is told when it is over."""
    return {
        "profile": "default",
        "plugin": name,
        "stage": "active",
        "requestedBy": "local",
        "reason": "",
        "dryRun": False,
        "revision": revision(),
        "module": NODENUMBER,
        "origin": str(extender.folder / "nodenumber.wasm"),
        "replaces": revision(),
        "message": "",
        "succeeded": ("True", "Active", ""),
    } | more


def test_profiles_are_listed_with_their_plugins(extender: Extender) -> None:
    profiles = get(extender, "/profiles")
    ready = [dateless(each.pop("conditions")) for each in profiles]
    assert ready == [[{"type": "Ready", "status": "True", "reason": "Serving", "message": ""}]] * len(profiles)
    assert profiles == [
        {"name": "default", "scoreRange": 10, "topNodes": None, "plugins": OWN},
        {"name": "batch", "scoreRange": 10, "topNodes": None, "plugins": ["named"]},
        *({"name": name, "scoreRange": 10, "topNodes": None, "plugins": [name]} for name in ("slow", *HELD)),
    ]


def test_what_the_configuration_of_kube_scheduler_has_to_fit_is_shown(extender: Extender) -> None:
    shown = get(extender, "/registration")
    profiles = {each["name"]: each for each in shown.pop("profiles")}
    assert shown == {
        "host": "127.0.0.1",
        "port": 0,
        "hasTls": False,
        "certificateHosts": None,
        "asksForCertificates": False,
        "mayBind": True,
        "replicas": "none",
        "clusterMode": "none",
        "bindTimeoutSeconds": 4.0,
    }
    plugin = {
        "name": "slow",
        "timeoutSeconds": 0.5,
        "bindingPoints": [],
        "wantsNodes": False,
        "wantsPods": False,
        "wantsVictims": False,
        "wantsGroups": False,
        "wakesPods": False,
    }
    assert profiles["slow"] == {
        "name": "slow",
        "verbs": ["prioritize"],
        "scoreRange": 10,
        "topNodes": None,
        "plugins": [plugin],
    }
    assert [each["name"] for each in profiles["default"]["plugins"]] == OWN


def test_other_settings_take_over_and_the_answer_tells_when(extender: Extender) -> None:
    settings = {"guestConfig": {"reverse": True}, "weight": 7}
    answer = swap(extender, "changed", settings=settings, reason="for the night")
    rollout = answer.json()
    assert answer.status_code == httpx.codes.OK
    assert answer.headers["location"] == f"{API}/rollouts/{rollout['id']}"
    new = revision(guestConfig='{"reverse":true}', weight=7)
    assert timeless(rollout) == told(extender, "changed", revision=new, reason="for the night")
    assert rollout["report"]["differences"] == []

    extender.wait_until(lambda: get(extender, "/plugins/changed")["standby"])
    shown = get(extender, "/plugins/changed")
    assert (shown["weight"], shown["revision"]["id"], shown["standby"]) == (7, new, revision())
    assert (
        shown["revision"]["settings"] | {"guestConfig": '{"reverse":true}', "weight": 7}
        == (shown["revision"]["settings"])
    )
    assert shown["rollout"] == rollout == get(extender, f"/rollouts/{rollout['id']}")

    again = swap(extender, "changed", settings=settings)
    assert (again.status_code, again.json()) == (httpx.codes.OK, rollout)


def test_without_a_wish_the_source_is_looked_at(extender: Extender) -> None:
    answer = swap(extender, "looked")
    assert answer.status_code == httpx.codes.OK
    assert timeless(answer.json()) == told(
        extender, "looked", stage="unchanged", replaces=None, succeeded=("True", "Unchanged", "")
    )


def test_a_rollout_that_is_not_waited_for_is_accepted_and_can_be_waited_for(extender: Extender) -> None:
    order = {"settings": {"weight": 2}}
    answer = extender.admin.post(f"{API}/plugins/slow/swap", json=order)
    begun = answer.json()
    assert (answer.status_code, begun["revision"], begun["stage"] in STAGES[:4]) == (202, revision(weight=2), True)
    hold(extender, "slow")
    assert active(extender, "slow") == revision()
    answer = extender.admin.post(f"{API}/plugins/slow/swap", json=order, params={"wait": "10ms"})
    assert (answer.status_code, answer.json()["id"], answer.json()["stage"]) == (202, begun["id"], "compiled")

    other = extender.admin.post(f"{API}/plugins/slow/swap", json={"settings": {"weight": 3}})
    problem = f"rollout {begun['id']} of plugin slow by local is under way (compiled); wait for its end"
    assert refusal(other) == (409, problem)

    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(get, extender, answer.headers["location"].removeprefix(API), wait="30s")
        release(extender, "slow", waiting.done)
    ended = waiting.result(PATIENCE_S)
    assert (ended["id"], ended["stage"], ended["startTime"]) == (begun["id"], "active", begun["startTime"])


def test_an_expected_revision_keeps_two_operators_from_crossing(extender: Extender) -> None:
    old, new = revision(), revision(weight=2)
    assert swap(extender, "expected", settings={"weight": 2}, expectedRevision=old[7:15]).json()["stage"] == "active"
    for expected, whole in ((old, old), (old[7:15], old[:15])):
        answer = swap(extender, "expected", settings={"weight": 3}, expectedRevision=expected)
        problem = f"revision {new} of plugin expected is active, not {whole}; look at it again"
        assert refusal(answer) == (409, problem)
    assert active(extender, "expected") == new


def test_if_match_is_the_same_with_a_status_of_its_own(extender: Extender) -> None:
    old, new = revision(), revision(digest(OTHER))
    path = f"{API}/plugins/tagged/module"
    tag = extender.admin.get(f"{API}/plugins/tagged").headers["etag"]
    assert tag == f'"{old}"'
    answer = extender.admin.put(path, content=OTHER, headers=WASM | {"If-Match": tag}, params={"wait": "30s"})
    assert (answer.status_code, answer.json()["revision"], answer.json()["stage"]) == (200, new, "active")
    retried = extender.admin.put(path, content=OTHER, headers=WASM | {"If-Match": tag})
    assert (retried.status_code, retried.json()["id"]) == (200, answer.json()["id"])

    problem = f"revision {new} of plugin tagged is active, not {old}; look at it again"
    for method, end in (("PUT", "module"), ("POST", "swap"), ("POST", "rollback")):
        answer = extender.admin.request(
            method,
            f"{API}/plugins/tagged/{end}",
            content=guests.constant_score(77) if method == "PUT" else b"{}",
            headers={"If-Match": tag} | (WASM if method == "PUT" else {}),
        )
        assert refusal(answer) == (412, problem)
    assert active(extender, "tagged") == new
    malformed = extender.admin.put(path, content=OTHER, headers=WASM | {"If-Match": old})
    assert refusal(malformed) == (400, f'If-Match: expected "sha256:…", the id of a revision in quotes, found {old!r}')


def test_a_module_is_uploaded_and_another_revision_comes_back(extender: Extender) -> None:
    answer = upload(extender, "uploaded", reason="as scheduled", settings='{"weight": 2}')
    new = revision(digest(OTHER), weight=2)
    assert timeless(answer.json()) == told(
        extender, "uploaded", revision=new, module=digest(OTHER), origin="upload by local", reason="as scheduled"
    )
    assert [(each["id"], each["stage"]) for each in get(extender, "/plugins/uploaded/revisions")] == [
        (new, "active"),
        (revision(), "draining"),
    ]
    assert get(extender, f"/plugins/uploaded/revisions/{new[7:15]}") == {
        "id": new,
        "stage": "active",
        "module": digest(OTHER),
        "origin": "upload by local",
        "signer": None,
        "settings": get(extender, "/plugins/uploaded")["revision"]["settings"],
    }
    back = swap(extender, "uploaded", revision=revision()[7:20])
    assert (back.json()["stage"], back.json()["revision"]) == ("active", revision())
    assert condition(get(extender, "/plugins/uploaded"), "SourceInSync") == ("True", "SameRevision", "")


def test_a_dry_run_changes_nothing(extender: Extender) -> None:
    extender.post("/filter", {"Pod": {"metadata": {"name": "a"}}, "NodeNames": ["node-1"]})
    before = get(extender, "/plugins/tried")
    answer = upload(extender, "tried", dryRun="true")
    rollout = answer.json()
    assert answer.status_code == httpx.codes.OK
    assert timeless(rollout) == told(
        extender,
        "tried",
        stage="rehearsed",
        dryRun=True,
        revision=revision(digest(OTHER)),
        module=digest(OTHER),
        origin="upload by local",
        succeeded=("True", "Rehearsed", ""),
    )
    assert get(extender, "/plugins/tried") == before


def test_the_way_back_leads_to_the_revision_before_unless_one_is_named(extender: Extender) -> None:
    path = f"{API}/plugins/returned/rollback"
    first = extender.admin.post(path)
    assert refusal(first) == (422, "plugin returned has no earlier revision to go back to")
    swap(extender, "returned", settings={"weight": 2})
    back = extender.admin.post(path, params={"wait": "30s"}, json={"reason": "too heavy"}).json()
    assert timeless(back) == told(extender, "returned", reason="too heavy", replaces=revision(weight=2))
    named = extender.admin.post(path, params={"wait": "30s"}, json={"revision": revision(weight=2)}).json()
    assert (named["stage"], named["revision"]) == ("active", revision(weight=2))
    again = extender.admin.post(path, json={"revision": revision(weight=2)[7:15]})
    assert (again.status_code, again.json()) == (200, named)

    history = get(extender, "/history", plugin="returned", profile="default")
    assert [(each["stage"], each["requestedBy"], each["reason"], each["revision"]) for each in history] == [
        ("active", "local", "", revision(weight=2)),
        ("draining", "local", "too heavy", revision()),
        ("draining", "local", "", revision(weight=2)),
        ("draining", "start", "", revision()),
    ]
    assert get(extender, "/history", plugin="returned", limit=1) == history[:1]
    assert get(extender, "/history", plugin="returned", profile="batch") == []


def test_a_candidate_that_cannot_be_used_is_refused_with_its_reason(extender: Extender) -> None:
    answer = upload(extender, "refused", b"no module")
    problem = "upload by local is no valid WebAssembly module: begins with b'no m', not with b'\\x00asm'"
    assert (answer.status_code, answer.json()["stage"], answer.json()["message"]) == (200, "failed", problem)
    (succeeded,) = answer.json()["conditions"]
    assert dateless([succeeded]) == [{"type": "Succeeded", "status": "False", "reason": "Failed", "message": problem}]
    assert active(extender, "refused") == revision()


NAMES = ", ".join(sorted([*OWN, "slow", *HELD]))


@pytest.mark.parametrize(
    ("method", "path", "status", "problem"),
    [
        ("GET", "/plugins/nope", 404, f"there is no plugin 'nope'; there are {NAMES}"),
        ("POST", "/plugins/nope/swap", 404, f"there is no plugin 'nope'; there are {NAMES}"),
        ("GET", "/plugins/looked?profile=batch", 404, "profile 'batch' has no plugin 'looked'; it is in default"),
        ("GET", "/plugins/named", 409, "plugin 'named' is in the profiles default, batch; name one of them (profile)"),
        ("GET", "/rollouts/1", 404, "there is no rollout 1, or it is long over"),
        ("GET", "/events?rollout=1", 404, "there is no rollout 1, or it is long over"),
        (
            "GET",
            "/plugins/looked/revisions/01234567",
            404,
            "no revision of plugin 'looked' begins with sha256:01234567",
        ),
    ],
)
def test_what_is_not_there_is_told_with_what_is(
    extender: Extender, method: str, path: str, status: int, problem: str
) -> None:
    answer = extender.admin.request(method, API + path, content=b"{}" if method == "POST" else None)
    assert refusal(answer) == (status, problem)


def test_the_profile_tells_plugins_of_one_name_apart(extender: Extender) -> None:
    assert [get(extender, "/plugins/named", profile=name)["profile"] for name in ("default", "batch")] == [
        "default",
        "batch",
    ]


NO_KEY = (
    "cannot be set; expected some of guestConfig, args, logSeverity, weight, engine, allowUnlimited, failurePolicy,"
    " timeout, memoryLimit, tableLimit, outputLimit, instances, extensionPoints"
)


@pytest.mark.parametrize(
    ("order", "problem"),
    [
        (
            {"settings": {"digest": "x"}},
            f"digest: {NO_KEY}",
        ),
        (
            {"revision": "01234567"},
            "plugin refused has no revision, or more than one, by '01234567' (an id, or at least 8 digits); there are: "
            + revision(),
        ),
        (
            {"url": "file:///etc/passwd"},
            "expected a URL of http, https or oci; a file is uploaded (kwx plugin swap NAME --file FILE)",
        ),
    ],
)
def test_an_order_that_cannot_be_carried_out_is_refused(extender: Extender, order: Json, problem: str) -> None:
    assert refusal(swap(extender, "refused", **order)) == (422, problem)


@pytest.mark.parametrize(
    ("order", "field", "problem"),
    [
        ({"revison": "x"}, "revison", "Extra inputs are not permitted"),
        (
            {"revision": "x"},
            "revision",
            "expected the id of a revision, or at least 8 digits of it, found 'x'",
        ),
        (
            {"url": "https://a.example/b.wasm", "revision": "01234567"},
            "",
            "url and revision exclude each other",
        ),
        ({"reason": "x" * 1001}, "reason", "String should have at most 1000 characters"),
    ],
)
def test_a_malformed_order_is_refused(extender: Extender, order: Json, field: str, problem: str) -> None:
    assert_malformed(swap(extender, "refused", **order), (field, problem))


def assert_malformed(answer: httpx.Response, *causes: tuple[str, str]) -> None:
    """That a request is refused for parts of it, each by its path and what is wrong."""
    message = "; ".join(f"{field}: {problem}" if field else problem for field, problem in causes)
    expected = failure_status(422, message, [Cause(field=field, message=problem) for field, problem in causes])
    assert (answer.status_code, answer.json()) == (422, expected)


NO_UNICODE = "Input should be a valid string, unable to parse raw data as a unicode string"


@pytest.mark.parametrize(
    ("order", "cause"),
    [
        (rb'{"reason": "\ud800"}', ("reason", NO_UNICODE)),
        (rb'{"\ud800": "secret"}', ("", NO_UNICODE)),
        (rb'{"secretly": NaN}', ("secretly", "Extra inputs are not permitted")),
    ],
)
def test_an_order_that_is_no_unicode_or_json_is_refused_without_what_it_holds(
    extender: Extender, order: bytes, cause: tuple[str, str]
) -> None:
    assert_malformed(extender.admin.post(f"{API}/plugins/refused/swap", content=order), cause)


def test_settings_whose_key_is_no_unicode_are_refused(extender: Extender) -> None:
    answer = extender.admin.post(f"{API}/plugins/refused/swap", content=rb'{"settings": {"\ud800": NaN}}')
    assert refusal(answer) == (422, f"\ud800: {NO_KEY}")


@pytest.mark.parametrize("wait", ["30", "0s", "2h", "soon"])
def test_a_time_to_wait_is_a_duration(extender: Extender, wait: str) -> None:
    problem = f"expected a duration such as 500ms or 2s, at most 1h, found {wait!r}"
    assert_malformed(extender.admin.get(f"{API}/events", params={"wait": wait}), ("wait", problem))


@pytest.mark.parametrize(
    ("headers", "query", "status", "problem"),
    [
        ({}, {}, 415, "expected a module, and Content-Type: application/wasm"),
        (WASM, {"settings": "{"}, 422, "settings: expected JSON: "),
        (WASM, {"settings": "[]"}, 422, 'settings: expected a JSON object such as {"weight": 2}'),
        (WASM | {"X-Signature": "!"}, {}, 422, "expected a signature "),
    ],
)
def test_an_upload_that_is_not_as_it_should_be_is_refused(
    extender: Extender, headers: dict[str, str], query: dict[str, str], status: int, problem: str
) -> None:
    answer = extender.admin.put(f"{API}/plugins/refused/module", content=OTHER, headers=headers, params=query)
    found, said = refusal(answer)
    assert (found, said[: len(problem)]) == (status, problem)
    assert active(extender, "refused") == revision()


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_long_is_not_read(extender: Extender, chunked: bool) -> None:
    def send(method: str, path: str, size: int, headers: dict[str, str]) -> tuple[int, str]:
        parts = (b" " * 10_000 for _ in range(size // 10_000 + 1))
        content = parts if chunked else b" " * (size + 1)
        return refusal(extender.admin.request(method, API + path, content=content, headers=headers))

    assert send("PUT", "/plugins/refused/module", MODULE_LIMIT, WASM) == (
        413,
        f"the body has more than the {MODULE_LIMIT} bytes that runtime.moduleLimit allows",
    )
    assert send("POST", "/plugins/refused/swap", MAX_BODY_BYTES, {}) == (
        413,
        f"the body has more than the {MAX_BODY_BYTES} bytes that a body may have",
    )
    with_module = MAX_OBJECTS_BYTES + 4 * (MODULE_LIMIT + 2) // 3
    assert send("POST", "/judge", with_module, {}) == (
        413,
        f"the body has more than the {with_module} bytes that objects and a module in base64 may have",
    )


def test_a_module_that_does_not_come_in_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "UPLOAD_TIMEOUT_S", 0.05)

    async def receive() -> dict[str, Json]:
        await asyncio.sleep(60)
        return {"type": "http.request"}

    with pytest.raises(HTTPException) as caught:
        request = Request({"type": "http", "method": "PUT", "headers": []}, receive)
        asyncio.run(uploads.read_upload(request, "the module"))
    assert (caught.value.status_code, caught.value.detail) == (408, "the module did not come in within 0.05 s")


def hold(extender: Extender, name: str) -> None:
    """Waits until a rollout waits for a request."""
    extender.wait_until(lambda: get(extender, f"/plugins/{name}")["rollout"]["stage"] == "compiled")


def release(extender: Extender, name: str, is_over: Callable[[], bool]) -> None:
    """Sends requests until the rollout has had one: the first may come just before it waits."""

    def ask() -> bool:
        extender.post(f"/profiles/{name}/filter", {"Pod": {"metadata": {"name": "a"}}, "NodeNames": ["node-1"]})
        return is_over()

    extender.wait_until(ask)


def test_uploads_that_wait_for_their_end_are_in_nobodys_way(extender: Extender) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(upload, extender, name) for name in HELD]
        for name in HELD:
            hold(extender, name)
        assert upload(extender, "expected", dryRun="true").json()["stage"] == "rehearsed"
        assert not any(each.done() for each in waiting)
        for name, each in zip(HELD, waiting, strict=True):
            release(extender, name, each.done)
        assert [each.result(PATIENCE_S).json()["stage"] for each in waiting] == ["active"] * len(HELD)


def test_a_rollout_that_has_begun_is_told_even_if_too_many_wait(extender: Extender) -> None:
    name = HELD[0]
    with ExitStack() as streams:
        for _ in range(event_stream.MAX_LISTENERS):
            stream = httpx.stream("GET", f"{extender.admin_url}{API}/events", headers=ON_PURPOSE, trust_env=False)
            assert streams.enter_context(stream).status_code == httpx.codes.OK
        refused = extender.admin.get(f"{API}/events")
        assert refusal(refused) == (503, "64 clients wait for rollouts already; end one of them or ask again later")
        begun = swap(extender, name, settings={"weight": 7})
        assert (begun.status_code, begun.json()["plugin"]) == (202, name)
        hold(extender, name)
    release(extender, name, lambda: active(extender, name) == begun.json()["revision"])


def events(
    extender: Extender, query: dict[str, str], headers: dict[str, str] | None = None
) -> list[tuple[str, int, Json]]:
    """Name, id and data of the events that come until the stream ends."""
    with httpx.stream(
        "GET", f"{extender.admin_url}{API}/events", params=query, headers=ON_PURPOSE | (headers or {}), trust_env=False
    ) as answer:
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        lines = [line.partition(": ") for line in answer.iter_lines()]
    values: dict[str, list[str]] = {"event": [], "id": [], "data": []}
    for field, _, value in lines:
        if field:
            values[field].append(value)
    return [
        (event, int(number), json.loads(data))
        for event, number, data in zip(values["event"], values["id"], values["data"], strict=True)
    ]


STAGES = ["fetching", "fetched", "verified", "compiled", "probed", "warmed", "active"]


def test_the_events_of_a_rollout_tell_each_stage_and_end_with_it(extender: Extender) -> None:
    rollout = swap(extender, "followed", settings={"weight": 9}).json()
    seen = events(extender, {"rollout": rollout["id"]})
    assert [name for name, _, _ in seen] == [data["stage"] for _, _, data in seen] == STAGES
    assert seen[-1][2] == rollout
    numbers = [number for _, number, _ in seen]
    assert numbers == sorted(set(numbers))

    rest = events(extender, {"rollout": rollout["id"]}, {"Last-Event-ID": str(numbers[4])})
    assert rest == seen[5:]
    assert events(extender, {"rollout": rollout["id"]}, {"Last-Event-ID": str(numbers[-1])}) == []


def test_the_events_of_all_rollouts_go_on_from_the_last_one_that_was_heard(extender: Extender) -> None:
    rollout = swap(extender, "followed", settings={"weight": 10}).json()
    seen = events(extender, {"wait": "50ms"}, {"Last-Event-ID": "0"})
    assert [number for _, number, _ in seen] == list(range(1, len(seen) + 1))
    ours = [(name, number) for name, number, data in seen if data["id"] == rollout["id"]]
    assert [name for name, _ in ours] == STAGES
    heard = ours[3][1]
    assert events(extender, {"wait": "50ms"}, {"Last-Event-ID": str(heard)})[: len(seen) - heard] == seen[heard:]
    assert all(number > len(seen) for _, number, _ in events(extender, {"wait": "50ms"}))


def test_nobody_is_told_the_query_of_a_source(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}/m.wasm"
    with Extender(tmp_path, profile("default", {"name": "far", "guestURL": f"{url}?token=secret"})) as extender:
        paths = ("/readyz?verbose", "/metrics", *(f"{API}/{each}" for each in ("plugins", "profiles", "history")))
        told = [extender.admin.get(path).text for path in paths]
        assert get(extender, "/plugins/far")["source"] == url
    assert "secret" not in "".join([*told, (tmp_path / "extender.log").read_text()])


def test_everything_the_api_takes_and_answers_is_described(extender: Extender) -> None:
    described = extender.admin.get("/openapi.json").json()
    assert {(path, method) for path, methods in described["paths"].items() for method in methods} == {
        ("/livez", "get"),
        ("/readyz", "get"),
        ("/metrics", "get"),
        (f"{API}/profiles", "get"),
        (f"{API}/registration", "get"),
        (f"{API}/plugins", "get"),
        (f"{API}/plugins/{{plugin}}", "get"),
        (f"{API}/plugins/{{plugin}}/revisions", "get"),
        (f"{API}/plugins/{{plugin}}/revisions/{{revision}}", "get"),
        (f"{API}/plugins/{{plugin}}/swap", "post"),
        (f"{API}/plugins/{{plugin}}/module", "put"),
        (f"{API}/plugins/{{plugin}}/rollback", "post"),
        (f"{API}/rollouts/{{rollout}}", "get"),
        (f"{API}/history", "get"),
        (f"{API}/events", "get"),
        (f"{API}/decisions", "get"),
        (f"{API}/decisions/{{namespace}}/{{pod}}", "get"),
        (f"{API}/judge", "post"),
        (f"{API}/ledger", "get"),
        (f"{API}/groups", "get"),
        (f"{API}/waits", "get"),
        (f"{API}/waits/{{uid}}/allow", "post"),
        (f"{API}/waits/{{uid}}/reject", "post"),
        (f"{API}/traffic", "get"),
    }
    for methods in described["paths"].values():
        for operation in methods.values():
            assert operation["description"]
            assert all(
                parameter.get("description")
                for parameter in operation.get("parameters", [])
                if parameter["name"] != "verbose"
            )
    schemas = described["components"]["schemas"]
    named = [name for schema in schemas.values() for name in schema.get("properties", ())]
    assert [name for name in named if not re.fullmatch("[a-z][A-Za-z0-9]*", name)] == []
    assert schemas["RolloutView"]["properties"]["startTime"] == {
        "type": "string",
        "format": "date-time",
        "title": "Starttime",
    }
    refused = {
        content["schema"]["$ref"]
        for methods in described["paths"].values()
        for operation in methods.values()
        for status, answer in operation["responses"].items()
        for content in answer["content"].values()
        if status >= "400"
    }
    assert refused == {"#/components/schemas/FailureStatus"}
    swap_request = schemas["SwapRequest"]
    assert msgspec.json.encode(swap_request["examples"])
    assert swap_request["properties"]["settings"]["description"].startswith("Keys of the plugin in the configuration")
