"""What the commands say, and with which status they end; nothing is measured."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from bench import cli
from bench.controlplane.gobuild import BuildError
from bench.controlplane.process import ControlPlaneError, isolated_environment
from bench.errors import BenchError
from bench.plugin import command as plugin
from bench.progress import Meter
from bench.report.results import Results
from bench.run import Case, Condition, Run, RunError, Series
from bench.scheduler import command as scheduler
from bench.statistics import Estimate
from tests.bench import runs
from tests.extender.commands.terminal import run_on_terminal

STEADY = [[100.0]] * 6
SLOWER = [[200.0]] * 6
BUSY = Condition(seconds=0, case="500", round=0, load=2, yardstick=100, steal=0, others=2)


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    """The commands say what SIGTERM does."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


Call = Callable[..., Result]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Call:
    """Calls `kwx bench` with these words."""
    monkeypatch.setattr(cli, "which", lambda _: "/usr/bin/kwx")

    def calling(*words: object) -> Result:
        given = [str(word) for word in words]
        monkeypatch.setattr("sys.argv", ["kwx", "bench", *given])
        return CliRunner().invoke(cli.app, given)

    return calling


def ending(error: BaseException, *, begun: bool = True) -> Callable[[object, Path], Run]:
    """Measures something, perhaps, and is ended by this."""

    def measure(_: object, folder: Path) -> NoReturn:
        if begun:
            replace(runs.plugin(rounds=1), ended="").save(folder)
        raise error

    return measure


