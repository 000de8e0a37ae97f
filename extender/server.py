"""The webhook as a bare ASGI application: decode, run the verb, encode."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import anyio
from anyio.lowlevel import checkpoint

from extender import wire
from extender.candidates import NodeSource, NotSyncedError
from extender.cluster import Binder, BindError, ClusterError, PodKey, Recorder, not_judged
from extender.pods import PodNotKnownError, PodSource
from extender.profile import PluginFailedError, Profile
from extender.registry import Registry
from extender.verbs import bind, preempt, prioritize
from extender.verbs import filter as filter_verb
from extender.verbs.bind import Binding, RejectedError
from extender.waiting import WaitingPods
from extender.wire import PodRequest, RequestError

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


MOST_BINDING: Final = 64
"""Binding cycles at a time, each in a thread of its own: one that waits on Permit must not hold up the others."""

UNANSWERABLE: Final = (PluginFailedError, NotSyncedError, PodNotKnownError)
"""Failures that are no fault of the request, but leave it without an answer of the plugins."""

_REASONS: Final = dict(zip(UNANSWERABLE, ("PluginFailed", "NotSynced", "PodNotKnown"), strict=True))
"""What the Event about a pod gives as its reason."""


class Answer(NamedTuple):
    """Status, JSON body and further headers of an answer."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Verbs:
    """The four verbs: bodies in, bodies out.

    A guest's failure is answered in the way that kube-scheduler reads: by `Error` where the result has
    one, else by an answer that prefers or admits no node.
    """

    def __init__(
        self,
        registry: Registry,
        nodes: NodeSource,
        pods: PodSource,
        binder: Binder,
        waiting: WaitingPods,
        bind_timeout: float,
        recorder: Recorder | None = None,
    ) -> None:
        """`recorder` gets an Event for each failure that the verb's answer has no words for."""
        self._registry = registry
        self._nodes = nodes
        self._pods = pods
        self._binder = binder
        self._waiting = waiting
        self._recorder = recorder
        self._bind_timeout = bind_timeout
        self._binding = ThreadPoolExecutor(MOST_BINDING, "bind")

    def filter(self, body: bytes, profile: Profile | None) -> bytes:
        """Answers with the nodes that pass. Raises RequestError."""
        request, candidates = wire.decode_args(body)
        profile = self._judges(request, profile)
        if self._registry.binds:
            self._pods.remember(request)
        try:
            nodes = self._nodes.find(candidates, profile.wants_nodes)
            return wire.encode_filtered(candidates, filter_verb.run(profile, request.pod, nodes))
        except UNANSWERABLE as error:
            _log_failure("filter", request, error)
            return wire.encode_filter_error(str(error))

    def prioritize(self, body: bytes, profile: Profile | None) -> bytes:
        """Answers with a score for each node, with none after a failure. Raises RequestError."""
        request, candidates = wire.decode_args(body)
        profile = self._judges(request, profile)
        try:
            nodes = self._nodes.find(candidates, profile.wants_nodes)
            return wire.encode_priorities(nodes.names, prioritize.run(profile, request.pod, nodes))
        except UNANSWERABLE as error:
            self._report("prioritize", request, error)
            return wire.encode_priorities((), ())

    def preempt(self, body: bytes, profile: Profile | None) -> bytes:
        """Answers with the candidates that stay, with none after a failure. Raises RequestError."""
        request, preemption = wire.decode_preemption(body)
        profile = self._judges(request, profile)
        try:
            nodes = self._nodes.named(list(preemption.victims), profile.wants_nodes)
            kept = preempt.run(profile, request.pod, nodes, lambda node: self._pods.victims(preemption, node))
        except UNANSWERABLE as error:
            self._report("preempt", request, error)
            kept = ()
        return wire.encode_victims({name: preemption.victims[name] for name in kept})

    def _report(self, verb: str, request: PodRequest, error: Exception) -> None:
        """Tells of a failure where the answer cannot: to the log, and to those who look at the pod."""
        _log_failure(verb, request, error)
        if self._recorder:
            self._recorder.record(not_judged(request.pod.object, _REASONS[type(error)], str(error)))

    def _judges(self, request: PodRequest, named: Profile | None) -> Profile:
        return (named or self._registry.of_scheduler(request.scheduler_name)).frozen()

    async def bind(self, body: bytes, profile: Profile | None) -> bytes:
        """Binds a pod to a node. Raises RequestError."""
        args = wire.decode_binding(body)
        key = PodKey(args.PodNamespace, args.PodName, args.PodUID)
        try:
            if profile.binds if profile else self._registry.binds:
                await self._cycle(key, args.Node, profile)
            else:
                await self._binder.bind(key, args.Node)
        except (BindError, ClusterError, RejectedError, *UNANSWERABLE) as error:
            fields = error.fields if isinstance(error, PluginFailedError) else {}
            logger.error("bind failed: %s", error, extra={"pod": str(key), "node": args.Node, **fields})
            return wire.encode_bound(str(error))
        self._pods.forget(args.PodUID)
        return wire.encode_bound()

    async def _cycle(self, key: PodKey, node: str, profile: Profile | None) -> None:
        """Runs the binding cycle in a thread: what Permit and the guests take holds nobody else up."""
        deadline = time.monotonic() + self._bind_timeout
        request = await self._pods.find(key)
        profile = self._judges(request, profile)
        binding = Binding(request.pod, self._nodes.named([node], profile.wants_nodes), deadline)
        loop = asyncio.get_running_loop()

        def bind_default() -> None:
            late = max(0.0, deadline - time.monotonic()) + 1.0
            asyncio.run_coroutine_threadsafe(self._bind_until(deadline, key, node), loop).result(late)

        await loop.run_in_executor(self._binding, bind.run, profile, binding, self._waiting, bind_default)

    async def _bind_until(self, deadline: float, key: PodKey, node: str) -> None:
        left = max(0.0, deadline - time.monotonic())
        try:
            with anyio.fail_after(left):
                await checkpoint()  # Without time there is no attempt.
                await self._binder.bind(key, node)
        except TimeoutError:
            cause = f"it was not done within the {left:.1f} s that were left of server.bindTimeout"
            raise BindError(f"cannot bind pod {key} to node {node}: {cause}") from None


