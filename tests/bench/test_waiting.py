"""The measurement of pods that wait runs as it is called."""

from __future__ import annotations

import re
import sys

import pytest

from bench.micro import waiting


def test_what_pods_that_wait_cost_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--waiting", "20", "--nodes", "10", "--pods", "30", "--rounds", "1"]
    monkeypatch.setattr(sys, "argv", ["waiting", *arguments])
    for name, number in {"SETTLE_S": 0.1, "WARM_UP": 5, "REQUESTS": 5}.items():
        monkeypatch.setattr(waiting, name, number)
    waiting.main()
    _, *told = capsys.readouterr().out.splitlines()
    assert [re.sub(r"-?\d+(\.\d\d)?(?= (and|ms|times|MB|without))|(?<=threads: )\d+", "N", line) for line in told] == [
        "filter beside 20 pods that wait: p50 N and N ms, N times",
        "the same with 50 changes of pods a second: p50 N and N ms, N times",
        "memory: N MB more than before, and N MB without pods that wait",
        "threads: N, and N without pods that wait",
    ]
