"""The attacks of `bench.micro.edge`: what they may take, and that who goes on does."""

from __future__ import annotations

import pytest

from bench.micro.edge import ATTACKS, run

MAX_KEPT_MIB = 30
MAX_PEAK_MIB = 200
MAX_BACK_S = 60
"""Until others are answered again."""


@pytest.mark.nightly
@pytest.mark.parametrize("name", ATTACKS)
def test_clients_that_do_no_good_cost_little(name: str) -> None:
    figures = run(ATTACKS[name])
    print(name, {key: round(value, 1) for key, value in figures.items()})
    assert figures["rss_mib"] < MAX_KEPT_MIB
    assert figures["peak_mib"] < MAX_PEAK_MIB
    assert figures["missed"] == 0
    assert figures["back_s"] < MAX_BACK_S
