"""Metrics of the plugins that are live, read for each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class PluginSample(NamedTuple):
    """The state of a plugin at a scrape."""

    profile: str
    plugin: str
    failures: Mapping[str, int]
    """Calls without an answer, by the kind of failure: all kinds, so that the first failure is an increase."""
    rejected_nodes: int
    revision: str
    """The id of the active revision; empty while none serves."""
    module: str


class PluginCollector(Collector):
    """Has series of the plugins that are configured now alone, so their number is bounded by the configuration."""

    def __init__(self, read: Callable[[], Iterable[PluginSample]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """The metrics of all plugins, as Prometheus reads them."""
        place = ("profile", "plugin")
        failures = CounterMetricFamily(
            "kwx_plugin_failures", "Calls of a plugin without an answer.", labels=(*place, "kind")
        )
        rejected = CounterMetricFamily("kwx_plugin_rejected_nodes", "Nodes that a plugin rejected.", labels=place)
        info = GaugeMetricFamily("kwx_plugin_info", "What serves.", labels=(*place, "revision", "module"))
        for each in self._read():
            for kind, count in each.failures.items():
                failures.add_metric((each.profile, each.plugin, kind), count)
            rejected.add_metric((each.profile, each.plugin), each.rejected_nodes)
            if each.revision:
                info.add_metric((each.profile, each.plugin, each.revision, each.module), 1)
        yield from (failures, rejected, info)
