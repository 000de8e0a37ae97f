"""The webhook: which handler answers a request, and what every outcome becomes."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Mapping
from typing import Final, Protocol

from extender.cluster import Binder
from extender.scheduling.live_profiles import LiveProfiles
from extender.scheduling.profile import Profile
from extender.scheduling.requests import RequestError
from extender.scheduling.waiting_pods import WaitingPods
from extender.webhook import encoding
from extender.webhook.bind_handler import BindHandler, RefusedBind
from extender.webhook.context import Context
from extender.webhook.decoding import RequestDecoder
from extender.webhook.handlers import FilterHandler, PreemptHandler, PrioritizeHandler
from extender.webhook.overload import OverloadedError
from extender.webhook.protocol import STAYS, Answer, Caller
from extender.webhook.workers import Workers

logger = logging.getLogger(__name__)

MAX_BINDING_THREADS: Final = 64
"""Binding cycles at a time, but for those that wait on Permit, each in a thread: a slow one holds no other up."""

JUDGING_THREADS_PER_CORE: Final = 2
MIN_JUDGING_THREADS: Final = 4
MAX_JUDGING_THREADS: Final = 16
"""Verbs at a time whose plugins are not known to be quick; kube-scheduler asks one after the other. Their guests do
nothing but compute: of many more than cores each would be so slow that it is interrupted at its timeout."""


class Handler(Protocol):
    """Answers a verb."""

    def answer(self, body: bytes, named: Profile | None, caller: Caller, /) -> bytes | Awaitable[bytes]:
        """The answer, or an awaitable of it; `named` is the path's profile. Raises RequestError, OverloadedError."""


def make_handlers(
    context: Context, binder: Binder, waiting: WaitingPods, bind_timeout: float, *, may_bind: bool = True
) -> Mapping[str, Handler]:
    """The handler of each verb, by its name; `bind_timeout` in seconds. Without `may_bind`, bind is refused."""
    judging, binding = Workers(_judging_threads(), "judge"), Workers(MAX_BINDING_THREADS, "bind")
    decoder = RequestDecoder(context.pods.known)
    return {
        "filter": FilterHandler(context, decoder.decode_args, judging),
        "prioritize": PrioritizeHandler(context, decoder.decode_args, judging),
        "preempt": PreemptHandler(context, decoder.decode_preemption, judging),
        "bind": BindHandler(context, binder, waiting, bind_timeout, binding) if may_bind else RefusedBind(),
    }


def _judging_threads() -> int:
    wanted = JUDGING_THREADS_PER_CORE * (os.cpu_count() or 1)
    return min(max(wanted, MIN_JUDGING_THREADS), MAX_JUDGING_THREADS)


class Denial:
    """Answers a client that may ask for nothing."""

    max_request_bytes = 0

    def __init__(self, reason: str) -> None:
        self._answer = _problem(403, reason)

    def answer(self, method: str, path: str, body: bytes, caller: Caller) -> Answer:  # noqa: ARG002
        """The same to everything."""
        return self._answer

    def too_long(self) -> Answer:
        """The same."""
        return self._answer


class Router:
    """Routes requests to the verbs and turns every outcome into an answer."""

    def __init__(self, handlers: Mapping[str, Handler], profiles: LiveProfiles, max_request_bytes: int) -> None:
        self._handlers = handlers
        self._profiles = profiles
        self.max_request_bytes = max_request_bytes

    def answer(self, method: str, path: str, body: bytes, caller: Caller = STAYS) -> Answer | Awaitable[Answer]:
        """The answer of a request, or an awaitable of it."""
        *prefix, name = path[1:].split("/")
        handler = self._handlers.get(name)
        profile = self._profiles.named(prefix[1]) if len(prefix) == 2 and prefix[0] == "profiles" else None
        if handler is None or (prefix and profile is None):
            return _problem(404, self._unknown(path, prefix))
        if method != "POST":
            return _problem(405, f"{path} takes POST, not {method}")._replace(headers=(("allow", "POST"),))
        try:
            result = handler.answer(body, profile, caller)
        except Exception as error:
            return _failed(path, error)
        return Answer(200, result) if isinstance(result, bytes) else _answer_later(path, result)

    def too_long(self) -> Answer:
        """What a request is answered whose body is longer than the limit."""
        limit = self.max_request_bytes
        return _problem(413, f"the body is longer than server.maxRequestBytes, which is {limit} bytes")

    def _unknown(self, path: str, prefix: list[str]) -> str:
        verbs = ", ".join(self._handlers)
        if prefix[:1] == ["profiles"] and len(prefix) == 2 and self._profiles.named(prefix[1]) is None:
            known = ", ".join(profile.name for profile in self._profiles)
            return f"no profile is named {prefix[1]!r}; there are: {known}"
        return f"{path} is no verb; there are: {verbs}, each at / and at /profiles/PROFILE/"


async def _answer_later(path: str, result: Awaitable[bytes]) -> Answer:
    try:
        return Answer(200, await result)
    except Exception as error:
        return _failed(path, error)


def _failed(path: str, error: Exception) -> Answer:
    """The answer of a request that has none: for the caller's fault, or for one of our own."""
    if isinstance(error, RequestError):
        return _problem(400, str(error))
    if isinstance(error, OverloadedError):
        return _problem(503, str(error))
    logger.error("a request failed for a fault of our own", exc_info=error, extra={"path": path})
    return _problem(500, "internal error, see the log of the extender")


def _problem(status: int, problem: str) -> Answer:
    return Answer(status, encoding.encode_problem(problem))
