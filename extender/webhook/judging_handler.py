"""The handler of a verb whose plugins judge nodes: where they run, and what a request without an answer gets."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from extender.cluster import failed_scheduling_event
from extender.scheduling.cycle_pins import Key
from extender.scheduling.decisions import Failure
from extender.scheduling.profile import Profile
from extender.scheduling.requests import Candidates, PodRequest, Preemption
from extender.scheduling.verb import JudgingVerb
from extender.webhook.context import Context
from extender.webhook.failures import REASONS, UNANSWERABLE, NotLoadedError, log_failure
from extender.webhook.overload import MAX_BACKLOG_S, MAX_WAIT_S, OverloadedError
from extender.webhook.protocol import STAYS, Caller
from extender.webhook.workers import NoThreadError, Workers
from wasm_runtime.nodes.node_table import Nodes

S = TypeVar("S", Candidates, Preemption)


@dataclass(slots=True)
class Asked(Generic[S]):
    """A request, and who judges it."""

    request: PodRequest
    subject: S
    """The nodes that it is about."""
    route: str
    """The name of the profile in its path, if it has one."""
    profile: Profile
    is_simulation: bool = False
    """Whether it is about nodes that the cluster does not have. It is answered as if they were there, and begins no
    cycle."""

    def simulated(self) -> Asked[S]:
        """The same as a simulation. Guests see another UID of the pod, since the pod's own cycle may be under way."""
        pod = self.request.pod
        another = pod._replace(uid=f"{pod.uid} (simulated)")
        return replace(self, request=self.request._replace(pod=another), is_simulation=True)

    @property
    def key(self) -> Key:
        """Of the pod's cycle."""
        return self.request.pod.uid, self.route


