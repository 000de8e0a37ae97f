"""The connection to the cluster: what the extender watches in the background, and what it writes there."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial
from typing import Final

from extender.admin.health import Check, Health
from extender.cluster import (
    GROUP_APIS,
    AccessError,
    ApiServer,
    EventRecorder,
    GroupCache,
    NodeCache,
    PodCache,
    Waker,
    pod_namespace,
    read_pod,
)
from extender.cluster.waker import NAMESPACE
from extender.config import ClusterConfig, FailurePolicy
from extender.scheduling.groups import Groups
from extender.scheduling.ledger import Ledger
from extender.scheduling.ledger_entry import State
from extender.scheduling.node_source import Cache
from extender.scheduling.waiting_pods import WaitingPods
from extender.serve.background import Background
from extender.serve.groups_on_demand import GroupsOnDemand
from extender.serve.pods_on_demand import PodsOnDemand
from extender.telemetry.metrics import Metrics
from wasm_runtime.nodes.node_table import NodeTable

LEDGER_INTERVAL_S: Final = 1.0
"""Seconds between two looks at the ledger for pods that are expected no more."""


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
        self.groups = Groups(nodes.pods, self._regroup)
        self.ledger = Ledger(
            self.groups,
            lambda: self.pods.outdated,
            self.waker.wake,
            on_end=waiting.delete,
            is_member=self.groups.is_member,
            completes=self.groups.completes,
        )
        self.pods = PodsOnDemand(self._make_pod_cache, background, wants_pods, self._watch_over_pods, self._forget_pods)
        self.group_caches = GroupsOnDemand(self.groups, self._make_group_caches, background, self._watch_over_groups)
        self.recorder = EventRecorder(api)
        self.read_pod = partial(read_pod, api)

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

    def _regroup(self) -> None:
        """PodGroups have changed: pods that were rejected may go on by that."""
        self.ledger.regroup()

    def _make_pod_cache(self) -> PodCache:
        self.ledger.is_followed = True
        count = self._metrics.count_list_or_watch
        return PodCache(self._api, count, self.ledger, stale_after=self._stale_after_s)

    def _watch_over_pods(self, cache: PodCache) -> None:
        """Shows the pods in `/readyz`, which does not fail while they are listed: few plugins want pods."""
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
        """Ends the entries of the ledger whose time is over, so that rejected pods are tried again."""
        while True:
            await asyncio.sleep(LEDGER_INTERVAL_S)
            self.ledger.expire()
            self.pods.end_if_unwanted()


def _namespace() -> str:
    """Where the objects of the manifests are."""
    try:
        return pod_namespace()
    except AccessError:
        return NAMESPACE


def _check(name: str, cache: Cache, needs_sync: bool) -> Check:
    """A cache is ready when it may be used, even if it is outdated: an extender that is not ready stops all scheduling.

    Without `needs_sync` it is always ready, since requests are answered by whatever is in it.
    """
    if needs_sync:
        return Check(name, lambda: cache.unusable, lambda: cache.problem)
    return Check(name, warning=lambda: cache.unusable or cache.problem)
