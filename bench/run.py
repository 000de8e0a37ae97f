"""A run of the harness: the document that is written, continued, reported and compared.

Schema `kwx.dev/bench/v1`; what the keys mean is said here, and `kwx bench schema` prints it as a JSON schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from bench.errors import BenchError

SCHEMA: Final = "kwx.dev/bench/v1"
FILE: Final = "run.json"

Level = Literal["plugin", "scheduler", "gangs"]
Preset = Literal["quick", "default", "full"]
Better = Literal["lower", "higher"]
Unit = Literal["us", "ms", "1/s", "MB", "%"]
"""Microseconds; milliseconds; a second's; 10^6 bytes; a hundredth of all."""

PARTS: Final[Mapping[str, str]] = {
    "clientEncode": "client: encode the request",
    "transport": "transport: kernel, network, HTTP",
    "decode": "extender: decode",
    "map": "extender: find nodes, bring guests up to date",
    "guest": "guest: the policy and what it asks its host",
    "encode": "extender: encode",
    "clientDecode": "client: decode the answer",
}
"""The parts of a verb's time in order, and what people call them. A variant has the parts that it can tell apart."""

QUIET: Final = " quiet"
"""The suffix of metrics that were measured in turns without the activity of a case."""

HISTOGRAMS: Final = ("attempt", "algorithm")
"""Metrics whose means are exact, while percentiles, as `attempt p99`, are of histograms with few buckets."""


PERCENTILES: Final[Mapping[str, float]] = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
"""The percentiles of HISTOGRAMS that are kept, by the suffix of their metrics."""


def is_coarse(metric: str) -> bool:
    """Whether a metric is a percentile of buckets: worth being told, but not an interval or a ratio."""
    first, _, percentile = metric.partition(" ")
    return first in HISTOGRAMS and bool(percentile)


class RunError(BenchError):
    """A run that cannot be read, written or continued. `str()` says why, and what to do."""


class Variant(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One of the ways that are measured side by side."""

    name: str
    title: str
    """What people call the variant."""
    kind: Literal["in-process", "extender"]
    """Whether a plugin is called in the scheduler's process, or over HTTP; `stock` has none and is in-process."""
    wasm: bool
    """Whether the plugin is a WebAssembly module."""
    ours: bool
    """Whether this project runs it."""


class Series(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The samples of a metric of a variant, in rounds that took turns with those of the other variants.

    Round i of one series belongs to round i of each other one in the same case: they were measured within seconds.
    """

    variant: str
    metric: str
    """The name of the metric, as `filter`, `prioritize`, `cycle` (both for one pod) or `throughput`.

    With QUIET at its end it is the same without what goes on in the case, measured in turns with it.
    """
    unit: Unit
    better: Better
    rounds: list[list[float]]
    """Every sample of every round in the order in which they were taken; one a round where that has but one."""
    parts: dict[str, list[float]] = {}
    """The mean of each part (PARTS) in each round. The parts of a round add up to the mean of its samples."""


class Timeline(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Samples of a variant with the time of each, and when something happened."""

    variant: str
    metric: str
    unit: Unit
    seconds: list[float]
    """The time of each sample, in seconds since the first one began."""
    values: list[float]
    marks: list[float]
    """Seconds at which a module was swapped."""


class Case(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The measurements in one set-up."""

    name: str
    title: str
    nodes: int
    settings: dict[str, int | float | str | bool] = {}
    """Further settings: `plugins`, `nodeBytes`, `updatesPerSecond`, `load` …"""
    rounds: int
    """The number of rounds that are asked for."""
    series: list[Series] = []
    timelines: list[Timeline] = []
    left_out: dict[str, str] = {}
    """Variants that were not measured in this case, and why."""

    @property
    def done(self) -> int:
        """The number of rounds that all series have."""
        return min((len(each.rounds) for each in self.series), default=0)

    def add(
        self,
        variant: str,
        metric: str,
        unit: Unit,
        samples: list[float],
        parts: Mapping[str, float] = {},
        better: Better = "lower",
    ) -> None:
        """Adds a round to the series of a variant and metric, which begins with it if there is none."""
        series = next((each for each in self.series if (each.variant, each.metric) == (variant, metric)), None)
        if series is None:
            series = Series(variant=variant, metric=metric, unit=unit, better=better, rounds=[])
            self.series.append(series)
        series.rounds.append(samples)
        for part, value in parts.items():
            series.parts.setdefault(part, []).append(value)


class Condition(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The condition of the machine between two rounds."""

    seconds: float
    """Seconds since the run began, pauses included."""
    case: str
    round: int
    load: float
    """The load average: processes that ran or waited for a core, over the last minute."""
    yardstick: float
    """Microseconds that a fixed piece of work took on one core."""
    steal: float
    """Part of all cores' time since the last condition that a hypervisor gave to others; 0 where it does not tell."""
    others: float
    """Cores that other programs took from the harness since then, on average.

    These are the cores that they took beyond those that the harness may not use, as in a container with a quota. Less
    than a tenth of a core is not seen: the kernel counts the time of cores and that of processes as differently.
    """


class Machine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The machine that a run was measured on."""

    cpu: str
    cores: int
    memory: int
    """Bytes of main memory."""
    system: str
    """The operating system, as `Linux 6.1 x86_64`."""


class Run(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run: begun once, perhaps stopped and continued, and then done."""

    schema: str = SCHEMA
    level: Level
    command: str
    """The command line that repeats the run."""
    preset: Preset
    begun: str
    """When the run began, in RFC 3339, UTC."""
    ended: str = ""
    """When the run was done, in RFC 3339, UTC; empty while rounds are missing."""
    machine: Machine
    versions: dict[str, str]
    """The versions of what was measured, by name: `kwx`, `python`, `wasmtime`, `go`, `kubernetes` …"""
    module: str = ""
    """The digest of the guest that was measured, and its file's name."""
    workload: str = ""
    """What was asked about which nodes, in words."""
    variants: list[Variant]
    cases: list[Case] = []
    conditions: list[Condition] = []

    def variant(self, name: str) -> Variant:
        """The variant with a name."""
        return next(each for each in self.variants if each.name == name)

    @property
    def start(self) -> datetime:
        """`begun` as a time."""
        return datetime.fromisoformat(self.begun.replace("Z", "+00:00"))  # CPython 3.10 does not read the Z.

    def case(self, name: str) -> Case | None:
        """The case with a name; None if the run has none."""
        return next((each for each in self.cases if each.name == name), None)

    def save(self, folder: Path) -> None:
        """Writes it into a folder in place of what was there, at once or not at all. Raises RunError."""
        beside = folder / f".{FILE}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(msgspec.json.encode(self))
            beside.replace(folder / FILE)
        except OSError as error:
            raise RunError(f"the run cannot be written into {folder}: {error.strerror}") from error

    @classmethod
    def load(cls, place: Path) -> Run:
        """Reads a run from its file, or from the folder that holds it. Raises RunError."""
        file = place / FILE if place.is_dir() else place
        try:
            run = msgspec.json.decode(file.read_bytes(), type=Run)
        except OSError as error:
            raise RunError(f"{file} cannot be read: {error.strerror}; give the folder that a run wrote") from error
        except msgspec.MsgspecError as error:
            raise RunError(f"{file} is no run of `kwx bench`: {error}") from error
        if run.schema != SCHEMA:
            raise RunError(f"{file} has the schema {run.schema!r}, this release reads {SCHEMA!r}")
        return run
