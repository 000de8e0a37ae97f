"""`kwx bench gangs`: from options to a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench import conditions, session
from bench.controlplane.gobuild import required_version
from bench.errors import BenchError
from bench.gangs.measure import Plan, measure, steps
from bench.gangs.variants import WAYS
from bench.peers import gopeer
from bench.progress import Meter
from bench.run import Preset, Run

WORKLOAD: Final = (
    "one gang after the other, all of whose members are needed and have room; the members are created at once over four"
    " connections; nodes have no kubelets"
)
SIZES: Final = (8, 64, 256)
NODES: Final = 100


class _Preset(NamedTuple):
    rounds: int
    gangs: int


PRESETS: Final[Mapping[Preset, _Preset]] = {
    "quick": _Preset(rounds=5, gangs=1),
    "default": _Preset(rounds=6, gangs=2),
    "full": _Preset(rounds=10, gangs=3),
}


class Options(NamedTuple):
    """The options of the command."""

    preset: Preset
    command: str
    policy: Path
    """The module that decides in the variants with our extender."""
    variants: Sequence[str] = ()


class PlanError(BenchError):
    """What cannot be measured. `str()` says why, and what could."""


def run(options: Options, folder: Path) -> Run:
    """Measures, and writes the run and its report into a folder.

    Raises BenchError, BuildError or ControlPlaneError.
    """
    chosen = plan(options)
    versions = session.versions()
    plugins = required_version(gopeer.COSCHEDULING, gopeer.SCHEDULER_PLUGINS)
    kubernetes = required_version(gopeer.COSCHEDULING, "k8s.io/kubernetes")
    begun = session.begin(
        Run(
            level="gangs",
            command=options.command,
            preset=options.preset,
            begun=session.now(),
            machine=conditions.machine(),
            versions=versions | {"scheduler-plugins": f"{plugins} (Kubernetes {kubernetes})"},
            module=session.named(options.policy),
            workload=WORKLOAD,
            variants=[WAYS[name].variant for name in chosen.variants],
        ),
        folder,
    )
    with Meter(steps(begun, chosen)) as meter:
        measure(begun, chosen, meter, lambda: begun.save(folder))
    return session.finish(begun, folder)


def plan(options: Options) -> Plan:
    """What will be measured, by the options. Raises PlanError."""
    if unknown := set(options.variants) - WAYS.keys():
        raise PlanError(f"no variants: {', '.join(sorted(unknown))}; there are {', '.join(WAYS)}")
    variants = [name for name in WAYS if name in options.variants or not options.variants]
    preset = PRESETS[options.preset]
    return Plan(NODES, SIZES, variants, preset.rounds, preset.gangs, options.policy)
