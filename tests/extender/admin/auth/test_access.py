"""Who is let in to the admin API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from extender.admin.auth.access import LOCAL, DeniedError, TokenAccess, Visitor, check_intent
from extender.admin.auth.followers import TokenFollowers
from extender.admin.auth.tokens import Role, Tokens, User

WRITER, READER, OTHER = "a-token-that-writes", "a-token-that-reads-only", "a-token-of-another"
SET = "set server.adminTokens and send a token"
REMOTE = f"without tokens only clients on this machine are let in; {SET}"
PROXIED = f"without tokens nobody is let in through a proxy; {SET}"
RENAMED = (
    "without tokens the extender is to be asked for as localhost or by a loopback address, not by another name; " + SET
)
NO_INTENT = (
    "without tokens this is let in only with a header that no web page can send;"
    f" send `X-Requested-With: curl`, or {SET}"
)
FOREIGN = f"without tokens no page of another origin is let in; {SET}"


def denied(access: TokenAccess, visit: Visitor) -> tuple[int, str, str | None]:
    with pytest.raises(DeniedError) as caught:
        access.admit(visit)
    return caught.value.status, str(caught.value), caught.value.challenge


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("host", ["localhost", "localhost:8889", "127.0.0.1:8889", "[::1]:8889", "LOCALHOST:1"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_tokens_whoever_is_on_this_machine_may_do_everything(peer: str, host: str, method: str) -> None:
    assert TokenAccess().admit(Visitor(peer, method, {"host": host})) == LOCAL


HOST = {"host": "127.0.0.1:8889"}


@pytest.mark.parametrize(
    ("peer", "headers", "reason"),
    [
        ("10.0.0.7", HOST, REMOTE),
        ("fe80::1%eth0", HOST, REMOTE),
        ("::ffff:10.0.0.7", HOST, REMOTE),
        ("", HOST, REMOTE),
        ("127.0.0.1", HOST | {"x-forwarded-for": "127.0.0.1"}, PROXIED),
        ("127.0.0.1", HOST | {"forwarded": "for=10.0.0.7"}, PROXIED),
        ("127.0.0.1", HOST | {"x-real-ip": "10.0.0.7"}, PROXIED),
        ("127.0.0.1", HOST | {"via": "1.1 proxy"}, PROXIED),
        ("127.0.0.1", HOST | {"x-forwarded-host": "kwx.example"}, PROXIED),
        ("127.0.0.1", HOST | {"x-forwarded-proto": "https"}, PROXIED),
        ("127.0.0.1", {}, RENAMED),
        ("127.0.0.1", {"host": "evil.example:8889"}, RENAMED),
        ("127.0.0.1", {"host": "127.0.0.1.evil.example"}, RENAMED),
        ("127.0.0.1", {"host": "localhost.evil.example"}, RENAMED),
        ("127.0.0.1", {"host": "[::1"}, RENAMED),
        ("127.0.0.1", {"host": "evil.example@10.0.0.7"}, RENAMED),
        ("127.0.0.1", HOST | {"origin": "http://evil.example"}, FOREIGN),
        ("127.0.0.1", HOST | {"origin": "http://127.0.0.1:8888"}, FOREIGN),
        ("127.0.0.1", HOST | {"origin": "https://127.0.0.1:8889"}, FOREIGN),
        ("127.0.0.1", HOST | {"origin": "null"}, FOREIGN),
        ("127.0.0.1", HOST | {"sec-fetch-site": "cross-site"}, FOREIGN),
        ("127.0.0.1", HOST | {"sec-fetch-site": "same-site"}, FOREIGN),
    ],
)
def test_without_tokens_nobody_else_is_let_in(peer: str, headers: dict[str, str], reason: str) -> None:
    assert denied(TokenAccess(), Visitor(peer, "GET", headers)) == (403, reason, None)


def test_without_tokens_a_page_of_the_extender_itself_is_let_in() -> None:
    assert TokenAccess().admit(Visitor("127.0.0.1", "POST", HOST | {"origin": "http://127.0.0.1:8889"})) == LOCAL


def test_what_takes_a_place_needs_what_no_page_can_send() -> None:
    with pytest.raises(DeniedError) as caught:
        check_intent(LOCAL, HOST)
    assert (caught.value.status, str(caught.value)) == (403, NO_INTENT)
    for headers in {"x-requested-with": "curl"}, {"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}:
        check_intent(LOCAL, HOST | headers)
    check_intent(User("bob", Role.READ), HOST)


@pytest.fixture
def access(tmp_path: Path) -> TokenAccess:
    file = tmp_path / "tokens"
    file.write_text(f"{WRITER},alice,write\n{READER},bob,read\n")
    file.chmod(0o600)
    return TokenAccess(file)


def test_who_follows_a_token_is_told_once_when_it_is_another_users_has_another_role_or_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"{WRITER},alice,write\n{READER},bob,read\n{OTHER},carl,write\n")
    tokens, told = Tokens(file), Counter[str]()
    followers = TokenFollowers(tokens)

    def follow(token: str, name: str) -> Callable[[], None]:
        return followers.follow(token, lambda: told.update([name]))

    for token, name in ((WRITER, "gone"), (READER, "kept"), (OTHER, "changed")):
        follow(token, name)
    follow(WRITER, "left")()
    follow("a-token-that-is-none", "none")()
    followers.sweep()
    assert told == {"none": 1}
    file.write_text(f"{READER},bob,read\n{OTHER},carl,read\n")
    tokens.look()
    for _ in range(2):
        followers.sweep()
        assert told == {"none": 1, "gone": 1, "changed": 1}


@pytest.mark.parametrize("peer", ["127.0.0.1", "10.0.0.7"])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_with_tokens_everybody_needs_one_and_may_do_what_its_role_says(
    access: TokenAccess, peer: str, scheme: str
) -> None:
    def visit(method: str, token: str) -> Visitor:
        return Visitor(peer, method, {"host": "kwx.example", "authorization": f"{scheme} {token}"})

    for method in ("GET", "HEAD", "POST", "PUT"):
        assert access.admit(visit(method, WRITER)) == User("alice", Role.WRITE)
    for method in ("GET", "HEAD"):
        assert access.admit(visit(method, READER)) == User("bob", Role.READ)
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert denied(access, visit(method, READER)) == (
            403,
            "the token of bob has the role read, which changes nothing; use one with the role write",
            'Bearer realm="kwx", error="insufficient_scope"',
        )


@pytest.mark.parametrize(
    ("authorization", "reason", "challenge"),
    [
        (None, "a bearer token of server.adminTokens is needed", 'Bearer realm="kwx"'),
        (f"Basic {WRITER}", "a bearer token of server.adminTokens is needed", 'Bearer realm="kwx"'),
        (WRITER, "a bearer token of server.adminTokens is needed", 'Bearer realm="kwx"'),
        (
            f"Bearer {WRITER}x",
            "the bearer token is not one of server.adminTokens",
            'Bearer realm="kwx", error="invalid_token"',
        ),
        (
            "Bearer ",
            "the bearer token is not one of server.adminTokens",
            'Bearer realm="kwx", error="invalid_token"',
        ),
    ],
)
def test_with_tokens_who_has_none_is_told_so(
    access: TokenAccess, authorization: str | None, reason: str, challenge: str
) -> None:
    headers = HOST if authorization is None else HOST | {"authorization": authorization}
    assert denied(access, Visitor("127.0.0.1", "GET", headers)) == (401, reason, challenge)


def test_what_is_wrong_with_the_file_is_a_warning(tmp_path: Path) -> None:
    assert TokenAccess().warning() is None
    file = tmp_path / "tokens"
    file.write_text(f"{WRITER},alice,write\n")
    file.chmod(0o644)
    assert TokenAccess(file).warning() == f"{file} is open to all users of this machine (mode 0644); chmod o= it"
