"""The running extender: what is started, in which thread, and how it ends."""

from __future__ import annotations

import ctypes
import faulthandler
import logging
import math
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import uvicorn

from extender.admin import AdminConnection, Check, Health, Recorders, TokenAccess, TokensError, create_app
from extender.cluster import (
    AccessError,
    ApiBinder,
    ApiServer,
    Binder,
    DryRunBinder,
    EventRecorder,
    NoBinder,
    NodeCache,
    PodCache,
    Reflector,
    Waker,
    pod_namespace,
    read_pod,
)
from extender.cluster.waker import NAMESPACE
from extender.config import Address, ClusterConfig, ConfigError, ExtenderConfiguration, FailurePolicy, ServerConfig
from extender.http.clients import Clients, Room
from extender.rollouts import Loaded, load
from extender.rollouts.revision import Stage
from extender.rollouts.rollout import Rollout
from extender.rollouts.service import RolloutService
from extender.scheduling.cycle_pins import CyclePins
from extender.scheduling.feasible_nodes import FeasibleNodes
from extender.scheduling.guest_log import GuestLog
from extender.scheduling.live_profiles import LiveProfiles
from extender.scheduling.node_source import NodeSource
from extender.scheduling.pod_source import PodSource
from extender.scheduling.profile import PluginFailedError
from extender.scheduling.request_samples import RequestSamples
from extender.scheduling.waiting_pods import WaitingPods
from extender.serve import gc_tuning
from extender.serve.background import Background
from extender.telemetry.metrics import Metrics
from extender.webhook.handlers import Context
from extender.webhook.protocol import Connection
from extender.webhook.router import Router, make_handlers
from wasm_runtime import supervision
from wasm_runtime.errors import GuestError
from wasm_runtime.guests.maintenance import GuestMaintenance
from wasm_runtime.guests.plugin import Plugin
from wasm_runtime.nodes.node_table import NodeTable
from wasm_runtime.protobuf.convert import converter

logger = logging.getLogger(__name__)


TICKS_PER_CHECK: Final = 10
"""Ticks of uvicorn, ten a second, between two looks at the threads that others rely on."""

EXIT_TIMEOUT_S: Final = 15.0
"""Once nothing is served any more, which takes up to 10: below the 30 after which Kubernetes kills."""

STALLED_TIMEOUT_MS: Final = 30_000
"""Milliseconds after which a client that takes nothing of what it is sent is cut off."""

IDLE_TIMEOUT_S: Final = 300.0
"""Of a client of the verbs: longer than Go's client keeps an idle connection, so that it never writes to one that we
are closing."""

ADMIN_IDLE_TIMEOUT_S: Final = 30.0
"""Of one of the admin address, where probes and people need not find theirs again."""

ARRIVAL_TIMEOUT_S: Final = 45.0
"""For a request to come: kube-scheduler gives up after five seconds by itself."""

ADMIN_ARRIVAL_TIMEOUT_S: Final = 75.0
"""More than a module may take to come in, which is told otherwise."""

MAX_CONNECTIONS: Final = 512
"""Of clients of the verbs: kube-scheduler has one for each pod that is being bound."""

MAX_ADMIN_CONNECTIONS: Final = 128

OWN_DESCRIPTORS: Final = 128
"""Kept for what is not a client: the API server, sources, files, compiling."""

MAX_ARENAS: Final = 2
"""Heaps of glibc's malloc, which makes eight a processor. Threads come and go from one to another, and each heap keeps
what it has once given, so that the process would take what each thread ever needs times their number."""

_M_ARENA_MAX: Final = -8
"""Of glibc's `malloc.h`."""

VERBS_SHARE: Final = 2 / 3
ADMIN_SHARE: Final = 1 / 3
"""Of the descriptors that are left."""


class PodsOnDemand:
    """The cluster's pods, listed and watched from when a plugin goes live that asks for them: most never do.

    May be asked from any thread.
    """

    def __init__(
        self, make: Callable[[], PodCache], background: Background, on_start: Callable[[PodCache], object]
    ) -> None:
        self._make = make
        self._background = background
        self._on_start = on_start
        self._starting = threading.Lock()
        self._cache: PodCache | None = None

    def start(self) -> PodCache:
        """Begins to list and watch, if that has not begun. Waits for nothing."""
        with self._starting:
            if self._cache is None:
                self._cache = self._make()
                self._on_start(self._cache)
                self._background.spawn(self._cache.run, "pod cache")
            return self._cache

    @property
    def size(self) -> int:
        """The number of pods that are kept."""
        return self._cache.size if self._cache else 0

    @property
    def outdated(self) -> float:
        """For how many seconds they may be outdated, if they are kept."""
        return self._cache.outdated if self._cache else 0.0

    @property
    def unusable(self) -> str | None:
        """Why nothing may be answered from them, if they are kept and that is so."""
        return self._cache.unusable if self._cache else None

    def get(self, uid: str) -> bytes | None:
        """A pod, a protobuf v1.Pod."""
        return self.start().get(uid)

    def find(self, uid: str, version: str) -> bytes | None:
        """The same at a resourceVersion, if pods are kept."""
        return self._cache.find(uid, version) if self._cache else None


