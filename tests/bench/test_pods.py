"""The measurement of guests that know pods runs as it is called."""

from __future__ import annotations

import re
import sys

import pytest

from bench.micro import pods


def test_ready_memory_and_both_ratios_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--nodes", "20", "--pods", "30", "--rounds", "1", "--without-go"]
    monkeypatch.setattr(sys, "argv", ["pods", *arguments])
    monkeypatch.setattr(pods, "SETTLE", 0.1)
    pods.main()
    ready, *told = capsys.readouterr().out.splitlines()[1:]
    assert re.fullmatch(r"Rust, gpu-pack: ready after \d+\.\d s, with \d+ MB", ready), ready
    number = r"\d+\.\d\d"
    expected = [
        f"{what}: {verb} p50 N and N ms, N times"
        for what in (
            "gpu-pack beside headroom",
            "gpu-pack with 8 guests in turn beside headroom",
            "gpu-pack, 200 changes of pods a second beside none",
            "gpu-pack, 200 changes of pods a second in another cluster beside none",
            "gpu-pack with 8 guests in turn, 200 changes of pods a second beside none",
            "gpu-pack with 8 guests in turn, 200 changes of pods a second in another cluster beside none",
        )
        for verb in ("filter", "prioritize")
    ]
    assert [re.sub(number, "N", line) for line in told] == expected
