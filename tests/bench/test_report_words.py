"""Figures are written as people read them."""

from __future__ import annotations

import math

import pytest

from bench.report.plots.canvas import spread, tick
from bench.report.words import count, difference, factor, figure, label, listed, measured, rough, times
from bench.run import Case, Variant
from bench.statistics import Estimate


@pytest.mark.parametrize(
    ("value", "three", "two"),
    [
        (0, "0", "0"),
        (0.04286, "0.0429", "0.043"),
        (0.5999, "0.600", "0.60"),
        (9.996, "10.0", "10"),
        (99.96, "100", "100"),
        (861.4, "861", "861"),
        (12345.6, "12,346", "12,346"),
        (math.nan, "?", "?"),
        (math.inf, "?", "?"),
    ],
)
def test_figures(value: float, three: str, two: str) -> None:
    assert (figure(value), rough(value)) == (three, two)


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (Estimate(0.0436, 0.0431, 0.0449), "0.044 times (0.043 to 0.045)"),
        (Estimate(0.834, 0.799, 0.861), "0.83 times (0.80 to 0.86)"),
        (Estimate(9.996, 8, 12.34), "10.0 times (8.00 to 12.3)"),
        (Estimate(1234.5, math.nan, math.nan), "1,234 times"),
        (Estimate(math.nan, math.nan, math.nan), "? times"),
    ],
)
def test_ratios(ratio: Estimate, text: str) -> None:
    assert times(ratio) == text


def test_names() -> None:
    assert [listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
    assert [count(0, "case"), count(1, "case"), count(1000, "case")] == ["0 cases", "1 case", "1,000 cases"]
    assert [
        measured(each)
        for each in (
            "cycle",
            "pod",
            "first cached",
            "cycle quiet",
            "cpu kube-scheduler",
            "attempt p99",
            "algorithm",
        )
    ] == [
        "cycle",
        "time until a pod is bound",
        "cold start, compiled code cached",
        "cycle without what goes on in the case",
        "processor time a pod, kube-scheduler",
        "scheduling attempt, p99",
        "choice of a node",
    ]
    variant = Variant(name="x", title="X", kind="extender", wasm=True, ours=True)
    assert label(variant) == "X (ours)"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"plugins": 3, "nodeBytes": 40_000}, "3 plugins and nodes of 40,000 bytes"),
        (
            {"plugins": 1, "nodeBytes": 4_000, "depth": 2.5, "warm": False, "order": "random"},
            "depth 2.5, warm off and order random",
        ),
        ({"plugins": 1, "nodeBytes": 4_000}, "after"),
    ],
)
def test_what_is_different_in_a_case(settings: dict[str, int | float | str | bool], text: str) -> None:
    before = Case(name="a", title="before", nodes=500, settings={"plugins": 1, "nodeBytes": 4_000}, rounds=1)
    assert difference(before, Case(name="b", title="after", nodes=500, settings=settings, rounds=1)) == text


@pytest.mark.parametrize(
    ("places", "apart"),
    [
        ([], []),
        ([0.0, 5.0], [0.0, 5.0]),
        ([0.5, 0.0], [0.75, -0.25]),
        ([0.0, 0.0, 0.5, 9.0], [-0.8333, 0.1667, 1.1667, 9.0]),
    ],
)
def test_labels_do_not_cover_each_other(places: list[float], apart: list[float]) -> None:
    assert spread(places, 1.0) == pytest.approx(apart, abs=1e-3)


def test_ticks() -> None:
    assert [tick(each) for each in (0, 0.05, 2.5, 100, 15000)] == ["0", "0.05", "2.5", "100", "15,000"]


def test_a_ratio_has_the_digits_that_count() -> None:
    assert [factor(each) for each in (0.0994, 0.0996, 9.994, 99.94, 99.96)] == ["0.099", "0.10", "9.99", "99.9", "100"]