def serve(file: Path) -> None:
    """Serves until SIGTERM or SIGINT; SIGHUP has the configuration file read again. Raises ConfigError."""
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    _raise_descriptors()
    _bound_arenas()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # The file is about to be read anyway.
    guest_log = GuestLog()
    waiting = WaitingPods()
    metrics = Metrics()
    with closing(load(file, guest_log.report, metrics.observe_guest, waiting, keeps=True)) as loaded:
        _serve(file, loaded, guest_log, waiting, metrics)


def _serve(file: Path, loaded: Loaded, guest_log: GuestLog, waiting: WaitingPods, metrics: Metrics) -> None:
    configuration, profiles = loaded.configuration, loaded.live.profiles
    server = configuration.server
    access = _access(file, server)
    admin_socket = _listen(file, "server.adminAddress", server.admin_address)
    verbs_socket = _listen(file, "server.address", server.address)  # Who finds this one finds the other.
    maintenance = GuestMaintenance(lambda: loaded.live.plugins, lambda: source.current, _report_maintenance)
    nodes = NodeTable(maintenance.wake)
    watched, asked = _connect(file, configuration.cluster), _connect(file, configuration.cluster)
    pins, samples = CyclePins(), RequestSamples()
    loaded.journal.listen(partial(_count_rollout, metrics))
    waker = Waker(watched, _namespace()) if watched else None
    service = RolloutService(file, loaded, pins, samples, lambda: source.current, waker.wake if waker else lambda: None)
    background = Background()
    try:
        needs_sync = configuration.cluster.not_synced_policy is FailurePolicy.FAIL
        stale_after = configuration.cluster.stale_after or math.inf
        node_cache = (
            NodeCache(watched, nodes, metrics.count_list_or_watch, stale_after=stale_after) if watched else None
        )
        pod_cache = (
            PodsOnDemand(
                lambda: PodCache(watched, metrics.count_list_or_watch, stale_after=stale_after),
                background,
                # A process that serves stays ready while they are listed: without them preempt alone has no answer.
                lambda cache: health.add(_check("pods", cache, needs_sync=False)),
            )
            if watched
            else None
        )
        health, recorder = Health(), EventRecorder(watched) if watched else None
        if node_cache and pod_cache and recorder:
            health.add(_check("nodes", node_cache, needs_sync))
            guest_log.recorder = recorder
            metrics.add_cache_gauges("nodes", lambda: len(nodes), lambda: node_cache.outdated)
            metrics.add_cache_gauges("pods", lambda: pod_cache.size, lambda: pod_cache.outdated)
            background.spawn(recorder.run, "event recorder")
            background.spawn(node_cache.run, "node cache")
            if profiles.wants_pods:
                health.add(_check("pods", pod_cache.start(), needs_sync))
            loaded.journal.listen(partial(_start_pods, profiles, pod_cache))
        health.add(Check("plugins", lambda: service.missing, lambda: service.oddities), _THREADS)
        if server.admin_tokens:
            _follow_tokens(access, health, background)
        if waker:
            background.spawn(waker.run, "waker")
        source = NodeSource(node_cache, nodes, partial(NodeTable, maintenance.wake), needs_sync=needs_sync)
        admin = create_app(
            health,
            metrics,
            service.rollouts,
            Recorders(samples, source),
            access,
            configuration.runtime.module_limit,
        )
        background.spawn(partial(_admin, admin, admin_socket), "admin server")
        maintenance.start()
        _start(service)
        context = Context(
            profiles,
            source,
            PodSource(pod_cache, partial(read_pod, asked) if asked else None, needs_sync=needs_sync),
            metrics,
            pins,
            samples,
            FeasibleNodes(),
            recorder,
        )
        handlers = make_handlers(context, _binder(configuration, asked), waiting, server.bind_timeout)
        connection = _connect_to(Router(handlers, profiles, server.max_request_bytes))
        converter()  # Made now, so that the first request need not wait for it.
        gc_tuning.freeze_startup_objects()
        logger.info(
            "serving",
            extra={
                "verbs": _url(verbs_socket),
                "admin": _url(admin_socket),
                "cluster": configuration.cluster.mode,
            },
        )
        _Server(_uvicorn(None, connection), waiting).run(sockets=[verbs_socket])
    finally:
        _end(service, maintenance, background)


def _end(service: RolloutService, maintenance: GuestMaintenance, background: Background) -> None:
    """Ends the threads. If any keeps the process from ending, also later, it ends and says where each is."""
    with suppress(RuntimeError, ValueError, AttributeError, OSError):  # No thread for it, or nowhere to write to.
        faulthandler.dump_traceback_later(EXIT_TIMEOUT_S, exit=True)
    service.stop()
    maintenance.stop()
    background.stop()


def _start(service: RolloutService) -> None:
    service.start()
    signal.signal(signal.SIGHUP, lambda *_: service.reload())


