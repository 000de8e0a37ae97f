"""The sessions of those who look at the dashboard with a browser."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from extender.admin.auth.followers import Followers
from extender.admin.auth.tokens import Tokens, User, digest

SESSION_S: Final = 12 * 3600
"""Seconds after which one has to sign in again."""

MAX_SESSIONS_PER_TOKEN: Final = 16
"""Sessions of one token. When one more begins, the oldest one ends."""


@dataclass(eq=False)
class _Session:
    token: bytes
    """Its digest."""
    end: float
    followers: Followers = field(default_factory=Followers)


class Sessions:
    """Who has signed in, by a random id that the browser keeps in the place of the token. Of one event loop.

    A session is worth no more than its token: once that is not in the file any more the session is over, and a role
    that changes there counts at once. Sessions end with the process. Their number is bounded by that of the tokens.
    """

    def __init__(self, tokens: Tokens, now: Callable[[], float] = time.monotonic) -> None:
        self._tokens = tokens
        self._now = now
        self._kept: dict[bytes, _Session] = {}
        """By the digest of the id, the oldest first."""

    def begin(self, token: str) -> str | None:
        """The id of a new session; None for a token that is not one."""
        key = digest(token)
        if self._tokens.owner(key) is None:
            return None
        self.sweep()
        own = [at for at, each in self._kept.items() if each.token == key]
        for at in own[: max(0, len(own) + 1 - MAX_SESSIONS_PER_TOKEN)]:
            self._end(at)
        session = secrets.token_urlsafe(32)
        self._kept[digest(session)] = _Session(key, self._now() + SESSION_S)
        return session

    def user(self, session: str) -> User | None:
        """Whose session it is; None if it is over."""
        found = self._kept.get(digest(session))
        return self._owner(found) if found else None

    def follow(self, session: str, ended: Callable[[], None]) -> Callable[[], None]:
        """Has a function called once when the session is over, at once if it is; what is returned takes that back."""
        found = self._kept.get(digest(session))
        if found is None:
            ended()
            return lambda: None
        return found.followers.add(ended)

    def end(self, session: str) -> None:
        """Ends a session; one that is over is no error."""
        self._end(digest(session))

    def sweep(self) -> None:
        """Ends the sessions whose time is up, or whose token is not in the file any more."""
        for at in [at for at, each in self._kept.items() if not self._owner(each)]:
            self._end(at)

    def _owner(self, session: _Session) -> User | None:
        return self._tokens.owner(session.token) if session.end > self._now() else None

    def _end(self, at: bytes) -> None:
        if ended := self._kept.pop(at, None):
            ended.followers.tell()
