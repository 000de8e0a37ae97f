"""The sessions of users who have signed in to the dashboard."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from extender.admin.auth.followers import Followers
from extender.admin.auth.tokens import Tokens, User, digest

SESSION_S: Final = 12 * 3600
"""Seconds after which a user has to sign in again."""

MAX_SESSIONS_PER_TOKEN: Final = 16
"""Sessions of one token. When another one begins, the oldest one ends."""


@dataclass(eq=False)
class _Session:
    token: bytes
    """The digest of the token that the user signed in with."""
    end: float
    """When the session expires, on the clock of Sessions."""
    followers: Followers = field(default_factory=Followers)


class Sessions:
    """The users who have signed in, by random ids that browsers keep in the place of tokens.

    A session is worth no more than its token: when the token is removed from the file the session is over, and a change
    of the token's role counts at once. Sessions end with the process. Each token has at most MAX_SESSIONS_PER_TOKEN.
    All methods belong to one event loop.
    """

    def __init__(self, tokens: Tokens, now: Callable[[], float] = time.monotonic) -> None:
        self._tokens = tokens
        self._now = now
        self._kept: dict[bytes, _Session] = {}
        """The sessions by the digests of their ids, the oldest first."""

    def begin(self, token: str) -> str | None:
        """The id of a new session; None if the token is not in the file."""
        owner = digest(token)
        if self._tokens.owner(owner) is None:
            return None
        self.sweep()
        own = [at for at, each in self._kept.items() if each.token == owner]
        for at in own[: max(0, len(own) + 1 - MAX_SESSIONS_PER_TOKEN)]:
            self._end(at)
        session = secrets.token_urlsafe(32)
        self._kept[digest(session)] = _Session(owner, self._now() + SESSION_S)
        return session

    def user(self, session: str) -> User | None:
        """The user of the session with this id; None if it is over."""
        found = self._kept.get(digest(session))
        return self._owner(found) if found else None

    def follow(self, session: str, ended: Callable[[], None]) -> Callable[[], None]:
        """Calls `ended` once when the session is over, immediately if it is over already.

        Returns a function that cancels this.
        """
        found = self._kept.get(digest(session))
        if found is None:
            ended()
            return lambda: None
        return found.followers.add(ended)

    def end(self, session: str) -> None:
        """Ends the session with this id, if it is not over."""
        self._end(digest(session))

    def sweep(self) -> None:
        """Ends the sessions that have expired, or whose token was removed from the file."""
        for key in [key for key, each in self._kept.items() if not self._owner(each)]:
            self._end(key)

    def _owner(self, session: _Session) -> User | None:
        return self._tokens.owner(session.token) if session.end > self._now() else None

    def _end(self, key: bytes) -> None:
        if ended := self._kept.pop(key, None):
            ended.followers.tell()
