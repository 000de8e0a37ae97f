"""The measurement without a pause runs as it is called."""

from __future__ import annotations

import re
import shutil
import sys

import pytest

from bench.micro import wrk


@pytest.mark.skipif(not shutil.which("wrk"), reason="wrk not found: apt-get install wrk")
@pytest.mark.timeout(600)  # The first time the extender in Go is built.
def test_both_verbs_are_asked_of_both_extenders(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["wrk", "--nodes", "20", "--rounds", "1", "--seconds", "1"])
    wrk.main()
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[-4:]]
    asked = [(guest, verb) for guest in wrk.GUESTS for verb in ("filter", "prioritize")]
    assert [(guest.removeprefix("| "), nodes, verb) for guest, nodes, verb, *_ in rows] == [
        (guest, "20", verb) for guest, verb in asked
    ]
    for figures in (row[3:] for row in rows):
        assert all(re.fullmatch(r"\d+\.\d+", each.removesuffix(" |")) for each in figures), figures
        assert float(figures[0]) > 0
        assert float(figures[2]) > 0


def test_without_wrk_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["wrk"])
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit) as ended:
        wrk.main()
    assert ended.value.code == "wrk not found: apt-get install wrk"
