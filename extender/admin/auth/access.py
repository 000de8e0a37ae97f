"""Who is let in to the admin API."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from anyio.to_thread import run_sync

from extender.admin.auth.tokens import Role, Tokens, User
from extender.config.urls import is_loopback

POLL_INTERVAL_S: Final = 0.5
"""Between two looks at the file of tokens."""

LOCAL: Final = User("local", Role.WRITE)
"""Whoever is on this machine, where there are no tokens."""

READING: Final = frozenset({"GET", "HEAD"})
"""Methods that change nothing."""

INTENT: Final = "X-Requested-With"
"""A header that no page of another origin can have a browser send without asking us first, which we refuse."""

_PROXIED: Final = ("via", "forwarded", "x-forwarded-", "x-real-ip")
"""How headers begin by which a proxy tells of itself, or for whom it asks (RFC 7239, RFC 9110 section 7.6.3)."""

_OWN_PAGES: Final = frozenset({"same-origin", "none"})
"""What browsers say in Sec-Fetch-Site of pages of the extender itself, and of what a person has asked for."""

_SET_TOKENS: Final = "set server.adminTokens and send a token"


class Visitor(NamedTuple):
    """What of a request tells who asks, and from where."""

    peer: str
    """The address that the connection comes from."""
    method: str
    headers: Mapping[str, str]
    """By their names in lower case."""


class DeniedError(Exception):
    """A visitor is not let in. `str()` says why, and what to do."""

    def __init__(self, status: int, reason: str, challenge: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.challenge = challenge
        """The WWW-Authenticate header."""


class TokenAccess:
    """Lets in who has a token; where there are no tokens, who is on this machine and no web page."""

    def __init__(self, file: Path | None = None) -> None:
        """Takes the file of `server.adminTokens`. Raises TokensError."""
        self._tokens = Tokens(file) if file else None

    def admit(self, visitor: Visitor) -> User:
        """Who it is. Raises DeniedError."""
        if self._tokens is None:
            _check_local(visitor)
            return LOCAL
        user = _identify(self._tokens, visitor.headers.get("authorization", ""))
        if user.role is not Role.WRITE and visitor.method not in READING:
            reason = f"the token of {user.name} has the role read, which changes nothing; use one with the role write"
            raise DeniedError(403, reason, 'Bearer realm="kwx", error="insufficient_scope"')
        return user

    async def follow(self) -> None:
        """Has the file of tokens looked at until cancelled, in a thread: who asks is not to wait for its disk."""
        while self._tokens:
            await run_sync(self._tokens.look, abandon_on_cancel=True)
            await asyncio.sleep(POLL_INTERVAL_S)

    def warning(self) -> str | None:
        """What is not as it should be with the file of tokens."""
        return self._tokens.warning() if self._tokens else None


def check_intent(user: User, headers: Mapping[str, str]) -> None:
    """Raises DeniedError for a GET that is to take one of a few places, and that any web page could have sent.

    A page that embeds a picture has the browser send a GET without Origin, and an old browser says nothing of pages.
    """
    if user == LOCAL and INTENT.lower() not in headers and headers.get("sec-fetch-site") not in _OWN_PAGES:
        what = "without tokens this is let in only with a header that no web page can send"
        raise DeniedError(403, f"{what}; send `{INTENT}: curl`, or {_SET_TOKENS}")


def _identify(tokens: Tokens, authorization: str) -> User:
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer":
        raise DeniedError(401, "a bearer token of server.adminTokens is needed", 'Bearer realm="kwx"')
    user = tokens.user(token.strip())
    if user is None:
        reason = "the bearer token is not one of server.adminTokens"
        raise DeniedError(401, reason, 'Bearer realm="kwx", error="invalid_token"')
    return user


def _check_local(visitor: Visitor) -> None:
    """Raises DeniedError for who is not on this machine, or is a web page that a browser here shows.

    A page may ask any address by its number or by a name of its own that leads there (DNS rebinding), but cannot
    choose what the browser says in Host, Origin and Sec-Fetch-Site.
    """
    headers = visitor.headers
    if not is_loopback(visitor.peer):
        raise DeniedError(403, f"without tokens only clients on this machine are let in; {_SET_TOKENS}")
    if any(name.startswith(_PROXIED) for name in headers):
        raise DeniedError(403, f"without tokens nobody is let in through a proxy; {_SET_TOKENS}")
    host = headers.get("host", "")
    if not is_loopback(_hostname(host)):
        reason = (
            "without tokens the extender is to be asked for as localhost or by a loopback address, not by another name"
        )
        raise DeniedError(403, f"{reason}; {_SET_TOKENS}")
    is_foreign = headers.get("origin", f"http://{host}") != f"http://{host}"
    if is_foreign or headers.get("sec-fetch-site", "none") not in _OWN_PAGES:
        raise DeniedError(403, f"without tokens no page of another origin is let in; {_SET_TOKENS}")


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
