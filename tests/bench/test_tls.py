"""The measurement of TLS runs as it is called."""

from __future__ import annotations

import re
import sys

import pytest

from bench.micro import tls


@pytest.mark.timeout(600)  # The first time the peer in Go is built.
def test_the_extender_and_the_peer_are_asked_with_tls_and_without(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tls", "--nodes", "20", "--rounds", "1", "--seconds", "0"])
    tls.main()
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[-2:]]
    assert [row[:2] for row in rows] == [["extender", "20"], ["net/http alone", "20"]]
    for figures in (row[2:] for row in rows):
        assert len(figures) == 7
        assert all(re.fullmatch(r"-?\d+\.\d+", each) for each in figures), figures
        assert min(float(each) for each in figures[:4]) > 0