@pytest.mark.parametrize("level", [plugin, scheduler], ids=["plugin", "scheduler"])
@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        pytest.param(KeyboardInterrupt(), 130, "\nkwx: stopped\n", id="Ctrl-C"),
        pytest.param(BenchError("no answer: try again"), 1, "kwx: no answer: try again\n", id="bench"),
        pytest.param(BuildError("Go fails: install it"), 1, "kwx: Go fails: install it\n", id="build"),
        pytest.param(ControlPlaneError("etcd died:\nfull"), 1, "kwx: etcd died:\nfull\n", id="control plane"),
    ],
)
def test_what_ends_a_run_names_its_folder_and_how_to_go_on(
    level: object,
    error: BaseException,
    status: int,
    words: str,
    call: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(level, "run", ending(error))
    folder = tmp_path / "a run"
    name = "plugin" if level is plugin else "scheduler"
    options = ("--cases", "500,churn") if level is plugin else ("--nodes", "500,1000")
    ended = call(name, "--quick", *options, "--folder", folder)
    assert (ended.exit_code, ended.stdout) == (status, "")
    assert ended.stderr == (
        f"{words}what was measured is in '{folder}'\n"
        f"to go on:    kwx bench {name} --quick {' '.join(options)} --folder '{folder}'\n"
        f"its report:  kwx bench report '{folder}'\n"
    )


@pytest.mark.parametrize(
    ("error", "begun", "status", "words"),
    [
        pytest.param(KeyboardInterrupt(), False, 130, "\nkwx: stopped\n", id="Ctrl-C before the run"),
        pytest.param(BuildError("no Go"), False, 1, "kwx: no Go\n", id="an error before the run"),
        pytest.param(RunError("it is done: choose another"), True, 1, "kwx: it is done: choose another\n", id="done"),
    ],
)
def test_what_cannot_go_on_is_not_said_to(
    error: BaseException,
    begun: bool,
    status: int,
    words: str,
    call: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plugin, "run", ending(error, begun=begun))
    ended = call("plugin", f"--folder={tmp_path}")
    assert (ended.exit_code, ended.output) == (status, words)


def saved(folder: Path, rounds: list[list[float]], conditions: Sequence[Condition] = (), nodes: int = 500) -> Path:
    """A run of kwx beside two controls that never move."""
    series = [
        Series(variant=variant, metric="filter", unit="us", better="lower", rounds=each)
        for variant, each in (("kwx", rounds), ("native", STEADY), ("goextender", STEADY))
    ]
    case = Case(name="500", title="500 nodes", nodes=nodes, rounds=6, series=series)
    replace(runs.plugin(rounds=1), cases=[case], conditions=list(conditions)).save(folder)
    return folder


COUNTS = "Of 1 figures {} are worse and 0 better by 5% or more, {} have not changed by as much, {} are unclear{}."
BUSY_REMARK = (
    "Nothing is told, since the run after is too noisy: 1 of 1 checks between rounds found other programs using up to "
    "100% of the harness's cores: stop them, or run again."
)
ROW = "| 500  | kwx     | filter median | 100 us | 200 us | +0.0%    | +100.0% | +100.0% to +100.0% | worse   |"


@pytest.mark.parametrize(
    ("rounds", "conditions", "status", "told", "complaint"),
    [
        pytest.param(STEADY, [], 0, [COUNTS.format(0, 1, 0, "")], "", id="no change"),
        pytest.param(SLOWER, [], 1, [COUNTS.format(1, 0, 0, ""), ROW], "", id="worse"),
        pytest.param(
            SLOWER,
            [BUSY],
            3,
            [COUNTS.format(0, 0, 1, ": more rounds or a quieter machine may tell"), BUSY_REMARK],
            "kwx: nothing can be told from these runs; above is why, and what may help\n",
            id="too noisy",
        ),
    ],
)
def test_the_status_of_a_comparison(
    rounds: list[list[float]],
    conditions: list[Condition],
    status: int,
    told: list[str],
    complaint: str,
    call: Call,
    tmp_path: Path,
) -> None:
    found = call("compare", saved(tmp_path / "before", STEADY), saved(tmp_path / "after", rounds, conditions))
    lines = [line.strip() for line in found.stdout.splitlines() if line.strip()]
    assert (found.exit_code, found.stderr) == (status, complaint)
    assert [line for line in lines if not line.startswith(("| case", "|---"))] == told


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_comparison_has_whole_rows_on_any_terminal(tmp_path: Path, columns: int) -> None:
    places = saved(tmp_path / "before", STEADY), saved(tmp_path / "after", SLOWER)
    command: list[str | Path] = [sys.executable, "-m", "extender", "bench", "compare", *places]
    shown = run_on_terminal(command, columns, isolated_environment(tmp_path), status=1)
    assert ROW in [line.strip() for line in shown.splitlines()]


def test_a_comparison_as_json_has_the_same_status(call: Call, tmp_path: Path) -> None:
    places = saved(tmp_path / "before", STEADY), saved(tmp_path / "after", SLOWER, [BUSY])
    found = call("compare", *places, "--output", "json")
    document = json.loads(found.stdout)
    assert found.exit_code == 3
    assert [change["verdict"] for change in document["changes"]] == ["unclear"]
    assert [f"{remark[:1].upper()}{remark[1:]}." for remark in document["remarks"]] == [BUSY_REMARK]


def interval(estimate: Estimate) -> dict[str, float] | None:
    """As JSON has it where there may be none."""
    return None if math.isnan(estimate.low) else estimate._asdict()


def test_a_run_as_json_has_its_figures(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = runs.plugin(rounds=6)
    monkeypatch.setattr(plugin, "run", lambda _options, _folder: run)
    ended = call("plugin", "--output", "json", "--folder", tmp_path)
    document = json.loads(ended.stdout)
    assert ended.exit_code == 0
    figures = document.pop("figures")
    assert document == json.loads(msgspec.json.encode(run))
    found = Results(run)
    case = run.cases[0]
    told = next(each for each in figures if (each["case"], each["variant"]) == (case.name, "kwx"))
    expected = found.of(case, "kwx", told["metric"])
    assert expected
    comparisons = [
        {"variant": each.base.name, "quantile": q, "ratio": interval(each.ratio), "verdict": each.verdict}
        for q in (0.5, 0.99)
        for each in found.beside(case, "kwx", told["metric"], q)
    ]
    assert told["beside"] == comparisons
    assert [each["variant"] for each in comparisons] == ["native", "goextender"] * 2
    assert {each["ratio"] is None for each in comparisons} == {True, False}
    assert told["p50"] == interval(expected.p50)
    assert told | {"p50": 0, "p90": 0, "p99": 0, "beside": 0} == {
        "case": case.name,
        "nodes": case.nodes,
        "metric": expected.series.metric,
        "variant": "kwx",
        "unit": "ms",
        "better": "lower",
        "rounds": 6,
        "p50": 0,
        "p90": 0,
        "p99": 0,
        "outliers": expected.outliers,
        "beside": 0,
    }


def test_a_figure_of_too_few_rounds_has_no_interval(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "run", lambda _options, _folder: runs.plugin(rounds=2))
    figures = json.loads(call("plugin", "--output", "json", "--folder", tmp_path).stdout)["figures"]
    assert {(each["p50"]["low"], each["p50"]["high"]) for each in figures} == {(None, None)}
    assert {(each["ratio"], each["verdict"]) for figure in figures for each in figure["beside"]} == {(None, "open")}


def test_what_cannot_be_compared_has_a_status_of_its_own(call: Call, tmp_path: Path) -> None:
    found = call("compare", saved(tmp_path / "before", STEADY), saved(tmp_path / "after", STEADY, nodes=501))
    assert (found.exit_code, found.output) == (
        2,
        "kwx: the runs have no case with the same settings in common, but 500 and 500: "
        "give --cases the same names in both\n",
    )


@pytest.mark.parametrize(
    ("done", "seconds", "expected"),
    [
        pytest.param(0, 30, "", id="nothing is done"),
        pytest.param(1, 10, "about 30 s left", id="seconds"),
        pytest.param(1, 60, "about 3 min left", id="minutes"),
        pytest.param(3, 60, "about 20 s left", id="most is done"),
        pytest.param(5, 60, "about 0 s left", id="more than was to do"),
    ],
)
def test_the_time_left(done: int, seconds: float, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four rounds."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    meter = Meter(4)
    now += seconds
    meter.step("500", done)
    assert meter.left() == expected


@pytest.mark.parametrize(
    ("done", "seconds", "expected"),
    [
        pytest.param(0, 5, "about 20 s left", id="nothing is done"),
        pytest.param(1, 5, "about 20 s left", id="it ends before all steps are done"),
        pytest.param(400, 5, "about 1 s left", id="all steps are done before"),
    ],
)
def test_the_time_left_of_what_ends_at_a_time(
    done: int, seconds: float, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    meter = Meter(500, max_seconds=25.0)
    now = seconds
    meter.step("recording", done)
    assert meter.left() == expected


WITHOUT_THE_EXTRA = """
import sys
sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(",")))
from extender.commands.cli import main
main()
"""
"""Calls `kwx` where some libraries are not installed, as the import system takes it."""


def without_the_extra(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_THE_EXTRA, ",".join(cli.EXTRA), "bench", *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


COMMANDS = {"plugin": [], "scheduler": [], "gangs": [], "compare": ["before", "after"], "report": ["run"]}
"""Those that need the extra, with what they must be given."""


@pytest.mark.parametrize("words", [[], *([name] for name in [*COMMANDS, "schema"])])
def test_help_needs_no_extra(words: Sequence[str]) -> None:
    ended = without_the_extra(*words, "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert " ".join(["Usage: kwx bench", *words]) in ended.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_needs_the_extra_says_so(name: str) -> None:
    ended = without_the_extra(name, *COMMANDS[name])
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "kwx: matplotlib, numpy, psutil, scipy not found: install the extra bench, in a checkout by"
        " pip install '.[bench]'\n"
    )


def test_a_command_that_needs_no_extra_does_without() -> None:
    ended = without_the_extra("schema")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["$ref"] == "#/$defs/Run"
