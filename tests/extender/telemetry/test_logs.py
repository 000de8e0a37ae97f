from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from bench.controlplane.process import isolated_environment
from tests.patience import PATIENCE_S

BEGINNING: Final = "from extender.telemetry import logs; logs.configure()\n"
IN_THREAD: Final = "import threading; threading.Thread"
"""The process waits for its end."""


def run(code: str, home: Path) -> subprocess.CompletedProcess[bytes]:
    ended = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        timeout=PATIENCE_S,
        env=isolated_environment(home),
    )
    assert ended.stdout == b""
    return ended


def logged(code: str, home: Path) -> tuple[int, list[dict[str, Any]]]:
    """The status of a process that runs the code, and the lines of its log, each of which is JSON."""
    ended = run(BEGINNING + code, home)
    return ended.returncode, [msgspec.json.decode(line) for line in ended.stderr.splitlines()]


@pytest.mark.parametrize(
    ("code", "event", "level", "end"),
    [
        ("import warnings; warnings.warn('beware')", "<string>:2: UserWarning: beware\n", "warning", ""),
        (
            f"{IN_THREAD}(target=lambda: 1 / 0, name='one').start()",
            "one ended for a fault of our own",
            "error",
            "ZeroDivisionError: division by zero",
        ),
        (
            "class A:\n    def __del__(self): 1 / 0\n    def __repr__(self): return 'an A'\nA()",
            "Exception ignored in: <function A.__del__",
            "error",
            "ZeroDivisionError: division by zero",
        ),
    ],
    ids=["warning", "thread", "unraisable"],
)
def test_what_python_prints_by_itself_is_a_line_of_the_log(
    code: str, event: str, level: str, end: str, tmp_path: Path
) -> None:
    status, (line,) = logged(code, tmp_path)
    assert (status, line["event"][: len(event)], line["level"]) == (0, event, level)
    assert line.get("exception", "").endswith(end)


def test_so_is_what_a_library_warns_of_when_it_is_imported(tmp_path: Path) -> None:
    code = """
import sys, warnings

class Finder:
    def find_spec(self, name, *_):
        if name == "uvicorn":
            warnings.warn("beware")

sys.meta_path.insert(0, Finder())
from extender.commands.cli import app
app(["serve", "--config", "none"])
"""
    ended = run(code, tmp_path)
    warned, refused = ended.stderr.decode().splitlines()
    assert msgspec.json.decode(warned)["event"].startswith("<string>:7: UserWarning: beware\n")
    assert (ended.returncode, refused) == (1, "kwx: none: cannot be read: No such file or directory")


def test_so_is_the_error_that_ends_the_process(tmp_path: Path) -> None:
    status, (line,) = logged("1 / 0", tmp_path)
    assert (status, line["event"], line["level"]) == (1, "the process ends for a fault of our own", "critical")
    assert line["exception"].endswith("ZeroDivisionError: division by zero")


def test_a_thread_that_ends_itself_is_no_news(tmp_path: Path) -> None:
    assert logged(f"import sys; {IN_THREAD}(target=sys.exit).start()", tmp_path) == (0, [])
