"""The measurement of updates runs as it stands in its table."""

from __future__ import annotations

import re
import sys

import pytest

from bench import churn
from bench.versus import Case


def test_both_verbs_are_measured_quiet_and_under_updates(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(churn, "CASE", Case(nodes=20, rounds=1, requests=5, p50_bar=1e9, p99_bar=0))
    for name, value in (("PODS", 30), ("WARM_UP", 2), ("SETTLING", 0.1), ("MEMORY_BAR", 1)):
        monkeypatch.setattr(churn, name, value)
    monkeypatch.setattr(sys, "argv", ["churn"])
    churn.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "20 nodes, 30 pods; 1 rounds of 5 requests of each verb"
    rows = [re.sub(r"\b[\d.]+\b", "N", line) for line in lines[-4:-2]]
    figures = "N | N | N | N | N (within N) | N (above N)"
    assert rows == [f"| {verb} | {figures} |" for verb in ("filter", "prioritize")]
    assert re.fullmatch(r"Resident memory: \d+ MB \(above 1 MB\)\.", lines[-1])
