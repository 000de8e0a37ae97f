"""`kwx bench`: what the extender costs, measured on this machine beside in-process plugins and an extender in Go."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from types import FrameType
from typing import Annotated, Final, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.markdown import Markdown

from bench.controlplane.gobuild import BuildError
from bench.controlplane.process import ControlPlaneError
from bench.errors import BenchError
from bench.run import FILE, Preset, Run, RunError
from bench.schema import schema
from extender.commands.inspect import InspectionError
from extender.commands.lazy_group import HELP
from extender.commands.output import View, ViewOption, fail, write_json
from extender.commands.traffic.recording import RecordingError

T = TypeVar("T")

EXTRA: Final = ("matplotlib", "numpy", "psutil", "scipy")
"""The libraries of the extra bench."""
GANG: Final = Path(str(files("extender") / "policies" / "gang.wasm"))
HEADROOM: Final = Path("sdk-guest", "rust", "modules", "headroom.wasm")
REPORT_WIDTH: Final = 80
"""Columns in which the tables of a report lose no word. What a narrower terminal wraps is all there."""
MAX_WIDTH: Final = 10_000
"""Columns of a comparison, whose rows are never wrapped."""
NOT_COMPARABLE: Final = 2
UNCLEAR: Final = 3
FAILURES: Final = (BenchError, BuildError, ControlPlaneError, InspectionError, RecordingError)
STOPPED: Final = 130
"""The exit status of what Ctrl-C has ended."""

app = typer.Typer(
    name="bench",
    help="Measure what the extender costs, beside in-process plugins and an extender in Go.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=HELP,
)

Quick = Annotated[bool, typer.Option("--quick", help="Less of it: four minutes at most, once all is built.")]
Full = Annotated[bool, typer.Option("--full", help="All cases and variants, and more rounds.")]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        metavar="DIR",
        help="Where the results go. An unfinished run of the same command in it is gone on with.",
        show_default="kwx-bench/LEVEL-TIME",
    ),
]
Upstream = Annotated[
    Path | None,
    typer.Option(metavar="CHECKOUT", help="Measure kube-scheduler-wasm-extension of this checkout as well."),
]
Variants = Annotated[
    str | None,
    typer.Option(
        "--variants", metavar="NAMES", help="Only these, as in native,kwx-top1,kwx; `plugin --cases list` tells all."
    ),
]
RunPlace = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder or its run.json.", show_default=False)]


@app.callback()
def _ready() -> None:
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(_: int, __: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _require_extra() -> None:
    """Ends the command with status 1 if the libraries of the extra bench are missing."""
    missing = [name for name in EXTRA if find_spec(name) is None]
    if missing:
        fail(f"{', '.join(missing)} not found: install the extra bench, in a checkout by pip install '.[bench]'")


@app.command("plugin")
def bench_plugin(
    quick: Quick = False,
    full: Full = False,
    module: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Measure this module, not the example headroom.")
    ] = None,
    guest_config: Annotated[str, typer.Option(metavar="TEXT", help="What the guest is configured with.")] = "",
    args: Annotated[
        list[str] | None, typer.Option("--arg", metavar="TEXT", help="One of the guest's arguments, its name first.")
    ] = None,
    cases: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Only these, as in 500,5000,churn; `list` tells all.")
    ] = None,
    variants: Variants = None,
    record: Annotated[Path | None, typer.Option(metavar="FILE", help="Play what `kwx record` has recorded.")] = None,
    upstream: Upstream = None,
    wasmer: Annotated[
        Path | None,
        typer.Option(metavar="PYTHON", help="A Python 3.10 that has the extra wasmer of kube-wasm-extender."),
    ] = None,
    folder: Folder = None,
    output: ViewOption = View.TABLE,
) -> None:
    """A plugin's verbs: in-process and over HTTP, ours and in Go, and what their time is made of (needs Go)."""
    _require_extra()
    from bench.plugin import command as plugin  # noqa: PLC0415 - what it needs takes a second to import

    if cases == "list":
        for line in plugin.listing():
            typer.echo(line)
        return
    options = plugin.Options(
        preset=_preset(quick, full),
        command=_command(),
        module=(module or _headroom()).absolute(),
        has_peers=module is None,
        config=guest_config,
        args=tuple(args or ()),
        cases=_names(cases),
        variants=_names(variants),
        record=record,
        upstream=upstream,
        wasmer=wasmer,
    )
    _run("plugin", folder, output, lambda place: plugin.run(options, place))


@app.command("scheduler")
def bench_scheduler(
    quick: Quick = False,
    full: Full = False,
    nodes: Annotated[str | None, typer.Option(metavar="NUMBERS", help="As in 500,1000.")] = None,
    loads: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Only these of batch,steady,alike; alike needs 900 nodes.")
    ] = None,
    variants: Variants = None,
    upstream: Upstream = None,
    folder: Folder = None,
    output: ViewOption = View.TABLE,
) -> None:
    """A real control plane's throughput and latency with each kind of scheduler (needs Go)."""
    _require_extra()
    from bench.scheduler import command as scheduler  # noqa: PLC0415 - as above

    options = scheduler.Options(
        preset=_preset(quick, full),
        command=_command(),
        module=_headroom().absolute(),
        nodes=_numbers(nodes),
        variants=_names(variants),
        upstream=upstream,
        loads=_names(loads),
    )
    _run("scheduler", folder, output, lambda place: scheduler.run(options, place))