class JudgingHandler(ABC, Generic[S]):
    """Answers a verb whose plugins judge nodes: on the loop if they are quick, else in a thread.

    On the loop a call is cheapest; in a thread a slow one holds up nobody else.
    """

    verb: ClassVar[JudgingVerb]
    nothing: ClassVar[bytes] = b""
    """The answer that admits or prefers no node, where the answer has no words for a failure."""

    def __init__(self, context: Context, decode: Callable[[bytes], tuple[PodRequest, S]], workers: Workers) -> None:
        """`decode` finds the pod and the nodes of a request. It raises RequestError."""
        self._context = context
        self._decode: Callable[[bytes], tuple[PodRequest, S]] = decode
        self._workers = workers
        self._phases = context.metrics.phases(self.verb.name)
        self._results = context.metrics.results(self.verb.name)
        self._overload = context.overload

    def profile_of(self, request: PodRequest, named: Profile | None, route: str, /) -> Profile:
        """Who judges: the profile that the pod's cycle began with, else the one that is live."""
        live = named or self._context.profiles.of_scheduler(request.scheduler_name)
        return self._context.pins.pinned(request.pod.uid, route) or live

    @abstractmethod
    def begin(self, asked: Asked[S]) -> None:
        """Takes note of a request that is about to be judged, unless it is a simulation."""

    @abstractmethod
    def run(self, asked: Asked[S], nodes: Nodes) -> Any:
        """What the plugins say. Raises one of `UNANSWERABLE`."""

    @abstractmethod
    def encode(self, asked: Asked[S], nodes: Nodes, result: Any, /) -> bytes:
        """The answer. Counts what it says."""

    def _refuse_late(self, asked: Asked[S] | None = None) -> bytes:
        """Refuses a request that waited too long; without `asked` it was not even decoded. Raises OverloadedError."""
        self._results.error.inc()
        error = self._overload.refuse()
        if asked and not asked.is_simulation:
            self.fail(asked, Failure(time.time(), self.verb.name, str(error)))
        return self.refuse_late(error)

    def refuse_late(self, error: OverloadedError) -> bytes:
        """The answer of a request that waited too long. Raises OverloadedError if the verb's answer has no `Error`."""
        raise error

    def _refuse(self, asked: Asked[S], error: Exception) -> bytes:
        self._results.error.inc()
        if not asked.is_simulation:
            self.fail(asked, Failure(time.time(), self.verb.name, str(error)))
        return self.refuse(asked, error)

    def fail(self, asked: Asked[S], failure: Failure) -> None:
        """Notes why the pod's attempt went no further."""
        pod = asked.request.pod
        self._context.decisions.amend(pod.name, pod.uid, asked.route, asked.profile.name, failure=failure)

    def refuse(self, asked: Asked[S], error: Exception) -> bytes:
        """The answer of a request that the plugins have not judged. The log and an Event say why."""
        pod = asked.request.pod
        log_failure(self.verb.name, pod.name, error)
        if self._context.recorder and not asked.is_simulation:
            self._context.recorder.record(failed_scheduling_event(pod.object, REASONS[type(error)], str(error)))
        return self.nothing

    def answer(self, body: bytes, named: Profile | None, _: Caller = STAYS) -> bytes | Awaitable[bytes]:
        """The answer, or an awaitable of it; `named` is the path's profile. Raises RequestError, OverloadedError."""
        phases, begun = self._phases, time.perf_counter()
        if begun > self._overload.refuses_from:
            return self._refuse_late()
        request, subject = self._decode(body)
        route = named.name if named else ""
        profile = self.profile_of(request, named, route)
        asked = Asked(request, subject, route, profile)
        decoded = time.perf_counter()
        phases.decode.count(decoded - begun)
        try:
            if profile.problem:
                raise NotLoadedError(profile.problem)
            if profile.wants_pods:
                self._context.pods.require_synced(groups=profile.wants_groups)
            nodes = self._context.nodes.find(subject, profile.wants_nodes)
        except UNANSWERABLE as error:
            return self._refuse(asked, error)
        if nodes.carried:
            asked = asked.simulated()
        else:
            self.begin(asked)
            if profile.wants_nodes and self._context.nodes.late.has_any(nodes.names):
                return self._answer_later(asked, nodes, decoded)
        phases.nodes.count(time.perf_counter() - decoded)
        if not asked.is_simulation and profile.reserve(self.verb.name, request.pod):
            try:
                return self._judge(asked, nodes)
            finally:
                profile.release()
        return self._judge_in_thread(asked, nodes)

    async def _answer_later(self, asked: Asked[S], nodes: Nodes, decoded: float) -> bytes:
        """The answer once nodes have come that the watch has yet to bring, or are not waited for any more."""
        await self._context.nodes.late.wait(nodes.names)
        self._phases.nodes.count(time.perf_counter() - decoded)
        return await self._judge_in_thread(asked, nodes)

    async def _judge_in_thread(self, asked: Asked[S], nodes: Nodes) -> bytes:
        if self._workers.backlog_s > MAX_BACKLOG_S:
            return self._refuse_late(asked)
        try:
            work = self._workers.submit(self._judge, asked, nodes)
        except NoThreadError as error:
            return self._refuse(asked, error)
        timer = asyncio.get_running_loop().call_later(MAX_WAIT_S, work.cancel)  # Does nothing once a thread has it.
        try:
            return await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            if not work.cancelled():
                raise
            return self._refuse_late(asked)
        finally:
            timer.cancel()

    def _judge(self, asked: Asked[S], nodes: Nodes) -> bytes:
        phases = self._phases
        begun, spent = time.perf_counter(), time.thread_time()
        try:
            result = self.run(asked, nodes)
        except UNANSWERABLE as error:
            return self._refuse(asked, error)
        finally:
            if asked.is_simulation:
                asked.profile.end_cycle(asked.request.pod)
            else:
                asked.profile.note(self.verb.name, time.thread_time() - spent)
            judged = time.perf_counter()
            phases.judge.count(judged - begun)
        answer = self.encode(asked, nodes, result)
        phases.encode.count(time.perf_counter() - judged)
        return answer
