"""Sessions of the dashboard, and who is let in to its pages."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from extender.admin.auth.access import LOCAL, DeniedError, TokenAccess, Visitor
from extender.admin.auth.sessions import MAX_SESSIONS_PER_TOKEN, SESSION_S, Sessions
from extender.admin.auth.tokens import Role, Tokens, User

WRITER, READER = "a-token-that-writes", "a-token-that-reads-only"
FOREIGN_FORM = "the form was not sent by a page of the extender; open the dashboard and send it there"


def tokens_file(folder: Path, *lines: str) -> Path:
    file = folder / "tokens"
    file.write_text("".join(f"{line}\n" for line in lines))
    file.chmod(0o600)
    return file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tokens_file(tmp_path, f"{WRITER},alice,write", f"{READER},bob,read")


def test_a_session_is_worth_what_its_token_is(tmp_path: Path, file: Path) -> None:
    tokens = Tokens(file)
    sessions = Sessions(tokens)
    session = sessions.begin(WRITER)
    assert session
    assert sessions.user(session) == User("alice", Role.WRITE)
    tokens_file(tmp_path, f"{WRITER},alice,read")
    tokens.look()
    assert sessions.user(session) == User("alice", Role.READ)
    tokens_file(tmp_path, f"{READER},bob,read")
    tokens.look()
    assert sessions.user(session) is None


def test_a_session_ends_in_time_and_at_sign_out(file: Path) -> None:
    now = 0.0
    sessions = Sessions(Tokens(file), lambda: now)
    first, second = sessions.begin(READER), sessions.begin(READER)
    assert first
    assert second
    assert first != second
    sessions.end(first)
    assert (sessions.user(first), sessions.user(second)) == (None, User("bob", Role.READ))
    now = SESSION_S
    assert sessions.user(second) is None


def test_of_too_many_sessions_of_a_token_the_oldest_ends_and_no_other(file: Path) -> None:
    sessions = Sessions(Tokens(file))
    other = sessions.begin(WRITER)
    own = [sessions.begin(READER) or "" for _ in range(MAX_SESSIONS_PER_TOKEN + 2)]
    assert [sessions.user(each) for each in own[:2]] == [None, None]
    assert {sessions.user(each) for each in own[2:]} == {User("bob", Role.READ)}
    assert sessions.user(other or "") == User("alice", Role.WRITE)


def test_who_follows_a_session_is_told_once_when_it_is_over(tmp_path: Path, file: Path) -> None:
    now, tokens = 0.0, Tokens(file)
    sessions = Sessions(tokens, lambda: now)
    told: list[str] = []

    def followed(name: str, token: str = READER) -> str:
        session = sessions.begin(token) or ""
        sessions.follow(session, lambda: told.append(name))
        return session

    sessions.end(followed("signs out"))
    assert told == ["signs out"]
    sessions.follow(followed("stays until it is over"), lambda: told.append("taken back"))()
    followed("loses the token", WRITER)
    tokens_file(tmp_path, f"{READER},bob,read")
    tokens.look()
    sessions.sweep()
    assert told == ["signs out", "loses the token"]
    now = SESSION_S
    sessions.sweep()
    sessions.sweep()
    assert told == ["signs out", "loses the token", "stays until it is over"]
    sessions.follow("long over", lambda: told.append("at once"))()
    assert told[3:] == ["at once"]


def test_who_follows_a_session_that_makes_room_is_told(file: Path) -> None:
    sessions = Sessions(Tokens(file))
    told: list[int] = []
    for at in range(MAX_SESSIONS_PER_TOKEN + 1):
        sessions.follow(sessions.begin(READER) or "", partial(told.append, at))
    assert told == [0]


@pytest.mark.parametrize("session", ["", WRITER, "kwx"])
def test_neither_a_token_nor_anything_else_is_a_session(file: Path, session: str) -> None:
    sessions = Sessions(Tokens(file))
    assert sessions.begin("not-one-of-the-tokens") is None
    assert sessions.user(session) is None


HOST = {"host": "kwx.example:8889"}
OWN = {"origin": "http://kwx.example:8889"}


def denied(access: TokenAccess, visitor: Visitor) -> tuple[int, str]:
    with pytest.raises(DeniedError) as caught:
        access.admit_page(visitor)
    return caught.value.status, str(caught.value)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "null"},
        {"origin": "http://evil.example"},
        {"origin": "http://kwx.example:9000"},
        {"origin": "http://kwx.example:8889.evil.example"},
        OWN | {"sec-fetch-site": "none"},
    ],
)
def test_a_form_of_no_page_of_ours_changes_nothing(file: Path, headers: dict[str, str]) -> None:
    access = TokenAccess(file)
    assert access.sessions
    cookie = {"cookie": f"a=b; kwx={access.sessions.begin(WRITER)}"}
    assert denied(access, Visitor("10.0.0.7", "POST", HOST | cookie | headers)) == (403, FOREIGN_FORM)
    for own in OWN, {"sec-fetch-site": "same-origin"}, {"origin": "https://kwx.example:8889"}:
        assert access.admit_page(Visitor("10.0.0.7", "POST", HOST | cookie | own)) == User("alice", Role.WRITE)


def test_a_session_of_a_reader_changes_nothing(file: Path) -> None:
    access = TokenAccess(file)
    assert access.sessions
    cookie = {"cookie": f"kwx={access.sessions.begin(READER)}"}
    assert access.admit_page(Visitor("10.0.0.7", "GET", HOST | cookie)) == User("bob", Role.READ)
    reason = "the token of bob has the role read, which changes nothing; use one with the role write"
    assert denied(access, Visitor("10.0.0.7", "POST", HOST | OWN | cookie)) == (403, reason)


def test_a_page_elsewhere_has_no_session_and_a_bearer_token_is_none(file: Path) -> None:
    access = TokenAccess(file)
    assert access.sessions
    cookie = {"cookie": f"kwx={access.sessions.begin(WRITER)}"}
    sign_in = (401, "sign in with a token of server.adminTokens")
    for site in "same-site", "cross-site":
        assert denied(access, Visitor("127.0.0.1", "GET", HOST | cookie | {"sec-fetch-site": site})) == sign_in
    assert denied(access, Visitor("127.0.0.1", "GET", HOST | {"authorization": f"Bearer {WRITER}"})) == sign_in
    assert denied(access, Visitor("127.0.0.1", "GET", HOST | cookie, "https")) == sign_in
    with pytest.raises(DeniedError):
        access.admit(Visitor("127.0.0.1", "GET", HOST | cookie))


def test_without_tokens_a_page_needs_what_the_api_needs() -> None:
    access = TokenAccess()
    local = {"host": "localhost:8889"}
    assert access.admit_page(Visitor("127.0.0.1", "GET", local)) == LOCAL
    assert access.admit_page(Visitor("127.0.0.1", "POST", local | {"origin": "http://localhost:8889"})) == LOCAL
    assert denied(access, Visitor("127.0.0.1", "POST", local)) == (403, FOREIGN_FORM)
    for peer, headers in ("10.0.0.7", local), ("127.0.0.1", HOST), ("127.0.0.1", local | {"via": "1.1 proxy"}):
        assert denied(access, Visitor(peer, "GET", headers))[0] == 403
