"""Synthetic runs with figures as real ones have them, the same each time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from random import Random
from typing import Final

from msgspec.structs import replace

from bench.run import PARTS, QUIET, Case, Condition, Machine, Run, Series, Timeline, Variant

PLUGIN_VARIANTS: Final = [
    Variant(name="native", title="Go plugin, in-process", kind="in-process", wasm=False, ours=False),
    Variant(name="wasmtime", title="wasm in-process, wasmtime", kind="in-process", wasm=True, ours=True),
    Variant(name="upstream", title="wasm in-process, upstream host", kind="in-process", wasm=True, ours=False),
    Variant(name="kwx", title="wasm over HTTP, node names", kind="extender", wasm=True, ours=True),
    Variant(name="goextender", title="Go extender, node names", kind="extender", wasm=False, ours=False),
    Variant(name="kwx-whole", title="wasm over HTTP, whole nodes", kind="extender", wasm=True, ours=True),
    Variant(name="goextender-whole", title="Go extender, whole nodes", kind="extender", wasm=False, ours=False),
]
COSTS: Final[Mapping[str, Mapping[str, tuple[float, float]]]] = {
    "native": {"guest": (4, 0.09)},
    "wasmtime": {"map": (3, 0.01), "guest": (14, 0.16)},
    "upstream": {"guest": (60, 7.0)},
    "kwx": {
        "clientEncode": (6, 0.05),
        "transport": (55, 0.03),
        "decode": (9, 0.06),
        "map": (8, 0.03),
        "guest": (16, 0.16),
        "encode": (5, 0.05),
        "clientDecode": (6, 0.07),
    },
    "goextender": {
        "clientEncode": (6, 0.05),
        "transport": (40, 0.03),
        "decode": (4, 0.17),
        "guest": (4, 0.12),
        "encode": (4, 0.10),
        "clientDecode": (6, 0.07),
    },
    "kwx-whole": {
        "clientEncode": (9, 9.0),
        "transport": (60, 2.2),
        "decode": (20, 2.8),
        "map": (12, 5.5),
        "guest": (18, 0.17),
        "encode": (5, 0.05),
        "clientDecode": (8, 9.5),
    },
    "goextender-whole": {
        "clientEncode": (9, 9.0),
        "transport": (60, 2.2),
        "decode": (12, 80),
        "guest": (6, 0.3),
        "encode": (9, 18),
        "clientDecode": (8, 9.5),
    },
}
"""Microseconds of each part of a verb: a constant, and what each node adds."""

SCHEDULER_VARIANTS: Final = [
    Variant(name="stock", title="kube-scheduler as it is", kind="in-process", wasm=False, ours=False),
    PLUGIN_VARIANTS[0],
    *(each for each in PLUGIN_VARIANTS if each.kind == "extender"),
]
USUAL: Final = ("stock", "native", "kwx", "goextender", "kwx-whole", "goextender-whole")
"""The variants of a run at scheduler level, in which none answers the best nodes alone."""
TOP_VARIANTS: Final = [
    SCHEDULER_VARIANTS[0],
    Variant(name="stock-unbatched", title="kube-scheduler without batching", kind="in-process", wasm=False, ours=False),
    PLUGIN_VARIANTS[0],
    Variant(
        name="native-noscores",
        title="Go plugin, in-process, no in-tree scores",
        kind="in-process",
        wasm=False,
        ours=False,
    ),
    Variant(name="kwx-top1", title="wasm over HTTP, best node", kind="extender", wasm=True, ours=True),
    Variant(name="goextender-top1", title="Go extender, best node", kind="extender", wasm=False, ours=False),
    Variant(name="kwx-top5", title="wasm over HTTP, best 5 nodes", kind="extender", wasm=True, ours=True),
    *PLUGIN_VARIANTS[3:5],
]
"""The variants of a run with extenders that answer the best node alone."""
PODS: Final[Mapping[str, tuple[float, float]]] = {
    "stock": (3.2, 0.0006),
    "stock-unbatched": (3.2, 0.0006),
    "native-noscores": (3.2, 0.0005),
    "kwx-top1": (3.3, 0.0008),
    "goextender-top1": (3.3, 0.001),
    "kwx-top5": (3.6, 0.0010),
    "native": (3.3, 0.0009),
    "kwx": (4.0, 0.0016),
    "goextender": (4.0, 0.0021),
    "kwx-whole": (5.0, 0.03),
    "goextender-whole": (5.0, 0.15),
}
"""Milliseconds of a pod: a constant, and what each node adds."""

PROCESSES: Final[dict[str, tuple[float, float]]] = {
    "kube-scheduler": (1.3, 140),
    "kube-apiserver": (3.1, 420),
    "etcd": (1.2, 90),
    "kwok": (0.9, 60),
    "harness": (0.8, 120),
}
"""CPU milliseconds per pod and MB of memory, by process."""
EXTENDERS: Final[Mapping[str, tuple[float, float]]] = {
    "kwx-top1": (0.4, 124),
    "goextender-top1": (0.4, 40),
    "kwx-top5": (0.5, 124),
    "kwx": (0.6, 123),
    "goextender": (0.5, 39),
    "kwx-whole": (0.7, 150),
    "goextender-whole": (0.9, 60),
}
"""CPU milliseconds per pod and MB of memory, by variant of the extender."""
SPANS: Final[Mapping[str, float]] = {"attempt": 1.0, "algorithm": 0.7}
"""The part of an attempt that each of kube-scheduler's histograms measures."""
PERCENTILES: Final[Mapping[str, float]] = {"p50": 0.8, "p90": 1.6, "p99": 2.2}
"""Each percentile as a multiple of the mean."""
OUTLIVE_ROUNDS: Final = ("kube-apiserver", "etcd", "kwok")
"""Processes whose memory is no variant's own."""

