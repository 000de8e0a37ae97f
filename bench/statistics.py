"""Medians, percentiles and ratios of what was measured, each with the interval that its rounds leave open.

Samples of one round have more in common with each other than with those of other rounds, so it is whole rounds that are
drawn anew (the cluster bootstrap), not samples. Every process makes the same draws, and so the same report of a run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from bench.run import Series

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Rounds = Sequence[Sequence[float]]

CONFIDENCE: Final = 0.95
DRAWS: Final = 2000
FEWEST_ROUNDS: Final = 5
"""Rounds from which a figure has an interval."""
FEWEST_BEYOND: Final = 5
"""Samples beyond a percentile: with fewer, chance alone says where it is, and it has no interval."""
FAR_OUT: Final = 3.0
"""Times the distance between the quartiles, beyond these: Tukey, Exploratory Data Analysis (1977), section 2D."""


class Estimate(NamedTuple):
    """A figure, and the interval that has the true one in it 95 times in 100; nan bounds where there is none."""

    value: float
    low: float
    high: float


def quantile(series: Series, q: float) -> Estimate:
    """A quantile of all samples together, as `numpy.quantile` has it; nan without any.

    There is an interval if the quantile is `settled`. Of a median it has the true value in it 94 to 98 times in 100
    with 5 to 30 rounds; of a p99, which a few rounds may decide, 88 to 94 times.
    """
    rounds = measured(series)
    if not rounds:
        return Estimate(math.nan, math.nan, math.nan)
    value = float(np.quantile(np.concatenate(rounds), q))
    if not settled(rounds, q):
        return Estimate(value, math.nan, math.nan)
    return estimate(value, resampled(rounds, q), len(rounds))


def ratio(series: Series, base: Series, q: float = 0.5) -> Estimate:
    """How many times the base's quantile that of the series is, in the rounds that both have.

    Of medians it is the quotient in each pair of rounds that counts, and the median of these: what slows both of a
    pair is not seen. Other percentiles are of samples too rare for a single round: there it is the quotient of those of
    all samples together, and the same rounds are drawn of both. nan without a common round, or beside a base of 0.
    """
    pairs = [pair for pair in zip(series.rounds, base.rounds, strict=False) if all(pair)]
    ours, theirs = [above for above, _ in pairs], [below for _, below in pairs]
    if not pairs:
        return Estimate(math.nan, math.nan, math.nan)
    if q == 0.5:
        quotients = [[_quotient(float(np.median(above)), float(np.median(below)))] for above, below in pairs]
        value, drawn = float(np.median(quotients)), resampled(quotients, q)
    else:
        value = _quotient(*(float(np.quantile(np.concatenate(each), q)) for each in (ours, theirs)))
        drawn = resampled(ours, q) - resampled(theirs, q)
    if not (settled(ours, q) and settled(theirs, q)):
        return Estimate(value, math.nan, math.nan)
    return estimate(value, drawn, len(pairs))


def outliers(series: Series) -> int:
    """How many samples are far out: counted, and never left out of any figure.

    By Tukey's outer fences around all samples, as logarithms since times are skewed, and each beside the median of its
    round since rounds differ; where rounds have one sample, beside that of all. Samples of 0 do not count.
    """
    rounds = measured(series)
    if max(map(len, rounds), default=0) < 2:
        rounds = [[sample for samples in rounds for sample in samples]]
    logs = [each[~np.isnan(each)] for each in map(logarithms, rounds)]
    apart = np.concatenate([each - np.median(each) for each in logs if len(each)] or [np.empty(0)])
    if not len(apart):
        return 0
    first, third = np.quantile(apart, (0.25, 0.75))
    fence = FAR_OUT * (third - first)
    return int(np.count_nonzero((apart < first - fence) | (apart > third + fence)))


def parts(series: Series) -> dict[str, float]:
    """The mean of each part over the rounds, in the series' unit."""
    return {part: float(np.mean(means)) for part, means in series.parts.items() if means}