def _start_pods(profiles: LiveProfiles, pods: PodsOnDemand, _: int, rollout: Rollout) -> None:
    if rollout.stage is Stage.ACTIVE and profiles.wants_pods:
        pods.start()


def _count_rollout(metrics: Metrics, _: int, rollout: Rollout) -> None:
    if rollout.end:
        metrics.count_rollout(rollout.profile, rollout.plugin, rollout.end)


def _access(file: Path, server: ServerConfig) -> TokenAccess:
    """Raises ConfigError."""
    try:
        return TokenAccess(server.admin_tokens and file.absolute().parent / server.admin_tokens)
    except TokensError as error:
        raise ConfigError(file, [f"server.adminTokens: {problem}" for problem in error.problems]) from error


def _follow_tokens(access: TokenAccess, health: Health, background: Background) -> None:
    health.add(Check("tokens", warning=access.warning))
    background.spawn(access.follow, "tokens")


def _namespace() -> str:
    """Where the objects of the manifests are."""
    try:
        return pod_namespace()
    except AccessError:
        return NAMESPACE


def _problems(*, vital: bool) -> str | None:
    return "; ".join(supervision.problems(vital=vital)) or None


_THREADS: Final = Check("threads", partial(_problems, vital=True), partial(_problems, vital=False))


def _report_maintenance(plugin: Plugin, error: Exception) -> None:
    if isinstance(error, GuestError):
        failure = PluginFailedError(plugin, error)
        logger.error("a guest failed between requests and is replaced: %s", failure, extra=failure.fields)
    else:
        logger.error("the nodes could not be told to a guest", exc_info=error, extra={"plugin": plugin.name})


class _Server(uvicorn.Server):
    """Ends the waits on Permit when it is to end: their pods go back to the queue, and nobody waits for them.

    The main thread is the one that cannot end before the process, so it looks after the others.
    """

    def __init__(self, config: uvicorn.Config, waiting: WaitingPods) -> None:
        super().__init__(config)
        self._waiting = waiting

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS_PER_CHECK == 0:
            supervision.revive()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._waiting.close()
        await super().shutdown(sockets)


def _raise_descriptors() -> None:
    """Lets the process open as many files and connections as it may ever."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # Some systems take less than they say.
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _bound_arenas() -> None:
    """Has the threads that begin from now on share the heaps of malloc. Other C libraries have no such number."""
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, MAX_ARENAS)


def _max_connections(wanted: int, share: float) -> int:
    """The same, or a share of the descriptors that are left beside our own."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, int(share * max(descriptors - OWN_DESCRIPTORS, descriptors / 2)))


def _connect_to(router: Router) -> Callable[..., Connection]:
    """What makes the connections of the verbs."""
    clients = Clients(_max_connections(MAX_CONNECTIONS, VERBS_SHARE), IDLE_TIMEOUT_S, ARRIVAL_TIMEOUT_S)
    return partial(Connection, router, clients, Room(router.max_request_bytes))


def _uvicorn(app: Any, http: Any) -> uvicorn.Config:
    """How uvicorn serves an application, or connections that need none."""
    return uvicorn.Config(
        app,
        http=http,
        ws="none",
        loop="uvloop",
        lifespan="off",
        interface="asgi3",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=round(IDLE_TIMEOUT_S),  # Clients are left before.
        timeout_graceful_shutdown=10,
    )


async def _admin(app: Any, listener: socket.socket) -> None:
    own = listener.dup()  # The server closes it; another one may have to go on with the listener.
    most = _max_connections(MAX_ADMIN_CONNECTIONS, ADMIN_SHARE)
    clients = Clients(most, ADMIN_IDLE_TIMEOUT_S, ADMIN_ARRIVAL_TIMEOUT_S)
    server = uvicorn.Server(_uvicorn(app, partial(AdminConnection, clients)))
    server.servers = []
    try:
        await server.serve(sockets=[own])
    finally:
        for each in server.servers:
            each.close()


def _leave(*_: object) -> None:
    """Ends the process: uvicorn finishes what is in flight before it passes the signal on to this handler."""
    raise SystemExit(0)


def _listen(file: Path, key: str, address: Address) -> socket.socket:
    try:
        listener = socket.create_server(tuple(address), family=_family(address), backlog=2048)
    except OSError as error:
        reason, _, _ = str(error.strerror).partition(" (while attempting")  # create_server names the address again.
        raise ConfigError(file, [f"{key}: cannot listen on {address}: {reason}"]) from error
    # Connections inherit these. asyncio sets the first only where a socket's protocol is given by number.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "linux":
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_TIMEOUT_MS)
    return listener


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address.host else socket.AF_INET


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{Address(host, port)}"


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


def _check(name: str, cache: Reflector[Any], needs_sync: bool) -> Check:
    """A cache is ready when it may be answered from, even if it is outdated: without us nothing is scheduled at all.

    Without `needs_sync` requests are answered whatever there is in it.
    """
    if needs_sync:
        return Check(name, lambda: cache.unusable, lambda: cache.problem)
    return Check(name, warning=lambda: cache.unusable or cache.problem)
