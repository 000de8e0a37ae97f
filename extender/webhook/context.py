"""What the handlers of a process share."""

from __future__ import annotations

from typing import NamedTuple

from extender.cluster import Recorder
from extender.scheduling.cycle_pins import CyclePins
from extender.scheduling.decisions import NO_DECISIONS, Decisions
from extender.scheduling.evictions import Evictions
from extender.scheduling.feasible_nodes import FeasibleNodes
from extender.scheduling.ledger import Ledger
from extender.scheduling.live_profiles import LiveProfiles
from extender.scheduling.node_source import NodeSource
from extender.scheduling.pod_source import PodSource
from extender.scheduling.request_samples import RequestSamples
from extender.scheduling.top_nodes import TopNodes
from extender.telemetry.metrics import Metrics
from extender.webhook.overload import Overload


class Context(NamedTuple):
    """What the handlers of a process share."""

    profiles: LiveProfiles
    nodes: NodeSource
    pods: PodSource
    metrics: Metrics
    pins: CyclePins
    samples: RequestSamples
    feasible: FeasibleNodes
    top_nodes: TopNodes
    overload: Overload
    recorder: Recorder | None = None
    """Gets an Event for each failure that a verb's answer has no words for."""
    ledger: Ledger | None = None
    """None without a cluster."""
    evictions: Evictions | None = None
    """None without a cluster."""
    decisions: Decisions = NO_DECISIONS