def _log_failure(verb: str, request: PodRequest, error: Exception) -> None:
    fields = error.fields if isinstance(error, PluginFailedError) else {}
    logger.error("%s failed: %s", verb, error, extra={"verb": verb, "pod": request.pod.name, **fields})


class Webhook:
    """Routes requests to the verbs and turns every outcome into an answer with a Content-Length."""

    def __init__(self, verbs: Verbs, registry: Registry, max_request_bytes: int) -> None:
        self._registry = registry
        self._limit = max_request_bytes
        self._verbs: dict[str, Callable[[bytes, Profile | None], bytes | Awaitable[bytes]]] = {
            "filter": verbs.filter,
            "prioritize": verbs.prioritize,
            "preempt": verbs.preempt,
            "bind": verbs.bind,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one HTTP request."""
        if scope["type"] != "http":
            return
        try:
            answer = await self._answer(scope, receive)
        except RequestError as error:
            answer = Answer(400, wire.encode_problem(str(error)))
        except Exception:
            logger.exception("a request failed for a fault of our own", extra={"path": scope["path"]})
            answer = Answer(500, wire.encode_problem("internal error, see the log of the extender"))
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(answer.body)).encode()),
            *answer.headers,
        ]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        path: str = scope["path"]
        *prefix, name = path[1:].split("/")
        verb = self._verbs.get(name)
        profile = self._registry.named(prefix[1]) if len(prefix) == 2 and prefix[0] == "profiles" else None
        if verb is None or (prefix and profile is None):
            return Answer(404, wire.encode_problem(self._unknown(path, prefix)))
        if scope["method"] != "POST":
            problem = wire.encode_problem(f"{path} takes POST, not {scope['method']}")
            return Answer(405, problem, ((b"allow", b"POST"),))
        body = await _read(scope, receive, self._limit)
        if body is None:
            return Answer(
                413,
                wire.encode_problem(f"the body is longer than server.maxRequestBytes, which is {self._limit} bytes"),
            )
        result = verb(body, profile)
        return Answer(200, result if isinstance(result, bytes) else await result)

    def _unknown(self, path: str, prefix: list[str]) -> str:
        verbs = ", ".join(self._verbs)
        if prefix[:1] == ["profiles"] and len(prefix) == 2 and self._registry.named(prefix[1]) is None:
            known = ", ".join(profile.name for profile in self._registry.profiles)
            return f"no profile is named {prefix[1]!r}; there are: {known}"
        return f"{path} is no verb; there are: {verbs}, each at / and at /profiles/PROFILE/"


async def _read(scope: Scope, receive: Receive, limit: int) -> bytes | None:
    """The body of a request, or None if it is longer than the limit: then the rest is left unread."""
    for name, value in scope["headers"]:
        if name == b"content-length" and int(value) > limit:
            return None
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        parts, length = [body], len(body)
        while message.get("more_body"):
            message = await receive()
            parts.append(message.get("body", b""))
            length += len(parts[-1])
            if length > limit:
                return None
        body = b"".join(parts)
    return body if len(body) <= limit else None
