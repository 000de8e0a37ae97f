"""Long answers that have to end with what let them in: a token or a session."""

from __future__ import annotations

from collections.abc import Callable

from extender.admin.auth.tokens import Tokens, User, digest

Ending = Callable[[Callable[[], None]], Callable[[], None]]
"""Takes a function that is called when an answer has to end. Returns a function that cancels this."""


class Followers:
    """Functions that are called when one token or session is over. All methods belong to one event loop."""

    def __init__(self) -> None:
        self._kept: list[Callable[[], None]] = []

    def add(self, ended: Callable[[], None]) -> Callable[[], None]:
        """Adds a function. Returns a function that removes it again, and may be called at any time."""
        self._kept.append(ended)
        return lambda: self._kept.remove(ended) if ended in self._kept else None

    def tell(self) -> None:
        """Calls all functions once, and forgets them."""
        while self._kept:
            self._kept.pop()()


class TokenFollowers:
    """Calls functions when a token is removed from the file, or has another user there.

    All methods belong to one event loop.
    """

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._kept: dict[tuple[bytes, User], Followers] = {}
        """The followers of each token, by the token's digest and the user that it was of when they began."""

    def follow(self, token: str, ended: Callable[[], None]) -> Callable[[], None]:
        """Calls `ended` when the token changes, immediately if it is not in the file.

        Returns a function that cancels this.
        """
        key = digest(token)
        user = self._tokens.owner(key)
        if user is None:
            ended()
            return lambda: None
        return self._kept.setdefault((key, user), Followers()).add(ended)

    def sweep(self) -> None:
        """Calls the functions of the tokens that have changed."""
        for token, user in [each for each in self._kept if self._tokens.owner(each[0]) != each[1]]:
            self._kept[token, user].tell()
            del self._kept[token, user]
