"""The dashboard of `kwx serve`: what of it is open to whom, and what its forms do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.extender import guests
from tests.extender.kwx import Extender, plugin, profile
from tests.extender.objects import NODE_NAMES, node, nodes_args, pod

WRITER, READER = "a-token-that-writes", "a-token-that-reads-only"
PROFILE = profile("default", plugin("accelerator"), plugin("nodenumber"))
PAGES = {
    "/ui/": "Plugins",
    "/ui/plugin?name=nodenumber&profile=default": "Plugin nodenumber of profile default",
    "/ui/decisions": "Decisions",
    "/ui/pod?namespace=default&name=web-7": "Pod default/web-7",
    "/ui/pods": "Waits and reservations",
    "/ui/groups": "Groups of pods",
    "/ui/latency": "Latency and caches",
}
FORMS = ["/ui/swap", "/ui/rollback", "/ui/module"]
WASM = {"Content-Type": "application/wasm"}
MODULE_LIMIT = 1024 * 1024


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    folder = tmp_path_factory.mktemp("dashboard")
    tokens = folder / "tokens"
    tokens.write_text(f"{WRITER},alice,write\n{READER},bob,read\n")
    tokens.chmod(0o600)
    sections: dict[str, Any] = {"server": {"adminTokens": "tokens"}, "runtime": {"moduleLimit": MODULE_LIMIT}}
    with Extender(folder, PROFILE, **sections) as extender:
        extender.post(
            "/filter", nodes_args(list(map(node, NODE_NAMES)), pod(annotations={"kwx.dev/accelerator": "h100"}))
        )
        yield extender


@contextmanager
def visitor(extender: Extender, token: str = "") -> Iterator[httpx.Client]:
    """A browser, signed in with a token if there is one."""
    origin = {"Origin": extender.admin_url}
    with httpx.Client(base_url=extender.admin_url, trust_env=False, headers=origin, timeout=30) as client:
        if token:
            answer = client.post("/ui/sign-in", data={"token": token})
            assert (answer.status_code, answer.headers["location"]) == (303, "/ui/")
        yield client


def heading(page: str) -> str:
    (found,) = re.findall(r"<h1>(.*)</h1>", page)
    return str(found)


def alert(page: str) -> str:
    (found,) = re.findall(r'<p role="alert">(.*)</p>', page)
    return str(found)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_shown_to_those_who_have_signed_in(extender: Extender, path: str) -> None:
    with visitor(extender) as stranger:
        for headers in {}, {"Authorization": f"Bearer {WRITER}"}, {"Cookie": f"kwx={WRITER}"}:
            answer = stranger.get(path, headers=headers)
            assert (answer.status_code, answer.headers["location"], answer.text) == (303, "/ui/sign-in", "")
    for token, name in (READER, "bob (read)"), (WRITER, "alice (write)"):
        with visitor(extender, token) as browser:
            answer = browser.get(path)
            assert (answer.status_code, heading(answer.text)) == (200, PAGES[path])
            assert name in answer.text
            assert answer.headers["cache-control"] == "no-store"
            assert ('action="/ui/swap"' in answer.text) == (token is WRITER and "plugin?" in path)


def test_the_address_leads_to_the_dashboard_and_who_has_no_token_to_the_form(extender: Extender) -> None:
    with visitor(extender) as stranger:
        answer = stranger.get("/", follow_redirects=True)
        assert (str(answer.url), heading(answer.text)) == (f"{extender.admin_url}/ui/sign-in", "Sign in")
        refused = stranger.post("/ui/sign-in", data={"token": "not-one-of-the-tokens"})
        assert (refused.status_code, alert(refused.text)) == (
            403,
            "This is not one of the tokens of server.adminTokens.",
        )
        assert "not-one-of-the-tokens" not in refused.text


def test_the_cookie_is_no_token_and_scripts_do_not_see_it(extender: Extender) -> None:
    with visitor(extender) as stranger:
        cookie = stranger.post("/ui/sign-in", data={"token": WRITER}).headers["set-cookie"]
    assert re.fullmatch(r"kwx=[\w-]{43}; HttpOnly; Path=/; SameSite=strict", cookie)
    session = cookie.partition(";")[0]
    assert httpx.get(f"{extender.admin_url}/api/v1/plugins", headers={"Cookie": session}).status_code == 401


def test_who_signs_out_has_no_session_any_more(extender: Extender) -> None:
    with visitor(extender, READER) as browser:
        assert browser.get("/ui/").status_code == httpx.codes.OK
        assert browser.post("/ui/sign-out", headers={"Origin": "http://evil.example"}).status_code == 403
        assert browser.post("/ui/sign-out").status_code == httpx.codes.SEE_OTHER
        assert browser.get("/ui/").headers["location"] == "/ui/sign-in"


@pytest.mark.parametrize("path", FORMS)
@pytest.mark.parametrize("origin", ["", "null", "http://evil.example", "http://127.0.0.1:1"])
def test_no_form_of_another_page_changes_anything(extender: Extender, path: str, origin: str) -> None:
    with visitor(extender, WRITER) as browser:
        before = browser.get("/ui/plugin?name=nodenumber&profile=default").text
        answer = browser.post(path, data={"name": "nodenumber"}, headers={"Origin": origin})
        assert answer.status_code == httpx.codes.FORBIDDEN
        assert browser.get("/ui/plugin?name=nodenumber&profile=default").text == before


@pytest.mark.parametrize("path", FORMS)
def test_a_form_of_a_reader_or_a_stranger_changes_nothing(extender: Extender, path: str) -> None:
    with visitor(extender) as stranger, visitor(extender, READER) as reader:
        assert stranger.post(path, data={"name": "nodenumber"}).headers["location"] == "/ui/sign-in"
        refused = reader.post(path, data={"name": "nodenumber"})
        assert (refused.status_code, refused.json()["message"]) == (
            403,
            "the token of bob has the role read, which changes nothing; use one with the role write",
        )


def test_a_form_that_cannot_be_carried_out_is_answered_by_a_page_that_says_why(extender: Extender) -> None:
    target = {"name": "accelerator", "profile": "default"}
    with visitor(extender, WRITER) as browser:
        for fields, status, message in (
            ({"name": "nope"}, 404, "there is no plugin &#39;nope&#39;; there are accelerator, nodenumber"),
            (target | {"revision": "<b>"}, 422, "revision: Value error, expected the id of a revision"),
            (target | {"revision": "12345678"}, 422, "12345678"),
            (target | {"url": "ftp://<b>"}, 422, "ftp"),
            (target | {"expectedRevision": "12345678"}, 409, "12345678"),
        ):
            answer = browser.post("/ui/swap", data=fields)
            assert (answer.status_code, message in alert(answer.text)) == (status, True), answer.text
        answer = browser.post("/ui/swap", json=target)
        assert (answer.status_code, alert(answer.text)) == (
            415,
            "expected a form, as Content-Type: application/x-www-form-urlencoded",
        )


def test_a_dry_run_a_swap_and_the_way_back(extender: Extender) -> None:
    uploaded = extender.admin.put(
        "/api/v1/plugins/nodenumber/module",
        content=guests.constant_score(3),
        headers={"Content-Type": "application/wasm", "Authorization": f"Bearer {WRITER}"},
        params={"wait": "30s"},
    )
    assert uploaded.json()["stage"] == "active"
    target = {"name": "nodenumber", "profile": "default", "reason": "by hand"}
    with visitor(extender, WRITER) as browser:
        assert ended(extender, browser, "/ui/swap", data=target | {"dryRun": "yes"}) == "rehearsed (dry run)"
        assert ended(extender, browser, "/ui/swap", data=target) == "active"
        assert ended(extender, browser, "/ui/rollback", data=target) == "active"
        history = browser.get("/ui/plugin?name=nodenumber&profile=default").text
    assert history.count("<td>by hand</td>") >= 3


def ended(extender: Extender, browser: httpx.Client, path: str, **sent: Any) -> str:
    """The stage that a rollout of alice ends in, as its page has it."""
    answer = browser.post(path, **sent)
    assert answer.status_code == httpx.codes.SEE_OTHER, answer.text
    page = answer.headers["location"]
    extender.wait_until(
        lambda: re.search(r"<dd>(active|rehearsed|unchanged|failed)\b", browser.get(page).text) is not None
    )
    text = browser.get(page).text
    assert heading(text) == page.replace("/ui/rollout?id=", "Rollout ")
    assert "<dd>alice</dd>" in text
    (stage,) = re.findall(r"<dt>Stage</dt><dd>(.*)</dd>", text)
    return str(stage)


def test_a_module_is_uploaded_as_dry_run_and_live(extender: Extender) -> None:
    query = {"name": "nodenumber", "profile": "default", "reason": "uploaded by hand"}
    with visitor(extender, WRITER) as browser:
        plugin_page = browser.get("/ui/plugin?name=nodenumber&profile=default").text
        (active,) = re.findall(r"<dt>Revision</dt><dd><code>(sha256:\w+)</code>", plugin_page)
        sent: dict[str, Any] = {"content": guests.constant_score(5), "headers": WASM}
        dry = query | {"dryRun": "yes", "expectedRevision": active}
        assert ended(extender, browser, "/ui/module", params=dry, **sent) == "rehearsed (dry run)"
        live = query | {"expectedRevision": active}
        assert ended(extender, browser, "/ui/module", params=live, **sent) == "active"
        late = browser.post("/ui/module", params=live, **sent | {"content": guests.constant_score(6)})
        assert (late.status_code, active in alert(late.text)) == (409, True)
        broken = {"content": b"no module", "headers": WASM}
        assert ended(extender, browser, "/ui/module", params=query, **broken) == "failed"
        assert "uploaded by hand" in browser.get("/ui/plugin?name=nodenumber&profile=default").text


def test_an_upload_that_is_not_as_it_should_be_is_answered_by_a_page_that_says_why(extender: Extender) -> None:
    query = {"name": "nodenumber", "profile": "default"}
    long = f"the body has more than the {MODULE_LIMIT} bytes that runtime.moduleLimit allows"
    with visitor(extender, WRITER) as browser:
        for params, body, headers, status, message in (
            (query, b"x", {"Content-Type": "text/plain"}, 415, "expected a module, as Content-Type: application/wasm"),
            (query, bytes(MODULE_LIMIT + 1), WASM, 413, long),
            ({"name": "nodenumber"}, b"x", WASM, 422, "profile: Field required"),
            (query | {"name": "<b>"}, b"x", WASM, 404, "there is no plugin &#39;&lt;b&gt;&#39;"),
            (query | {"expectedRevision": "<b>"}, b"x", WASM, 422, "expectedRevision: Value error"),
            (query | {"reason": "x" * 1001}, b"x", WASM, 422, "reason: String should have at most 1000 characters"),
        ):
            answer = browser.post("/ui/module", params=params, content=body, headers=headers)
            assert (answer.status_code, message in alert(answer.text)) == (status, True), answer.text


def test_nodes_of_a_pod_are_sorted_and_filtered(extender: Extender) -> None:
    with visitor(extender, READER) as browser:
        page = "/ui/pod?namespace=default&name=web-7"

        def nodes(more: str) -> list[str]:
            return re.findall(r'<th scope="row">(node-\d)</th>', browser.get(page + more).text)

        assert nodes("&sort=node") == NODE_NAMES
        assert nodes("&sort=node&order=desc") == NODE_NAMES[::-1]
        assert nodes("&node=-3") == ["node-3"]
        assert 'aria-sort="descending"' in browser.get(f"{page}&sort=node&order=desc").text


def test_steps_are_told_in_sentences(extender: Extender) -> None:
    with visitor(extender, READER) as browser, browser.stream("GET", "/ui/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        line = next(line for line in answer.iter_lines() if line.startswith("data:"))
    assert re.fullmatch(r'data: ?"Rollout \d+ of \w+ in default is \w+\."', line)


def test_who_signs_out_hears_nothing_more_and_others_go_on(extender: Extender) -> None:
    with visitor(extender, READER) as browser, visitor(extender, READER) as other:
        with browser.stream("GET", "/ui/events") as answer, other.stream("GET", "/ui/events") as going_on:
            assert browser.post("/ui/sign-out").status_code == httpx.codes.SEE_OTHER
            assert list(answer.iter_lines()) == []
            assert not going_on.is_closed
            assert other.get("/ui/").status_code == httpx.codes.OK
        assert browser.get("/ui/events").headers["location"] == "/ui/sign-in"


def test_who_loses_the_token_hears_nothing_more(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{WRITER},alice,write\n{READER},bob,read\n")
    tokens.chmod(0o600)
    with (
        Extender(tmp_path, PROFILE, server={"adminTokens": "tokens"}) as extender,
        visitor(extender, READER) as browser,
    ):
        with browser.stream("GET", "/ui/events") as answer:
            tokens.write_text(f"{WRITER},alice,write\n")
            assert list(answer.iter_lines()) == []
        assert browser.get("/ui/").headers["location"] == "/ui/sign-in"


def test_without_tokens_nobody_signs_in_and_no_other_page_is_let_in(tmp_path: Path) -> None:
    with Extender(tmp_path, PROFILE) as extender, visitor(extender) as local:
        assert heading(local.get("/ui/").text) == "Plugins"
        assert local.get("/ui/sign-in").headers["location"] == "/ui/"
        for headers in {"Host": "evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"X-Forwarded-For": "127.0.0.1"}:
            assert local.get("/ui/", headers=headers).status_code == httpx.codes.FORBIDDEN
