"""Modules on web servers."""

from __future__ import annotations

import base64
import netrc
import os
from collections.abc import Mapping
from datetime import timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import Final

import httpx

from extender.config.urls import is_loopback
from extender.sources.download import DownloadSession, Limit, Response, shown
from extender.sources.signing import SIGNATURE_LIMIT, SIGNATURE_SUFFIX, detached_signatures
from extender.sources.source import Fetched, SourceError
from wasm_runtime.blob import Blob
from wasm_runtime.blob import digest as digest_of

_CONDITIONS: Final[Mapping[str, str]] = {"etag": "If-None-Match", "modified": "If-Modified-Since"}
"""The request header, by the kind of a version, that asks for a module only if it has another version."""


class HttpSource:
    """The module at a URL, which is not sent again while the server says that it is the same.

    A version is `etag …`, `modified …` or a digest. Where signatures are required the digest of the signature comes
    before it, for a signature may come after its module.
    """

    is_remote: Final = True

    def __init__(
        self, url: str, limit: Limit, *, interval: float, timeout: float, ca_file: Path | None, signed: bool
    ) -> None:
        self.interval = interval
        self._url = url
        self._limit = limit
        self._timeout = timeout
        self._ca_file = ca_file
        self._signed = signed
        self._last: Response | None = None
        """The last answer with the signature; the server does not send that again while it has not changed, either."""

    def has_changed(self, known: str) -> bool:  # noqa: ARG002
        """False: only the server could tell, and it is not asked."""
        return False

    def fetch(self, known: str | None = None) -> Fetched | None:
        """The module as it is now; None if it is still of the `known` version."""
        session = DownloadSession(self._timeout, self._ca_file)
        login = _login(self._url)
        signature = self._signature(session, login) if self._signed else None
        prefix = f"{digest_of(signature) if signature else 'unsigned'} " if self._signed else ""
        condition = _condition(known[len(prefix) :]) if known and known.startswith(prefix) else {}
        expected = (HTTPStatus.OK, HTTPStatus.NOT_MODIFIED) if condition else (HTTPStatus.OK,)
        answer = session.request(self._url, self._limit, headers={**login, **condition}, expected=expected)
        if answer.status == HTTPStatus.NOT_MODIFIED:
            return None
        module = Blob(answer.body)
        version = prefix + _version(answer, module)
        if version == known:
            return None
        name = shown(self._url)
        return Fetched(module, name, version, detached_signatures(name + SIGNATURE_SUFFIX, answer.body, signature))

    def _signature(self, session: DownloadSession, login: Mapping[str, str]) -> bytes | None:
        """The document beside the module, if there is one."""
        path, mark, query = self._url.partition("?")
        url = f"{path}{SIGNATURE_SUFFIX}{mark}{query}"
        last, condition = self._last, _condition(_version(self._last, Blob(self._last.body))) if self._last else {}
        expected = (HTTPStatus.OK, HTTPStatus.NOT_FOUND, *([HTTPStatus.NOT_MODIFIED] if condition else []))
        answer = session.request(url, SIGNATURE_LIMIT, headers={**login, **condition}, expected=expected)
        if last and answer.status == HTTPStatus.NOT_MODIFIED:
            return last.body
        self._last = answer if answer.status == HTTPStatus.OK else None
        return self._last and self._last.body


def _login(url: str) -> Mapping[str, str]:
    """The header with the login that a netrc file has for the host of a URL. Raises SourceError.

    It is shown to nobody who could be listening, and to no host that the file does not name: `default` does not count.
    https://everything.curl.dev/usingcurl/netrc.html; who may read the file is not looked at, for a mounted Secret does
    not belong to who reads it.
    """
    file = os.path.expanduser(os.environ.get("NETRC") or "~/.netrc")  # noqa: PTH111 - Path's raises without a home
    target = httpx.URL(url)
    try:
        found = netrc.netrc(file).hosts.get(target.host)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SourceError(f"logins cannot be read from {file}: {error.strerror}; set NETRC to a netrc file") from error
    except (netrc.NetrcParseError, ValueError):  # Their text quotes what may be a password.
        raise SourceError(f"{file} is no netrc file; expected machine HOST login USER password PASSWORD") from None
    if found is None or not (target.scheme == "https" or is_loopback(target.host)):
        return {}
    user, _, password = found
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def _condition(validator: str) -> Mapping[str, str]:
    kind, _, value = validator.partition(" ")
    return {_CONDITIONS[kind]: value} if value and kind in _CONDITIONS else {}


def _version(answer: Response, body: Blob) -> str:
    """What tells a module from a later one: by what the server says of it, if that can be relied on."""
    etag, modified, sent = (answer.headers.get(name, "") for name in ("ETag", "Last-Modified", "Date"))
    if etag and etag.isascii():
        return f"etag {etag}"
    if modified.isascii() and _is_settled(modified, sent):
        return f"modified {modified}"
    return body.digest


def _is_settled(modified: str, sent: str) -> bool:
    """Whether a change since then would have another date, which is in whole seconds (RFC 9110, 8.8.2.2)."""
    try:
        return parsedate_to_datetime(sent) - parsedate_to_datetime(modified) >= timedelta(seconds=1)
    except (TypeError, ValueError, OverflowError):
        return False
