"""An extender inside the test's own process: what else is done now and then in threads is done here when it is told."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from extender.cluster import Binder, DryRunBinder
from extender.rollouts import load
from extender.rollouts.revision import RolloutStage
from extender.rollouts.rollout import Rollout
from extender.rollouts.service import RolloutService
from extender.rollouts.slot import Slot
from extender.rollouts.swap_command import FromUpload, SwapCommand
from extender.scheduling.cycle_pins import CyclePins
from extender.scheduling.decisions import Decisions
from extender.scheduling.evictions import Evictions
from extender.scheduling.feasible_nodes import FeasibleNodes
from extender.scheduling.groups import Groups
from extender.scheduling.guest_log import GuestLog
from extender.scheduling.ledger import Ledger
from extender.scheduling.node_source import Cache, NodeSource
from extender.scheduling.pod_source import PodSource
from extender.scheduling.request_samples import RequestSamples
from extender.scheduling.top_nodes import TopNodes
from extender.scheduling.waiting_pods import WaitingPods
from extender.telemetry.metrics import Metrics
from extender.webhook.context import Context
from extender.webhook.overload import Overload
from extender.webhook.protocol import STAYS, Answer, Caller
from extender.webhook.router import Router, make_handlers
from tests.extender import kwx
from tests.extender.objects import NODE_NAMES, binding_args, names_args, pod
from tests.patience import PATIENCE_S, wait_until
from wasm_runtime.blob import Blob
from wasm_runtime.nodes.node_table import NodeTable

T = TypeVar("T")


class Inside:
    """The plugins of a configuration and the verbs, without sockets; a context manager that ends it.

    Nobody looks at sources, probations and what drains but the test, by `reconcile` and `offer`. Nothing follows pods
    but the test, which tells `ledger` of them.
    """

    def __init__(
        self,
        folder: Path,
        *profiles: Mapping[str, Any],
        binder: Binder | None = None,
        bind_timeout: float = 4.0,
        clock: Callable[[], float] = time.monotonic,
        cache: Cache | None = None,
        **sections: Any,
    ) -> None:
        """With a `cache`, `nodes` are the cluster's, and the test brings them."""
        self.folder = folder
        server = {"stateDirectory": "state", **sections.pop("server", {})}
        self.config = kwx.write(folder, kwx.configuration(*profiles, server=server, **sections))
        self.pins = CyclePins()
        self.decisions = Decisions(1000)
        self.woken = 0
        self.samples = RequestSamples()
        self.waiting = WaitingPods()
        self.nodes = NodeTable(self.waiting.change)
        self.groups = Groups(self.nodes.pods)
        self.ledger = Ledger(
            self.groups,
            lambda: 0.0,
            self._wake,
            clock,
            self.waiting.delete,
            self.groups.is_member,
            self.groups.completes,
        )
        self._loaded = load(self.config, GuestLog().report, handle=self.waiting, keeps=True)
        self.live = self._loaded.live
        self.pods_problem: str | None = None
        """Why plugins that want to know pods have to wait; None if they need not."""
        self.service = RolloutService(
            self.config,
            self._loaded,
            self.pins,
            self.samples,
            lambda: self.nodes,
            lambda _: self.pods_problem,
            self._wake,
        )
        self.rollouts = self.service.rollouts
        self.source = NodeSource(cache, self.nodes, NodeTable)
        self.context = Context(
            self.live.profiles,
            self.source,
            PodSource(None, None),
            Metrics(),
            self.pins,
            self.samples,
            FeasibleNodes(),
            TopNodes(),
            Overload(),
            ledger=self.ledger,
            evictions=Evictions(self.ledger),
            decisions=self.decisions,
        )
        self._binding = binder or DryRunBinder(), self.waiting, bind_timeout
        self.router = self.serving(self.context)
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> Inside:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.service.stop()
        self._loaded.close()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def serving(self, context: Context) -> Router:
        """The verbs."""
        return Router(make_handlers(context, *self._binding), self.live.profiles, 1 << 20)

    def _wake(self) -> None:
        self.woken += 1

    def ask(self, path: str, request: Any) -> Any:
        """The answer of a verb, which must be 200."""

        async def answer() -> Any:
            answer = self.begin_to_ask(path, request)
            return await answer if inspect.isawaitable(answer) else answer

        status, body, *_ = self.run(answer())
        assert status == 200, body
        return msgspec.json.decode(body)

    def begin_to_ask(self, path: str, request: Any, caller: Caller = STAYS) -> Answer | Awaitable[Answer]:
        """What a verb's handler returns at once: an answer, or what gives one later. Must be called on the loop."""
        return self.router.answer("POST", path, msgspec.json.encode(request), caller)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Does something on the loop."""
        return self._loop.run_until_complete(work)

    def filter(self, name: str, profile: str = "", names: Sequence[str] = NODE_NAMES) -> Any:
        """Begins a pod's cycle."""
        return self.ask(_path(profile, "filter"), names_args(names, pod(name)))

    def score(self, name: str, profile: str = "") -> int:
        """The score of a node for a pod."""
        answer = self.ask(_path(profile, "prioritize"), names_args(["node-7"], pod(name)))
        return int(answer[0]["Score"]) if answer else 0

    def bind(self, name: str, profile: str = "", node: str = "node-7") -> str:
        """The error of a bind; empty if it succeeds. The pod must have been filtered."""
        return str(self.ask(_path(profile, "bind"), binding_args(node, name))["Error"])

    def slot(self, plugin: str = "told", profile: str = "default") -> Slot:
        """The slot of a plugin."""
        slot = self.live.slot(profile, plugin)
        assert slot
        return slot

    def active(self, plugin: str = "told") -> str:
        """The id of the revision that serves."""
        live = self.slot(plugin).live
        assert live
        return live.revision.id

    def begin(self, wasm: bytes, by: str = "ann", plugin: str = "told", **order: Any) -> Rollout:
        """Begins to bring an uploaded module live."""
        return self.rollouts.begin(self.slot(plugin), SwapCommand(FromUpload(Blob(wasm)), by, **order))

    def upload(self, wasm: bytes, **order: Any) -> str:
        """Brings an uploaded module live: its revision."""
        rollout = self.over(self.begin(wasm, **order))
        assert (rollout.stage, rollout.problem) == (RolloutStage.ACTIVE, "")
        assert rollout.revision
        return rollout.revision

    def offer(self, plugin: str = "told") -> bool:
        """Polls the source of a plugin once, and returns whether it has offered something."""
        slot = self.slot(plugin)
        fetched = slot.source.fetch()
        assert fetched
        return self.rollouts.offer(slot, slot.source, fetched)

    def over(self, rollout: Rollout) -> Rollout:
        """A rollout when it is over."""
        self.wait_until(lambda: self.now(rollout).is_over)
        self.rollouts.revisions(self.slot(rollout.plugin, rollout.profile))  # Waits for the end of a switch.
        self.written()
        return self.now(rollout)

    def now(self, rollout: Rollout) -> Rollout:
        """A rollout as it is now."""
        found = self.rollouts.get(rollout.id)
        assert found
        return found

    def written(self) -> None:
        """Waits until all that has happened is written down and told."""
        assert self.rollouts.journal.flush(PATIENCE_S), "the journal has not been written in time"

    def latest(self) -> Rollout:
        """The rollout that began last, as it is now."""
        self.written()
        return max(self.rollouts.journal.since(0), key=lambda entry: (entry[1].id, entry[0]))[1]

    def reconcile(self) -> None:
        """Looks after probations and what drains."""
        self.rollouts.reconcile()

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Waits for what a thread does."""
        wait_until(condition, lambda: self.rollouts.journal.since(0)[-3:])


def _path(profile: str, verb: str) -> str:
    return f"/profiles/{profile}/{verb}" if profile else f"/{verb}"
