"""The command `kwx top`: what takes the time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Final, NamedTuple

import typer
from prometheus_client.samples import Sample
from rich.console import Console

from extender.commands.doctor.running import Running
from extender.commands.output import View, ViewOption, fail, write_json
from extender.commands.plugin.client import RemoteError
from extender.commands.plugin.remote import LOCAL, Remote, asks_extender, read_tls, read_token
from extender.commands.terminal import Part, Table, show

INTERVAL_S: Final = 2.0
FAMILIES: Final = {"kwx_verb_phase_seconds": ("verb", "phase"), "kwx_guest_seconds": ("plugin", "export")}
"""The histograms that are shown, and the names of their labels."""
QUANTILES: Final = {"p50": 0.5, "p99": 0.99}

_FIGURES: Final = ("Calls", "Total, s", "Mean, ms", "p50, ms", "p99, ms")

Key = tuple[str, str, str]
"""The name of a histogram, and the values of its labels."""


class Latency(NamedTuple):
    """The counts of a histogram of seconds."""

    seconds: float
    buckets: Mapping[float, float]
    """How many calls took at most so many seconds, by the seconds; the last are infinite."""

    @property
    def calls(self) -> float:
        """The number of calls."""
        return max(self.buckets.values(), default=0.0)

    def since(self, earlier: Latency | None) -> Latency:
        """The calls since an earlier state of the histogram; all calls if the extender was restarted meanwhile."""
        if earlier is None or earlier.calls > self.calls:
            return self
        return Latency(
            self.seconds - earlier.seconds,
            {bound: count - earlier.buckets.get(bound, 0.0) for bound, count in self.buckets.items()},
        )

    def quantile(self, part: float) -> float:
        """Seconds within which the part `part` (0..1) of the calls ended, at most the last finite bound.

        It is interpolated linearly within a bucket, as by Prometheus' `histogram_quantile`.
        """
        rank = part * self.calls
        for (lower, below), (upper, count) in pairwise([(0.0, 0.0), *sorted(self.buckets.items())]):
            if count >= rank and count > below:
                return lower if upper == float("inf") else lower + (upper - lower) * (rank - below) / (count - below)
        return 0.0


Latencies = Mapping[Key, Latency]


@asks_extender
def top(
    remote: Remote = LOCAL,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show every two seconds what came since, until Ctrl-C.")
    ] = False,
    output: ViewOption = View.TABLE,
) -> None:
    """Show how long the phases of verbs and the exports of plugins take, by the extender's metrics."""
    token = read_token(remote.token_file) if remote.token_file else None
    running = Running(remote.server, token, read_tls(remote))
    console = Console()
    earlier: Latencies = {}
    try:
        while True:
            found = latencies(running.samples())
            now = {key: each.since(earlier.get(key)) for key, each in found.items()}
            if watch and console.is_terminal:
                console.clear()
            if output is View.JSON:
                write_json(document(now))
            else:
                show(tables(now))
            if not watch:
                return
            earlier = found
            time.sleep(INTERVAL_S)
    except RemoteError as error:
        fail(str(error))


def latencies(samples: Iterable[Sample]) -> Latencies:
    """The histograms that are shown."""
    seconds: dict[Key, float] = {}
    buckets: dict[Key, dict[float, float]] = {}
    for sample in samples:
        family, _, kind = sample.name.rpartition("_")
        if family not in FAMILIES:
            continue
        first, second = FAMILIES[family]
        key = family, sample.labels[first], sample.labels[second]
        if kind == "sum":
            seconds[key] = sample.value
        elif kind == "bucket":
            buckets.setdefault(key, {})[float(sample.labels["le"])] = sample.value
    return {key: Latency(seconds.get(key, 0.0), each) for key, each in buckets.items()}


def tables(found: Latencies) -> Iterator[Part]:
    """A table for each histogram; what took the most time comes first."""
    for family, labels in FAMILIES.items():
        rows = [
            (
                first,
                second,
                f"{each.calls:.0f}",
                f"{each.seconds:.3f}",
                *(f"{time:.3f}" for time in _milliseconds(each)),
            )
            for (_, first, second), each in _used(found, family)
        ]
        yield Table((*(label.capitalize() for label in labels), *_FIGURES), rows, _FIGURES)


def document(found: Latencies) -> dict[str, list[dict[str, Any]]]:
    """The histograms as JSON output has them."""
    names = ("mean", *QUANTILES)
    return {
        f"{labels[0]}s": [
            {
                **dict(zip(labels, (first, second), strict=True)),
                "calls": int(each.calls),
                "seconds": each.seconds,
                **{f"{name}Milliseconds": time for name, time in zip(names, _milliseconds(each), strict=True)},
            }
            for (_, first, second), each in _used(found, family)
        ]
        for family, labels in FAMILIES.items()
    }


def _used(found: Latencies, family: str) -> Sequence[tuple[Key, Latency]]:
    used = [(key, each) for key, each in found.items() if key[0] == family and each.calls]
    return sorted(used, key=lambda each: -each[1].seconds)


def _milliseconds(latency: Latency) -> tuple[float, ...]:
    """Milliseconds: the mean, and the quantiles."""
    times = (latency.seconds / latency.calls, *map(latency.quantile, QUANTILES.values()))
    return tuple(time * 1e3 for time in times)