BASE: Final[Mapping[str, int]] = {"plugins": 1, "nodeBytes": 4000, "updatesPerSecond": 0, "swapsPerMinute": 0}
FACTORS: Final[Mapping[str, tuple[dict[str, int], float]]] = {
    "plugins-3": ({"plugins": 3}, 1.9),
    "large-nodes": ({"nodeBytes": 40000}, 1.35),
    "churn": ({"updatesPerSecond": 100}, 1.12),
    "swaps": ({"swapsPerMinute": 30}, 1.18),
}
"""Settings of further cases with 500 nodes, and the factor by which they take longer."""

GOES_ON: Final = ("churn", "swaps")
"""Cases that are measured without what goes on as well, in turns."""

MACHINE: Final = Machine(cpu="AMD EPYC 7B13", cores=2, memory=8_323_000_000, system="Linux 6.1 x86_64")
UPSTREAM_LEFT_OUT: Final = "needs a checkout: give --upstream CHECKOUT"
WHOLE_LEFT_OUT: Final = "a request would be of 60 MB or more"
SWAPS_LEFT_OUT: Final = "only our extender swaps modules while it serves"


def plugin(rounds: int = 8, samples: int = 30, points: int = 3000) -> Run:
    """A run at plugin level; the swap timeline has `points`."""
    random = Random(7)
    cases = [_plugin_case(random, str(nodes), nodes, rounds, samples) for nodes in (100, 500, 1000, 5000, 15000)]
    cases += [_plugin_case(random, name, 500, rounds, samples, *FACTORS[name]) for name in FACTORS]
    cases[-1].timelines.append(_timeline(random, points))
    cases.append(_cold(random, rounds))
    return Run(
        level="plugin",
        command="kwx bench plugin --upstream ../kube-scheduler-wasm-extension",
        preset="default",
        begun="2025-03-04T09:00:00Z",
        ended="2025-03-04T09:21:30Z",
        machine=MACHINE,
        versions={"kwx": "0.1.0", "python": "3.11.7", "wasmtime": "50.0.1", "go": "1.26.8"},
        module="headroom.wasm, sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
        workload="filter and prioritize about one pod after the other, of all nodes",
        variants=PLUGIN_VARIANTS,
        cases=cases,
        conditions=_conditions(cases),
    )


def scheduler(rounds: int = 5) -> Run:
    """A run at scheduler level."""
    random = Random(11)
    cases = [
        *(_batch(random, nodes, rounds) for nodes in (500, 1000)),
        *(_steady(random, nodes, rounds) for nodes in (500, 1000)),
    ]
    return Run(
        level="scheduler",
        command="kwx bench scheduler",
        preset="default",
        begun="2025-03-04T10:00:00Z",
        ended="2025-03-04T10:27:45Z",
        machine=MACHINE,
        versions={"kwx": "0.1.0", "python": "3.11.7", "kubernetes": "1.36.1", "etcd": "3.6.5", "kwok": "0.7.0"},
        module="headroom.wasm, sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
        workload="1,000 pods at once, and 50 pods a second",
        variants=SCHEDULER_VARIANTS,
        cases=cases,
        conditions=_conditions(cases),
    )


def top(rounds: int = 5) -> Run:
    """A run at scheduler level with extenders that answer the best nodes alone, and pods that are alike."""
    random = Random(13)
    names = [each.name for each in TOP_VARIANTS]
    cases = [_batch(random, nodes, rounds, names) for nodes in (500, 1000)]
    cases.append(_alike(random, 1000, rounds))
    return replace(scheduler(rounds), variants=TOP_VARIANTS, cases=cases, conditions=_conditions(cases))


