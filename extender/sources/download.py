"""Downloads from web servers: bounded in time and size, with credentials that stay with the host they are for."""

from __future__ import annotations

import functools
import os
import socket
import ssl
import time
from collections.abc import Collection, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final, Literal, NamedTuple

import anyio
import httpx
from anyio.lowlevel import checkpoint_if_cancelled

from extender.config.urls import is_loopback, is_web, quoted
from extender.sources.source import SourceError, SourceUnreachableError

MAX_REDIRECTS: Final = 5
"""That many are followed."""

_REDIRECTED: Final = frozenset(
    {
        HTTPStatus.MOVED_PERMANENTLY,
        HTTPStatus.FOUND,
        HTTPStatus.SEE_OTHER,
        HTTPStatus.TEMPORARY_REDIRECT,
        HTTPStatus.PERMANENT_REDIRECT,
    }
)
"""Status codes of a redirect, where there is a Location."""

Method = Literal["GET", "HEAD", "POST", "PUT"]

_REDIRECTABLE: Final = frozenset({"GET", "HEAD"})

_LOCATION: Final = "kwx_location"
"""Where a response of httpx keeps its Location from httpx."""

UNAVAILABLE: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS, *range(500, 600)})
"""Status codes of a server that cannot answer now. With any other it has answered."""

_HEADERS: Final = {"User-Agent": "kube-wasm-extender", "Accept-Encoding": "identity"}

_DENIALS: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})

