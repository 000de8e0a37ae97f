"""The runner, with small suites that fail, hang, die and skip."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from bench.controlplane.process import leashed
from tests.patience import PATIENCE_S, wait_until
from tests.suite import steps
from tests.suite.run import run, summary
from tests.suite.steps import Command, Outcome, Step, Suite

IMPATIENT = """
from tests.suite import timeouts
timeouts.AGAIN_S, timeouts.LAST_S, timeouts.EXIT_TIMEOUT_S = 0.5, 3.0, 3.0
"""


PLUGINS: Final = ("-p", "no:cacheprovider", "-p", "pytest_timeout")
"""Plugins: of those that are installed the one that the runner needs."""


@pytest.fixture(autouse=True)
def _no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take most of a run so small."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def outcome_of(folder: Path, *lines: str) -> Outcome:
    """What comes of a suite with these lines in its one file; how long it took aside."""
    (folder / "conftest.py").write_text(IMPATIENT)
    (folder / "test_it.py").write_text("\n".join(["import os, pytest, signal, threading, time", *lines]))
    came = Suite("suite", [str(folder), f"--rootdir={folder}", *PLUGINS, "--override-ini", "timeout=2"]).run()
    return Outcome(came.name, came.colour, came.says, 0, came.failed, came.skipped)


def test_tests_that_pass_fail_and_are_skipped_are_counted(tmp_path: Path) -> None:
    came = outcome_of(
        tmp_path,
        "def test_good(): pass",
        "def test_bad(): assert 1 == 2",
        "def test_left_out(): pytest.skip('there is no foo: apt-get install foo')",
        "def test_good_too(): pass",
    )
    failed = ("test_it.py::test_bad: assert 1 == 2",)
    skipped = Counter(["there is no foo: apt-get install foo"])
    assert came == Outcome("suite", "red", "2 passed, 1 failed, 1 skipped", 0, failed, skipped)


HANGS = {
    "in a join": "waits = threading.Thread(target=threading.Event().wait, daemon=True); waits.start(); waits.join()",
    "in a lock": "lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "for a child": "import subprocess; subprocess.run(['sleep', '60'])",
    "asleep": "time.sleep(60)",
}


@pytest.mark.parametrize("hang", HANGS.values(), ids=list(HANGS))
def test_one_that_hangs_is_one_red_test(hang: str, tmp_path: Path) -> None:
    came = outcome_of(tmp_path, "def test_hangs():", f"    {hang}", "def test_next(): pass")
    failed = ("test_it.py::test_hangs: Failed: the test is not over after 2 s",)
    assert came == Outcome("suite", "red", "1 passed, 1 failed, 0 skipped", 0, failed)


def test_one_that_hangs_is_one_red_test_though_it_takes_long_to_show_it(tmp_path: Path) -> None:
    """On a busy machine the alarm rings again meanwhile."""
    came = outcome_of(
        tmp_path,
        "def test_hangs(request):",
        "    request.config.pluginmanager.register(Slow())",
        "    time.sleep(60)",
        "class Slow:",
        "    def pytest_exception_interact(self): time.sleep(1.2)",
        "    def pytest_runtest_logreport(self): time.sleep(1.2)",
    )
    failed = ("test_it.py::test_hangs: Failed: the test is not over after 2 s",)
    assert came == Outcome("suite", "red", "0 passed, 1 failed, 0 skipped", 0, failed)


def test_one_that_hangs_tells_where_all_of_its_threads_are(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    outcome_of(
        tmp_path,
        "def waits_for_ever(): threading.Event().wait()",
        "def test_hangs():",
        "    threading.Thread(target=waits_for_ever, name='the-waiting', daemon=True).start()",
        "    threading.Event().wait()",
    )
    shown = capfd.readouterr().out
    assert re.search(r"Captured threads call.*the-waiting:.*in waits_for_ever", shown, re.DOTALL), shown


def test_one_that_hangs_where_it_is_taken_down_is_one_red_test(tmp_path: Path) -> None:
    came = outcome_of(
        tmp_path,
        "@pytest.fixture",
        "def stuck():",
        "    yield",
        "    threading.Event().wait()",
        "def test_hangs(stuck): assert 1 == 2",
        "def test_next(): pass",
    )
    failed = ("test_it.py::test_hangs: assert 1 == 2",)
    assert came == Outcome("suite", "red", "1 passed, 1 failed, 0 skipped", 0, failed)


DEATHS = {
    "it exits": "os._exit(3)",
    "it is killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "no signal reaches it": "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM]); time.sleep(60)",
}


@pytest.mark.parametrize("death", DEATHS.values(), ids=list(DEATHS))
def test_one_that_ends_the_run_is_red_and_the_next_ones_run(
    death: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    came = outcome_of(
        tmp_path,
        "def test_bad(): assert 1 == 2",
        "def test_dies():",
        f"    {death}",
        "def test_next(): pass",
    )
    failed = (
        "test_it.py::test_bad: assert 1 == 2",
        "test_it.py::test_dies: the run died in it; its last words are above",
    )
    assert came == Outcome("suite", "red", "1 passed, 2 failed, 0 skipped", 0, failed)
    assert "def test_bad(): assert 1 == 2" in capfd.readouterr().out, "what was wrong with it is told all the same"


def test_the_last_one_may_end_the_run(tmp_path: Path) -> None:
    came = outcome_of(tmp_path, "def test_dies(): os._exit(0)")
    failed = ("test_it.py::test_dies: the run died in it; its last words are above",)
    assert came == Outcome("suite", "red", "0 passed, 1 failed, 0 skipped", 0, failed)


def test_one_that_takes_long_is_told_of_meanwhile(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "PROGRESS_INTERVAL_S", 0.1)
    came = outcome_of(tmp_path, "def test_slow(): time.sleep(1)")
    assert came == Outcome("suite", "green", "1 passed, 0 failed, 0 skipped")
    assert re.search(r"^test_it.py::test_slow has been running for \d s$", capfd.readouterr().out, re.MULTILINE)


def test_a_thread_that_is_left_does_not_hold_the_run(tmp_path: Path) -> None:
    came = outcome_of(tmp_path, "def test_leaves(): threading.Thread(target=threading.Event().wait).start()")
    failed = ("suite: every test was over, but its process did not end by itself; where it hung is above",)
    assert came == Outcome("suite", "red", "1 passed, 0 failed, 0 skipped", 0, failed)


WITHOUT_TESTS = {
    "no test was found": "",
    "pytest ended with status 2": "import nothing_of_that_name",
}


@pytest.mark.parametrize(("trouble", "line"), WITHOUT_TESTS.items())
def test_a_suite_without_tests_is_red(trouble: str, line: str, tmp_path: Path) -> None:
    came = outcome_of(tmp_path, line)
    assert came.colour == "red"
    assert came.failed[-1].startswith(("suite: " + trouble, "test_it.py: "))


FILES = {
    "test_passes.py": ["def test_first(): ran()", "def test_second(): ran()"],
    "test_fails.py": ["def test_first(): ran(); assert 1 == 2", "def test_second(): ran()"],
    "test_dies.py": ["def test_first(): ran()", "def test_second(): ran(); os._exit(3)", "def test_third(): ran()"],
    "test_is_left_out.py": ["pytest.skip('there is no foo: apt-get install foo', allow_module_level=True)"],
}
RAN = """
import os, pytest
def ran():
    with open("ran", "a") as file: file.write(f"{os.environ['PYTEST_CURRENT_TEST'].split()[0]} {os.getpid()}\\n")
