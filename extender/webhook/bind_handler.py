"""The handler of bind."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import anyio

from extender.cluster import Binder, BindError, ClusterError, PodKey
from extender.scheduling import filter as filter_verb
from extender.scheduling.bind import BIND, BindingCycle
from extender.scheduling.binding_guests import Binding, RejectedError
from extender.scheduling.decisions import Bound, Waited
from extender.scheduling.feasible_nodes import NotFilteredError
from extender.scheduling.filter import Verdict
from extender.scheduling.ledger import UNCONFIRMED_S
from extender.scheduling.planning import plan
from extender.scheduling.profile import Profile
from extender.scheduling.requests import Candidates, PodRequest
from extender.scheduling.simulator_results import result_annotations
from extender.scheduling.waiting_pods import Wait, WaitingPods
from extender.webhook import encoding
from extender.webhook.context import Context
from extender.webhook.decoding import decode_binding
from extender.webhook.failures import UNANSWERABLE, log_failure, require_loaded
from extender.webhook.protocol import STAYS, Caller
from extender.webhook.workers import NoThreadError, Workers
from wasm_runtime.nodes.node_table import Nodes

T = TypeVar("T")

GONE: Final = (
    "kube-scheduler ended, or gave up, while the pod waited; if it runs, keep the extender's httpTimeout above"
    " server.bindTimeout, as kwx scheduler-config prints it"
)
"""What ends a wait whose answer nobody would get."""

ASKED_AGAIN: Final = "kube-scheduler asked for another bind of the pod while it waited"
UNDER_WAY: Final = "was under way until the end of server.bindTimeout"

MAX_GOING_ON: Final = 8
"""Pods at a time that go on after a wait. A gang goes on all at once, and is to leave threads and guests to others."""

MAX_REQUESTS: Final = 16
"""Binds at a time that the API server is asked for. kube-scheduler may want hundreds at once, those of a group that it
places as a whole, and the HTTP library takes the longer for each request the more connections there are."""

MAX_LATE_S: Final = 1.0
"""Seconds by which the loop may be late to end a bind before its thread gives it up."""

NO_TIME: Final = "no time was left of server.bindTimeout; raise it, and the extender's httpTimeout with it"


_FAILURES: Final[tuple[type[Exception], ...]] = (
    BindError,
    ClusterError,
    NotFilteredError,
    RejectedError,
    *UNANSWERABLE,
)
"""What is told by the answer's `Error`."""


class RefusedBind:
    """Answers bind where others than kube-scheduler may ask for it."""

    def answer(self, body: bytes, _: Profile | None, __: Caller = STAYS) -> bytes:
        """Refuses. Raises RequestError."""
        args = decode_binding(body)
        pod = PodKey(args.PodNamespace, args.PodName, args.PodUID)
        error = RejectedError(
            f"bind refused: pod {pod} could be bound by whoever reaches server.address, which is off loopback and asks"
            " for no certificates; set server.tls.clientCAFile, or take bindVerb out of the scheduler's extender"
        )
        log_failure("bind", str(pod), error, node=args.Node)
        return encoding.encode_bound(str(error))


