"""Who is let in to the admin API and to the dashboard."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from anyio.to_thread import run_sync
from starlette.requests import cookie_parser

from extender.admin.auth.followers import Ending, TokenFollowers
from extender.admin.auth.sessions import Sessions
from extender.admin.auth.tokens import Role, Tokens, User
from extender.config.urls import is_loopback

POLL_INTERVAL_S: Final = 0.5
"""Seconds between two checks whether the file of tokens has changed."""

LOCAL: Final = User("local", Role.WRITE)
"""Every client on this machine, where there are no tokens."""

READING: Final = frozenset({"GET", "HEAD"})
"""HTTP methods that change nothing."""

INTENT: Final = "X-Requested-With"
"""A header that a browser sends for a page of another origin only if the server allows it (CORS), which we do not."""

_PROXIED: Final = ("via", "forwarded", "x-forwarded-", "x-real-ip")
"""Beginnings of the headers that a proxy adds about itself or its client (RFC 7239, RFC 9110 section 7.6.3)."""

_OWN_PAGES: Final = frozenset({"same-origin", "none"})
"""Values of Sec-Fetch-Site for requests of the extender's own pages, and for those that a person began."""

_SET_TOKENS: Final = "set server.adminTokens and send a token"


class Visitor(NamedTuple):
    """The parts of a request by which it is decided whether the client is let in."""

    peer: str
    """The IP address of the client; empty if unknown."""
    method: str
    headers: Mapping[str, str]
    """The values of the headers by their names in lower case."""
    scheme: str = "http"