"""


def in_lanes(folder: Path, files: dict[str, list[str]], lanes: int) -> Suite:
    for name, lines in files.items():
        (folder / name).write_text(RAN.replace('ran"', f'{folder}/ran"') + "\n".join(lines))
    return Suite("suite", [str(folder), f"--rootdir={folder}", *PLUGINS], lanes=lanes)


@pytest.mark.parametrize("lanes", [2, 8])
def test_lanes_run_each_test_once_and_a_file_goes_to_one_of_them(
    lanes: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    came = in_lanes(tmp_path, FILES, lanes).run()
    assert (came.colour, came.says, sorted(came.failed), came.skipped) == (
        "red",
        "5 passed, 2 failed, 1 skipped",
        [
            "test_dies.py::test_second: the run died in it; its last words are above",
            "test_fails.py::test_first: assert 1 == 2",
        ],
        Counter(["there is no foo: apt-get install foo"]),
    )
    tests, processes = zip(*(line.split() for line in (tmp_path / "ran").read_text().splitlines()), strict=True)
    assert sorted(tests) == sorted(
        f"{name}::{line[4:].partition('(')[0]}" for name, lines in FILES.items() for line in lines if "def " in line
    )
    whose = {test: process for test, process in zip(tests, processes, strict=True) if "dies" not in test}
    assert len(set(whose.items())) == len(whose)
    assert whose["test_passes.py::test_first"] == whose["test_passes.py::test_second"]
    told = capfd.readouterr().out
    assert re.search(r"^test_passes.py: 2 passed in \d s$", told, re.MULTILINE), told
    assert re.search(r"^test_fails.py: 1 failed, 1 passed in \d s$", told, re.MULTILINE), told
    assert "\ntest_fails.py::test_first\n" in told
    assert "def test_first(): ran(); assert 1 == 2" in told


def test_a_lane_begins_with_the_folders_of_long_files(tmp_path: Path) -> None:
    files = ("tests/e2e/test_c.py", "tests/extender/test_a.py", "tests/sdk_guest/test_b.py")
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text("def test_it(): pass")
    alone = [*steps.PLUGINS, "--lane=0/1", f"--journal={tmp_path}/journal"]
    pytest = [sys.executable, "-m", "pytest", *PLUGINS, *alone, f"--rootdir={tmp_path}", str(tmp_path)]
    done = subprocess.run(pytest, cwd=steps.ROOT, check=False, capture_output=True, text=True, timeout=PATIENCE_S)
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == [files[0], files[2], files[1]]


def test_what_no_lane_can_collect_is_told_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    came = in_lanes(tmp_path, {"test_it.py": ["import nothing_of_that_name"]}, 2).run()
    assert (came.colour, came.says) == ("red", "0 passed, 1 failed, 0 skipped")
    assert capfd.readouterr().out.count("No module named 'nothing_of_that_name'") == 1


def test_lanes_without_tests_are_red_once(tmp_path: Path) -> None:
    assert in_lanes(tmp_path, {}, 2).run().failed == ("suite: no test was found",)


INTERRUPTED = """
import sys
from tests.suite.run import run
from tests.suite.steps import Suite

