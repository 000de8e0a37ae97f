"""A client of the admin API."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx
from httpx_sse import SSEError, connect_sse
from pydantic import TypeAdapter, ValidationError

from extender.admin.api.decision_views import WhatIfView
from extender.admin.api.views import RolloutView
from extender.admin.auth.access import INTENT
from extender.admin.paths import PREFIX
from extender.admin.status import FailureStatus
from extender.sources.download import certificate_problem
from extender.telemetry.printable import printable

T = TypeVar("T")

_MEND: Final = "is that the admin address (server.adminAddress) of an extender?"

_NO_ANSWER: Final = "Server disconnected without sending a response"
"""The message of httpx for a server that closes a connection at the first bytes, such as one that expects TLS."""

_TLS_MEND: Final = "if it has server.adminTLS, name its CA by --ca-file, and begin its URL with https://"

SILENCE_TIMEOUT_S: Final = 30.0
"""Seconds without a byte after which the extender is given up; the stream of events has one every 15."""

JUDGE_TIMEOUT_S: Final = 300.0
"""Seconds that a judgement may take: a module is compiled for it, and guests learn all nodes and pods."""

MAX_QUOTED_CHARACTERS: Final = 500
"""Characters that a message quotes of an answer that is not the admin API's."""


class RemoteError(Exception):
    """The extender cannot be asked, or has refused. `str()` says why, and what to do."""


class AdminClient:
    """Asks the extender at a URL; a context manager that closes its connections. Every call raises RemoteError.

    Proxies and netrc files of the environment are ignored: they would get the token, or replace it.
    """

    def __init__(self, server: str, token: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        """`tls` has the CAs that are trusted and the client's certificate; by default the system's CAs, and none."""
        self._server = server
        self._client = httpx.Client(
            base_url=f"{server.rstrip('/')}{PREFIX}",
            headers={INTENT: "kwx"} | ({"Authorization": f"Bearer {token}"} if token else {}),
            timeout=SILENCE_TIMEOUT_S,
            trust_env=False,
            verify=tls or ssl.create_default_context(),
        )

    def __enter__(self) -> AdminClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.close()

    def get(self, path: str, kind: type[T], **query: str | int | None) -> T:
        """The view, or list of views, at a path below PREFIX; `kind` is its type. Values that are None are left out."""
        return self._ask("GET", path, kind, query)

    def post(self, path: str, body: Mapping[str, Any], **query: str | None) -> RolloutView:
        """Posts a swap or a rollback, and returns the rollout that it has begun. Values that are None are left out."""
        return self._ask("POST", path, RolloutView, query, json=_given(body))

    def put_module(self, plugin: str, module: bytes, signature: str | None, query: Mapping[str, Any]) -> RolloutView:
        """Uploads a module with its signature, if it has one, and returns the rollout that this has begun."""
        headers = _given({"Content-Type": "application/wasm", "X-Signature": signature})
        return self._ask("PUT", f"{plugin_path(plugin)}/module", RolloutView, query, content=module, headers=headers)

    def judge(self, supposition: Mapping[str, Any], **query: str | int | None) -> WhatIfView:
        """What the plugins would say of a pod now; `supposition` is a JudgeRequest of the admin API."""
        body, timeout = _given(supposition), httpx.Timeout(SILENCE_TIMEOUT_S, read=JUDGE_TIMEOUT_S)
        return self._ask("POST", "/judge", WhatIfView, query, json=body, timeout=timeout)

    def follow(self, rollout: int, wait: str) -> Iterator[RolloutView]:
        """A rollout after each of its steps, until it is over or the duration `wait`, such as `5m`, is."""
        query = {"rollout": rollout, "wait": wait}
        try:
            with connect_sse(self._client, "GET", "/events", params=query) as events:
                if events.response.status_code != HTTPStatus.OK:
                    events.response.read()
                    raise self._refusal(events.response)
                for event in events.iter_sse():
                    if event.data:
                        yield RolloutView.model_validate_json(event.data)
        except (httpx.HTTPError, SSEError) as error:
            raise self._failure(error) from error
        except ValidationError:
            raise RemoteError(f"{self._server} sends events that are none of an extender's; {_MEND}") from None

    @contextmanager
    def stream(self, path: str, query: Mapping[str, str | int | None], *, silence: float) -> Iterator[Iterator[bytes]]:
        """The bytes at a path as they come, which may pause for `silence` seconds."""
        timeout = httpx.Timeout(SILENCE_TIMEOUT_S, read=silence + SILENCE_TIMEOUT_S)
        try:
            with self._client.stream("GET", path, params=_given(query), timeout=timeout) as answer:
                if not answer.is_success:
                    answer.read()
                    raise self._refusal(answer)
                yield answer.iter_raw()
        except httpx.HTTPError as error:
            raise self._failure(error) from error

    def _ask(self, method: str, path: str, kind: type[T], query: Mapping[str, Any], **body: Any) -> T:
        try:
            answer = self._client.request(method, path, params=_given(query), **body)
        except httpx.HTTPError as error:
            raise self._failure(error) from error
        if answer.is_success:
            with suppress(ValidationError):
                return TypeAdapter(kind).validate_json(answer.content)
        raise self._refusal(answer)

    def _failure(self, error: Exception) -> RemoteError:
        cause = _root(error)
        if isinstance(cause, ssl.SSLCertVerificationError):
            problem = certificate_problem(cause, "by --ca-file")
            return RemoteError(f"the certificate of {self._server} is not accepted: {problem}")
        is_cut = isinstance(error, (httpx.NetworkError, httpx.RemoteProtocolError))
        if is_cut and self._server.startswith("https:") and not isinstance(cause, ConnectionRefusedError):
            mend = "if it asks for a certificate, show one by --cert-file and --key-file"
            return RemoteError(f"{self._server} ends the connection: {error}; {mend}")
        if isinstance(error, httpx.ConnectError):
            mend = "start one by kwx serve --config FILE, or name its admin address by --server"
            return RemoteError(f"no extender answers at {self._server}: {error}; {mend}")
        if str(error).startswith(_NO_ANSWER):
            return RemoteError(f"{self._server}: {_NO_ANSWER}; {_TLS_MEND}")
        return RemoteError(f"{self._server}: {error or type(error).__name__}")

    def _refusal(self, answer: httpx.Response) -> RemoteError:
        try:
            refusal = FailureStatus.model_validate_json(answer.content)
        except ValidationError:
            said = printable(answer.text)[:MAX_QUOTED_CHARACTERS]
            return RemoteError(f"{self._server} answers with status {answer.status_code}: {said}; {_MEND}")
        if answer.status_code == HTTPStatus.UNAUTHORIZED:
            return RemoteError(f"{refusal.message}; give one by --token-file")
        return RemoteError(refusal.message)


def _root(error: BaseException) -> BaseException:
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return error


def plugin_path(plugin: str) -> str:
    """The path of a plugin below PREFIX."""
    return f"/plugins/{quote(plugin, safe='')}"


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
