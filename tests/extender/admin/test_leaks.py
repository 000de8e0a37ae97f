"""What a pod keeps to itself is in no answer of the admin address, whoever asks: route, page, stream or recording."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from extender.admin.dashboard import pages
from tests.extender import guests
from tests.extender.kwx import ON_PURPOSE, Extender, plugin, profile
from tests.extender.objects import NODE_NAMES, Object, binding_args, meta_victims, names_args, pod, preemption_args
from tests.patience import Beside

SECRET = "hunter2-is-nobodys-business"
TOKENS = {"": "", "read": "a-token-that-reads-only", "write": "a-token-that-writes"}
PROFILES = [
    profile("default", plugin("filter_by_digit", "72no sevens"), plugin("score_by_digit")),
    profile("traps", plugin("print_and_trap")),
]
STREAMS = {"/api/v1/events", "/ui/events"}
PLUGIN = {"plugin": "score_by_digit", "name": "score_by_digit", "profile": "default"}
POD = {"namespace": "default", "pod": "web-7"}
PAGES: Mapping[str, Mapping[str, str]] = {
    "/": {},
    "/plugin": PLUGIN,
    "/rollout": {},
    "/decisions": {},
    "/pod": {"namespace": "default", "name": "web-7"},
    "/pods": {},
    "/groups": {},
    "/latency": {},
    "/events": {},
}
"""The pages, and what they are asked for."""


def secretive(name: str) -> Object:
    """A pod with a secret wherever one is put."""
    wish = pod(name, annotations={"example.com/api-token": SECRET})
    wish["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = json.dumps({"a": SECRET})
    wish["spec"]["containers"][0] |= {
        "env": [{"name": "PASSWORD", "value": SECRET}],
        "command": ["serve", f"--password={SECRET}"],
        "args": [SECRET],
        "livenessProbe": {"httpGet": {"path": f"/?token={SECRET}", "port": 80}},
    }
    return wish


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    """One that was asked about such pods by each verb, and has swapped a plugin since."""
    folder = tmp_path_factory.mktemp("leaks")
    tokens = folder / "tokens"
    tokens.write_text("".join(f"{token},{role}er,{role}\n" for role, token in TOKENS.items() if token))
    tokens.chmod(0o600)
    server = {"adminTokens": "tokens"}
    with Extender(folder, *PROFILES, server=server, cluster={"mode": "dry-run"}) as extender:
        ask(extender, "web-7")
        swapped = extender.admin.put(
            "/api/v1/plugins/score_by_digit/module",
            content=guests.module("score_in_turn"),
            params={"wait": "30s", "dryRun": "true"},
            headers=bearer("write") | {"Content-Type": "application/wasm"},
        )
        assert swapped.json()["stage"] == "rehearsed", swapped.text
        yield extender
        log = extender.log()
        assert SECRET not in json.dumps(log)


def ask(extender: Extender, name: str) -> None:
    """Asks about a pod by each verb, of a plugin that traps and of some that judge."""
    wish = secretive(name)
    for prefix in "/profiles/traps", "":
        extender.post(f"{prefix}/filter", names_args(NODE_NAMES, wish))
        extender.post(f"{prefix}/prioritize", names_args(NODE_NAMES, wish))
        extender.post(f"{prefix}/preempt", preemption_args({"node-1": meta_victims("uid-of-a")}, wish))
        extender.post(f"{prefix}/bind", binding_args("node-9", name))


def bearer(role: str) -> dict[str, str]:
    return ON_PURPOSE | ({"Authorization": f"Bearer {TOKENS[role]}"} if role else {})


def routes(extender: Extender) -> list[tuple[str, str, list[str]]]:
    """Method, path and required parameters of each route that the API describes."""
    paths = extender.admin.get("/openapi.json").json()["paths"]
    return [
        (method.upper(), path, [each["name"] for each in operation.get("parameters", ()) if each["required"]])
        for path, operations in paths.items()
        for method, operation in operations.items()
    ]


def last_rollout(extender: Extender) -> str:
    return str(extender.admin.get("/api/v1/history", headers=bearer("read")).json()[0]["id"])


def filled(path: str, rollout: str) -> str:
    values = {**PLUGIN, **POD, "revision": guests.revision("score_by_digit"), "rollout": rollout}
    return re.sub(r"{(\w+)}", lambda found: values.get(found[1], "1"), path)


@pytest.mark.parametrize("role", TOKENS)
def test_no_route_of_the_api_tells_a_secret(extender: Extender, role: str) -> None:
    asked = [(method, path) for method, path, _ in routes(extender) if path not in {*STREAMS, "/api/v1/traffic"}]
    assert len(asked) >= 20
    rollout = last_rollout(extender)
    for method, path in asked:
        answer = extender.admin.request(
            method, filled(path, rollout), headers=bearer(role), content=secretive_body(method)
        )
        assert answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR, (path, answer.text)
        assert SECRET not in answer.text, (method, path)
        told = answer.status_code in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}
        assert told == (path.startswith("/api/") and (not role or (role == "read" and method != "GET"))), path


def secretive_body(method: str) -> bytes | None:
    return json.dumps({"reason": [SECRET]}).encode() if method in {"POST", "PUT"} else None


@pytest.mark.parametrize("role", TOKENS)
def test_no_page_tells_a_secret(extender: Extender, role: str) -> None:
    assert set(PAGES) == {route.path for route in pages.router.routes}  # type: ignore[attr-defined]
    with httpx.Client(base_url=extender.admin_url, headers={"Origin": extender.admin_url}, trust_env=False) as browser:
        if role:
            assert browser.post("/ui/sign-in", data={"token": TOKENS[role]}).is_redirect
        for path, query in PAGES.items():
            if path != "/events":
                asked = {**query, "id": last_rollout(extender)} if path == "/rollout" else query
                answer = browser.get(f"/ui{path}", params=asked)
                assert answer.status_code == (httpx.codes.OK if role else httpx.codes.SEE_OTHER), answer.text
                assert SECRET not in answer.text
        shown = browser.get("/ui/pod", params=PAGES["/pod"])
        assert ("no sevens" in shown.text) == bool(role)


@pytest.mark.parametrize(
    ("path", "role"), [("/api/v1/events", "read"), ("/api/v1/events", "write"), ("/ui/events", "")]
)
def test_no_stream_of_events_tells_a_secret(extender: Extender, path: str, role: str) -> None:
    with httpx.Client(base_url=extender.admin_url, headers=ON_PURPOSE, trust_env=False, timeout=30) as client:
        if not role:
            client.post("/ui/sign-in", data={"token": TOKENS["read"]}, headers={"Origin": extender.admin_url})
        with client.stream("GET", path, headers=bearer(role)) as answer:
            swap: dict[str, Any] = {
                "headers": bearer("write"),
                "json": {"dryRun": True},
                "params": {"profile": "default"},
            }
            assert extender.admin.post("/api/v1/plugins/score_by_digit/swap", **swap).is_success
            lines = answer.iter_lines()
            told = [next(line for line in lines if line.startswith("data:")) for _ in range(2)]
    assert SECRET not in "".join(told)


def test_a_recording_is_for_writers_and_has_no_secret(extender: Extender) -> None:
    refused = extender.admin.get("/api/v1/traffic", headers=bearer("read"))
    assert (refused.status_code, SECRET in refused.text) == (httpx.codes.FORBIDDEN, False)
    with httpx.Client(base_url=extender.admin_url, trust_env=False, timeout=30) as client:
        query: dict[str, Any] = {"pods": 1, "duration": "30s"}
        with client.stream("GET", "/api/v1/traffic", params=query, headers=bearer("write")) as answer:
            pieces = answer.iter_raw()
            first = next(pieces)
            asking = Beside(lambda: ask(extender, "web-8"))
            recorded = gzip.decompress(first + b"".join(pieces))
            asking.end()
    assert b"web-8" in recorded
    assert SECRET.encode() not in recorded