run("make it", [Suite("suite", sys.argv[1:], lanes=2)])
"""


HANGS_FOR_GOOD = """
import os, pathlib, threading
def test_hangs():
    file = pathlib.Path("{0}.new")
    file.write_text(str(os.getpid()))
    file.rename("{0}")
    threading.Event().wait()
def test_next(): pass
"""


def test_ctrl_c_ends_all_lanes_and_what_was_done_is_told(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"test_{number}.py").write_text(HANGS_FOR_GOOD.format(tmp_path / f"{number}.pid"))
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path), f"--rootdir={tmp_path}", *PLUGINS]
    with subprocess.Popen(leashed(command), cwd=steps.ROOT, stdout=subprocess.PIPE, text=True) as running:
        wait_until(lambda: len(list(tmp_path.glob("*.pid"))) == 2, "both lanes are in a test")
        running.send_signal(signal.SIGINT)
        told, _ = running.communicate(timeout=PATIENCE_S)
    assert running.returncode != 0
    assert told.count(" make it ") == 1, "the block at the end"
    assert not any(Path("/proc", file.read_text()).exists() for file in tmp_path.glob("*.pid"))


def test_an_interpreter_that_is_not_there_leaves_its_tests_out() -> None:
    came = Suite("other", [], lambda: None, "no CPython 3.10: get one").run()
    assert came == Outcome("other", "left out", "no CPython 3.10: get one")


def test_a_command_that_takes_too_long_is_ended() -> None:
    came = Command("build", [sys.executable, "-c", "import time; time.sleep(60)"], 0.5).run()
    assert (came.colour, came.says) == ("red", "was not over after 0.5 s")


def test_all_steps_run_and_one_block_tells_of_them(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_it.py").write_text("def test_good(): pass")
    steps: list[Step] = [
        Command("build", [sys.executable, "-c", "raise SystemExit(3)"], 60),
        Suite("suite", [str(tmp_path), *PLUGINS]),
    ]
    assert run("make it", steps) == 1
    told = capfd.readouterr().out.splitlines()
    block = told[max(number for number, line in enumerate(told) if " make it " in line) :]
    assert [re.sub(r" +\d+ s  ", " … ", line) for line in block[1:-1]] == [
        "build  red … ended with status 3",
        "suite  green … 1 passed, 0 failed, 0 skipped",
    ]
    assert run("make it", [Command("build", [sys.executable, "-c", ""], 60)]) == 0


def test_the_block_says_what_failed_and_what_was_skipped() -> None:
    first = Outcome("tests", "red", "7 passed, 1 failed, 3 skipped", 847.4, ("a.py::test: no",), Counter(x=1, y=2))
    second = Outcome("wasmer", "left out", "no CPython 3.10: get one", 0, (), Counter(y=1))
    assert list(summary("make test", [first, second])) == [
        "============================================ make test =============================================",
        "tests   red         14 min 7 s  7 passed, 1 failed, 3 skipped",
        "wasmer  left out           0 s  no CPython 3.10: get one",
        "Failed:",
        "  a.py::test: no",
        "Skipped, and why:",
        "  3 x y",
        "  1 x x",
        "=" * 100,
    ]
