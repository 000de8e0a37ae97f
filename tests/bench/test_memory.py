"""The measurement of memory runs as it is called."""

from __future__ import annotations

import re
import sys

import pytest

from bench.micro import memory


def test_memory_is_measured_before_and_after_updates(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["memory", "--nodes", "20", "--pods", "30", "--seconds", "0.5"])
    memory.main()
    told = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(r"20 nodes, 30 pods: \d+ MB, and \d+ MB after 0 s of 200 updates a second\.", told), told
