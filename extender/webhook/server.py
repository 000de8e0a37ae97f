"""The webhook: decode, run the verb, encode."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import anyio

from extender.cluster import Binder, BindError, ClusterError, PodKey, Recorder, not_judged
from extender.scheduling import bind, preempt, prioritize
from extender.scheduling import filter as filter_verb
from extender.scheduling.bind import Binding, RejectedError
from extender.scheduling.cycle_pins import Cycles
from extender.scheduling.feasible_nodes import FeasibleNodes, NotFilteredError
from extender.scheduling.filter import Verdict
from extender.scheduling.live_profiles import LiveProfiles
from extender.scheduling.node_source import NodeSource, NotSyncedError
from extender.scheduling.pod_source import PodNotKnownError, PodSource
from extender.scheduling.profile import PluginFailedError, Profile
from extender.scheduling.request_samples import Sample, Traffic
from extender.scheduling.requests import Candidates, PodRequest, RequestError
from extender.scheduling.waiting_pods import WaitingPods
from extender.telemetry.metrics import Laps, Metrics
from extender.webhook import messages
from extender.webhook.protocol import Answer
from extender.webhook.workers import NoThreadError, Workers
from wasm_runtime.nodes.node_table import Nodes

T = TypeVar("T")

logger = logging.getLogger(__name__)

MOST_BINDING: Final = 64
"""Binding cycles at a time, each in a thread of its own: one that waits on Permit must not hold up the others."""

MOST_JUDGING: Final = 16
"""Verbs at a time whose plugins are not known to be quick; kube-scheduler asks one after the other."""

NAMED_VICTIMS_GROW: Final = 3
"""How many times the memory of their JSON victims take that came by UID."""

MAX_LATE_S: Final = 1.0
"""Seconds by which the loop may be late to end a bind before its thread gives it up."""


class NotLoadedError(Exception):
    """A plugin of the profile is not there yet. `str()` names it and why."""


UNANSWERABLE: Final = (PluginFailedError, NotSyncedError, PodNotKnownError, NotLoadedError, NoThreadError)
"""Failures that are no fault of the request, but leave it without an answer of the plugins."""

_REASONS: Final = dict(
    zip(UNANSWERABLE, ("PluginFailed", "NotSynced", "PodNotKnown", "NotLoaded", "NoThread"), strict=True)
)
"""What the Event about a pod gives as its reason."""


class Verbs:
    """The four verbs: bodies in, bodies out.

    A guest's failure is answered in the way that kube-scheduler reads: by `Error` where the result has
    one, else by an answer that prefers or admits no node.
    """

    def __init__(
        self,
        profiles: LiveProfiles,
        nodes: NodeSource,
        pods: PodSource,
        binder: Binder,
        waiting: WaitingPods,
        bind_timeout: float,
        metrics: Metrics,
        recorder: Recorder | None = None,
        cycles: Cycles | None = None,
        traffic: Traffic | None = None,
        feasible: FeasibleNodes | None = None,
    ) -> None:
        """`recorder` gets an Event for each failure that the verb's answer has no words for.

        `cycles` and `traffic` are for those who look after what is live: which cycles are on what, and what was asked;
        `feasible` is for who binds a pod without having asked filter about it.
        """
        self._profiles = profiles
        self._nodes = nodes
        self._pods = pods
        self._binder = binder
        self._waiting = waiting
        self._recorder = recorder
        self._bind_timeout = bind_timeout
        self._metrics = metrics
        self._cycles = cycles or Cycles()
        self._traffic = traffic or Traffic()
        self._feasible = feasible or FeasibleNodes()
        self._binding = Workers(MOST_BINDING, "bind")
        self._judging = Workers(MOST_JUDGING, "judge")

    def filter(self, body: bytes, profile: Profile | None) -> bytes | Awaitable[bytes]:
        """Answers with the nodes that pass. Raises RequestError."""
        laps = self._metrics.laps("filter")
        request, candidates = messages.decode_args(body, self._pods.known)
        route = _route(profile)
        judges = self._cycles.begin(request.pod.uid, self._live(request, profile), route)
        if judges.binds or self._profiles.binds:  # A switch may have come between them.
            self._pods.remember(request)
        laps.end("decode")

        def refuse(error: Exception) -> bytes:
            _log_failure("filter", request, error)
            return messages.encode_filter_error(str(error))

        def answer(_: Nodes, verdict: Verdict) -> bytes:
            self._feasible.add(request.pod.uid, route, verdict.kept)
            return messages.encode_filtered(candidates, verdict.kept.names, verdict.failed, verdict.unresolvable)

        return self._judge(
            laps,
            Sample("filter", request.pod, candidates.names),
            judges,
            lambda: self._nodes.find(candidates, judges.wants_nodes),
            lambda nodes: filter_verb.run(judges, request.pod, nodes),
            answer,
            refuse,
            candidates,
        )

    def prioritize(self, body: bytes, profile: Profile | None) -> bytes | Awaitable[bytes]:
        """Answers with a score for each node, with none after a failure. Raises RequestError."""
        laps = self._metrics.laps("prioritize")
        request, candidates = messages.decode_args(body, self._pods.known)
        judges = self._judges(request, profile)
        laps.end("decode")

        def refuse(error: Exception) -> bytes:
            self._report("prioritize", request, error)
            return messages.encode_priorities((), ())

        return self._judge(
            laps,
            Sample("prioritize", request.pod, candidates.names),
            judges,
            lambda: self._nodes.find(candidates, judges.wants_nodes),
            lambda nodes: prioritize.run(judges, request.pod, nodes),
            lambda nodes, scores: messages.encode_priorities(nodes.names, scores, zeros=judges.zero_scores),
            refuse,
        )

    def preempt(self, body: bytes, profile: Profile | None) -> bytes | Awaitable[bytes]:
        """Answers with the candidates that stay, with none after a failure. Raises RequestError."""
        laps = self._metrics.laps("preempt")
        request, preemption = messages.decode_preemption(body, self._pods.known)
        judges = self._judges(request, profile)
        laps.end("decode")

        def victims(node: str) -> Sequence[bytes]:
            return self._pods.victims(preemption, node)

        def refuse(error: Exception) -> bytes:
            self._report("preempt", request, error)
            return messages.encode_victims({})

        candidates = list(preemption.victims)
        return self._judge(
            laps,
            Sample(
                "preempt",
                request.pod,
                candidates,
                victims,
                len(body) * (1 if preemption.objects else NAMED_VICTIMS_GROW),
            ),
            judges,
            lambda: self._nodes.named(candidates, judges.wants_nodes),
            lambda nodes: preempt.run(judges, request.pod, nodes, victims),
            lambda _, kept: messages.encode_victims({name: preemption.victims[name] for name in kept}),
            refuse,
        )

    def _judge(
        self,
        laps: Laps,
        sample: Sample,
        profile: Profile,
        find: Callable[[], Nodes],
        run: Callable[[Nodes], T],
        encode: Callable[[Nodes, T], bytes],
        refuse: Callable[[Exception], bytes],
        asked: Candidates | None = None,
    ) -> bytes | Awaitable[bytes]:
        """Lets the plugins judge: on the loop if they are quick, where a call is cheapest; else where it harms nobody.

        `find` is called on the loop at once. `asked` is what filter was asked, for who records it.
        """
        try:
            _require_all(profile)
            nodes = find()
        except UNANSWERABLE as error:
            return refuse(error)
        self._traffic.record(profile.name, sample, asked)
        laps.end("nodes")

        def judge() -> bytes:
            begun = time.thread_time()
            try:
                result = run(nodes)
            except UNANSWERABLE as error:
                return refuse(error)
            finally:
                laps.end("judge")
                profile.note(laps.verb, time.thread_time() - begun)
            answer = encode(nodes, result)
            laps.end("encode")
            return answer

        if profile.reserve(laps.verb, sample.pod):
            try:
                return judge()
            finally:
                profile.release()
        try:
            return asyncio.get_running_loop().run_in_executor(self._judging, judge)
        except NoThreadError as error:
            return refuse(error)

    def _report(self, verb: str, request: PodRequest, error: Exception) -> None:
        """Tells of a failure where the answer cannot: to the log, and to those who look at the pod."""
        _log_failure(verb, request, error)
        if self._recorder:
            self._recorder.record(not_judged(request.pod.object, _REASONS[type(error)], str(error)))

    def _live(self, request: PodRequest, named: Profile | None) -> Profile:
        return named or self._profiles.of_scheduler(request.scheduler_name)

    def _judges(self, request: PodRequest, named: Profile | None) -> Profile:
        """The profile that the pod's cycle began with."""
        return self._cycles.of(request.pod.uid, self._live(request, named), _route(named))

    async def bind(self, body: bytes, profile: Profile | None) -> bytes:
        """Binds a pod to a node, if filter has answered that node for it. Raises RequestError."""
        args = messages.decode_binding(body)
        key = PodKey(args.PodNamespace, args.PodName, args.PodUID)
        route = _route(profile)
        with self._cycles.ending(args.PodUID, route):
            try:
                judges = self._cycles.begun(args.PodUID, route) or profile
                if judges:
                    _require_all(judges)
                self._feasible.require(key, route, args.Node)
                if judges.binds if judges else self._profiles.binds:
                    await self._cycle(key, args.Node, profile)
                else:
                    await self._binder.bind(key, args.Node)
            except (BindError, ClusterError, NotFilteredError, RejectedError, *UNANSWERABLE) as error:
                fields = error.fields if isinstance(error, PluginFailedError) else {}
                logger.error("bind failed: %s", error, extra={"pod": str(key), "node": args.Node, **fields})
                return messages.encode_bound(str(error))
        self._feasible.forget(args.PodUID, route)
        self._pods.forget(args.PodUID)
        return messages.encode_bound()

    async def _cycle(self, key: PodKey, node: str, profile: Profile | None) -> None:
        """Runs the binding cycle in a thread: what Permit and the guests take holds nobody else up."""
        deadline = time.monotonic() + self._bind_timeout
        request = await self._pods.find(key)
        profile = self._judges(request, profile)
        _require_all(profile)
        binding = Binding(request.pod, self._nodes.named([node], profile.wants_nodes), deadline)
        loop = asyncio.get_running_loop()

        def bind_default() -> None:
            bound = asyncio.run_coroutine_threadsafe(self._bind_until(deadline, key, node), loop)
            try:
                bound.result(max(0.0, deadline - time.monotonic()) + MAX_LATE_S)
            except concurrent.futures.TimeoutError:  # The loop hangs, and cannot tell.
                bound.cancel()
                raise _not_known(key, node) from None

        await loop.run_in_executor(self._binding, bind.run, profile, binding, self._waiting, bind_default)

    async def _bind_until(self, deadline: float, key: PodKey, node: str) -> None:
        """Binds by default, without an attempt where no time is left. Raises BindError."""
        left = deadline - time.monotonic()
        if left <= 0:
            cause = "no time was left of server.bindTimeout; raise it, and the extender's httpTimeout with it"
            raise BindError(f"cannot bind pod {key} to node {node}: {cause}")
        try:
            with anyio.fail_after(left):
                await self._binder.bind(key, node)
        except TimeoutError:
            raise _not_known(key, node) from None


