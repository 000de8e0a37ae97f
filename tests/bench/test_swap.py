"""The measurement of swaps counts what it says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.micro import swap
from bench.micro.swap import Served, Swap, Turn, figures
from tests.extender.versions import Cycle


def cycle(began: float, *versions: int, took: float = 0.1) -> Cycle:
    """A cycle whose filter takes a quarter of its seconds."""
    first, second = versions
    return Cycle(began, began + took, took * 250, took * 750, (first, second))


def test_what_is_counted() -> None:
    swaps = [Swap(10.0 + at, 11 - at % 2, 100 + at) for at in range(14)]
    turns = [Turn(0, 10, ()), Turn(10, 24, swaps)]
    quiet = [cycle(at / 10, 10, 10, took=0.2) for at in range(100)]
    swapping = [cycle(each.at + 0.3, each.version, each.version, took=0.4) for each in swaps]
    mixed = [cycle(12.9, 11, 10, took=0.01), cycle(13.9, 10, 11, took=0.01)]
    found = figures(turns, Served([*quiet, *swapping, *mixed], ["status 500"]))
    times = {"p50": 100.0, "p99": 100.0, "max": 100.0, "count": 16}
    assert found == {
        "requests": 233,
        "swaps": 14,
        "failed": 1,
        "failures": ["status 500"],
        "mixed": 2,
        "quiet_ms": {
            "filter": {"p50": 50.0, "p99": 50.0, "max": 50.0, "count": 99},
            "prioritize": {"p50": 150.0, "p99": 150.0, "max": 150.0, "count": 99},
        },
        "swapping_ms": {"filter": times, "prioritize": times | {"p50": 300.0, "p99": 300.0, "max": 300.0}},
        "memory_mb": [100.0 + at for at in range(14)],
        "slope_kb": 1000.0,
        "until_live_s": {"p50": pytest.approx(0.4), "max": pytest.approx(0.4)},
    }


@pytest.mark.parametrize("modules", [2, 3])
def test_a_short_run(
    modules: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(swap, "WARM_UP", 0.5)
    arguments = ["--seconds", "2", "--connections", "2", "--nodes", "20", "--modules", str(modules)]
    monkeypatch.setattr(sys, "argv", ["swap", *arguments, "--output", "json"])
    swap.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    (case,) = result["cases"]
    assert (case["nodes"], case["failed"], case["failures"], case["mixed"]) == (20, 0, [], 0)
    assert case["swaps"] == len(case["memory_mb"]) > 0
    assert all(case[turn][verb]["count"] > 0 for turn in ("quiet_ms", "swapping_ms") for verb in swap.VERBS)
