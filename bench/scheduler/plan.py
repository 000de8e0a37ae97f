"""What will be measured: which schedulers, on how many nodes, under which loads, how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from bench.errors import BenchError
from bench.plugin.variants import WAYS
from bench.run import Case, Preset, Variant

Shape = Literal["batch", "steady"]

VARIANTS: Final[Mapping[str, Variant]] = {
    "stock": Variant(name="stock", title="kube-scheduler as it is", kind="in-process", wasm=False, ours=False),
    **{
        name: WAYS[name].variant
        for name in ("native", "kwx", "goextender", "kwx-whole", "goextender-whole", "upstream")
    },
}
"""In the order of reports."""
FEWEST_NODES: Final = 100
"""All pods of the largest load have room on these, although many prefer the same ones (`load.MEMORY_REQUESTS`)."""
MAIN: Final = ("stock", "native", "kwx", "goextender")


class PlanError(BenchError):
    """What cannot be measured. `str()` says why, and what could."""


@dataclass(frozen=True, slots=True)
class Load:
    """How pods come."""

    shape: Shape
    """`batch`: all wait before the scheduler starts. `steady`: they come at a rate while it runs."""
    pods: int
    warm_up: int
    """The first pods that are bound, which do not count: connections, caches and compilers are cold."""
    rate: float = 0.0
    """Pods a second, if they come steadily."""
    rounds: int = 1
    """How often it is measured. Throughputs differ more from round to round than what pods of one rate take."""

    def settings(self) -> dict[str, int | float | str | bool]:
        """What a case says of it."""
        rate = {"podsPerSecond": self.rate} if self.rate else {}
        return {"load": self.shape, "pods": self.pods - self.warm_up, "warmUp": self.warm_up, **rate}

    def title(self) -> str:
        """For people."""
        counted = self.pods - self.warm_up
        if self.shape == "batch":
            return f"{counted:,} pods at once"
        return f"{counted:,} pods, {self.rate:g} a second"


class _Preset(NamedTuple):
    nodes: Sequence[int]
    variants: Sequence[str]
    loads: Sequence[Load]


_QUICK_LOADS: Final = (Load("batch", 500, 100, rounds=3), Load("steady", 200, 50, 50, rounds=3))
_LOADS: Final = (Load("batch", 1_100, 100, rounds=8), Load("steady", 500, 100, 50, rounds=5))
PRESETS: Final[Mapping[Preset, _Preset]] = {
    "quick": _Preset((500,), MAIN, _QUICK_LOADS),
    "default": _Preset((500, 1_000), MAIN, _LOADS),
    "full": _Preset((100, 500, 1_000, 5_000), [name for name in VARIANTS if name != "upstream"], _LOADS),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be measured."""

    nodes: Sequence[int]
    variants: Sequence[str]
    """Keys of VARIANTS."""
    loads: Sequence[Load]
    module: Path
    """The guest."""
    upstream: Path | None = None
    """A checkout of kube-scheduler-wasm-extension."""

    def case(self, nodes: int, load: Load) -> Case:
        """The case of a load on a number of nodes, in which nothing is measured yet."""
        name, title = f"{nodes}-{load.shape}", f"{nodes:,} nodes, {load.title()}"
        return Case(name=name, title=title, nodes=nodes, settings=load.settings(), rounds=load.rounds)


def plan(
    preset: Preset,
    module: Path,
    nodes: Sequence[int] = (),
    variants: Sequence[str] = (),
    upstream: Path | None = None,
) -> Plan:
    """A preset's plan, with other numbers of nodes or other variants if they are given. Raises PlanError.

    With a checkout of upstream its scheduler is one of the variants; it cannot be one without.
    """
    defaults = PRESETS[preset]
    chosen = [*(variants or defaults.variants)]
    if upstream and "upstream" not in chosen:
        chosen.append("upstream")
    unknown = [name for name in chosen if name not in VARIANTS]
    if unknown:
        raise PlanError(f"no variant is named {unknown[0]!r}; there are: {', '.join(VARIANTS)}")
    if "upstream" in chosen and not upstream:
        raise PlanError("the variant upstream is built of a checkout of kube-scheduler-wasm-extension: give --upstream")
    if any(count < FEWEST_NODES for count in nodes):
        raise PlanError(f"expected at least {FEWEST_NODES} nodes, on which all pods have room, found {min(nodes)}")
    return Plan(
        nodes=sorted(set(nodes or defaults.nodes)),
        variants=[name for name in VARIANTS if name in chosen],
        loads=defaults.loads,
        module=module,
        upstream=upstream,
    )
