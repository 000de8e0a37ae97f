"""`kwx bench plugin`: from options to a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench import conditions, session
from bench.plugin import interpreter
from bench.plugin.cases import CASES, EFFORTS, PRESETS, CaseSpec
from bench.plugin.measure import Means, left, measure
from bench.plugin.variants import WAYS, MeasuredModule
from bench.plugin.workload import Recorded
from bench.progress import Meter
from bench.run import Preset, Run, RunError, Variant
from extender.commands.inspect import InspectionReport, inspect
from extender.commands.traffic.recording import Recording

RECORDED: Final = "recorded"
JUDGES: Final = frozenset({"preFilter", "filter", "score"})


class Options(NamedTuple):
    """The options of the command."""

    preset: Preset
    command: str
    module: Path
    has_peers: bool
    """Whether the module is the example whose policy the peers in Go have too."""
    config: str = ""
    args: tuple[str, ...] = ()
    cases: Sequence[str] = ()
    variants: Sequence[str] = ()
    record: Path | None = None
    upstream: Path | None = None
    wasmer: Path | None = None


def listing() -> Iterator[str]:
    """The cases and the variants, a line each."""
    for name, case in CASES.items():
        presets = ", ".join(preset for preset, names in PRESETS.items() if name in names)
        yield f"{name:12}{case.title} ({presets})"
    yield ""
    for name, way in WAYS.items():
        yield f"{name:18}{way.variant.title}"


def run(options: Options, folder: Path) -> Run:
    """Measures, and writes the run and its report into a folder.

    Raises BenchError, BuildError or InspectionError.
    """
    report = _checked(options)
    recording = Recording.read(options.record).playable() if options.record else None
    specs = [_recorded(recording)] if recording else [CASES[name] for name in options.cases or PRESETS[options.preset]]
    variants = [WAYS[name].variant for name in _variants(options)]
    begun = session.begin(
        Run(
            level="plugin",
            command=options.command,
            preset=options.preset,
            begun=session.now(),
            machine=conditions.machine(),
            versions=session.versions(options.upstream) | _of_wasmer(options, variants),
            module=session.named(options.module),
            workload=_workload(recording),
            variants=variants,
        ),
        folder,
    )
    effort = EFFORTS[options.preset]
    means = Means(
        MeasuredModule(
            options.module, options.config, options.args, options.has_peers, scores="score" in report.extension_points
        ),
        [each.name for each in variants],
        effort,
        options.upstream,
        options.wasmer,
        Recorded(recording) if recording else None,
    )
    with Meter(sum(left(begun, spec, effort) * spec.weight for spec in specs)) as meter:
        measure(begun, specs, means, meter, lambda: begun.save(folder))
    if not any(case.series for case in begun.cases):
        reasons = {f"{name}: {why}" for case in begun.cases for name, why in case.left_out.items()}
        raise RunError(f"there is nothing to measure: {'; '.join(sorted(reasons))}")
    return session.finish(begun, folder)


def _of_wasmer(options: Options, variants: Sequence[Variant]) -> dict[str, str]:
    return interpreter.versions(options.wasmer) if WAYS["wasmer"].variant in variants else {}


def _variants(options: Options) -> Sequence[str]:
    chosen = options.variants or list(WAYS)
    return [name for name in WAYS if name in chosen or (name == "upstream" and options.upstream)]


def _checked(options: Options) -> InspectionReport:
    """The inspection of the module. Raises RunError or InspectionError for one that cannot be measured."""
    for kind, given, known in (("case", options.cases, CASES), ("variant", options.variants, WAYS)):
        unknown = [name for name in given if name not in known]
        if unknown:
            raise RunError(f"no {kind} is named {unknown[0]!r}; there are: {', '.join(known)}")
    if options.cases and options.record:
        raise RunError("--cases and --record exclude each other: what is recorded is the case")
    report = inspect(options.module)
    if report.problems:
        raise RunError(f"{options.module.name} cannot be a plugin: {'; '.join(report.problems)}")
    if JUDGES.isdisjoint(report.extension_points):
        raise RunError(f"{options.module.name} serves none of preFilter, filter and score: there is nothing to measure")
    return report


def _recorded(recording: Recording) -> CaseSpec:
    pods = len(recording.cycles)
    nodes = len(recording.nodes)
    size = sum(map(len, recording.nodes.values())) // nodes
    return CaseSpec(RECORDED, f"{pods:,} recorded pods, {nodes:,} nodes", nodes, node_bytes=size)


def _workload(recording: Recording | None) -> str:
    if recording:
        return f"{len(recording.cycles):,} pods of profile {recording.profile}, recorded {recording.begun}"
    return (
        "waiting pods of Deployments that fit onto most nodes, each sixth with the wish for a zone and each twelfth for"
        " an instance type; filter about all nodes, then prioritize about those that passed, one pod after the other"
    )
