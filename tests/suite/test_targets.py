"""What the targets of the Makefile are made of."""

from __future__ import annotations

import os
import sys

import pytest

from bench.controlplane import NEWEST, OLDEST, SCHEDULERS
from tests.suite.__main__ import BUILD_TIMEOUT_S, FUZZ, steps
from tests.suite.steps import Command, Suite


def control_plane(*minors: str) -> Command:
    return Command("control plane", [sys.executable, "-m", "bench.controlplane", *minors], BUILD_TIMEOUT_S)


def test_compat_runs_the_tests_of_each_minor_and_sums_them_up_by_minor() -> None:
    built, *suites = steps("compat", ["-x"])
    assert built == control_plane(*SCHEDULERS)
    assert suites == [
        Suite(f"kube-scheduler {program.version}", ["tests/e2e", "tests/manifests", f"--scheduler={minor}", "-x"])
        for minor, program in SCHEDULERS.items()
    ]


def test_tests_begin_when_all_schedulers_that_they_need_are_built() -> None:
    for target in ("test", "nightly"):
        built, *_ = steps(target, [])
        assert built == control_plane(OLDEST, NEWEST)


def test_all_tests_run_in_lanes_and_those_that_are_chosen_as_pytest_runs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for processors, lanes in ((None, 1), (1, 1), (2, 3), (64, 4)):
        monkeypatch.setattr(os, "cpu_count", lambda processors=processors: processors)
        assert {step.lanes for step in steps("test", []) if isinstance(step, Suite)} == {lanes}
        assert {step.lanes for step in steps("test", ["-x"]) if isinstance(step, Suite)} == {1}


def test_nightly_looks_for_modules_unless_tests_are_chosen() -> None:
    assert [steps("nightly", [])[-1], steps("nightly", ["-x"])[-1]] == [
        FUZZ,
        Suite("tests", ["-m", "nightly", "-v", "-x"]),
    ]
