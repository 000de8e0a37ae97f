"""What is measured at the plugin level: the cases of each preset, as tables."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from bench.run import Preset

Kind = Literal["rounds", "cold", "swaps"]

UPDATES: Final = 200
"""Updates of nodes a second: heartbeats of a cluster of 5,000 nodes, a tenth of which change what is allocatable."""

SWAP_EVERY: Final = 1.0
"""Seconds from one swap to the next."""

WHOLE: Final = ("kwx-whole", "goextender-whole")
"""Variants whose requests carry whole nodes."""

TOP: Final = ("kwx-top1", "goextender-top1", "kwx-top5")
"""Variants whose filter answers the best nodes alone."""


class Effort(NamedTuple):
    """How much time a preset takes.

    Many short rounds rather than few long ones: a machine has slow seconds, which are to slow whole rounds.
    """

    rounds: int
    """A multiple of `workload.PERIOD`: each kind of pod is the first one as often."""
    seconds: float
    """Seconds of a variant in a round."""
    starts: int
    """Rounds of cold starts."""
    most_whole: int
    """The largest number of nodes that requests carry whole: more would take seconds."""


class CaseSpec(NamedTuple):
    """A case to measure."""

    name: str
    title: str
    nodes: int
    plugins: int = 1
    large: bool = False
    """Whether nodes have 40 KB."""
    node_bytes: int = 4_000
    """Bytes of a node, if it is not large."""
    updates: int = 0
    """Updates of nodes a second."""
    kind: Kind = "rounds"

    def rounds(self, effort: Effort) -> int:
        """The number of rounds of the case."""
        return effort.starts if self.kind == "cold" else effort.rounds

    @property
    def weight(self) -> int:
        """Rough duration of a round, relative to other cases."""
        return {"rounds": 3 if self.updates else 1, "swaps": 2, "cold": 10}[self.kind]

    @property
    def settings(self) -> dict[str, int | float | str | bool]:
        """The settings of the case in a run, without the number of nodes."""
        return {
            "plugins": self.plugins,
            "nodeBytes": 40_000 if self.large else self.node_bytes,
            "updatesPerSecond": self.updates,
            "swapsPerMinute": round(60 / SWAP_EVERY) if self.kind == "swaps" else 0,
        }


EFFORTS: Final[dict[Preset, Effort]] = {
    "quick": Effort(rounds=12, seconds=0.12, starts=3, most_whole=500),
    "default": Effort(rounds=24, seconds=0.15, starts=5, most_whole=1_000),
    "full": Effort(rounds=24, seconds=0.18, starts=6, most_whole=5_000),
}


def _nodes(count: int) -> CaseSpec:
    return CaseSpec(str(count), f"{count:,} nodes", count)


CASES: Final = {
    spec.name: spec
    for spec in (
        _nodes(100),
        _nodes(500),
        _nodes(1_000),
        _nodes(5_000),
        _nodes(15_000),
        CaseSpec("plugins-3", "500 nodes, three plugins", 500, plugins=3),
        CaseSpec("large-nodes", "500 nodes of 40 KB", 500, large=True),
        CaseSpec("churn", f"5,000 nodes, {UPDATES} updates a second", 5_000, updates=UPDATES),
        CaseSpec("swaps", "500 nodes, a module swapped each second", 500, kind="swaps"),
        CaseSpec("cold", "500 nodes, starts", 500, kind="cold"),
    )
}

PRESETS: Final[dict[Preset, tuple[str, ...]]] = {
    "quick": ("100", "500", "5000"),
    "default": ("100", "500", "1000", "5000", "churn", "swaps", "cold"),
    "full": tuple(CASES),
}
