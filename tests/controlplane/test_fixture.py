"""Which kube-schedulers a test runs with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.controlplane import NEWEST, OLDEST, SCHEDULERS

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

@pytest.mark.oldest
def test_essential(kube_scheduler): pass

@pytest.mark.newest
def test_new(kube_scheduler): pass

@pytest.mark.parametrize("full_nodes", [False, True])
def test_other(cluster, full_nodes): pass

def test_without(): pass
"""


def collected(folder: Path, *arguments: str) -> list[str]:
    """The tests of TESTS that pytest would run with these arguments."""
    (folder / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.controlplane.fixture", "--collect-only", "-q"]
    answer = subprocess.run(
        [*command, "-o", "markers=newest\noldest", f"--rootdir={folder}", str(folder), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [line.partition("::")[2] for line in answer.stdout.splitlines() if "::" in line]


def test_all_run_with_the_newest_and_those_that_are_marked_with_the_oldest(tmp_path: Path) -> None:
    assert collected(tmp_path) == [
        f"test_essential[{OLDEST}]",
        f"test_essential[{NEWEST}]",
        f"test_new[{NEWEST}]",
        f"test_other[{NEWEST}-False]",
        f"test_other[{NEWEST}-True]",
        "test_without",
    ]


@pytest.mark.parametrize("minor", SCHEDULERS)
def test_a_minor_may_be_asked_for_and_then_no_other_tests_run(minor: str, tmp_path: Path) -> None:
    assert collected(tmp_path, f"--scheduler={minor}") == [
        f"test_essential[{minor}]",
        f"test_new[{minor}]",
        f"test_other[{minor}-False]",
        f"test_other[{minor}-True]",
    ]