def histogram_quantile(buckets: Sequence[tuple[float, float]], q: float) -> float:
    """A quantile of a Prometheus histogram, as PromQL's histogram_quantile has it.

    Buckets are upper bounds, all different, and how many values are not above each. Within a bucket values are taken to
    be spread evenly, from 0 in the first one; in the last one, whose bound is infinite, it is the bound before. nan
    without values, with a single bucket, or if the last one's bound is finite. `bucketQuantile` in
    https://github.com/prometheus/prometheus/blob/main/promql/quantile.go
    """
    bounds, counts = zip(*sorted(buckets), strict=True) if buckets else ((), ())
    if math.isnan(q) or len(bounds) < 2 or bounds[-1] != math.inf:
        return math.nan
    if not 0 <= q <= 1:
        return math.copysign(math.inf, q)
    seen = list(accumulate(counts, max))
    if seen[-1] == 0:
        return math.nan
    rank = q * seen[-1]
    at = next(at for at, count in enumerate(seen) if count >= rank)
    if at == len(bounds) - 1:
        return float(bounds[-2])
    if at == 0 and bounds[0] <= 0:
        return float(bounds[0])
    start, before = (bounds[at - 1], seen[at - 1]) if at else (0.0, 0.0)
    inside = (rank - before) / (seen[at] - before) if seen[at] > before else math.nan
    return float(start + (bounds[at] - start) * inside)


def measured(series: Series) -> list[list[float]]:
    """The rounds in which something was measured."""
    return [samples for samples in series.rounds if samples]


def settled(rounds: Rounds, q: float) -> bool:
    """Whether there are FEWEST_ROUNDS rounds and, but for the median, FEWEST_BEYOND samples beyond the quantile."""
    beyond = round(min(q, 1 - q) * sum(map(len, rounds)), 6)
    return len(rounds) >= FEWEST_ROUNDS and (q == 0.5 or beyond >= FEWEST_BEYOND)


def estimate(value: float, drawn: Floats, rounds: int) -> Estimate:
    """A positive figure with its interval, from the logarithms of what draws of so many rounds made of it.

    Student's t times the standard error of these logarithms to each side; nan if any is. The percentile method, which
    most tools have, is too narrow for few rounds: with 10 it has a true median in it 90 times in 100 where it says 95,
    and a true p99 72 to 76 times; this one 95 and 88. The standard error is that of the draws times √(n / (n-1)), as
    draws of n are too close together by that: Hesterberg, What Teachers Should Know about the Bootstrap (2015), 4.
    """
    factor = np.exp(student(rounds - 1) * standard_error(drawn, rounds))
    return Estimate(value, float(value / factor), float(value * factor))


def standard_error(drawn: Floats, rounds: int) -> float:
    """The standard error of an estimate, from its values in draws of so many rounds."""
    return float(np.std(drawn) * math.sqrt(rounds / (rounds - 1)))


def student(freedom: float) -> float:
    """How many standard errors an interval reaches to each side, by Student's t with these degrees of freedom."""
    return float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2))


def resampled(rounds: Rounds, q: float, stream: int = 0) -> Floats:
    """The logarithm of the quantile of as many rounds as there are, drawn with replacement: one for each of DRAWS.

    Draws of one stream are of the same rounds for each series with as many. No round may be empty. nan where the
    quantile is 0.
    """
    drawn = _drawn(len(rounds), stream)
    sizes = np.array([len(samples) for samples in rounds])
    samples = np.concatenate([np.asarray(each, dtype=np.float64) for each in rounds])
    order = np.argsort(samples, kind="stable")
    samples = samples[order]
    counts = np.zeros((len(samples), len(rounds)), dtype=np.int64)
    counts[np.arange(len(samples)), np.repeat(np.arange(len(rounds)), sizes)[order]] = 1
    np.cumsum(counts, axis=0, out=counts)
    rank = q * (drawn @ sizes - 1)
    below = np.floor(rank).astype(np.int64)
    low = _find(counts, drawn, below + 1)
    high = _find(counts, drawn, np.ceil(rank).astype(np.int64) + 1)
    return logarithms(samples[low] + (rank - below) * (samples[high] - samples[low]))


def _find(counts: Integers, drawn: Integers, wanted: Integers) -> Integers:
    """For each draw, the first sample with which there are as many as wanted.

    `counts` says how many samples of each round there are up to each sample, `drawn` how often each round was drawn.
    """
    low, high = np.zeros(len(drawn), dtype=np.int64), np.full(len(drawn), len(counts) - 1, dtype=np.int64)
    while np.any(low < high):
        middle = (low + high) // 2
        enough = np.einsum("dr,dr->d", drawn, counts[middle]) >= wanted
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    return low


@lru_cache(maxsize=64)
def _drawn(rounds: int, stream: int) -> Integers:
    """How often each round is drawn, in each of DRAWS draws."""
    return np.random.default_rng((stream, rounds)).multinomial(rounds, np.full(rounds, 1 / rounds), DRAWS)


def logarithms(values: ArrayLike) -> Floats:
    """The logarithms of values; nan for values that have none."""
    numbers = np.asarray(values, dtype=np.float64)
    return np.log(numbers, out=np.full_like(numbers, math.nan), where=numbers > 0)


def _quotient(above: float, below: float) -> float:
    return float(above / below) if below else math.nan
