"""`kwx bench scheduler`: from options to a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench import conditions, session
from bench.progress import Meter
from bench.run import Preset, Run
from bench.scheduler.measure import measure, steps
from bench.scheduler.plan import VARIANTS, plan

WORKLOAD: Final = (
    "pods of Deployments that all have room, each sixth with the wish for a zone and each twelfth for an instance type;"
    " a batch waits before the scheduler starts, steady pods come while it runs; pods that are alike have no wish, but"
    " a port of their node each; nodes have no kubelets: nobody renews their leases or runs what is bound to them"
)


class Options(NamedTuple):
    """The options of the command."""

    preset: Preset
    command: str
    module: Path
    nodes: Sequence[int] = ()
    variants: Sequence[str] = ()
    upstream: Path | None = None
    loads: Sequence[str] = ()


def run(options: Options, folder: Path) -> Run:
    """Measures, and writes the run and its report into a folder.

    Raises BenchError, BuildError or ControlPlaneError.
    """
    chosen = plan(options.preset, options.module, options.nodes, options.variants, options.upstream, options.loads)
    begun = session.begin(
        Run(
            level="scheduler",
            command=options.command,
            preset=options.preset,
            begun=session.now(),
            machine=conditions.machine(),
            versions=session.versions(options.upstream),
            module=session.named(options.module),
            workload=WORKLOAD,
            variants=[VARIANTS[name] for name in chosen.variants],
        ),
        folder,
    )
    with Meter(steps(begun, chosen)) as meter:
        measure(begun, chosen, meter, lambda: begun.save(folder))
    return session.finish(begun, folder)
