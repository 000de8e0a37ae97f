"""Quantiles beside other libraries, and whether intervals have the truth in them as often as they say."""

from __future__ import annotations

import math
import statistics as standard

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from scipy import stats as scipy_stats

from bench import statistics
from bench.run import Series
from bench.statistics import DRAWS, Estimate, histogram_quantile, outliers, parts, quantile, ratio

TIMES = st.floats(min_value=1e-3, max_value=1e9)
ROUNDS = st.lists(st.lists(TIMES, min_size=1, max_size=8), min_size=1, max_size=8)
NAN = math.nan


def series(rounds: list[list[float]], parts: dict[str, list[float]] | None = None) -> Series:
    return Series(variant="kwx", metric="filter", unit="us", better="lower", rounds=rounds, parts=parts or {})


def same(found: Estimate, expected: Estimate) -> bool:
    return bool(np.allclose(found, expected, rtol=1e-9, atol=0, equal_nan=True))


@given(ROUNDS, st.floats(0, 1))
def test_a_quantile_is_that_of_scipy(rounds: list[list[float]], q: float) -> None:
    samples = [sample for each in rounds for sample in each]
    expected = scipy_stats.mstats.mquantiles(samples, [q], alphap=1, betap=1)[0]
    assert quantile(series(rounds), q).value == pytest.approx(float(expected), rel=1e-9)


@given(st.lists(TIMES, min_size=2), st.integers(1, 99))
def test_a_percentile_is_that_of_the_standard_library(samples: list[float], percent: int) -> None:
    expected = standard.quantiles(samples, n=100, method="inclusive")[percent - 1]
    assert quantile(series([samples]), percent / 100).value == pytest.approx(expected, rel=1e-9)


@given(ROUNDS, st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.99, 1.0]))
def test_rounds_drawn_anew_have_the_quantile_of_their_samples(rounds: list[list[float]], q: float) -> None:
    found = np.exp(statistics.resampled(rounds, q))
    drawn = statistics._drawn(len(rounds), 0)
    for at in range(0, DRAWS, 97):
        samples = [sample for times, each in zip(drawn[at], rounds, strict=True) for sample in each * times]
        assert found[at] == pytest.approx(np.quantile(samples, q), rel=1e-9)


def test_each_draw_has_as_many_rounds_and_streams_differ() -> None:
    first, second = statistics._drawn(7, 0), statistics._drawn(7, 1)
    assert first.shape == second.shape == (DRAWS, 7)
    assert (first.sum(axis=1) == 7).all()
    assert (second.sum(axis=1) == 7).all()
    assert (first != second).any()


@pytest.mark.parametrize("rounds", [10, 20])
@pytest.mark.parametrize(
    ("q", "samples", "of_rounds", "of_samples"),
    [
        pytest.param(0.5, 50, 0.1, 0.2, id="median of rounds that differ"),
        pytest.param(0.5, 10, 0.03, 0.3, id="median of samples that differ"),
        pytest.param(0.5, 1, 0.0, 0.1, id="median of one sample a round"),
        pytest.param(0.9, 50, 0.1, 0.2, id="p90 of rounds that differ"),
        pytest.param(0.99, 50, 0.03, 0.3, id="p99"),
    ],
)
def test_intervals_have_the_truth_in_them(
    rounds: int, q: float, samples: int, of_rounds: float, of_samples: float
) -> None:
    random = np.random.default_rng(rounds)
    truth = math.exp(5 + float(special.ndtri(q)) * math.hypot(of_rounds, of_samples))
    held = 0
    for _ in range(400):
        logs = 5 + random.normal(0, of_rounds, (rounds, 1)) + random.normal(0, of_samples, (rounds, samples))
        found = quantile(series(np.exp(logs).tolist()), q)
        held += found.low <= truth <= found.high
    assert 0.90 <= held / 400 <= 0.99


@pytest.mark.parametrize("rounds", [5, 10, 20])
def test_intervals_of_ratios_have_the_truth_in_them(rounds: int) -> None:
    """Both series of a pair are slowed by the same, far more than they differ."""
    random = np.random.default_rng(rounds)
    held, widths = 0, []
    for _ in range(400):
        both = random.normal(0, 0.5, (rounds, 1))
        ours, base = (
            np.exp(5 + both + random.normal(0, 0.05, (rounds, 1)) + random.normal(0, 0.2, (rounds, 20))).tolist()
            for _ in range(2)
        )
        found = ratio(series(ours), series(base))
        held += found.low <= 1 <= found.high
        widths.append(found.high / found.low)
    assert 0.90 <= held / 400 <= 0.99
    assert standard.median(widths) < 1.5


def test_what_slows_a_pair_does_not_move_the_ratio() -> None:
    rounds = [[100.0, 120.0, 110.0], [100.0, 110.0], [50.0, 55.0, 60.0], [1000.0], [3.0]]
    doubled = [[2 * sample for sample in each] for each in rounds]
    assert same(ratio(series(doubled), series(rounds)), Estimate(2, 2, 2))