class DeniedError(Exception):
    """A visitor is not let in. `str()` says why, and what to do."""

    def __init__(self, status: int, reason: str, challenge: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        """The HTTP status of the answer."""
        self.challenge = challenge
        """The value of the answer's header WWW-Authenticate, if it has one."""


class TokenAccess:
    """Lets in clients that have a token. Without a file of tokens, lets in clients on this machine, but no web page."""

    def __init__(self, file: Path | None = None) -> None:
        """`file` is `server.adminTokens`. Raises TokensError if the file cannot be used."""
        self._tokens = Tokens(file) if file else None
        self.sessions = Sessions(self._tokens) if self._tokens else None
        """The sessions of the dashboard; None without tokens, where nobody has to sign in."""
        self._followers = TokenFollowers(self._tokens) if self._tokens else None

    def admit(self, visitor: Visitor) -> User:
        """The user who sends a request to the admin API. Raises DeniedError."""
        if self._tokens is None:
            _check_local(visitor)
            return LOCAL
        user = _identify(self._tokens, visitor)
        _check_role(user, visitor.method)
        return user

    def admit_page(self, visitor: Visitor) -> User:
        """The user who sends a request to the dashboard; with tokens, only a session is let in.

        A form has to come from a page of the extender itself. Raises DeniedError, with status 401 where the user has to
        sign in.
        """
        if self.sessions is None:
            _check_local(visitor)
            user = LOCAL
        else:
            found = self.sessions.user(session_of(visitor))
            if found is None or visitor.headers.get("sec-fetch-site", "none") not in _OWN_PAGES:
                raise DeniedError(401, "sign in with a token of server.adminTokens")
            user = found
        check_form(visitor)
        _check_role(user, visitor.method)
        return user

    def ending(self, visitor: Visitor) -> Ending | None:
        """Ends a long answer once the visitor's token is removed or has another role; None without tokens.

        Raises DeniedError for a visitor without a bearer token.
        """
        return partial(self._followers.follow, _token(visitor)) if self._followers else None

    def page_ending(self, visitor: Visitor) -> Ending | None:
        """Ends a long answer to a page once the visitor's session is over; None without tokens."""
        return partial(self.sessions.follow, session_of(visitor)) if self.sessions else None

    async def follow(self) -> None:
        """Follows the file of tokens until cancelled. A thread reads the file, so no request waits for the disk.

        After each look, expired sessions end, and so do long answers to tokens that have changed.
        """
        while self._tokens and self.sessions and self._followers:
            await run_sync(self._tokens.look, abandon_on_cancel=True)
            self.sessions.sweep()
            self._followers.sweep()
            await asyncio.sleep(POLL_INTERVAL_S)

    def warning(self) -> str | None:
        """What is wrong with the file of tokens; None if nothing is."""
        return self._tokens.warning() if self._tokens else None


def session_cookie(scheme: str) -> str:
    """The name of the cookie that holds the session's id, for the scheme of a request.

    With TLS it has the prefix `__Host-`: browsers take such a cookie from this very host only (RFC 6265bis).
    """
    return "__Host-kwx" if scheme == "https" else "kwx"


def session_of(visitor: Visitor) -> str:
    """The session's id that a browser sends; empty if it sends none."""
    return cookie_parser(visitor.headers.get("cookie", "")).get(session_cookie(visitor.scheme), "")


def check_form(visitor: Visitor) -> None:
    """Raises DeniedError for a form that a page of another origin sent, or whose page is unknown.

    The cookie alone does not suffice: a browser sends it for pages of all ports of the host, also if it is SameSite.
    Browsers send Sec-Fetch-Site only with TLS or to this machine. Otherwise host and port of Origin have to be those
    of Host; the schemes may differ, since a proxy may have ended TLS.
    """
    headers = visitor.headers
    if visitor.method in READING or headers.get("sec-fetch-site") == "same-origin":
        return
    host, origin = headers.get("host", ""), headers.get("origin", "")
    if "sec-fetch-site" in headers or origin not in {f"http://{host}", f"https://{host}"}:
        raise DeniedError(403, "the form was not sent by a page of the extender; open the dashboard and send it there")


def check_intent(user: User, headers: Mapping[str, str]) -> None:
    """Raises DeniedError for a GET without a token that a foreign web page may have caused.

    Origin does not tell: for a picture that a page embeds, a browser sends a GET without Origin. Old browsers do not
    send Sec-Fetch-Site, either.
    """
    if user == LOCAL and INTENT.lower() not in headers and headers.get("sec-fetch-site") not in _OWN_PAGES:
        what = "without tokens this is let in only with a header that no web page can send"
        raise DeniedError(403, f"{what}; send `{INTENT}: curl`, or {_SET_TOKENS}")


def _check_role(user: User, method: str) -> None:
    if user.role is not Role.WRITE and method not in READING:
        reason = f"the token of {user.name} has the role read, which changes nothing; use one with the role write"
        raise DeniedError(403, reason, 'Bearer realm="kwx", error="insufficient_scope"')


def _token(visitor: Visitor) -> str:
    """The bearer token. Raises DeniedError."""
    scheme, _, token = visitor.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise DeniedError(401, "a bearer token of server.adminTokens is needed", 'Bearer realm="kwx"')
    return token.strip()


def _identify(tokens: Tokens, visitor: Visitor) -> User:
    user = tokens.user(_token(visitor))
    if user is None:
        reason = "the bearer token is not one of server.adminTokens"
        raise DeniedError(401, reason, 'Bearer realm="kwx", error="invalid_token"')
    return user


def _check_local(visitor: Visitor) -> None:
    """Raises DeniedError for a client on another machine, and for a foreign web page that a browser here shows.

    A page can reach any address by its number, or by a name of the page's own that resolves to it (DNS rebinding). But
    a page cannot choose what the browser sends in Host, Origin and Sec-Fetch-Site.
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
    own = f"{visitor.scheme}://{host}"
    is_foreign = headers.get("origin", own) != own
    if is_foreign or headers.get("sec-fetch-site", "none") not in _OWN_PAGES:
        raise DeniedError(403, f"without tokens no page of another origin is let in; {_SET_TOKENS}")


def _hostname(host: str) -> str:
    """The host of a header Host, without its port; empty if the header is malformed."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
