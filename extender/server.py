"""The webhook as a bare ASGI application: decode, run the verb, encode."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

from extender import wire
from extender.candidates import NodeSource, NotSyncedError
from extender.cluster import Binder, BindError, PodKey
from extender.profile import PluginFailedError, Profile
from extender.registry import Registry
from extender.verbs import filter as filter_verb
from extender.verbs import preempt, prioritize
from extender.wire import PodRequest, RequestError

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


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

    def __init__(self, registry: Registry, nodes: NodeSource, binder: Binder) -> None:
        self._registry = registry
        self._nodes = nodes
        self._binder = binder

    def filter(self, body: bytes, profile: Profile | None) -> bytes:
        """Answers with the nodes that pass. Raises RequestError."""
        request, candidates = wire.decode_args(body)
        profile = self._judges(request, profile)
        try:
            nodes = self._nodes.find(candidates, profile.wants_nodes)
            return wire.encode_filtered(candidates, filter_verb.run(profile, request.pod, nodes))
        except (PluginFailedError, NotSyncedError) as error:
            _log_failure("filter", request, error)
            return wire.encode_filter_error(str(error))

    def prioritize(self, body: bytes, profile: Profile | None) -> bytes:
        """Answers with a score for each node, with none after a failure. Raises RequestError."""
        request, candidates = wire.decode_args(body)
        profile = self._judges(request, profile)
        try:
            nodes = self._nodes.find(candidates, profile.wants_nodes)
            return wire.encode_priorities(nodes.names, prioritize.run(profile, request.pod, nodes))
        except (PluginFailedError, NotSyncedError) as error:
            _log_failure("prioritize", request, error)
            return wire.encode_priorities((), ())

    def preempt(self, body: bytes, profile: Profile | None) -> bytes:
        """Answers with the candidates that stay, with none after a failure. Raises RequestError."""
        request, victims = wire.decode_preemption(body)
        profile = self._judges(request, profile)
        try:
            nodes = self._nodes.named(list(victims), profile.wants_nodes)
            kept = preempt.run(profile, request.pod, nodes)
        except (PluginFailedError, NotSyncedError) as error:
            _log_failure("preempt", request, error)
            kept = ()
        return wire.encode_victims({name: victims[name] for name in kept})

    def _judges(self, request: PodRequest, named: Profile | None) -> Profile:
        return (named or self._registry.of_scheduler(request.scheduler_name)).frozen()

    async def bind(self, body: bytes, _: Profile | None) -> bytes:
        """Binds a pod to a node. Raises RequestError."""
        args = wire.decode_binding(body)
        try:
            await self._binder.bind(PodKey(args.PodNamespace, args.PodName, args.PodUID), args.Node)
        except BindError as error:
            fields = {"pod": f"{args.PodNamespace}/{args.PodName}", "node": args.Node}
            logger.error("bind failed: %s", error, extra=fields)
            return wire.encode_bound(str(error))
        return wire.encode_bound()


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
