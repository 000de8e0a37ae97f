"""Those that are told when what they follow is over, such as a token or a session."""

from __future__ import annotations

from collections.abc import Callable

from extender.admin.auth.tokens import Tokens, User, digest

Ending = Callable[[Callable[[], None]], Callable[[], None]]
"""Takes a function that is called when an answer is to end. Returns a function that takes that back."""


class Followers:
    """The followers of one thing. Of one event loop."""

    def __init__(self) -> None:
        self._kept: list[Callable[[], None]] = []

    def add(self, ended: Callable[[], None]) -> Callable[[], None]:
        """Has a function called once it is over; what is returned takes that back."""
        self._kept.append(ended)
        return lambda: self._kept.remove(ended) if ended in self._kept else None

    def tell(self) -> None:
        """Tells all of them that it is over, and forgets them."""
        while self._kept:
            self._kept.pop()()


class TokenFollowers:
    """Tells who follows a token when it is not in the file any more, or has another role there. Of one event loop."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._kept: dict[tuple[bytes, User], Followers] = {}
        """By the digest of a token and whose it was."""

    def follow(self, token: str, ended: Callable[[], None]) -> Callable[[], None]:
        """Has a function called once the token changes, at once if it is none; what is returned takes that back."""
        key = digest(token)
        user = self._tokens.owner(key)
        if user is None:
            ended()
            return lambda: None
        return self._kept.setdefault((key, user), Followers()).add(ended)

    def sweep(self) -> None:
        """Tells those whose token has changed."""
        for token, user in [each for each in self._kept if self._tokens.owner(each[0]) != each[1]]:
            self._kept[token, user].tell()
            del self._kept[token, user]