@app.command("gangs")
def bench_gangs(
    quick: Quick = False,
    full: Full = False,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Measure this module, not the policy gang.")
    ] = None,
    variants: Variants = None,
    folder: Folder = None,
    output: ViewOption = View.TABLE,
) -> None:
    """How long gangs of 8, 64 and 256 take: with ours, with coscheduling, with kube-scheduler's own (needs Go)."""
    _require_extra()
    from bench.gangs import command as gangs  # noqa: PLC0415 - as above

    options = gangs.Options(
        preset=_preset(quick, full),
        command=_command(),
        policy=(policy or GANG).absolute(),
        variants=_names(variants),
    )
    _run("gangs", folder, output, lambda place: gangs.run(options, place))


def _preset(quick: bool, full: bool) -> Preset:
    if quick and full:
        raise typer.BadParameter("--quick and --full exclude each other")
    return "quick" if quick else "full" if full else "default"


def _names(given: str | None) -> Sequence[str]:
    names = (name.strip() for name in (given or "").split(","))
    return list(dict.fromkeys(filter(None, names)))


def _numbers(given: str | None) -> Sequence[int]:
    try:
        return [int(each) for each in _names(given)]
    except ValueError:
        raise typer.BadParameter(f"expected numbers of nodes as in 500,1000, found {given!r}") from None


def _program() -> str:
    """How the user has called this program, for messages."""
    return "kwx" if which("kwx") else shlex.join([sys.executable, "-m", "extender"])


def _command(program: str = "kwx") -> str:
    """The command line that was typed, without the options that say where results go."""
    words = ["bench", *sys.argv[1 + (sys.argv[1:2] == ["bench"]) :]]
    if "--folder" in words:
        at = words.index("--folder")
        del words[at : at + 2]
    return f"{program} {shlex.join(word for word in words if not word.startswith('--folder='))}"


def _run(level: str, given: Path | None, output: View, measure: Callable[[Path], Run]) -> None:
    """Measures a level into a folder, and says where the results are."""
    from bench import report  # noqa: PLC0415 - plots take a second to import

    folder = given or Path("kwx-bench", f"{level}-{datetime.now().astimezone():%Y%m%d-%H%M%S}")
    try:
        run = measure(folder)
    except KeyboardInterrupt:
        typer.echo("\n".join(("\nkwx: stopped", *_going_on(folder))), err=True)
        raise typer.Exit(STOPPED) from None
    except RunError as error:  # The same command would not go on.
        fail(str(error))
    except FAILURES as error:
        fail("\n".join((str(error), *_going_on(folder))))
    if output is View.JSON:
        write_json(report.as_json(run))
    else:
        text = report.markdown(run)
        console = Console()
        if console.is_terminal:
            Console(width=max(console.width, REPORT_WIDTH)).print(Markdown(text))
        else:
            typer.echo(text)
    typer.echo(f"{folder / 'report.html'} has the plots", err=True)


def _going_on(folder: Path) -> Iterator[str]:
    """Lines that say where an interrupted run is, and what to type to go on with it; none if it has not begun."""
    if (folder / FILE).exists():
        place = shlex.quote(str(folder))
        yield f"what was measured is in {place}"
        yield f"to go on:    {_command(_program())} --folder {place}"
        yield f"its report:  {_program()} bench report {place}"


@app.command("compare")
def bench_compare(
    before: Annotated[
        Path, typer.Argument(metavar="BEFORE", help="A run's folder or its run.json.", show_default=False)
    ],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="Another one's.", show_default=False)],
    threshold: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="The smallest part by which a figure must move to be told.")
    ] = 0.05,
    output: ViewOption = View.TABLE,
) -> None:
    """Tell what has changed from one run to another from noise.

    Status 1 if anything is surely worse, 2 if the runs cannot be compared,
    3 if they tell nothing: one is too noisy, has too few rounds, or no control.
    """
    _require_extra()
    from bench import compare  # noqa: PLC0415 - as above

    try:
        found = compare.compare(Run.load(before), Run.load(after), threshold)
    except BenchError as error:
        typer.echo(f"kwx: {error}", err=True)
        raise typer.Exit(NOT_COMPARABLE) from None
    if output is View.JSON:
        write_json(found)
    else:
        for line in compare.summary(found):
            typer.echo(line)
        shown = compare.table(found)
        if shown.row_count:
            wide = Console(width=MAX_WIDTH)
            Console(width=wide.measure(shown).maximum).print(shown)
    if found.unclear:
        typer.echo("kwx: nothing can be told from these runs; above is why, and what may help", err=True)
        raise typer.Exit(UNCLEAR)
    raise typer.Exit(1 if found.worse else 0)


@app.command("report")
def bench_report(run: RunPlace) -> None:
    """Write the report of a run again, an unfinished one too."""
    _require_extra()
    from bench import report  # noqa: PLC0415 - as above

    for file in _or_fail(lambda: report.write(Run.load(run), run if run.is_dir() else run.parent)):
        typer.echo(file)


@app.command("schema")
def bench_schema() -> None:
    """Print the JSON schema of run.json."""
    sys.stdout.buffer.write(schema() + b"\n")


def _headroom() -> Path:
    """The module headroom, which is measured by default: beside this file in a wheel, else where it is built."""
    here = Path(__file__).parent
    packed = here / HEADROOM.name
    return packed if packed.exists() else here.parent / HEADROOM


def _or_fail(action: Callable[[], T]) -> T:
    try:
        return action()
    except FAILURES as error:
        fail(str(error))


def main() -> None:
    """Runs the commands, as `python -m bench` does."""
    app(prog_name="kwx bench")