_MENDS: Final[Mapping[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "; put a login for its host into ~/.netrc",
    HTTPStatus.FORBIDDEN: "; have this machine, or its login in ~/.netrc, allowed to read it",
    HTTPStatus.NOT_FOUND: "; put it there or mend the URL",
    HTTPStatus.GONE: "; put it there or mend the URL",
}
"""What is to be done about a status code."""

_OTHER_NAME: Final = "ask for it by a name that its certificate has, or give the certificate this one (subjectAltName)"

_CERTIFICATE_MENDS: Final[Mapping[int, str]] = {
    9: "compare the clocks of both machines",  # X509_V_ERR_CERT_NOT_YET_VALID of OpenSSL's x509_vfy.h, and so on.
    10: "renew it",
    62: _OTHER_NAME,
    64: _OTHER_NAME,
}
"""What is to be done about a certificate, by the code that OpenSSL gives."""

_LOGINS_STAY: Final = "; no login is sent where another server redirects to: name that URL, or have it let everybody in"

MAX_QUOTED: Final = 200
"""Characters of an answer that is none which a message quotes."""

MAX_SHOWN: Final = 1000
"""Characters of a URL that are shown: a redirect's may have 64 KB."""


class Limit(NamedTuple):
    """The most bytes that something may have."""

    size: int
    by: str = "kwx"
    """Who allows no more: a key of the configuration, if there is one."""


class Response(NamedTuple):
    """What a server has answered, redirects followed."""

    status: int
    headers: httpx.Headers
    body: bytes


class DownloadSession:
    """The requests of one fetch, which have one deadline together. For threads without an event loop.

    Only the system's look-up of a name cannot be cut short: it may overrun the deadline by what the resolver takes.
    """

    def __init__(self, timeout: float, ca_file: Path | None = None) -> None:
        """The time, in seconds, begins now. Raises SourceError for a CA file that cannot be used."""
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._tls = _own_ca(ca_file) if ca_file else _system_ca()

    def request(
        self,
        url: str,
        limit: Limit,
        *,
        headers: Mapping[str, str] | None = None,
        expected: Collection[int] = (HTTPStatus.OK,),
        method: Method = "GET",
        form: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> Response:
        """Asks a server: one on this machine itself, others through the proxy that the environment names, if any.

        Raises SourceUnreachableError or SourceError for a status code that is not `expected`, and for a body that is
        encoded, longer than `limit` (no more of it is read), or empty (with status 200). Redirects are followed, but
        not to another scheme; `Authorization` is sent to the scheme, host and port of `url` only, and neither a `form`
        nor `content` is redirected. A server that another one redirects to never gets so far as to ask for a login: its
        401 and 403 are not `expected`.
        """
        # A timeout of httpx is one of a single read; only cancelling bounds the whole, so it is asynchronous.
        return anyio.run(self._request, url, limit, headers or {}, expected, method, form, content)

    async def _request(
        self,
        url: str,
        limit: Limit,
        headers: Mapping[str, str],
        expected: Collection[int],
        method: str,
        form: Mapping[str, str] | None,
        content: bytes | None,
    ) -> Response:
        hops = [_parse(url)]
        try:
            left = self._deadline - time.monotonic()
            with anyio.fail_after(left):
                await checkpoint_if_cancelled()
                async with _client(self._tls, left, is_proxied=not is_loopback(hops[0].host)) as client:
                    request = client.build_request(
                        method, hops[0], headers={**_HEADERS, **headers}, data=form, content=content
                    )
                    return await _follow(client, request, hops, limit, expected)
        except (TimeoutError, httpx.TimeoutException):
            raise SourceUnreachableError(
                f"{_name(hops)} does not answer in time; see to the server or raise source.timeout"
                f" ({self._timeout:g} s)"
            ) from None
        except (httpx.LocalProtocolError, UnicodeError):  # Their text quotes headers.
            raise SourceError(
                f"{_name(hops)} cannot be asked for: the name of its host, or a header, has what none can have"
            ) from None
        except httpx.TransportError as error:
            raise SourceUnreachableError(f"{_name(hops)} cannot be fetched: {_cause(error)}") from error


def shown(url: str | httpx.URL) -> str:
    """A URL for people, without what may be secret in it: login and query."""
    try:
        text = str(httpx.URL(url).copy_with(userinfo=b"", query=None, fragment=None))
    except httpx.InvalidURL:  # It has no host, which httpx cannot copy.
        text = quoted(str(url))
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def _parse(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise SourceError(f"{url.partition('?')[0]!r} is no URL: {error}") from error
    if not is_web(parsed):
        raise SourceError(f"{shown(parsed)} is no URL of a web server; expected https://HOST/PATH")
    return parsed


def _own_ca(file: Path) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=file)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError, a NUL in a path a ValueError
        cause = getattr(error, "strerror", None) or error
        raise SourceError(
            f"source.caFile {str(file)!r} cannot be used: {cause}; expected certificates in PEM"
        ) from error
    return _lenient(context)


@functools.cache
def _system_ca() -> ssl.SSLContext:
    """Kept, for reading all those certificates takes many milliseconds."""
    return _lenient(ssl.create_default_context())


def _lenient(context: ssl.SSLContext) -> ssl.SSLContext:
    """Accepts CAs without a key identifier, as many own ones are; from Python 3.13 on the default refuses them."""
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _client(tls: ssl.SSLContext, left: float, is_proxied: bool) -> httpx.AsyncClient:
    """A client for the time that is left.

    Half of it is for connecting: a handshake that has not ended then is ended by the library, with its socket, which
    is forgotten where it is cancelled from outside.
    """
    try:
        return httpx.AsyncClient(
            verify=tls,
            timeout=httpx.Timeout(None, connect=left / 2),
            trust_env=is_proxied,
            event_hooks={"response": [_hide_location]},
        )
    except (ValueError, ImportError, httpx.InvalidURL):  # Quoted by none, for a proxy's URL may hold a password.
        raise SourceError(
            "the proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY, or NO_PROXY, cannot be used; expected http://HOST:PORT"
            " and names of hosts"
        ) from None


async def _hide_location(response: httpx.Response) -> None:
    """Keeps httpx from making the next request of a redirect, which it fails at for some that are no URL."""
    if response.status_code in _REDIRECTED and response.request.method in _REDIRECTABLE:
        response.extensions[_LOCATION] = response.headers.pop("Location", None)


async def _follow(
    client: httpx.AsyncClient, request: httpx.Request, hops: list[httpx.URL], limit: Limit, expected: Collection[int]
) -> Response:
    """Sends a request, and those that it is redirected to, whose URLs are added to `hops`."""
    while True:
        response = await client.send(request, stream=True, follow_redirects=False)
        try:
            location = response.extensions.get(_LOCATION)
            if location is None:
                return await _take(response, hops, limit, expected)
        finally:
            await response.aclose()
        hops.append(_redirect_target(hops, location))
        kept = {**request.headers}
        del kept["host"]
        if not _same_origin(hops[-1], hops[0]):
            kept.pop("authorization", None)
        request = client.build_request(request.method, hops[-1], headers=kept)


def _redirect_target(hops: Sequence[httpx.URL], location: str) -> httpx.URL:
    """Raises SourceError for one that is not followed."""
    try:
        target = hops[-1].join(location)
    except (httpx.InvalidURL, ValueError):
        told = quoted(location)[:MAX_QUOTED]
        raise SourceError(f"{_name(hops)} redirects to {told!r}, which is no URL; see to the server") from None
    if target.scheme != hops[0].scheme:
        raise SourceError(
            f"{_name(hops)} redirects to {shown(target)}, which has another scheme and is not followed; name the URL"
            " that is meant"
        )
    if not is_web(target):
        raise SourceError(f"{_name(hops)} redirects to {shown(target)}, which is no URL of a web server")
    if len(hops) > MAX_REDIRECTS:
        raise SourceError(f"{shown(hops[0])} redirects more than {MAX_REDIRECTS} times, at last to {shown(target)}")
    return target


def _same_origin(one: httpx.URL, other: httpx.URL) -> bool:
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


async def _take(
    response: httpx.Response, hops: Sequence[httpx.URL], limit: Limit, expected: Collection[int]
) -> Response:
    name, status = _name(hops), response.status_code
    is_denied_elsewhere = status in _DENIALS and not _same_origin(hops[-1], hops[0])
    if status not in expected or is_denied_elsewhere:
        answer = f"{name} answers {status} {httpx.codes.get_reason_phrase(status)}".rstrip()
        if status in UNAVAILABLE:
            raise SourceUnreachableError(f"{answer}; see to the server")
        raise SourceError(f"{answer}{_LOGINS_STAY if is_denied_elsewhere else _MENDS.get(status, '')}")
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise SourceError(f"{name} is sent encoded ({encoding[:40]!r}); have the server send it as it is")
    body = await _read(response, name, limit)
    if not body and status == HTTPStatus.OK and response.request.method != "HEAD":
        raise SourceError(f"{name} is empty; put it there again")
    return Response(status, response.headers, body)


async def _read(response: httpx.Response, name: str, limit: Limit) -> bytes:
    too_large = SourceError(f"{name} has more than the {limit.size} bytes that {limit.by} allows")
    if int(response.headers.get("Content-Length", 0)) > limit.size:
        raise too_large
    body = bytearray()
    async for part in response.aiter_raw():
        body += part
        if len(body) > limit.size:
            raise too_large
    return bytes(body)


def _name(hops: Sequence[httpx.URL]) -> str:
    first, last = shown(hops[0]), shown(hops[-1])
    return first if len(hops) == 1 else f"{first}, redirected to {last},"


def _cause(error: BaseException) -> str:
    """What has really happened, and what mends it."""
    if isinstance(error, httpx.ProxyError):
        return f"the proxy answers {str(error)[:MAX_QUOTED]}"
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    error = getattr(error, "exceptions", [error])[0]  # One for each address of a host.
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {certificate_problem(error, 'in source.caFile')}"
    return f"{_text(error)[:MAX_QUOTED].rstrip('.')}; see to the server or mend the URL"


def certificate_problem(error: ssl.SSLCertVerificationError, where: str) -> str:
    """Why a server's certificate is not accepted, and what mends it; `where` is how its CA is named."""
    mend = _CERTIFICATE_MENDS.get(error.verify_code, f"name the CA that signed it {where}")
    return f"{error.verify_message.rstrip('.')}; {mend}"


def _text(error: BaseException) -> str:
    if isinstance(error, (socket.gaierror, ssl.SSLError)):
        return str(error.strerror)
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)  # asyncio's own text has the address instead.
    return str(error) or "the connection was cut"