def _alike(random: Random, nodes: int, rounds: int) -> Case:
    """A case of pods that kube-scheduler may batch: a batched pod costs an eighth."""
    case = _batch(random, nodes, rounds, [each.name for each in TOP_VARIANTS])
    series = []
    for each in case.series:
        batched = each.variant in {"stock", "native", "native-noscores"}
        if each.metric == "throughput":
            faster = [[rate * (8 if batched else 1) for rate in rates] for rates in each.rounds]
            shares = [[97.0 if batched else 0.0]] * rounds
            series += [
                replace(each, rounds=faster),
                Series(variant=each.variant, metric="batched", unit="%", better="higher", rounds=shares),
            ]
    return replace(
        case,
        name=f"alike-{nodes}",
        title=f"{nodes:,} nodes, 800 pods at once that are alike, one a node",
        settings={**case.settings, "pods": 800, "alike": True},
        series=series,
    )


def _plugin_case(
    random: Random,
    name: str,
    nodes: int,
    rounds: int,
    samples: int,
    settings: Mapping[str, int] | None = None,
    factor: float = 1.0,
) -> Case:
    left_out = {"upstream": UPSTREAM_LEFT_OUT}
    if nodes > 5000:
        left_out |= dict.fromkeys(("kwx-whole", "goextender-whole"), WHOLE_LEFT_OUT)
    if name == "swaps":
        left_out |= {each.name: SWAPS_LEFT_OUT for each in PLUGIN_VARIANTS if each.name != "kwx"}
    series = []
    for variant in (each for each in PLUGIN_VARIANTS if each.name not in left_out):
        slower = factor if variant.kind == "extender" else 1.0
        series += _verbs(random, variant.name, nodes, rounds, samples, slower)
        if name in GOES_ON:
            quiet = _verbs(random, variant.name, nodes, rounds, samples, 1.0)
            series += [replace(each, metric=each.metric + QUIET) for each in quiet]
    return Case(
        name=name,
        title=f"{nodes:,} nodes" if settings is None else f"{nodes:,} nodes, {name}",
        nodes=nodes,
        settings={**BASE, **(settings or {})},
        rounds=rounds,
        series=series,
        left_out=left_out,
    )


def _verbs(random: Random, variant: str, nodes: int, rounds: int, samples: int, factor: float) -> list[Series]:
    """filter, prioritize and cycle of a variant."""
    verbs = []
    for verb, part_of in (("filter", 1.0), ("prioritize", 0.8)):
        cost = {part: (fixed + each * nodes) * factor * part_of for part, (fixed, each) in COSTS[variant].items()}
        times = [_times(random, sum(cost.values()), samples) for _ in range(rounds)]
        verbs.append(_series(variant, verb, times, cost))
    first, second = verbs
    return [
        first,
        second,
        Series(
            variant=variant,
            metric="cycle",
            unit="us",
            better="lower",
            rounds=[
                [a + b for a, b in zip(*each, strict=True)] for each in zip(first.rounds, second.rounds, strict=True)
            ],
            parts={
                part: [a + b for a, b in zip(values, second.parts[part], strict=True)]
                for part, values in first.parts.items()
            },
        ),
    ]


def _series(variant: str, verb: str, rounds: list[list[float]], cost: Mapping[str, float]) -> Series:
    means = [sum(each) / len(each) for each in rounds]
    total = sum(cost.values())
    parts = {part: [mean * cost[part] / total for mean in means] for part in PARTS if part in cost}
    return Series(variant=variant, metric=verb, unit="us", better="lower", rounds=rounds, parts=parts)


def _times(random: Random, typical: float, count: int) -> list[float]:
    """Times of a round: most are alike, some are long."""
    shift = random.gauss(0, 0.03)
    times = []
    for _ in range(count):
        late = random.expovariate(2) if random.random() < 0.03 else 0
        times.append(typical * math.exp(random.gauss(shift, 0.08) + late))
    return times


def _figure(random: Random, typical: float) -> float:
    """The figure of a round that has only one sample."""
    return typical * math.exp(random.gauss(0, 0.02))


def _timeline(random: Random, points: int) -> Timeline:
    seconds = [at * 60 / points for at in range(points)]
    marks = [float(each) for each in range(5, 60, 10)]
    values = [
        _times(random, 280, 1)[0] * (2.5 if any(0 <= second - mark < 0.4 for mark in marks) else 1)
        for second in seconds
    ]
    return Timeline(variant="kwx", metric="cycle", unit="us", seconds=seconds, values=values, marks=marks)


