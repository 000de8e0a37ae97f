"""What will be measured: which schedulers, on how many nodes, under which loads, how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from bench.errors import BenchError
from bench.plugin.variants import WAYS
from bench.run import Case, Preset, Variant
from bench.scheduler import load as made
from bench.scheduler.load import Pod

Shape = Literal["batch", "steady"]
Name = Literal["batch", "steady", "alike"]


def _in_go(name: str, title: str) -> Variant:
    return Variant(name=name, title=title, kind="in-process", wasm=False, ours=False)


VARIANTS: Final[Mapping[str, Variant]] = {
    each.name: each
    for each in (
        _in_go("stock", "kube-scheduler as it is"),
        _in_go("stock-unbatched", "kube-scheduler without batching"),
        WAYS["native"].variant,
        _in_go("native-noscores", "Go plugin, in-process, no in-tree scores"),
        *(way.variant for way in WAYS.values() if way.variant.kind == "extender"),
        WAYS["upstream"].variant,
    )
}
"""The variants by name, in the order of reports."""
FEWEST_NODES: Final = 100
"""All pods of the largest load have room on these, although many prefer the same ones (`load.MEMORY_REQUESTS`)."""
QUICK: Final = ("stock", "native", "kwx-top1", "kwx", "goextender")
MAIN: Final = ("stock", "native", "native-noscores", "kwx-top1", "goextender-top1", "kwx", "goextender")


class PlanError(BenchError):
    """What cannot be measured. `str()` says why, and what could."""


@dataclass(frozen=True, slots=True)
class Load:
    """How pods are created."""

    shape: Shape
    """`batch`: all wait before the scheduler starts. `steady`: they come at a rate while it runs."""
    pods: int
    warm_up: int
    """The first pods that are bound, which do not count: connections, caches and compilers are cold."""
    rate: float = 0.0
    """Pods a second, if they come steadily."""
    rounds: int = 1
    """How often it is measured. Throughputs differ more from round to round than what pods of one rate take."""
    alike: bool = False
    """Whether pods differ by their names alone, and a node has room for one; kube-scheduler may batch them then."""

    @property
    def name(self) -> Name:
        """The name of the load on the command line."""
        return "alike" if self.alike else self.shape

    @property
    def fewest_nodes(self) -> int:
        """The number of nodes that the pods of the load need, whatever they request."""
        return self.pods if self.alike else 1

    def pod(self, at: int) -> Pod:
        """The pod of a number."""
        return made.alike(at) if self.alike else made.pod(at)

    def settings(self) -> dict[str, int | float | str | bool]:
        """The settings of a case with the load."""
        rate = {"podsPerSecond": self.rate} if self.rate else {}
        alike = {"alike": True} if self.alike else {}
        return {"load": self.shape, "pods": self.pods - self.warm_up, "warmUp": self.warm_up, **rate, **alike}

    def title(self) -> str:
        """What people call the load."""
        counted = self.pods - self.warm_up
        if self.alike:
            return f"{counted:,} pods at once that are alike, one a node"
        if self.shape == "batch":
            return f"{counted:,} pods at once"
        return f"{counted:,} pods, {self.rate:g} a second"


class _Preset(NamedTuple):
    nodes: Sequence[int]
    variants: Sequence[str]
    loads: Sequence[Load]
    usual: Sequence[Name] = ("batch", "steady")
    """The loads that are measured if none is asked for."""


LOADS: Final[Sequence[Name]] = ("batch", "steady", "alike")
LEFT_OUT: Final[Mapping[Name, Mapping[str, str]]] = {
    "batch": {"stock-unbatched": "these pods differ, so that none are batched"},
    "steady": {"stock-unbatched": "these pods differ, so that none are batched"},
    "alike": dict.fromkeys(("kwx-whole", "goextender-whole"), "whole nodes are sent about pods that differ alone"),
}
"""Variants that a load tells nothing about, and why."""
_QUICK_LOADS: Final = (
    Load("batch", 500, 100, rounds=3),
    Load("steady", 200, 50, 50, rounds=3),
    Load("batch", 450, 50, rounds=3, alike=True),
)
_LOADS: Final = (
    Load("batch", 1_100, 100, rounds=8),
    Load("steady", 500, 100, 50, rounds=5),
    Load("batch", 900, 100, rounds=8, alike=True),
)
PRESETS: Final[Mapping[Preset, _Preset]] = {
    "quick": _Preset((500,), QUICK, _QUICK_LOADS),
    "default": _Preset((500, 1_000), MAIN, _LOADS),
    "full": _Preset((100, 500, 1_000, 5_000), [name for name in VARIANTS if name != "upstream"], _LOADS, LOADS),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be measured."""

    nodes: Sequence[int]
    variants: Sequence[str]
    """The variants: keys of VARIANTS."""
    loads: Sequence[Load]
    module: Path
    """The module of the variants with WebAssembly."""
    upstream: Path | None = None
    """A checkout of kube-scheduler-wasm-extension."""

    def loads_on(self, nodes: int) -> Sequence[Load]:
        """The loads whose pods have room on a number of nodes."""
        return [each for each in self.loads if nodes >= each.fewest_nodes]

    def case(self, nodes: int, load: Load) -> Case:
        """The case of a load on a number of nodes, in which nothing is measured yet."""
        name, title = f"{nodes}-{load.name}", f"{nodes:,} nodes, {load.title()}"
        left_out = {name: why for name, why in LEFT_OUT[load.name].items() if name in self.variants}
        return Case(
            name=name, title=title, nodes=nodes, settings=load.settings(), rounds=load.rounds, left_out=left_out
        )


def plan(
    preset: Preset,
    module: Path,
    nodes: Sequence[int] = (),
    variants: Sequence[str] = (),
    upstream: Path | None = None,
    loads: Sequence[str] = (),
) -> Plan:
    """A preset's plan, with other numbers of nodes, variants or loads if they are given. Raises PlanError.

    With a checkout of upstream its scheduler is one of the variants; it cannot be one without.
    """
    defaults = PRESETS[preset]
    chosen = [*(variants or defaults.variants)]
    if upstream and "upstream" not in chosen:
        chosen.append("upstream")
    wanted = loads or defaults.usual
    for kind, given, known in (("variant", chosen, VARIANTS), ("load", wanted, LOADS)):
        unknown = [name for name in given if name not in known]
        if unknown:
            raise PlanError(f"no {kind} is named {unknown[0]!r}; there are: {', '.join(known)}")
    if "upstream" in chosen and not upstream:
        raise PlanError("the variant upstream is built of a checkout of kube-scheduler-wasm-extension: give --upstream")
    asked = [each for each in defaults.loads if each.name in wanted]
    fewest = max(FEWEST_NODES, min(each.fewest_nodes for each in asked))
    if any(count < fewest for count in nodes):
        raise PlanError(f"expected at least {fewest} nodes, on which all pods have room, found {min(nodes)}")
    return Plan(
        nodes=sorted({count for count in nodes or defaults.nodes if count >= fewest}),
        variants=[name for name in VARIANTS if name in chosen],
        loads=asked,
        module=module,
        upstream=upstream,
    )
