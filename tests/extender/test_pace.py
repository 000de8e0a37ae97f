"""When a plugin may hold the loop that serves all verbs."""

from __future__ import annotations

import pytest

from extender.pace import PROOF, QUICK, Pace


@pytest.mark.parametrize(
    ("seconds", "is_quick"),
    [
        ([], False),
        ([0.0] * (PROOF - 1), False),
        ([0.0] * PROOF, True),
        ([QUICK] * PROOF, True),
        ([*[0.0] * PROOF, QUICK * 1.01], False),
        ([*[0.0] * PROOF, 0.5, *[0.0] * (PROOF - 1)], False),
        ([*[0.0] * PROOF, 0.5, *[0.0] * PROOF], True),
    ],
)
def test_it_takes_a_row_of_quick_verbs(seconds: list[float], is_quick: bool) -> None:
    pace = Pace()
    for each in seconds:
        pace.note(each)
    assert pace.is_quick is is_quick