@pytest.mark.parametrize(
    ("ours", "base", "q", "expected"),
    [
        pytest.param([], [], 0.5, Estimate(NAN, NAN, NAN), id="no rounds"),
        pytest.param([[]], [[1.0]], 0.5, Estimate(NAN, NAN, NAN), id="no samples"),
        pytest.param([[3.0]] * 4, [[2.0]] * 4, 0.5, Estimate(1.5, NAN, NAN), id="too few rounds"),
        pytest.param([[3.0]] * 5, [[2.0]] * 4, 0.5, Estimate(1.5, NAN, NAN), id="too few common rounds"),
        pytest.param([[3.0]] * 6, [[2.0]] * 5, 0.5, Estimate(1.5, 1.5, 1.5), id="enough rounds"),
        pytest.param([[3.0], [], [9.0]], [[2.0], [5.0], [2.0]], 0.5, Estimate(3, NAN, NAN), id="an empty round"),
        pytest.param([[3.0]] * 5, [[0.0]] * 5, 0.5, Estimate(NAN, NAN, NAN), id="a base of 0"),
        pytest.param([[0.0]] * 5, [[2.0]] * 5, 0.5, Estimate(0, NAN, NAN), id="0"),
        pytest.param([[3.0] * 99] * 5, [[2.0] * 99] * 5, 0.99, Estimate(1.5, NAN, NAN), id="too few samples"),
        pytest.param([[3.0] * 100] * 5, [[2.0] * 100] * 5, 0.99, Estimate(1.5, 1.5, 1.5), id="enough samples"),
    ],
)
def test_ratios_of_little(ours: list[list[float]], base: list[list[float]], q: float, expected: Estimate) -> None:
    assert same(ratio(series(ours), series(base), q), expected)


@pytest.mark.parametrize(
    ("rounds", "q", "expected"),
    [
        ([], 0.5, Estimate(NAN, NAN, NAN)),
        ([[], []], 0.5, Estimate(NAN, NAN, NAN)),
        ([[1.0, 2.0]] * 4, 0.5, Estimate(1.5, NAN, NAN)),
        ([[1.0]] * 5, 0.5, Estimate(1, 1, 1)),
        ([[1.0]] * 5, 0.99, Estimate(1, NAN, NAN)),
        ([[1.0] * 50] * 10, 0.9, Estimate(1, 1, 1)),
        ([[0.0]] * 5, 0.5, Estimate(0, NAN, NAN)),
    ],
)
def test_quantiles_of_little(rounds: list[list[float]], q: float, expected: Estimate) -> None:
    assert same(quantile(series(rounds), q), expected)


def test_the_same_samples_have_the_same_interval() -> None:
    rounds = np.random.default_rng(1).lognormal(3, 0.2, (6, 4)).tolist()
    first = quantile(series(rounds), 0.5)
    statistics._drawn.cache_clear()
    assert quantile(series(rounds), 0.5) == first


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        pytest.param([], 0, id="nothing"),
        pytest.param([[0.0, 0.0]], 0, id="0"),
        pytest.param([[10.0, 11.0, 12.0, 13.0], [1000.0, 1100.0, 1200.0, 1300.0]], 0, id="rounds that differ"),
        pytest.param([[10.0, 11.0, 12.0, 13.0, 14.0, 30.0, 4.0]], 2, id="both sides"),
        pytest.param([[10.0, 11.0, 12.0, 13.0, 14.0, 20.0]], 0, id="not so far"),
        pytest.param([[10.0], [11.0], [12.0], [13.0], [14.0], [40.0]], 1, id="one sample a round"),
    ],
)
def test_outliers(rounds: list[list[float]], expected: int) -> None:
    assert outliers(series(rounds)) == expected


def test_parts_are_means_over_rounds() -> None:
    found = series([[6.0], [8.0]], {"decode": [1.0, 3.0], "guest": [5.0, 5.0], "encode": []})
    assert parts(found) == {"decode": 2.0, "guest": 5.0}


INF = math.inf


@pytest.mark.parametrize(
    ("buckets", "q", "expected"),
    [
        pytest.param([(1, 10), (2, 30), (INF, 40)], 0.5, 1.5, id="within a bucket"),
        pytest.param([(INF, 40), (2, 30), (1, 10)], 0.5, 1.5, id="in any order"),
        pytest.param([(1, 10), (2, 30), (INF, 40)], 0.125, 0.5, id="the first begins at 0"),
        pytest.param([(1, 10), (2, 30), (INF, 40)], 0.25, 1.0, id="at a bound"),
        pytest.param([(1, 10), (2, 30), (INF, 40)], 0.0, 0.0, id="least"),
        pytest.param([(1, 10), (2, 30), (INF, 40)], 0.9, 2.0, id="in the last"),
        pytest.param([(1, 10), (2, 8), (4, 30), (INF, 40)], 0.5, 3.0, id="counts that go down"),
        pytest.param([(-1, 10), (2, 30), (INF, 40)], 0.1, -1.0, id="a first bound below 0"),
        pytest.param([(1, 0), (2, 30), (INF, 40)], 0.0, NAN, id="the least beside an empty first"),
        pytest.param([(1, 0), (INF, 0)], 0.5, NAN, id="no values"),
        pytest.param([(1, 10), (2, 30)], 0.5, NAN, id="no infinite bound"),
        pytest.param([(INF, 30)], 0.5, NAN, id="one bucket"),
        pytest.param([], 0.5, NAN, id="no buckets"),
        pytest.param([(1, 10), (INF, 30)], NAN, NAN, id="no quantile"),
        pytest.param([(1, 10), (INF, 30)], 1.1, INF, id="above 1"),
        pytest.param([(1, 10), (INF, 30)], -0.1, -INF, id="below 0"),
    ],
)
def test_histogram_quantile(buckets: list[tuple[float, float]], q: float, expected: float) -> None:
    assert histogram_quantile(buckets, q) == pytest.approx(expected, nan_ok=True)
