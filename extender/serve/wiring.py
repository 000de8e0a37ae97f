"""The parts of the running extender, and how they are connected."""

from __future__ import annotations

import logging
import socket
from functools import partial
from pathlib import Path
from typing import Final

from fastapi import FastAPI

from extender.admin.api.context import AdminContext
from extender.admin.app import create_app
from extender.admin.auth.access import TokenAccess
from extender.admin.auth.tokens import TokensError
from extender.admin.health import Check, Health
from extender.admin.recording.recorders import Recorders
from extender.cluster import (
    AccessError,
    ApiBinder,
    ApiServer,
    Binder,
    DryRunBinder,
    NoBinder,
    read_pod,
)
from extender.config import ClusterConfig, ConfigError, ExtenderConfiguration, FailurePolicy, Replicas, ServerConfig
from extender.http.certificates import ServerCertificates
from extender.rollouts import Loaded
from extender.rollouts.registration import Registration
from extender.rollouts.revision import RolloutStage
from extender.rollouts.rollout import ENDS, Rollout
from extender.rollouts.service import RolloutService
from extender.scheduling.cycle_pins import CyclePins
from extender.scheduling.decisions import Decisions
from extender.scheduling.evictions import Evictions
from extender.scheduling.feasible_nodes import FeasibleNodes
from extender.scheduling.guest_log import GuestLog
from extender.scheduling.node_source import NodeSource
from extender.scheduling.permit_rounds import PermitRounds
from extender.scheduling.pod_source import PodSource
from extender.scheduling.profile import PluginFailedError
from extender.scheduling.request_samples import RequestSamples
from extender.scheduling.top_nodes import TopNodes
from extender.scheduling.waiting_pods import WaitingPods
from extender.serve.background import Background
from extender.serve.certificates import Certificates
from extender.serve.cluster_link import ClusterLink
from extender.serve.servers import make_admin_connections, serve_admin
from extender.telemetry.metrics import Metrics
from extender.webhook.context import Context
from extender.webhook.overload import Overload
from extender.webhook.router import Router, make_handlers
from wasm_runtime import supervision
from wasm_runtime.errors import GuestError
from wasm_runtime.guests.maintenance import GuestMaintenance
from wasm_runtime.guests.plugin import Plugin
from wasm_runtime.nodes.node_table import NodeTable

logger = logging.getLogger(__name__)


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
        self.overload = Overload()
        """What the server of the verbs tells how it is."""
        self._pins, self._samples = CyclePins(), RequestSamples()
        self._decisions = Decisions(configuration.server.decisions)
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

    def start(self, access: TokenAccess, certificates: Certificates, admin_socket: socket.socket) -> None:
        """Starts all but the server of the verbs."""
        for slot in self._loaded.live.slots:
            self._expect(slot.profile, slot.name)
        self._loaded.journal.listen(self._on_rollout)
        if self._link:
            self._guest_log.recorder = self._link.recorder
            self._link.start(wants_groups=self._loaded.live.wants_groups)
        self._metrics.add_plugins(self._loaded.live.samples)
        self._metrics.add_readiness(lambda: self._health.report()[0])
        self._health.add(
            Check("plugins", lambda: self.service.missing, lambda: self.service.oddities),
            _THREADS,
            Check("verbs", lambda: self.overload.problem),
        )
        if self._loaded.configuration.server.replicas is not Replicas.NONE:
            self._health.add(Check("replicas", detail=lambda: self.service.served))
        if self._loaded.configuration.server.admin_tokens:
            self._health.add(Check("tokens", warning=access.warning))
            self._background.spawn(access.follow, "tokens")
        certificates.start(self._health, self._metrics, self._background)
        if self._link:
            self._background.spawn(self._link.waker.run, "waker")
        connections = make_admin_connections(certificates.admin, partial(self._metrics.count_handshake, "admin"))
        admin = self._admin(access, certificates.verbs)
        self._background.spawn(partial(serve_admin, admin, connections, admin_socket), "admin server")
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
            self.overload,
            self._link.recorder if self._link else None,
            self._link.ledger if self._link else None,
            Evictions(self._link.ledger) if self._link else None,
            self._decisions,
        )
        binder = _binder(configuration, self._asked)
        server = configuration.server
        handlers = make_handlers(context, binder, self._waiting, server.bind_timeout, may_bind=server.may_bind)
        return Router(handlers, profiles, server.max_request_bytes)

    def stop(self) -> None:
        """Ends what is under way, and the threads."""
        self.service.stop()
        self._permit_rounds.stop()
        self._maintenance.stop()

    def _admin(self, access: TokenAccess, certificates: ServerCertificates | None) -> FastAPI:
        recorders = Recorders(self._samples, self._source)
        ledger, groups = (self._link.ledger, self._link.groups) if self._link else (None, None)

        def registration() -> Registration:
            hosts = certificates.hosts if certificates else None
            return Registration.of(self._loaded.configuration, self._loaded.live, hosts)

        return create_app(
            self._health,
            self._metrics,
            AdminContext(
                self.service.rollouts,
                self.service.what_if,
                recorders,
                self._waiting,
                ledger,
                groups,
                registration,
                self._decisions,
                self._link.read_pod if self._link else None,
            ),
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


def _problems(*, vital: bool) -> str | None:
    return "; ".join(supervision.problems(vital=vital)) or None


_THREADS: Final = Check("threads", partial(_problems, vital=True), partial(_problems, vital=False))


def _report_maintenance(plugin: Plugin, error: Exception) -> None:
    if isinstance(error, GuestError):
        failure = PluginFailedError(plugin, error)
        logger.error("a guest failed between requests and is replaced: %s", failure, extra=failure.fields)
    else:
        logger.error("the nodes could not be told to a guest", exc_info=error, extra={"plugin": plugin.name})