def _not_known(key: PodKey, node: str) -> BindError:
    """Of a bind that was given up: the API server may have been asked."""
    return BindError(
        f"it is not known whether pod {key} is bound to node {node}: the bind did not end within server.bindTimeout;"
        " kube-scheduler tries the pod again, and the API server refuses one that is bound"
    )


def _route(named: Profile | None) -> str:
    """The name in a request's path, as cycles are told apart."""
    return named.name if named else ""


def _require_all(profile: Profile) -> None:
    """Raises NotLoadedError."""
    if profile.problem:
        raise NotLoadedError(profile.problem)


def _log_failure(verb: str, request: PodRequest, error: Exception) -> None:
    fields = error.fields if isinstance(error, PluginFailedError) else {}
    logger.error("%s failed: %s", verb, error, extra={"verb": verb, "pod": request.pod.name, **fields})


class Webhook:
    """Routes requests to the verbs and turns every outcome into an answer."""

    def __init__(self, verbs: Verbs, profiles: LiveProfiles, max_request_bytes: int) -> None:
        self._profiles = profiles
        self.max_request_bytes = max_request_bytes
        self._verbs: dict[str, Callable[[bytes, Profile | None], bytes | Awaitable[bytes]]] = {
            "filter": verbs.filter,
            "prioritize": verbs.prioritize,
            "preempt": verbs.preempt,
            "bind": verbs.bind,
        }

    def answer(self, method: str, path: str, body: bytes) -> Answer | Awaitable[Answer]:
        """The answer of a request, or what becomes it."""
        *prefix, name = path[1:].split("/")
        verb = self._verbs.get(name)
        profile = self._profiles.named(prefix[1]) if len(prefix) == 2 and prefix[0] == "profiles" else None
        if verb is None or (prefix and profile is None):
            return _problem(404, self._unknown(path, prefix))
        if method != "POST":
            return _problem(405, f"{path} takes POST, not {method}")._replace(headers=(("allow", "POST"),))
        try:
            result = verb(body, profile)
        except Exception as error:
            return _failed(path, error)
        return Answer(200, result) if isinstance(result, bytes) else _answer_later(path, result)

    def too_long(self) -> Answer:
        """What a request is answered whose body is longer than the limit."""
        limit = self.max_request_bytes
        return _problem(413, f"the body is longer than server.maxRequestBytes, which is {limit} bytes")

    def _unknown(self, path: str, prefix: list[str]) -> str:
        verbs = ", ".join(self._verbs)
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
    logger.error("a request failed for a fault of our own", exc_info=error, extra={"path": path})
    return _problem(500, "internal error, see the log of the extender")


def _problem(status: int, problem: str) -> Answer:
    return Answer(status, messages.encode_problem(problem))