class BindHandler:
    """Binds a pod to a node that filter has answered for it: by a plugin, else by `binder`."""

    verb = BIND

    def __init__(
        self, context: Context, binder: Binder, waiting: WaitingPods, timeout: float, workers: Workers
    ) -> None:
        """`timeout` in seconds bounds the verb, a wait on Permit included; `workers` run the binding cycles."""
        self._context = context
        self._binder = binder
        self._waiting = waiting
        self._timeout = timeout
        self._workers = workers
        self._results = context.metrics.results(self.verb.name)
        self._going_on = asyncio.Semaphore(MAX_GOING_ON)
        self._requests = asyncio.Semaphore(MAX_REQUESTS)
        self._under_way: dict[str, asyncio.Future[str]] = {}
        """By the UID of the pod that is being bound, the node that it is bound to in the end; empty if it is not."""
        self._newer: Counter[str] = Counter()
        """By the UID, how many binds wait until that one is over."""

    async def answer(self, body: bytes, named: Profile | None, caller: Caller = STAYS) -> bytes:
        """The answer, whose `Error` is empty if the pod is bound. Raises RequestError."""
        args, deadline = decode_binding(body), time.monotonic() + self._timeout
        pod = PodKey(args.PodNamespace, args.PodName, args.PodUID)
        try:
            if bound_to := await self._end_older(pod, deadline):
                elsewhere = f"bind refused: another bind has just bound pod {pod} to node {bound_to}"
                return self._encode("" if bound_to == args.Node else elsewhere)
        except TimeoutError:
            return self._encode(f"bind refused: another bind of pod {pod} {UNDER_WAY}")
        over = self._under_way[pod.uid] = asyncio.get_running_loop().create_future()
        error: str | None = None
        try:
            error = await self._answer(deadline, pod, args.Node, named, caller)
            return self._encode(error)
        finally:
            del self._under_way[pod.uid]
            over.set_result(args.Node if error == "" else "")

    def _encode(self, error: str) -> bytes:
        (self._results.error if error else self._results.success).inc()
        return encoding.encode_bound(error)

    async def _end_older(self, pod: PodKey, deadline: float) -> str:
        """Waits until no other bind of the pod is under way: its Unreserve might give back what this bind reserves.

        An older bind that waits on Permit is ended, since its client has given up and asks again. Returns the node that
        the pod was bound to meanwhile, or nothing. Raises TimeoutError.
        """
        bound_to = ""
        self._newer[pod.uid] += 1
        try:
            with anyio.fail_after(deadline - time.monotonic()):
                while older := self._under_way.get(pod.uid):
                    if wait := self._waiting.find(pod.uid):
                        wait.reject(ASKED_AGAIN)
                    bound_to = await asyncio.shield(older)
        finally:
            self._newer -= Counter([pod.uid])
        return bound_to

    async def _answer(self, deadline: float, pod: PodKey, node: str, named: Profile | None, caller: Caller) -> str:
        """What is wrong; empty if the pod is bound."""
        route, began, begun = named.name if named else "", time.time(), time.monotonic()
        profile = self._context.pins.pinned(pod.uid, route) or named
        error = await self._bind_or_tell(deadline, pod, node, named, route, caller)
        bound = Bound(began, node, time.monotonic() - begun, error)
        self._context.decisions.amend(str(pod), pod.uid, route, profile.name if profile else "", bound=bound)
        return error

    async def _bind_or_tell(
        self, deadline: float, pod: PodKey, node: str, named: Profile | None, route: str, caller: Caller
    ) -> str:
        """What is wrong; empty if the pod is bound."""
        with self._context.pins.unpinning(pod.uid, route):
            try:
                await self._bind(deadline, pod, node, named, route, caller)
            except _FAILURES as error:
                self._release(pod, node, error)
                log_failure("bind", str(pod), error, node=node)
                return str(error)
            except BaseException as error:
                self._release(pod, node, error)
                raise
        if self._context.ledger:
            self._context.ledger.confirm(pod.uid, node)
        self._context.feasible.forget(pod.uid, route)
        self._context.pods.forget(pod.uid)
        return ""

    async def _bind(
        self, deadline: float, pod: PodKey, node: str, named: Profile | None, route: str, caller: Caller
    ) -> None:
        context = self._context
        profile = context.pins.pinned(pod.uid, route) or named
        if profile:
            require_loaded(profile)
        context.feasible.require(pod, route, node)
        await self._claim(deadline, pod, node, named, route)
        results = await self._results_of(pod, node, profile, route)
        if profile.has_binding_points if profile else context.profiles.has_binding_points:
            await self._run_cycle(deadline, pod, node, named, route, caller, results)
        else:
            await self._bind_until(deadline, pod, node, results)

    async def _results_of(self, pod: PodKey, node: str, profile: Profile | None, route: str) -> Mapping[str, str]:
        """The annotations that kube-scheduler-simulator shows, if the pod is to get them and anything is known."""
        attempts = self._context.decisions.attempts(pod.uid, route) if profile and profile.simulator_results else ()
        return await self._in_thread(partial(result_annotations, attempts, node)) if attempts else {}

    async def _claim(self, deadline: float, pod: PodKey, node: str, named: Profile | None, route: str) -> None:
        """Has the ledger expect the pod on the node.

        If it does not yet, others may have come there since filter: the plugins have to let the pod there once more.
        Raises RejectedError, and what filter raises.
        """
        context, ledger, seconds = self._context, self._context.ledger, self._timeout + UNCONFIRMED_S
        if ledger is None or not ledger.is_followed or ledger.claim(pod.uid, node, seconds):
            return
        request = await context.pods.find(pod)
        profile = self._profile(request, named, route)
        nodes = context.nodes.find(Candidates([node]), profile.wants_nodes)

        def judge(nodes: Nodes) -> Verdict:
            if time.monotonic() >= deadline:
                raise RejectedError(f"bind refused: node {node} could not be judged again for pod {pod}: {NO_TIME}")
            return filter_verb.run(profile, request.pod, nodes) if profile.wants_pods else Verdict(nodes, {}, {})

        claim = partial(plan, ledger, profile, request.pod, nodes, judge, seconds)
        verdict = await asyncio.get_running_loop().run_in_executor(self._workers, claim)
        if reasons := [*verdict.failed.values(), *verdict.unresolvable.values()]:
            raise RejectedError(f"bind refused: node {node} does not take pod {pod} any more: {reasons[0]}")
        ledger.claim(pod.uid, node, seconds)

    def _release(self, pod: PodKey, node: str, error: BaseException) -> None:
        """Ends what the ledger expects, unless the pod may be bound in spite of the error: the watch will tell.

        A pod of a group keeps its room if the API server has refused it: others of the group may be bound by now.
        """
        if ledger := self._context.ledger:
            if not isinstance(error, _FAILURES) or (isinstance(error, BindError) and error.may_be_bound):
                ledger.doubt(pod.uid, node)
            elif isinstance(error, BindError):
                ledger.retain(pod.uid, node)
            else:
                ledger.release(pod.uid, node)

    def _profile(self, request: PodRequest, named: Profile | None, route: str) -> Profile:
        """Who judged the pod. Raises NotLoadedError."""
        live = named or self._context.profiles.of_scheduler(request.scheduler_name)
        profile = self._context.pins.pinned(request.pod.uid, route) or live
        require_loaded(profile)
        return profile

    async def _run_cycle(
        self,
        deadline: float,
        pod: PodKey,
        node: str,
        named: Profile | None,
        route: str,
        caller: Caller,
        results: Mapping[str, str],
    ) -> None:
        """Runs the binding cycle in a thread: what the guests take holds nobody else up.

        While the pod waits on Permit there is no thread. The profile stays in use, so the pod is bound by the revisions
        that judged it.
        """
        context = self._context
        request = await context.pods.find(pod)
        profile = self._profile(request, named, route)
        binding = Binding(request.pod, context.nodes.find(Candidates([node]), profile.wants_nodes), deadline)
        loop = asyncio.get_running_loop()
        bind_default = partial(self._bind_default, loop, pod, node, deadline, results)
        cycle = BindingCycle(profile, binding, context.ledger, bind_default)
        with context.pins.holding(profile):
            changes = self._waiting.changes
            if timeouts := await self._in_thread(cycle.begin):
                waited = Waited(time.time(), node, timeouts)
                context.decisions.amend(str(pod), pod.uid, route, profile.name, waited=waited)
                await self._go_on(cycle, Wait(cycle, timeouts, changes), caller)

    async def _go_on(self, cycle: BindingCycle, wait: Wait, caller: Caller) -> None:
        """Waits on Permit, and goes on with the cycle. Raises what ends the wait otherwise, after Unreserve."""
        if self._newer[wait.pod.uid]:
            wait.reject(ASKED_AGAIN)
        try:
            with self._waiting.waiting(wait):
                caller.when_gone(partial(wait.reject, GONE))
                await wait.end()
        except BaseException:
            await self._give_up(cycle)
            raise
        async with self._going_on:
            try:
                await self._in_thread(cycle.go_on)
            except NoThreadError:
                cycle.give_up()
                raise

    async def _give_up(self, cycle: BindingCycle) -> None:
        """Gives back what was reserved, on the loop where no thread can be had."""
        async with self._going_on:
            try:
                await self._in_thread(cycle.give_up)
            except NoThreadError:
                cycle.give_up()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """What comes of some work in a thread of the binding cycles."""
        return await asyncio.get_running_loop().run_in_executor(self._workers, work)

    def _bind_default(
        self,
        loop: asyncio.AbstractEventLoop,
        pod: PodKey,
        node: str,
        deadline: float,
        results: Mapping[str, str],
        annotations: Mapping[str, str],
    ) -> None:
        """Binds by `binder`, from the thread of a binding cycle; what guests annotate counts. Raises BindError."""
        bound = asyncio.run_coroutine_threadsafe(
            self._bind_until(deadline, pod, node, {**results, **annotations}), loop
        )
        try:
            bound.result(max(0.0, deadline - time.monotonic()) + MAX_LATE_S)
        except concurrent.futures.TimeoutError:  # The loop hangs, and cannot tell.
            bound.cancel()
            raise _not_known(pod, node) from None

    async def _bind_until(self, deadline: float, pod: PodKey, node: str, annotations: Mapping[str, str]) -> None:
        """Binds by `binder`, without an attempt where no time is left. Raises BindError."""
        is_asked = False
        with suppress(TimeoutError), anyio.fail_after(deadline - time.monotonic()):
            async with self._requests:
                is_asked = time.monotonic() < deadline
                if is_asked:
                    await self._binder.bind(pod, node, annotations)
                    return
        raise _not_known(pod, node) if is_asked else BindError(f"cannot bind pod {pod} to node {node}: {NO_TIME}")


def _not_known(pod: PodKey, node: str) -> BindError:
    """Of a bind that was given up: the API server may have been asked."""
    return BindError(
        f"it is not known whether pod {pod} is bound to node {node}: the bind did not end within server.bindTimeout;"
        " kube-scheduler tries the pod again, and the API server refuses one that is bound",
        may_be_bound=True,
    )
