"""The parts of the running extender, and how they are connected."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from fastapi import FastAPI

from extender.admin import AdminContext, Check, Health, Recorders, TokenAccess, TokensError, create_app
from extender.cluster import (
    GROUP_APIS,
    AccessError,
    ApiBinder,
    ApiServer,
    Binder,
    DryRunBinder,
    EventRecorder,
    GroupCache,
    NoBinder,
    NodeCache,
    PodCache,
    Waker,
    pod_namespace,
    read_pod,
)
from extender.cluster.waker import NAMESPACE
from extender.config import ClusterConfig, ConfigError, ExtenderConfiguration, FailurePolicy, ServerConfig
from extender.rollouts import Loaded
from extender.rollouts.revision import RolloutStage
from extender.rollouts.rollout import ENDS, Rollout
from extender.rollouts.service import RolloutService
from extender.scheduling.cycle_pins import CyclePins
from extender.scheduling.evictions import Evictions
from extender.scheduling.feasible_nodes import FeasibleNodes
from extender.scheduling.groups import Groups
from extender.scheduling.guest_log import GuestLog
from extender.scheduling.ledger import Ledger, State
from extender.scheduling.node_source import NodeSource
from extender.scheduling.permit_rounds import PermitRounds
from extender.scheduling.pod_source import PodSource
from extender.scheduling.profile import PluginFailedError
from extender.scheduling.request_samples import RequestSamples
from extender.scheduling.top_nodes import TopNodes
from extender.scheduling.waiting_pods import WaitingPods
from extender.serve.background import Background
from extender.serve.groups_on_demand import GroupsOnDemand
from extender.serve.pods_on_demand import PodsOnDemand
from extender.serve.servers import serve_admin
from extender.telemetry.metrics import Metrics
from extender.webhook.handlers import Context
from extender.webhook.router import Router, make_handlers
from wasm_runtime import supervision
from wasm_runtime.errors import GuestError
from wasm_runtime.guests.maintenance import GuestMaintenance
from wasm_runtime.guests.plugin import Plugin
from wasm_runtime.nodes.node_table import NodeTable

logger = logging.getLogger(__name__)


LEDGER_INTERVAL_S: Final = 1.0
"""Seconds between two looks whether a pod is not expected any more."""


class Cache(Protocol):
    """What is kept of the cluster."""

    @property
    def unusable(self) -> str | None:
        """Why nothing may be answered from it, if that is so."""

    @property
    def problem(self) -> str | None:
        """What keeps it from being current, if anything does."""


class ClusterLink:
    """What is read from the API server in the background, and what is written to it."""

    def __init__(
        self,
        api: ApiServer,
        config: ClusterConfig,
        nodes: NodeTable,
        metrics: Metrics,
        health: Health,
        background: Background,
        wants_pods: Callable[[], bool],
        waiting: WaitingPods,
    ) -> None:
        """`nodes` gets the nodes of the cluster; `wants_pods` is whether anybody wants its pods now.

        Nothing runs until `start`.
        """
        self._api = api
        self._needs_sync = config.not_synced_policy is FailurePolicy.FAIL
        self._stale_after_s = config.stale_after or math.inf
        self._metrics = metrics
        self._health = health
        self._background = background
        self._nodes = nodes
        self._wants_pods = wants_pods
        self.node_cache = NodeCache(api, nodes, metrics.count_list_or_watch, stale_after=self._stale_after_s)
        self.waker = Waker(api, _namespace(), metrics.count_wake)
        self.groups = Groups(nodes.pods)
        self.ledger = Ledger(self.groups, lambda: self.pods.outdated, self.waker.wake, on_end=waiting.delete)
        self.pods = PodsOnDemand(self._make_pod_cache, background, wants_pods, self._watch_over_pods, self._forget_pods)
        self.group_caches = GroupsOnDemand(self.groups, self._make_group_caches, background, self._watch_over_groups)
        self.recorder = EventRecorder(api)

    def start(self, *, wants_groups: bool) -> None:
        """Lists and watches nodes; pods, and groups, too, if a plugin wants them. They count for readiness then."""
        self._health.add(_check("nodes", self.node_cache, self._needs_sync))
        self._metrics.add_cache_gauges("nodes", lambda: len(self._nodes), lambda: self.node_cache.outdated)
        self._metrics.add_cache_gauges("pods", lambda: self.pods.size, lambda: self.pods.outdated)
        groups = self.group_caches
        self._metrics.add_cache_gauges("groups", lambda: groups.size, lambda: groups.outdated)
        self._metrics.add_ledger_gauge([state.value for state in State], self.ledger.count)
        self._background.spawn(self.recorder.run, "event recorder")
        self._background.spawn(self.node_cache.run, "node cache")
        self._background.spawn(self._look_after_pods, "ledger")
        if self._wants_pods():
            self._health.add(_check("pods", self.pods.start(), self._needs_sync))
        if wants_groups:
            self._health.add(_check("groups", self.group_caches.start(), self._needs_sync))

    def _make_pod_cache(self) -> PodCache:
        self.ledger.is_followed = True
        count = self._metrics.count_list_or_watch
        return PodCache(self._api, count, self.ledger, stale_after=self._stale_after_s)

    def _watch_over_pods(self, cache: PodCache) -> None:
        """A process that serves stays ready while pods are listed: only plugins that want pods have no answer then."""
        self._health.add(_check("pods", cache, needs_sync=False), Check("ledger", detail=self.ledger.summary))

    def _forget_pods(self) -> None:
        self._health.remove("pods", "ledger", "groups")
        self.ledger.unfollow()
        self.group_caches.end()

    def _make_group_caches(self) -> list[GroupCache]:
        count, stale_after = self._metrics.count_list_or_watch, self._stale_after_s
        return [
            GroupCache(self._api, kind, self.groups.objects(kind.source), count, stale_after=stale_after)
            for kind in GROUP_APIS
        ]

    def _watch_over_groups(self, caches: GroupsOnDemand) -> None:
        self._health.add(_check("groups", caches, needs_sync=False))

    async def _look_after_pods(self) -> None:
        """Ends in time what nobody comes back to, so that rejected pods are tried again."""
        while True:
            await asyncio.sleep(LEDGER_INTERVAL_S)
            self.ledger.expire()
            self.pods.end_if_unwanted()


class Wiring:
    """The parts of the running extender. Each is made of those before it."""

    def __init__(
        self,
        file: Path,
        loaded: Loaded,
        guest_log: GuestLog,
        waiting: WaitingPods,
        metrics: Metrics,
        background: Background,
    ) -> None:
        """`background` runs what goes on whatever guests do. Nothing else runs until `start`. Raises ConfigError."""
        configuration = loaded.configuration
        needs_sync = configuration.cluster.not_synced_policy is FailurePolicy.FAIL
        self._loaded = loaded
        self._guest_log = guest_log
        self._waiting = waiting
        self._metrics = metrics
        self._background = background
        self._health = Health()
        self._pins, self._samples = CyclePins(), RequestSamples()
        self._maintenance = GuestMaintenance(self._live_plugins, self._current_nodes, _report_maintenance)
        self._permit_rounds = PermitRounds(waiting)
        nodes = NodeTable(self._on_change)
        watched, self._asked = _connect(file, configuration.cluster), _connect(file, configuration.cluster)
        self._link = (
            ClusterLink(
                watched, configuration.cluster, nodes, metrics, self._health, background, self._wants_pods, waiting
            )
            if watched
            else None
        )
        node_cache = self._link.node_cache if self._link else None
        new_table = partial(NodeTable, self._on_change)
        self._source = NodeSource(node_cache, nodes, new_table, needs_sync=needs_sync)
        read = partial(read_pod, self._asked) if self._asked else None
        pods, groups = (self._link.pods, self._link.group_caches) if self._link else (None, None)
        self._pods = PodSource(pods, read, groups, needs_sync=needs_sync)
        follow = self._pods.follow if self._link else None
        wake = self._link.waker.wake if self._link else lambda: None
        self.service = RolloutService(file, loaded, self._pins, self._samples, self._current_nodes, follow, wake)

    def start(self, access: TokenAccess, admin_socket: socket.socket) -> None:
        """Starts all but the server of the verbs."""
        for slot in self._loaded.live.slots:
            self._expect(slot.profile, slot.name)
        self._loaded.journal.listen(self._on_rollout)
        if self._link:
            self._guest_log.recorder = self._link.recorder
            self._link.start(wants_groups=self._loaded.live.wants_groups)
        self._health.add(Check("plugins", lambda: self.service.missing, lambda: self.service.oddities), _THREADS)
        if self._loaded.configuration.server.admin_tokens:
            self._health.add(Check("tokens", warning=access.warning))
            self._background.spawn(access.follow, "tokens")
        if self._link:
            self._background.spawn(self._link.waker.run, "waker")
        self._background.spawn(partial(serve_admin, self._admin(access), admin_socket), "admin server")
        self._maintenance.start()
        self._permit_rounds.start()
        self.service.start()

    def router(self) -> Router:
        """The webhook."""
        configuration, profiles = self._loaded.configuration, self._loaded.live.profiles
        context = Context(
            profiles,
            self._source,
            self._pods,
            self._metrics,
            self._pins,
            self._samples,
            FeasibleNodes(),
            TopNodes(),
            self._link.recorder if self._link else None,
            self._link.ledger if self._link else None,
            Evictions(self._link.ledger) if self._link else None,
        )
        binder = _binder(configuration, self._asked)
        handlers = make_handlers(context, binder, self._waiting, configuration.server.bind_timeout)
        return Router(handlers, profiles, configuration.server.max_request_bytes)

    def stop(self) -> None:
        """Ends what is under way, and the threads."""
        self.service.stop()
        self._permit_rounds.stop()
        self._maintenance.stop()

    def _admin(self, access: TokenAccess) -> FastAPI:
        recorders = Recorders(self._samples, self._source)
        ledger, groups = (self._link.ledger, self._link.groups) if self._link else (None, None)
        return create_app(
            self._health,
            self._metrics,
            AdminContext(self.service.rollouts, recorders, self._waiting, ledger, groups),
            access,
            self._loaded.configuration.runtime.module_limit,
        )

    def _on_change(self) -> None:
        """Nodes, pods or groups have changed: guests have to learn of it, and may let pods go on that wait."""
        self._maintenance.wake()
        self._waiting.change()

    def _expect(self, profile: str, plugin: str) -> None:
        self._metrics.expect_rollouts(profile, plugin, ENDS)
        self._metrics.expect_waits(plugin, self._waiting.count)

    def _live_plugins(self) -> list[Plugin]:
        return self._loaded.live.plugins

    def _wants_pods(self) -> bool:
        """Whether a plugin wants pods, may be about to, or still decides about a pod that waits on Permit."""
        under_way = self._loaded.journal.under_way()
        return self._loaded.live.wants_pods or bool(under_way) or bool(self._waiting.waits())

    def _current_nodes(self) -> NodeTable:
        return self._source.current

    def _on_rollout(self, _: int, rollout: Rollout) -> None:
        self._expect(rollout.profile, rollout.plugin)
        if rollout.end and not rollout.dry_run:
            self._metrics.count_rollout(rollout.profile, rollout.plugin, rollout.end)
        live = self._loaded.live
        if self._link and rollout.stage is RolloutStage.ACTIVE and live.wants_pods:
            self._link.pods.start()
        if self._link and rollout.stage is RolloutStage.ACTIVE and live.wants_groups:
            self._link.group_caches.start()


def open_access(file: Path, server: ServerConfig) -> TokenAccess:
    """The access to the admin API. Raises ConfigError."""
    try:
        return TokenAccess(server.admin_tokens and file.absolute().parent / server.admin_tokens)
    except TokensError as error:
        raise ConfigError(file, [f"server.adminTokens: {problem}" for problem in error.problems]) from error


def _connect(file: Path, cluster: ClusterConfig) -> ApiServer | None:
    """The API server of a configuration file. Raises ConfigError."""
    try:
        if cluster.mode == "kubeconfig":
            return ApiServer.from_kubeconfig(file.absolute().parent / cluster.kubeconfig)
        return ApiServer.in_cluster() if cluster.mode == "in-cluster" else None
    except AccessError as error:
        key = "kubeconfig" if cluster.mode == "kubeconfig" else "mode"
        raise ConfigError(file, [f"cluster.{key}: {error}"]) from error


def _binder(configuration: ExtenderConfiguration, api: ApiServer | None) -> Binder:
    if api:
        return ApiBinder(api, configuration.server.bind_timeout)
    return DryRunBinder() if configuration.cluster.mode == "dry-run" else NoBinder()


def _namespace() -> str:
    """Where the objects of the manifests are."""
    try:
        return pod_namespace()
    except AccessError:
        return NAMESPACE


def _check(name: str, cache: Cache, needs_sync: bool) -> Check:
    """A cache is ready when it may be answered from, even if it is outdated: without us nothing is scheduled at all.

    Without `needs_sync` requests are answered whatever there is in it.
    """
    if needs_sync:
        return Check(name, lambda: cache.unusable, lambda: cache.problem)
    return Check(name, warning=lambda: cache.unusable or cache.problem)


def _problems(*, vital: bool) -> str | None:
    return "; ".join(supervision.problems(vital=vital)) or None


_THREADS: Final = Check("threads", partial(_problems, vital=True), partial(_problems, vital=False))


def _report_maintenance(plugin: Plugin, error: Exception) -> None:
    if isinstance(error, GuestError):
        failure = PluginFailedError(plugin, error)
        logger.error("a guest failed between requests and is replaced: %s", failure, extra=failure.fields)
    else:
        logger.error("the nodes could not be told to a guest", exc_info=error, extra={"plugin": plugin.name})
