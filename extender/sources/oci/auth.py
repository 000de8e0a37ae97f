"""Being let into a repository: what its registry asks for, and tokens.

https://distribution.github.io/distribution/spec/auth/token/ and oauth/
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final, Literal

import httpx
import msgspec

from extender.config.urls import Reference, is_loopback
from extender.sources.download import DownloadSession, Limit, Response, shown
from extender.sources.oci.credentials import Login, config_file, find
from extender.sources.source import SourceError
from wasm_runtime.engine import KIBIBYTE

TOKEN_LIMIT: Final = Limit(256 * KIBIBYTE)

_CHALLENGE: Final = re.compile(r'\b(Basic|Bearer)\s+((?:\w+\s*=\s*(?:"[^"]*"|[^\s,"]+)[\s,]*)+)', re.IGNORECASE)
_PARAMETER: Final = re.compile(r'(\w+)\s*=\s*(?:"([^"]*)"|([^\s,"]+))')

_REFUSED: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
"""Status codes of a token service that does not accept a login."""

_EXPECTED: Final = (HTTPStatus.OK, *_REFUSED)


Access = Literal["pull", "pull,push"]
"""What is to be done with a repository, as token services call it."""

_VERBS: Final[Mapping[Access, str]] = {"pull": "read", "pull,push": "write to"}


class _Token(msgspec.Struct):
    """The answer of a token service; the token has two names, for OAuth 2 calls it otherwise."""

    token: str = ""
    access_token: str = ""


_TOKEN: Final = msgspec.json.Decoder(_Token)


class RegistryAuth:
    """What a repository is asked with, from one fetch to the next. No login leaves this machine over plain HTTP.

    A token is good until the registry says that it is not.
    """

    def __init__(self, reference: Reference, access: Access = "pull") -> None:
        self._reference = reference
        self._access = access
        self._header: str | None = None

    def headers(self) -> Mapping[str, str]:
        """What was granted last."""
        return {"Authorization": self._header} if self._header else {}

    def forget(self) -> bool:
        """Whether something was granted, which is then no longer used."""
        had, self._header = self._header, None
        return had is not None

    def grant(self, refusal: Response, session: DownloadSession, scheme: str) -> None:
        """Gets what a registry asks for that has answered 401. Raises SourceError if that cannot be had."""
        login = find(self._reference)
        challenges = _challenges(refusal.headers.get_list("WWW-Authenticate"))
        if "bearer" in challenges:
            self._header = self._token(challenges["bearer"], login, session, scheme)
        elif "basic" in challenges and login and login.user:
            self._header = login.basic()
        else:
            raise self.refused()

    def refused(self) -> SourceError:
        """What to say if a registry wants more than we have."""
        registry, repository, file = self._reference.registry, self._reference.repository, config_file()
        login = find(self._reference)
        verb = _VERBS[self._access]
        if login is None:
            return SourceError(
                f"{registry} lets nobody without a login {verb} {repository}, if it is there at all, and {file} has"
                f" none for it; `docker login {registry}`"
            )
        return SourceError(
            f"{registry} does not let {login.user or 'the identity token'} of {file} {verb} {repository}, if it is"
            f" there at all; `docker login {registry}` again, or have it allowed to"
        )

    def _token(self, parameters: Mapping[str, str], login: Login | None, session: DownloadSession, scheme: str) -> str:
        """The header with a token."""
        realm = _realm(parameters.get("realm", ""), self._reference, scheme)
        asked = {
            "service": parameters.get("service", ""),
            "scope": parameters.get("scope") or f"repository:{self._reference.repository}:{self._access}",
        }
        if login and not login.user:
            form = {"grant_type": "refresh_token", "refresh_token": login.secret, "client_id": "kwx", **asked}
            answer = session.request(str(realm), TOKEN_LIMIT, method="POST", form=form, expected=_EXPECTED)
        else:
            headers = {"Authorization": login.basic()} if login else {}
            url = str(realm.copy_merge_params(asked))
            answer = session.request(url, TOKEN_LIMIT, headers=headers, expected=_EXPECTED)
        if answer.status in _REFUSED:
            raise self.refused()
        try:
            token = _TOKEN.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # Not quoted, for it may hold a token.
            token = _Token()
        value = token.token or token.access_token
        if not value:
            raise SourceError(f"{shown(realm)} was asked for a token and has sent none; see to that service")
        return f"Bearer {value}"


def _challenges(headers: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """The parameters of each scheme, both in lower case."""
    return {
        scheme.lower(): {name.lower(): quoted or plain for name, quoted, plain in _PARAMETER.findall(parameters)}
        for scheme, parameters in _CHALLENGE.findall(", ".join(headers))
    }


def _realm(text: str, reference: Reference, scheme: str) -> httpx.URL:
    """The URL of a token service. Raises SourceError for one that no login may be sent to."""
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme == "https" or (url.scheme == scheme == "http" and is_loopback(url.host)):
        return url
    raise SourceError(
        f"{reference.registry} has its tokens made at {shown(url) or 'no URL'}, where nothing secret is sent to;"
        " expected a URL of https"
    )
