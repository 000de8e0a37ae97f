"""All metrics, for Prometheus and for the pages of latencies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, PlatformCollector, ProcessCollector

from extender.telemetry.histogram import Durations, Histogram, Series
from extender.telemetry.plugin_collector import PluginCollector, PluginSample
from wasm_runtime.engine import Span


class VerbPhases(NamedTuple):
    """The series of the phases of one verb."""

    decode: Series
    nodes: Series
    judge: Series
    encode: Series


class VerbResults(NamedTuple):
    """The counters of the results of one verb."""

    success: Counter
    unschedulable: Counter
    """No node passed, or no candidate was left."""
    error: Counter


class _GuestSeries(NamedTuple):
    """The series of one plugin's guests."""

    waits: Series
    syncs: Series
    runs: dict[str, Series]
    """Seconds in each export, by its name."""


class Metrics:
    """The metrics of verbs, guests, rollouts, TLS and the caches of the cluster. May be used from any thread.

    The labels are the verbs, the phases, the exports of the ABI, the plugins of the configuration, the resources that
    are watched, the servers, and how lists, watches, rollouts, handshakes and wakes end, so their number is bounded by
    the configuration.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._phases = self._add(Histogram("kwx_verb_phase_seconds", "Parts of a verb.", "verb", "phase"))
        self._waits = self._add(Histogram("kwx_guest_wait_seconds", "Waiting for an instance.", "plugin"))
        self._node_syncs = self._add(
            Histogram("kwx_guest_sync_seconds", "Bringing an instance's nodes up to date.", "plugin")
        )
        self._runs = self._add(Histogram("kwx_guest_seconds", "In a guest and its host functions.", "plugin", "export"))
        self._guests: dict[str, _GuestSeries] = {}
        self._caches: dict[str, tuple[Callable[[], int], Callable[[], float]]] = {}
        self._waiting_pods = self._gauge("kwx_waiting_pods", "Pods that wait on Permit.", "plugin")
        self._reads = self._counter("kwx_cluster_reads", "Lists and watches that ended.", "resource", "verb", "end")
        self._results = self._counter("kwx_verb_results", "How verbs were answered.", "verb", "result")
        self._rollouts = self._counter(
            "kwx_rollouts", "Attempts to bring a revision live that ended.", "profile", "plugin", "end"
        )
        self._handshakes = self._counter("kwx_tls_handshakes", "TLS handshakes that ended.", "server", "end")
        self._certificate_days = self._gauge("kwx_tls_days_left", "Days until a certificate expires.", "server", "file")
        self._certificates_outdated = self._gauge(
            "kwx_tls_outdated", "Whether new certificates cannot be used.", "server"
        )
        self._wakes = self._counter(
            "kwx_wakes", "Writes to the API server that have kube-scheduler try rejected pods again.", "end"
        )

    def expect_rollouts(self, profile: str, plugin: str, ends: Iterable[str]) -> None:
        """Begins the counters of a plugin's rollouts at 0, so that the first failure is an increase."""
        for end in ends:
            self._rollouts.labels(profile, plugin, end)

    def count_rollout(self, profile: str, plugin: str, end: str) -> None:
        """Counts a rollout that ended."""
        self._rollouts.labels(profile, plugin, end).inc()

    def expect_waits(self, plugin: str, count: Callable[[str], float]) -> None:
        """Adds the gauge of pods that wait on Permit of a plugin; `count` is called for each scrape."""
        self._waiting_pods.labels(plugin).set_function(partial(count, plugin))

    def count_list_or_watch(self, resource: str, verb: str, end: str) -> None:
        """Counts a list or a watch (`verb`) of a resource that ended in a way (`end`)."""
        self._reads.labels(resource, verb, end).inc()

    def count_wake(self, end: str) -> None:
        """Counts a write that makes kube-scheduler retry rejected pods, by how the write ended."""
        self._wakes.labels(end).inc()

    def add_plugins(self, read: Callable[[], Iterable[PluginSample]]) -> None:
        """Adds the metrics of the plugins that are live; `read` is called for each scrape."""
        self.registry.register(PluginCollector(read))

    def add_readiness(self, is_ready: Callable[[], bool]) -> None:
        """Adds the gauge of readiness; `is_ready` is called for each scrape."""
        self._gauge("kwx_ready", "Whether verbs can be answered.").set_function(is_ready)

    def results(self, verb: str) -> VerbResults:
        """The counters of the results of a verb."""
        return VerbResults(*[self._results.labels(verb, result) for result in VerbResults._fields])

    def expect_handshakes(self, server: str, ends: Iterable[str]) -> None:
        """Begins the counters of a server's TLS handshakes at 0."""
        for end in ends:
            self._handshakes.labels(server, end)

    def count_handshake(self, server: str, end: str) -> None:
        """Counts a TLS handshake that ended."""
        self._handshakes.labels(server, end).inc()

    def add_certificate_gauges(
        self, server: str, days_left: Mapping[str, Callable[[], float]], is_outdated: Callable[[], float]
    ) -> None:
        """Adds the gauges of a server's certificates; all functions are called for each scrape."""
        for file, read in days_left.items():
            self._certificate_days.labels(server, file).set_function(read)
        self._certificates_outdated.labels(server).set_function(is_outdated)

    def phases(self, verb: str) -> VerbPhases:
        """The series of the phases of a verb."""
        return VerbPhases(*[self._phases.series(verb, phase) for phase in VerbPhases._fields])

    def observe_guest(self, plugin: str, waited: float, spans: Sequence[Span]) -> None:
        """Counts the seconds that a verb waited for a guest of a plugin, and those of each call of the guest."""
        waits, syncs, runs = self._guests.get(plugin) or self._guest(plugin)
        waits.count(waited)
        for export, sync_seconds, run_seconds in spans:
            syncs.count(sync_seconds)
            (runs.get(export) or self._run(plugin, export)).count(run_seconds)

    def _guest(self, plugin: str) -> _GuestSeries:
        series = _GuestSeries(self._waits.series(plugin), self._node_syncs.series(plugin), {})
        return self._guests.setdefault(plugin, series)

    def _run(self, plugin: str, export: str) -> Series:
        series = self._guests[plugin].runs[export] = self._runs.series(plugin, export)
        return series

    def verb_durations(self) -> list[Durations]:
        """The durations of the phases of verbs, by verb and phase."""
        return self._phases.durations()

    def guest_durations(self) -> list[Durations]:
        """The durations of guests' calls, by plugin and export."""
        return self._runs.durations()

    def caches(self) -> Mapping[str, tuple[float, float]]:
        """How many objects each cache holds, and for how many seconds they may be outdated, by resource."""
        return {resource: (size(), outdated()) for resource, (size, outdated) in self._caches.items()}

    def add_cache_gauges(self, resource: str, size: Callable[[], int], outdated: Callable[[], float]) -> None:
        """Adds the gauges of a resource's cache: its objects, and for how many seconds they may be outdated."""
        self._caches[resource] = size, outdated
        gauges: dict[str, tuple[str, Callable[[], float]]] = {
            f"kwx_{resource}": (f"The cluster's {resource} that are known.", size),
            f"kwx_{resource}_outdated_seconds": (f"For how long the {resource} may be outdated.", outdated),
        }
        for name, (help_text, read) in gauges.items():
            self._gauge(name, help_text).set_function(read)

    def add_ledger_gauge(self, states: Iterable[str], count: Callable[[str], float]) -> None:
        """Adds the gauge of pods in each state of the ledger; `count` is called for each scrape."""
        gauge = self._gauge("kwx_ledger_pods", "Pods that are on nodes, or expected there.", "state")
        for state in states:
            gauge.labels(state).set_function(partial(count, state))

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(name, help_text, labels, registry=self.registry)

    def _gauge(self, name: str, help_text: str, *labels: str) -> Gauge:
        return Gauge(name, help_text, labels, registry=self.registry)

    def _add(self, histogram: Histogram) -> Histogram:
        self.registry.register(histogram)
        return histogram
