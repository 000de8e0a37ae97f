"""What of the admin address is open to whom, at `kwx serve`."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from extender.admin.status import failure_status
from tests.extender import guests
from tests.extender.admin.auth.test_access import NO_INTENT
from tests.extender.kwx import Extender, configuration, plugin, problems, profile, run, write
from tests.extender.objects import node, pod
from tests.patience import PATIENCE_S, Beside

WRITER, READER = "a-token-that-writes", "a-token-that-reads-only"
PROFILE = profile("default", plugin("nodenumber"))
OPEN = ["/livez", "/readyz", "/metrics", "/openapi.json"]
PLUGINS = "/api/v1/plugins"
MODULE = f"{PLUGINS}/nodenumber/module"
JUDGE = "/api/v1/judge"
WASM = {"Content-Type": "application/wasm"}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    folder = tmp_path_factory.mktemp("gate")
    tokens = folder / "tokens"
    tokens.write_text(f"{WRITER},alice,write\n{READER},bob,read\n")
    tokens.chmod(0o600)
    with Extender(folder, PROFILE, server={"adminTokens": "tokens"}) as extender:
        yield extender


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    """An extender without tokens."""
    with Extender(tmp_path_factory.mktemp("alone"), PROFILE) as extender:
        yield extender


def test_with_tokens_only_the_api_needs_one(extender: Extender) -> None:
    for path in OPEN:
        assert extender.admin.get(path).status_code == httpx.codes.OK
    refused = extender.admin.get(PLUGINS)
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Bearer realm="kwx"')
    assert refused.json() == failure_status(401, "a bearer token of server.adminTokens is needed")
    assert extender.admin.get(PLUGINS, headers=bearer(READER)).json() == (
        extender.admin.get(PLUGINS, headers=bearer(WRITER)).json()
    )


@pytest.mark.parametrize("path", ["/api/v1/decisions", "/api/v1/decisions/default/web"])
def test_decisions_are_shown_to_those_who_may_read(extender: Extender, path: str) -> None:
    answers = [extender.admin.get(path, headers=headers) for headers in ({}, bearer(READER), bearer(WRITER))]
    found = httpx.codes.NOT_FOUND if path.endswith("web") else httpx.codes.OK
    assert [answer.status_code for answer in answers] == [401, found, found]


def test_pods_are_judged_for_those_who_may_write(extender: Extender) -> None:
    asked = {"pod": pod(), "nodes": [node("node-7")]}
    answers = [
        extender.admin.post(JUDGE, json=asked, headers=headers) for headers in ({}, bearer(READER), bearer(WRITER))
    ]
    assert [answer.status_code for answer in answers] == [401, 403, 200]
    assert answers[2].json()["nodesAnswered"] == 1


def test_a_token_to_read_changes_nothing_however_much_it_sends(extender: Extender) -> None:
    much = (bytes(100_000) for _ in range(1_000))
    refused = extender.admin.put(MODULE, content=much, headers=WASM | bearer(READER))
    assert (refused.status_code, refused.headers["www-authenticate"]) == (
        403,
        'Bearer realm="kwx", error="insufficient_scope"',
    )
    assert refused.json() == failure_status(
        403, "the token of bob has the role read, which changes nothing; use one with the role write"
    )


def test_the_history_tells_whose_token_it_was(extender: Extender) -> None:
    answer = extender.admin.put(
        MODULE, content=guests.constant_score(3), headers=WASM | bearer(WRITER), params={"wait": "30s"}
    )
    assert (answer.json()["requestedBy"], answer.json()["origin"]) == ("alice", "upload by alice")
    (newest, _) = extender.admin.get("/api/v1/history", headers=bearer(READER)).json()
    assert (newest["requestedBy"], newest["stage"]) == ("alice", "active")


def test_a_file_of_tokens_that_changes_counts_soon_and_a_broken_one_is_a_warning(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{WRITER},alice,write\n")
    tokens.chmod(0o644)
    with Extender(tmp_path, PROFILE, server={"adminTokens": str(tokens)}) as extender:
        report = "[+]plugins ok\n[+]threads ok\n[+]verbs ok\n[+]tokens ok, but {}\nreadyz check passed\n".format
        opened = f"{tokens} is open to all users of this machine (mode 0644); chmod o= it"
        assert extender.admin.get("/readyz?verbose").text == report(opened)
        tokens.write_text(f"{WRITER},alice\n{READER},bob,read\n")
        kept = f"the tokens from before stay in force: {tokens}, line 1: expected TOKEN,NAME,ROLE"
        extender.wait_until(lambda: extender.admin.get("/readyz?verbose").text == report(kept))
        assert extender.admin.get(PLUGINS, headers=bearer(WRITER)).status_code == httpx.codes.OK
        tokens.write_text(f"{READER},bob,read\n")
        extender.wait_until(
            lambda: extender.admin.get(PLUGINS, headers=bearer(WRITER)).status_code == httpx.codes.UNAUTHORIZED
        )
        assert extender.admin.get(PLUGINS, headers=bearer(READER)).status_code == httpx.codes.OK
    log = (tmp_path / "extender.log").read_text()
    assert kept in log
    assert WRITER not in log
    assert READER not in log


@pytest.mark.parametrize("path", ["/api/v1/events", "/api/v1/traffic"])
@pytest.mark.parametrize("left", ["", f"{WRITER},alice,read\n"])
def test_an_answer_that_goes_on_ends_when_its_token_is_gone_or_has_another_role(
    tmp_path: Path, path: str, left: str
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{WRITER},alice,write\n{READER},bob,read\n")
    tokens.chmod(0o600)
    with Extender(tmp_path, PROFILE, server={"adminTokens": "tokens"}) as extender:
        url = f"{extender.admin_url}{path}"
        with httpx.stream("GET", url, headers=bearer(WRITER), trust_env=False, timeout=30) as answer:
            assert answer.status_code == httpx.codes.OK
            tokens.write_text(f"{READER},bob,read\n{left}")
            list(answer.iter_raw())


@pytest.mark.parametrize("left", ["", f"{WRITER},alice,read\n"])
def test_a_wait_for_a_rollout_ends_when_its_token_is_gone_or_has_another_role(tmp_path: Path, left: str) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{WRITER},alice,write\n{READER},bob,read\n")
    tokens.chmod(0o600)
    shadowed = profile("default", plugin("nodenumber", swap={"shadowRequests": 1}))
    with Extender(tmp_path, shadowed, server={"adminTokens": "tokens"}) as extender:

        def under_way() -> str:
            begun = extender.admin.get(f"{PLUGINS}/nodenumber", headers=bearer(READER)).json()["rollout"]
            return str(begun["stage"]) if begun else ""

        def upload() -> httpx.Response:
            url, headers = f"{extender.admin_url}{MODULE}?wait=1h", WASM | bearer(WRITER)
            content = guests.constant_score(3)
            return httpx.put(url, content=content, headers=headers, trust_env=False, timeout=PATIENCE_S)

        waiting = Beside(upload)
        extender.wait_until(lambda: under_way() == "compiled")
        tokens.write_text(f"{READER},bob,read\n{left}")
        answer = waiting.end()
        assert (answer.status_code, answer.json()["stage"]) == (202, "compiled")


def test_tokens_that_cannot_be_used_end_the_start(tmp_path: Path) -> None:
    config = write(tmp_path, configuration(PROFILE, server={"adminTokens": "tokens"}))
    tokens = tmp_path / "tokens"
    missing = run("serve", "--config", config, home=tmp_path)
    assert problems(missing, config) == [f"server.adminTokens: {tokens} cannot be read: No such file or directory"]
    tokens.write_text("short,alice,write\nno-comma-in-this-line\n")
    assert problems(run("serve", "--config", config, home=tmp_path), config) == [
        f"server.adminTokens: {tokens}, line 1: the token has 5 characters, 16 are needed;"
        " openssl rand -hex 32 makes one",
        f"server.adminTokens: {tokens}, line 2: expected TOKEN,NAME,ROLE",
    ]


def test_without_tokens_pages_of_others_are_kept_out(tmp_path: Path) -> None:
    with Extender(tmp_path, PROFILE) as extender:
        for path in OPEN:
            assert extender.admin.get(path, headers={"Host": "evil.example"}).status_code == httpx.codes.OK
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"X-Forwarded-For": "127.0.0.1"}):
            assert extender.admin.get(PLUGINS, headers=headers).status_code == httpx.codes.FORBIDDEN
        assert extender.admin.get(PLUGINS).status_code == httpx.codes.OK


@pytest.mark.parametrize(("path", "query"), [("events", {"wait": "1ms"}), ("traffic", {"duration": "100ms"})])
def test_without_tokens_no_page_takes_a_place(alone: Extender, path: str, query: dict[str, str]) -> None:
    url = f"{alone.admin_url}/api/v1/{path}"
    refused = httpx.get(url, params=query, trust_env=False)
    assert (refused.status_code, refused.json()) == (403, failure_status(403, NO_INTENT))
    for header in {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Mode": "no-cors"}:
        assert httpx.get(url, params=query, headers=header, trust_env=False).status_code == httpx.codes.FORBIDDEN
    for header in {"X-Requested-With": "curl"}, {"Sec-Fetch-Site": "same-origin"}:
        assert httpx.get(url, params=query, headers=header, trust_env=False).status_code == httpx.codes.OK


def test_without_tokens_no_page_waits_for_a_rollout(alone: Extender) -> None:
    (started,) = alone.admin.get("/api/v1/history").json()
    url = f"{alone.admin_url}/api/v1/rollouts/{started['id']}"
    assert httpx.get(url, trust_env=False).status_code == httpx.codes.OK
    refused = httpx.get(url, params={"wait": "1s"}, trust_env=False)
    assert (refused.status_code, refused.json()) == (403, failure_status(403, NO_INTENT))


def test_a_token_is_enough_to_take_a_place(extender: Extender) -> None:
    url = f"{extender.admin_url}/api/v1/events"
    answer = httpx.get(url, params={"wait": "1ms"}, headers=bearer(READER), trust_env=False)
    assert answer.status_code == httpx.codes.OK


def test_without_tokens_other_machines_are_kept_out(tmp_path: Path) -> None:
    """This machine asks itself by an address that is not of the loopback, if it has one."""
    address = _own_address()
    with Extender(tmp_path, PROFILE, server={"adminAddress": "0.0.0.0:0"}) as extender:
        port = httpx.URL(extender.admin_url).port
        answer = httpx.get(f"http://{address}:{port}{PLUGINS}", trust_env=False)
        assert (answer.status_code, answer.json()) == (
            403,
            failure_status(
                403,
                "without tokens only clients on this machine are let in; set server.adminTokens and send a token",
            ),
        )
        assert httpx.get(f"http://{address}:{port}/livez", trust_env=False).text == "ok"


def _own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # Sends nothing: it only chooses the address to send from.
        except OSError:
            pytest.skip("this machine has no address but the loopback's: connect it to a network")
        return str(probe.getsockname()[0])
