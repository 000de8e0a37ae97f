"""The handler of bind."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Mapping
from functools import partial
from typing import Final

import anyio

from extender.cluster import Binder, BindError, ClusterError, PodKey
from extender.scheduling import bind
from extender.scheduling import filter as filter_verb
from extender.scheduling.bind import BIND, Binding, RejectedError
from extender.scheduling.feasible_nodes import NotFilteredError
from extender.scheduling.filter import Verdict
from extender.scheduling.ledger import UNCONFIRMED_S
from extender.scheduling.planning import plan
from extender.scheduling.profile import Profile
from extender.scheduling.requests import Candidates, PodRequest
from extender.scheduling.waiting_pods import WaitingPods
from extender.webhook import encoding
from extender.webhook.decoding import decode_binding
from extender.webhook.failures import UNANSWERABLE, log_failure, require_loaded
from extender.webhook.handlers import Context
from extender.webhook.workers import Workers
from wasm_runtime.nodes.node_table import Nodes

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

    async def answer(self, body: bytes, named: Profile | None) -> bytes:
        """The answer, whose `Error` is empty if the pod is bound. Raises RequestError."""
        args = decode_binding(body)
        pod = PodKey(args.PodNamespace, args.PodName, args.PodUID)
        route = named.name if named else ""
        with self._context.pins.unpinning(pod.uid, route):
            try:
                await self._bind(pod, args.Node, named, route)
            except _FAILURES as error:
                self._release(pod, args.Node, error)
                log_failure("bind", str(pod), error, node=args.Node)
                return encoding.encode_bound(str(error))
            except BaseException as error:
                self._release(pod, args.Node, error)
                raise
        if self._context.ledger:
            self._context.ledger.confirm(pod.uid, args.Node)
        self._context.feasible.forget(pod.uid, route)
        self._context.pods.forget(pod.uid)
        return encoding.encode_bound()

    async def _bind(self, pod: PodKey, node: str, named: Profile | None, route: str) -> None:
        context, deadline = self._context, time.monotonic() + self._timeout
        profile = context.pins.pinned(pod.uid, route) or named
        if profile:
            require_loaded(profile)
        context.feasible.require(pod, route, node)
        await self._claim(deadline, pod, node, named, route)
        if profile.has_binding_points if profile else context.profiles.has_binding_points:
            await self._run_cycle(deadline, pod, node, named, route)
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

    async def _run_cycle(self, deadline: float, pod: PodKey, node: str, named: Profile | None, route: str) -> None:
        """Runs the binding cycle in a thread: what Permit and the guests take holds nobody else up."""
        context = self._context
        request = await context.pods.find(pod)
        profile = self._profile(request, named, route)
        binding = Binding(request.pod, context.nodes.find(Candidates([node]), profile.wants_nodes), deadline)
        loop = asyncio.get_running_loop()
        bind_default = partial(self._bind_default, loop, pod, node, deadline)
        run = partial(bind.run, profile, binding, self._waiting, context.ledger, bind_default)
        await loop.run_in_executor(self._workers, run)

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