def _cold(random: Random, rounds: int) -> Case:
    starts = {
        ("wasmtime", "first"): 310,
        ("wasmtime", "first cached"): 95,
        ("kwx", "first"): 920,
        ("kwx", "first cached"): 690,
        ("goextender", "first"): 60,
        ("goextender", "first cached"): 60,
        ("native", "first"): 0.1,
        ("native", "first cached"): 0.1,
    }
    series = [
        Series(
            variant=variant,
            metric=metric,
            unit="ms",
            better="lower",
            rounds=[[_figure(random, start)] for _ in range(rounds)],
        )
        for (variant, metric), start in starts.items()
    ]
    return Case(name="cold", title="cold start, 500 nodes", nodes=500, settings={**BASE}, rounds=rounds, series=series)


def _batch(random: Random, nodes: int, rounds: int, variants: Iterable[str] = USUAL) -> Case:
    series, spans = [], Random(nodes)
    for variant in variants:
        fixed, each = PODS[variant]
        pod = fixed + each * nodes
        rates = [[1000 / _figure(random, pod)] for _ in range(rounds)]
        series.append(Series(variant=variant, metric="throughput", unit="1/s", better="higher", rounds=rates))
        series += _spans(spans, variant, pod, rounds, "algorithm")
        series += _usage(random, variant, pod / 3.5, rounds)
        series += _extender(random, variant, nodes, rounds)
    return Case(
        name=f"batch-{nodes}",
        title=f"{nodes:,} nodes, 1,000 pods at once",
        nodes=nodes,
        settings={"load": "batch", "pods": 1000, "podsPerSecond": 0},
        rounds=rounds,
        series=series,
    )


def _steady(random: Random, nodes: int, rounds: int) -> Case:
    series, spans = [], Random(nodes)
    for variant in USUAL:
        fixed, each = PODS[variant]
        pod = fixed + each * nodes
        times = [_times(random, pod + 6, 60) for _ in range(rounds)]
        series.append(Series(variant=variant, metric="pod", unit="ms", better="lower", rounds=times))
        series += _spans(spans, variant, pod, rounds, *SPANS)
        series += _usage(random, variant, pod / 3.5, rounds)
        series += _extender(random, variant, nodes, rounds)
    return Case(
        name=f"steady-{nodes}",
        title=f"{nodes:,} nodes, 50 pods a second",
        nodes=nodes,
        settings={"load": "steady", "pods": 1000, "podsPerSecond": 50},
        rounds=rounds,
        series=series,
    )


def _spans(random: Random, variant: str, pod: float, rounds: int, *spans: str) -> Iterable[Series]:
    """kube-scheduler's own histograms: exact means, and percentiles that are seldom right."""
    for span in spans:
        means = [[_figure(random, pod * SPANS[span])] for _ in range(rounds)]
        yield Series(variant=variant, metric=span, unit="ms", better="lower", rounds=means)
        for name, factor in PERCENTILES.items():
            values = [[_in_bucket(mean * factor, name) for mean in samples] for samples in means]
            yield Series(variant=variant, metric=f"{span} {name}", unit="ms", better="lower", rounds=values)


def _in_bucket(value: float, percentile: str) -> float:
    """A percentile as it is estimated from its bucket alone."""
    part = int(percentile.removeprefix("p")) / 100
    return float(2.0 ** math.floor(math.log2(value)) * (1 + part))


def _usage(random: Random, variant: str, factor: float, rounds: int) -> Iterable[Series]:
    extender = {"extender": EXTENDERS[variant]} if variant in EXTENDERS else {}
    for process, (milliseconds, megabytes) in (PROCESSES | extender).items():
        cpu = [[_figure(random, milliseconds * factor)] for _ in range(rounds)]
        memory = [[_figure(random, megabytes)] for _ in range(rounds)]
        yield Series(variant=variant, metric=f"cpu {process}", unit="ms", better="lower", rounds=cpu)
        if process in OUTLIVE_ROUNDS:
            continue
        yield Series(variant=variant, metric=f"memory {process}", unit="MB", better="lower", rounds=memory)


def _extender(random: Random, variant: str, nodes: int, rounds: int) -> Iterable[Series]:
    """The time that an extender spends on a pod."""
    inside = {
        part: cost for part, cost in COSTS.get(variant, {}).items() if part in {"decode", "map", "guest", "encode"}
    }
    if len(inside) > 1:
        cost = {part: (fixed + each * nodes) * 1.8 / 1000 for part, (fixed, each) in inside.items()}
        spent = _series(variant, "extender", [[_figure(random, sum(cost.values()))] for _ in range(rounds)], cost)
        yield replace(spent, unit="ms")


def _conditions(cases: Iterable[Case]) -> list[Condition]:
    """The conditions of a quiet machine."""
    rounds = [(case.name, at) for case in cases for at in range(case.rounds)]
    return [
        Condition(
            seconds=at * 12.0,
            case=case,
            round=number,
            load=0.9 + at % 3 / 10,
            yardstick=2000.0 + at % 5,
            steal=0.0,
            others=0.02,
        )
        for at, (case, number) in enumerate(rounds)
    ]
