"""The bearer tokens of the admin API, and their users."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import stat
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from extender.sources.file_version import FileVersion, openness

logger = logging.getLogger(__name__)

MIN_TOKEN_LENGTH: Final = 16
"""Characters that a token needs at least."""

MAX_FILE_BYTES: Final = 64 * 1024
"""Bytes that a file of tokens may have."""

RESERVED: Final = frozenset({"configuration", "local", "rollback", "source", "start"})
"""Names that no user may have: the history uses them for rollouts that no token has begun."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""What a Bearer header can carry (RFC 6750)."""

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._@-]{0,61}[A-Za-z0-9])?")
"""The name of a user."""


class Role(str, Enum):
    """What a user may do: READ only sees, WRITE also changes."""

    READ = "read"
    WRITE = "write"


class User(NamedTuple):
    """Who sends a request: the owner of a token."""

    name: str
    role: Role


class TokensError(Exception):
    """A file of tokens cannot be used. `problems` has every reason, with the number of the line but not its content."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Tokens:
    """The tokens of a file, in lines of `TOKEN,NAME,ROLE` and comments that begin with `#`.

    `look` reads the file again when it has changed. One thread may call `look` while another calls the other methods.
    """

    def __init__(self, file: Path) -> None:
        """Raises TokensError if the file cannot be used."""
        self._file = file
        self._version = FileVersion.of(file)
        self._users = _read(file)
        self._problem: str | None = None
        self._openness = openness(file)

    def user(self, token: str) -> User | None:
        """The user of a token; None if the file has no such token."""
        return self.owner(digest(token))

    def owner(self, asked: bytes) -> User | None:
        """The user of the token with a digest; None if the file has no such token.

        Takes the same time for each digest, so that the time does not tell how much of a token is right.
        """
        found = None
        for known, user in self._users.items():
            if hmac.compare_digest(known, asked):
                found = user
        return found

    def warning(self) -> str | None:
        """What is wrong with the file: it cannot be used any more, or others can read it; None if nothing is."""
        return self._problem or self._openness

    def look(self) -> None:
        """Reads the file again if it has changed, which may wait for the disk.

        If the new content cannot be used, the tokens from before stay in force, and `warning` says so.
        """
        version = FileVersion.of(self._file)
        if version == self._version:
            return
        self._version = version
        self._openness = openness(self._file)
        try:
            self._users = _read(self._file)
        except TokensError as error:
            self._problem = f"the tokens from before stay in force: {error}"
            logger.error("the new admin tokens cannot be used, %s", self._problem)
        else:
            self._problem = None
            logger.info("admin tokens read again", extra={"path": str(self._file), "tokens": len(self._users)})


def _read(file: Path) -> dict[bytes, User]:
    """Users by the digests of their tokens. Raises TokensError."""
    tokens: dict[bytes, User] = {}
    lines: dict[bytes, int] = {}
    problems: list[str] = []
    for number, line in _lines(file):
        fields = [field.strip() for field in line.split(",")]
        if found := list(_mistakes(fields)):
            problems += (f"{file}, line {number}: {mistake}" for mistake in found)
            continue
        token, name, role = fields
        key = digest(token)
        if key in tokens:
            problems.append(f"{file}, line {number}: the token is that of line {lines[key]}; give each user another")
        tokens[key], lines[key] = User(name, Role(role)), number
    if not tokens and not problems:
        problems.append(f"{file} holds no token; write a line TOKEN,NAME,ROLE for each")
    if problems:
        raise TokensError(problems)
    return tokens


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """The lines that are neither empty nor comments, with their numbers. Raises TokensError."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise TokensError([f"{file} is no regular file"])
        with file.open("rb") as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TokensError([f"{file} cannot be read: {reason}"]) from error
    if len(content) > MAX_FILE_BYTES:
        raise TokensError([f"{file} has more than {MAX_FILE_BYTES} bytes"])
    for number, line in enumerate(content.decode(errors="replace").splitlines(), start=1):
        text = line.strip()
        if text and not text.startswith("#"):
            yield number, text


def _mistakes(fields: Sequence[str]) -> Iterator[str]:
    """What is wrong with a line. Nothing of the line is quoted: where fields are mixed up, any may be the token."""
    if len(fields) != 3:
        yield "expected TOKEN,NAME,ROLE"
        return
    token, name, role = fields
    if len(token) < MIN_TOKEN_LENGTH:
        yield f"the token has {len(token)} characters, {MIN_TOKEN_LENGTH} are needed; openssl rand -hex 32 makes one"
    elif not _TOKEN.fullmatch(token):
        yield "a token is made of letters, digits and any of -._~+/"
    if not _NAME.fullmatch(name):
        yield "a name is made of up to 63 letters, digits and any of .-_@ between them"
    elif name in RESERVED:
        yield f"the name {name} is taken by the extender itself"
    if role not in {each.value for each in Role}:
        yield "the role is neither read nor write"


def digest(token: str) -> bytes:
    """The SHA-256 of a token, by which tokens are kept and compared."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
