"""The handler of bind."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar

import anyio

from extender.cluster import Binder, BindError, ClusterError, PodKey
from extender.scheduling import filter as filter_verb
from extender.scheduling.bind import BIND, BindingCycle
from extender.scheduling.binding_guests import Binding, RejectedError
from extender.scheduling.feasible_nodes import NotFilteredError
from extender.scheduling.filter import Verdict
from extender.scheduling.ledger import UNCONFIRMED_S
from extender.scheduling.planning import plan
from extender.scheduling.profile import Profile
from extender.scheduling.requests import Candidates, PodRequest
from extender.scheduling.waiting_pods import Wait, WaitingPods
from extender.webhook import encoding
from extender.webhook.decoding import decode_binding
from extender.webhook.failures import UNANSWERABLE, log_failure, require_loaded
from extender.webhook.handlers import Context
from extender.webhook.protocol import STAYS, Caller
from extender.webhook.workers import NoThreadError, Workers
from wasm_runtime.nodes.node_table import Nodes

T = TypeVar("T")

GONE: Final = (
    "kube-scheduler gave up while the pod waited; keep the extender's httpTimeout above server.bindTimeout,"
    " as kwx scheduler-config prints it"
)
"""What ends a wait whose answer nobody would get."""

MAX_GOING_ON: Final = 8
"""Pods at a time that go on after a wait: a gang that does so as one leaves threads and guests to others."""

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
        self._going_on = asyncio.Semaphore(MAX_GOING_ON)
        self._under_way: dict[str, asyncio.Event] = {}
        """By the UID of the pod, what is set when its bind is over."""
        self._waited: set[str] = set()
        """UIDs of pods whose bind waits on Permit, or has waited."""

    async def answer(self, body: bytes, named: Profile | None, caller: Caller = STAYS) -> bytes:
        """The answer, whose `Error` is empty if the pod is bound. Raises RequestError."""
        args = decode_binding(body)
        pod = PodKey(args.PodNamespace, args.PodName, args.PodUID)
        await self._end_older(pod)
        over = self._under_way[pod.uid] = asyncio.Event()
        try:
            return await self._answer(pod, args.Node, named, caller)
        finally:
            over.set()
            self._waited.discard(pod.uid)
            if self._under_way.get(pod.uid) is over:
                del self._under_way[pod.uid]

    async def _end_older(self, pod: PodKey) -> None:
        """Ends a bind of the same pod that waits on Permit: who asks again does not wait for that any more.

        Returns when that has given back what it has reserved. Else it would give back what is reserved from now on.
        """
        if pod.uid in self._waited:
            if wait := self._waiting.find(pod.uid):
                wait.reject("kube-scheduler asked for another bind of the pod while it waited")
            if over := self._under_way.get(pod.uid):
                await over.wait()

    async def _answer(self, pod: PodKey, node: str, named: Profile | None, caller: Caller) -> bytes:
        route = named.name if named else ""
        with self._context.pins.unpinning(pod.uid, route):
            try:
                await self._bind(pod, node, named, route, caller)
            except _FAILURES as error:
                self._release(pod, node, error)
                log_failure("bind", str(pod), error, node=node)
                return encoding.encode_bound(str(error))
            except BaseException as error:
                self._release(pod, node, error)
                raise
        if self._context.ledger:
            self._context.ledger.confirm(pod.uid, node)
        self._context.feasible.forget(pod.uid, route)
        self._context.pods.forget(pod.uid)
        return encoding.encode_bound()

    async def _bind(self, pod: PodKey, node: str, named: Profile | None, route: str, caller: Caller) -> None:
        context, deadline = self._context, time.monotonic() + self._timeout
        profile = context.pins.pinned(pod.uid, route) or named
        if profile:
            require_loaded(profile)
        context.feasible.require(pod, route, node)
        await self._claim(deadline, pod, node, named, route)
        if profile.has_binding_points if profile else context.profiles.has_binding_points:
            await self._run_cycle(deadline, pod, node, named, route, caller)
        else:
            await self._bind_until(deadline, pod, node, {})

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
        """Ends what the ledger expects, unless the pod may be bound in spite of the error: the watch will tell."""
        if ledger := self._context.ledger:
            is_known = isinstance(error, _FAILURES) and not (isinstance(error, BindError) and error.may_be_bound)
            end = ledger.release if is_known else ledger.doubt
            end(pod.uid, node)

    def _profile(self, request: PodRequest, named: Profile | None, route: str) -> Profile:
        """Who judged the pod. Raises NotLoadedError."""
        live = named or self._context.profiles.of_scheduler(request.scheduler_name)
        profile = self._context.pins.pinned_or(request.pod.uid, live, route)
        require_loaded(profile)
        return profile

    async def _run_cycle(
        self, deadline: float, pod: PodKey, node: str, named: Profile | None, route: str, caller: Caller
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
        bind_default = partial(self._bind_default, loop, pod, node, deadline)
        cycle = BindingCycle(profile, binding, context.ledger, bind_default)
        with context.pins.holding(profile):
            changes = self._waiting.changes
            if timeouts := await self._in_thread(cycle.begin):
                await self._go_on(cycle, Wait(cycle, timeouts, changes), caller)

    async def _go_on(self, cycle: BindingCycle, wait: Wait, caller: Caller) -> None:
        """Waits on Permit, and goes on with the cycle. Raises what ends the wait otherwise, after Unreserve."""
        self._waited.add(wait.pod.uid)
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
        annotations: Mapping[str, str],
    ) -> None:
        """Binds by `binder`, from the thread of a binding cycle. Raises BindError."""
        bound = asyncio.run_coroutine_threadsafe(self._bind_until(deadline, pod, node, annotations), loop)
        try:
            bound.result(max(0.0, deadline - time.monotonic()) + MAX_LATE_S)
        except concurrent.futures.TimeoutError:  # The loop hangs, and cannot tell.
            bound.cancel()
            raise _not_known(pod, node) from None

    async def _bind_until(self, deadline: float, pod: PodKey, node: str, annotations: Mapping[str, str]) -> None:
        """Binds by `binder`, without an attempt where no time is left. Raises BindError."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise BindError(f"cannot bind pod {pod} to node {node}: {NO_TIME}")
        try:
            with anyio.fail_after(left):
                await self._binder.bind(pod, node, annotations)
        except TimeoutError:
            raise _not_known(pod, node) from None


def _not_known(pod: PodKey, node: str) -> BindError:
    """Of a bind that was given up: the API server may have been asked."""
    return BindError(
        f"it is not known whether pod {pod} is bound to node {node}: the bind did not end within server.bindTimeout;"
        " kube-scheduler tries the pod again, and the API server refuses one that is bound",
        may_be_bound=True,
    )
