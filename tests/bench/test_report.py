"""A report says what a run's figures say, to whoever looks at it, whatever a run holds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from msgspec.structs import replace

from bench import report
from bench.report.findings import Finding, findings
from bench.report.plots import gallery, growth
from bench.report.plots.stacks import breakdown
from bench.report.results import Results
from bench.report.tables import Table, conditions, left_out, parts, samples, sides, span
from bench.run import HISTOGRAMS, PARTS, Case, Run, RunError, Series
from bench.scheduler.round import WINDOW
from tests.bench import runs
from tests.patience import PATIENCE_S

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """What a page is made of; its elements must be nested."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        """Element, name and value."""
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words += data.split()

    @property
    def text(self) -> str:
        return " ".join(self.words)


def written(run: Run, folder: Path) -> str:
    """The page of a run."""
    report.write(run, folder)
    return (folder / "report.html").read_text()


def cells(table: Table | None) -> list[list[str]]:
    assert table
    return [table.head, *([cell.text for cell in row] for group in table.groups for row in group.rows)]


def grouped(table: Table | None) -> list[tuple[str, list[list[str]]]]:
    assert table
    return [(group.label, [[cell.text for cell in row] for row in group.rows]) for group in table.groups]


def only(run: Run, *names: str) -> Run:
    """The run with some of its cases."""
    return replace(run, cases=[case for case in run.cases if case.name in names])


def shortened(run: Run, rounds: int) -> Run:
    """The run with the first rounds only."""

    def cut(series: Series) -> Series:
        halves = {part: means[:rounds] for part, means in series.parts.items()}
        return replace(series, rounds=series.rounds[:rounds], parts=halves)

    cases = [replace(case, rounds=rounds, series=[cut(each) for each in case.series]) for case in run.cases]
    return replace(run, cases=cases)


def without(run: Run, *variants: str) -> Run:
    """The run without what was measured of some variants."""
    cases = [replace(case, series=[each for each in case.series if each.variant not in variants]) for case in run.cases]
    return replace(run, cases=cases)


PLUGIN_ANSWER = (
    "Our extender (“wasm over HTTP, node names”) takes 0.60 ms for a pod's cycle at 500 nodes: 6.65 times (6.33 to "
    "7.00) as long as “Go plugin, in-process”, and no difference is shown to “Go extender, node names” (1.00 "
    "times, 0.97 to 1.02). 64% of the time of our extender is transport and JSON."
)


NAMES_BESIDE_PLUGIN = "“wasm over HTTP, node names” beside “Go plugin, in-process”"
NAMES_BESIDE_STOCK = "“wasm over HTTP, node names” beside “kube-scheduler as it is”"
NAMES_BESIDE_GO = "“wasm over HTTP, node names” beside “Go extender, node names”"
WHOLE_BESIDE_PLUGIN = "“wasm over HTTP, whole nodes” beside “Go plugin, in-process”"
WHOLE_BESIDE_STOCK = "“wasm over HTTP, whole nodes” beside “kube-scheduler as it is”"
WHOLE_BESIDE_GO = "“wasm over HTTP, whole nodes” beside “Go extender, whole nodes”"

FEW_ROUNDS = (
    "At 500 nodes kube-scheduler binds 207 pods a second with our extender (“wasm over HTTP, node names”), 217 pods a "
    "second with “kube-scheduler as it is”, and 201 pods a second with “Go extender, node names”. 2 rounds (206 and "
    "208; 142 and 293; 201 and 201) are too few to tell."
)
UNLIKE_ROUNDS = (
    "At 500 nodes kube-scheduler binds 208 pods a second with our extender (“wasm over HTTP, node names”): no "
    "difference is shown to “kube-scheduler as it is” (0.75 times, 0.27 to 2.06) and “Go extender, node names” (1.04 "
    "times, 0.99 to 1.09). Rounds differ much, in pods a second: 142 to 293 with “kube-scheduler as it is”."
)


def test_what_a_run_of_the_plugin_level_says() -> None:
    found = findings(Results(runs.plugin()))
    assert (found.whole_answer, found.more) == (
        PLUGIN_ANSWER,
        [
            Finding(
                "Where the time goes",
                "Of 0.62 ms on average, 0.39 ms (64%) are transport and JSON, 0.043 ms (7%) are finding nodes and "
                "bringing guests up to date and 0.18 ms (29%) are the policy and what it asks its host.",
            ),
            Finding(
                "What the module costs in our runtime",
                "In-process (“wasm in-process, wasmtime”) the module takes 0.18 ms: 2.09 times (2.00 to 2.19) as "
                "long as “Go plugin, in-process”; our extender takes 3.30 times (3.09 to 3.53) as long as that.",
            ),
            Finding(
                "How it grows",
                "From 100 to 15,000 nodes, 150 times as many, our extender goes from 0.27 to 12 ms, 45 times; “Go "
                "extender, node names” goes from 0.21 to 15 ms, 69 times; “Go plugin, in-process” goes from 0.023 "
                "to 2.4 ms, 104 times.",
            ),
            Finding(
                "What else matters",
                "At 500 nodes 0.60 ms (p99: 1.0) become 1.2 (1.8) with 3 plugins and 0.81 (1.1) with nodes of 40,000 "
                "bytes. At 500 nodes 0.60 ms (p99: 1.4) become 0.67 (1.1) with 100 node updates a second. At 500 nodes "
                "0.60 ms (p99: 0.96) become 0.71 (0.98) with 30 swaps a minute.",
            ),
            Finding(
                "Cold start",
                "From the start of its process until it is ready, and for the first cycle, our extender takes 913 "
                "ms (683 if compiled code is cached): 15.3 times (14.9 to 15.6) as long as “Go extender, node "
                "names”. In-process, loading the same module and the first cycle take 309 ms (94 if compiled code "
                "is cached).",
            ),
            Finding(
                "Whole nodes",
                "Sent whole nodes and not their names (“wasm over HTTP, whole nodes”): 27 ms, 305 times (292 to "
                "318) as long as “Go plugin, in-process”, and 0.25 times (0.24 to 0.26) as long as “Go extender, "
                "whole nodes”.",
            ),
        ],
    )


def test_what_a_run_of_the_scheduler_level_says() -> None:
    found = findings(Results(runs.scheduler()))
    assert (found.whole_answer, found.more) == (
        "At 500 nodes kube-scheduler binds 208 pods a second with our extender (“wasm over HTTP, node names”): "
        "0.73 times (0.68 to 0.78) as many as with “kube-scheduler as it is”, and no difference is shown to “Go "
        "extender, node names” (1.04 times, 0.99 to 1.09).",
        [
            Finding(
                "With other numbers of nodes",
                "At 1,000 nodes kube-scheduler binds 180 pods a second with our extender: 0.67 times (0.66 to "
                "0.69) as many as with “kube-scheduler as it is”, and no difference is shown to “Go extender, "
                "node names” (1.08 times, 0.99 to 1.18).",
            ),
            Finding(
                "Whole nodes",
                "Sent whole nodes and not their names (“wasm over HTTP, whole nodes”): 50 pods a second, 0.17 "
                "times (0.16 to 0.18) as many as with “kube-scheduler as it is”, and 4.03 times (3.79 to 4.29) as "
                "many as with “Go extender, whole nodes”.",
            ),
            Finding(
                "How long pods wait",
                "At 500 nodes and 50 pods a second half of the pods are bound within, and 99 in 100 within: 11 and "
                "15 ms with our extender, 9.5 and 12 ms with “kube-scheduler as it is” and 11 and 19 ms with “Go "
                "extender, node names”.",
            ),
            Finding(
                "What an extender adds",
                "At 500 nodes choosing a node, without binding, takes on average 3.4 ms with our extender, 2.4 ms "
                "with “kube-scheduler as it is” and 3.5 ms with “Go extender, node names”.",
            ),
            Finding(
                "What it takes of the machine",
                "At 500 nodes a pod takes of the processor, in all processes but the harness, 9.8 ms (0.82 of it "
                "in the extender) with our extender, 6.5 ms with “kube-scheduler as it is” and 10 ms (0.71 of it "
                "in the extender) with “Go extender, node names”. Of memory our extender takes up to 124 MB: 3.12 "
                "times (2.93 to 3.33) as much as “Go extender, node names”.",
            ),
        ],
    )


BEST_BESIDE = "“wasm over HTTP, best node” beside"
BEST_ANSWER = (
    "At 500 nodes kube-scheduler binds 267 pods a second with our extender with topNodes: 1 (“wasm over HTTP, best "
    "node”): 0.94 times (0.89 to 0.99) as many as with “kube-scheduler as it is”, 0.92 times (0.86 to 0.99) as many as "
    "with “Go plugin, in-process, no in-tree scores”, and no difference is shown to “Go plugin, in-process” (1.00 "
    "times, 0.94 to 1.06) and “Go extender, best node” (1.01 times, 0.96 to 1.07)."
)
"""Beside what has the same policy, with and without the scores of in-tree plugins."""


def test_what_an_extender_costs_that_decides_is_told_first_with_what_it_gives_up() -> None:
    found = findings(Results(runs.top()))
    assert (found.answer, found.aside) == (
        BEST_ANSWER,
        "With topNodes: 1 filter leaves one node. So kube-scheduler asks no prioritize and computes no scores of its "
        "own. What in-tree plugins prefer (topology spread, affinity, images) does not count. What they require does.",
    )
    assert found.more[1:4] == [
        Finding(
            "All nodes that pass",
            "When filter answers all nodes that pass, and prioritize is asked (“wasm over HTTP, node names”): 207 pods "
            "a second, 0.72 times (0.68 to 0.76) as many as with “kube-scheduler as it is”, and no difference is shown "
            "to “Go extender, node names” (1.04 times, 0.99 to 1.09).",
        ),
        Finding(
            "The best five nodes",
            "When filter answers the best five nodes (“wasm over HTTP, best 5 nodes”): 245 pods a second, 0.86 times "
            "(0.82 to 0.91) as many as with “kube-scheduler as it is”.",
        ),
        Finding(
            "Pods that are alike",
            "At 1,000 nodes, of pods that are alike and have a node each, kube-scheduler binds a second: 2,140 with "
            "“kube-scheduler as it is” (97% of them batched), 264 with “kube-scheduler without batching”, 1,923 with "
            "“Go plugin, in-process” (97% of them batched), 2,202 with “Go plugin, in-process, no in-tree scores” (97% "
            "of them batched), 239 with our extender with topNodes: 1, 232 with “Go extender, best node”, 221 with our "
            "extender with topNodes: 5, 180 with our extender and 165 with “Go extender, node names”. It batches such "
            "pods until an extender is registered, if it has no default constraints of topology spread; those are "
            "switched off here.",
        ),
    ]


def test_what_only_another_way_of_asking_was_measured_in_is_told_of_that() -> None:
    """Modules are swapped in an extender that answers all nodes."""
    run = runs.plugin()
    for case in run.cases[:5]:
        same = [each for each in case.series if each.variant == "kwx"]
        case.series.extend(replace(each, variant="kwx-top1") for each in same)
    run = replace(run, variants=[*run.variants, runs.TOP_VARIANTS[4]])
    found = findings(Results(run))
    assert found.answer.startswith(
        "Our extender with topNodes: 1 (“wasm over HTTP, best node”) takes 0.60 ms for a pod's cycle at 500 nodes: "
    )
    told = next(each.text for each in found.more if each.topic == "What else matters")
    assert told.endswith("At 500 nodes 0.60 ms of our extender (p99: 0.96) become 0.71 (0.98) with 30 swaps a minute.")


def test_the_best_node_alone_is_weighed_beside_the_policy_compiled_in() -> None:
    label, rows = grouped(sides(Results(only(runs.top(), "batch-500"))))[0]
    assert (label, [row[0] for row in rows[:4]]) == (
        "Throughput: higher is better",
        [
            f"{BEST_BESIDE} “kube-scheduler as it is”",
            f"{BEST_BESIDE} “Go plugin, in-process”",
            f"{BEST_BESIDE} “Go plugin, in-process, no in-tree scores”",
            f"{BEST_BESIDE} “Go extender, best node”",
        ],
    )


def test_pods_that_are_alike_are_no_other_number_of_nodes(tmp_path: Path) -> None:
    results = Results(runs.top())
    assert [case.name for case in results.scale("throughput")] == ["batch-500", "batch-1000"]
    plots = [plot.name for plot in gallery(results)]
    assert plots[:5] == [
        "throughput",
        "throughput-nodes-p50",
        "throughput-ratio-base",
        "throughput-ratio-go",
        "throughput-alike",
    ]
    assert next(iter(gallery(Results(only(runs.top(), "alike-1000"))))).name == "throughput"
    page = Page(written(runs.top(), tmp_path)).text
    assert "Pods placed by what was found for the one before, % Higher is better." in page


@pytest.mark.parametrize(
    ("missing", "answer"),
    [
        pytest.param(
            ["native", "goextender", "goextender-whole"],
            "Our extender (“wasm over HTTP, node names”) takes 0.60 ms for a pod's cycle at 500 nodes: 3.30 times "
            "(3.09 to 3.53) as long as “wasm in-process, wasmtime”. 64% of the time of our extender is transport "
            "and JSON.",
            id="a user's module, which has no peers in Go",
        ),
        pytest.param(
            ["kwx", "kwx-whole"],
            "“Go plugin, in-process” takes 0.089 ms for a pod's cycle at 500 nodes.",
            id="no extender of ours",
        ),
        pytest.param(
            ["kwx", "native", "wasmtime"],
            "“wasm over HTTP, whole nodes” takes 27 ms for a pod's cycle at 500 nodes: 0.25 times (0.24 to 0.26) "
            "as long as “Go extender, whole nodes”. 81% of the time of “wasm over HTTP, whole nodes” is transport "
            "and JSON.",
            id="whole nodes alone",
        ),
        pytest.param([each.name for each in runs.PLUGIN_VARIANTS], "Nothing has been measured yet.", id="nothing"),
    ],
)
def test_the_answer_is_about_what_was_measured(missing: list[str], answer: str) -> None:
    assert findings(Results(without(runs.plugin(), *missing))).whole_answer == answer


def test_the_answer_of_too_few_rounds_has_no_intervals() -> None:
    assert findings(Results(shortened(runs.plugin(), 1))).whole_answer == (
        "Our extender (“wasm over HTTP, node names”) takes 0.63 ms for a pod's cycle at 500 nodes, 0.086 ms with "
        "“Go plugin, in-process”, and 0.60 ms with “Go extender, node names”. 64% of the time of our extender is "
        "transport and JSON. 1 round is too few to tell."
    )


def test_where_ours_loses_is_told_as_where_it_wins() -> None:
    table = sides(Results(runs.plugin()))
    assert table
    assert (table.head, table.note) == (
        ["", "ours loses", "ours wins", "no difference shown", "too little to tell"],
        "How many times the other's figure ours is, by case. No difference shown: the interval of 95% reaches 1. Too "
        "little to tell: rounds or samples are too few for an interval, so there is no ratio.",
    )
    assert grouped(table) == [
        (
            "Cycle, p50: lower is better",
            [
                [NAMES_BESIDE_PLUGIN, "8 of 8 cases: 5.02 to 12.8", "", "", ""],
                [
                    NAMES_BESIDE_GO,
                    "100 nodes: 1.27",
                    "1,000 nodes: 0.93; 5,000 nodes: 0.84; 15,000 nodes: 0.83",
                    "4 of 8 cases: 0.99 to 1.00",
                    "",
                ],
                [WHOLE_BESIDE_PLUGIN, "7 of 7 cases: 239 to 556", "", "", ""],
                [WHOLE_BESIDE_GO, "", "7 of 7 cases: 0.24 to 0.26", "", ""],
            ],
        ),
        (
            "Cold start, nothing cached: lower is better",
            [[NAMES_BESIDE_GO, "cold start, 500 nodes: 15.3", "", "", ""]],
        ),
        (
            "Cold start, compiled code cached: lower is better",
            [[NAMES_BESIDE_GO, "cold start, 500 nodes: 11.3", "", "", ""]],
        ),
    ]


def test_what_an_extender_takes_of_the_machine_is_weighed_too() -> None:
    at = "500 nodes, 1,000 pods at once"
    assert grouped(sides(Results(only(runs.scheduler(), "batch-500")))) == [
        (
            "Throughput: higher is better",
            [
                [NAMES_BESIDE_STOCK, f"{at}: 0.73", "", "", ""],
                [NAMES_BESIDE_GO, "", "", f"{at}: 1.04", ""],
                [WHOLE_BESIDE_STOCK, f"{at}: 0.17", "", "", ""],
                [WHOLE_BESIDE_GO, "", f"{at}: 4.03", "", ""],
            ],
        ),
        (
            "Choice of a node, mean: lower is better",
            [
                [NAMES_BESIDE_STOCK, f"{at}: 1.38", "", "", ""],
                [NAMES_BESIDE_GO, "", f"{at}: 0.95", "", ""],
                [WHOLE_BESIDE_STOCK, f"{at}: 5.72", "", "", ""],
                [WHOLE_BESIDE_GO, "", f"{at}: 0.25", "", ""],
            ],
        ),
        (
            "Processor time a pod, kube-scheduler: lower is better",
            [
                [NAMES_BESIDE_STOCK, f"{at}: 1.39", "", "", ""],
                [NAMES_BESIDE_GO, "", f"{at}: 0.95", "", ""],
                [WHOLE_BESIDE_STOCK, f"{at}: 5.68", "", "", ""],
                [WHOLE_BESIDE_GO, "", f"{at}: 0.25", "", ""],
            ],
        ),
        (
            "Processor time a pod, extender: lower is better",
            [[NAMES_BESIDE_GO, f"{at}: 1.13", "", "", ""], [WHOLE_BESIDE_GO, "", f"{at}: 0.19", "", ""]],
        ),
        (
            "Peak memory, extender: lower is better",
            [[NAMES_BESIDE_GO, f"{at}: 3.12", "", "", ""], [WHOLE_BESIDE_GO, f"{at}: 2.51", "", "", ""]],
        ),
    ]


def test_a_table_of_samples() -> None:
    results = Results(only(runs.plugin(), "500", "cold"))
    assert cells(samples(results, "cycle"))[:4] == [
        [
            "variant",
            "p50",
            "its interval",
            "p90",
            "p99",
            "beside in-process",
            "beside Go extender",
            "outliers",
            "rounds",
        ],
        ["Go plugin, in-process", "0.0887", "0.0872 to 0.0903", "0.0966", "0.171", "", "", "5 of 240", "8"],
        [
            "wasm in-process, wasmtime (ours)",
            *("0.184", "0.180 to 0.188", "0.201", "0.352", "2.09 (2.00 to 2.19)", "", "5 of 240", "8"),
        ],
        [
            "wasm over HTTP, node names (ours)",
            *(
                "0.600",
                "0.582 to 0.618",
                "0.662",
                "1.04",
                "6.65 (6.33 to 7.00)",
                "1.00 (0.97 to 1.02)",
                "3 of 240",
                "8",
            ),
        ],
    ]


def test_starts_of_extenders_are_not_compared_with_what_is_in_process() -> None:
    table = samples(Results(only(runs.plugin(), "cold")), "first cached")
    assert (table.title, table.note) == (
        "Cold start, compiled code cached, ms",
        "Lower is better. In-process it is loading the plugin and the first cycle; of an extender it is from the start "
        "of its process until it is ready, and the first cycle: these do not compare.",
    )
    assert cells(table) == [
        ["variant", "p50", "its interval", "beside Go extender", "outliers", "rounds"],
        ["Go plugin, in-process", "0.101", "0.0991 to 0.103", "", "0 of 8", "8"],
        ["wasm in-process, wasmtime (ours)", "94.1", "92.4 to 95.9", "", "0 of 8", "8"],
        ["wasm over HTTP, node names (ours)", "683", "667 to 700", "11.3 (11.1 to 11.6)", "0 of 8", "8"],
        ["Go extender, node names", "60.3", "58.1 to 62.5", "", "0 of 8", "8"],
    ]


CHOICE = (
    "Lower is better. Until a node is chosen, without binding: under a steady load the difference to a scheduler "
    "without extender is what the extender adds. In a batch the pods of the warm-up are among them. Percentiles are of "
    "kube-scheduler's histogram, whose buckets double (1, 2, 4, 8, 16 ms): one shown as 14.7 may be anything from 8 to "
    "16, so they have neither intervals nor ratios."
)


def test_means_of_a_histogram_are_compared_and_its_percentiles_are_not() -> None:
    table = span(Results(only(runs.scheduler(), "steady-500")), "algorithm")
    assert table
    assert (table.title, table.note) == (
        "Choice of a node, ms",
        f"{CHOICE} Means are exact. Beside in-process: beside “kube-scheduler as it is”.",
    )
    in_process, go = "beside in-process", "beside Go extender"
    assert cells(table) == [
        ["variant", "p50", "p90", "p99", "mean", "its interval", in_process, go, "rounds"],
        ["kube-scheduler as it is", "1.50", "3.80", "7.96", "2.41", "2.36 to 2.46", "", "", "5"],
        [
            "Go plugin, in-process",
            *("3.00", "7.60", "7.96", "2.64", "2.59 to 2.69", "1.10 (1.06 to 1.14)", "", "5"),
        ],
        [
            "wasm over HTTP, node names (ours)",
            *("3.00", "7.60", "7.96", "3.37", "3.26 to 3.48", "1.40 (1.33 to 1.47)", "0.96 (0.92 to 0.99)", "5"),
        ],
        [
            "Go extender, node names",
            *("3.00", "7.60", "7.96", "3.49", "3.40 to 3.59", "1.44 (1.39 to 1.49)", "", "5"),
        ],
        [
            "wasm over HTTP, whole nodes (ours)",
            *("12.0", "30.4", "31.8", "14.3", "13.3 to 15.3", "5.92 (5.54 to 6.32)", "0.25 (0.23 to 0.26)", "5"),
        ],
        [
            "Go extender, whole nodes",
            *("48.0", "122", "127", "57.0", "54.7 to 59.3", "23.8 (22.2 to 25.4)", "", "5"),
        ],
    ]


def test_percentiles_of_a_histogram_without_its_means(tmp_path: Path) -> None:
    """Runs of earlier releases have no means."""
    run = only(runs.scheduler(), "steady-500")
    case = run.cases[0]
    run = replace(run, cases=[replace(case, series=[each for each in case.series if each.metric not in HISTOGRAMS])])
    results = Results(run)
    table = span(results, "algorithm")
    assert table
    assert table.note == CHOICE
    assert cells(table)[:2] == [["variant", "p50", "p90", "p99"], ["kube-scheduler as it is", "1.50", "3.80", "7.96"]]
    assert "What an extender adds" not in {each.topic for each in findings(results).more}
    assert f"Choice of a node, ms {CHOICE} variant p50 p90 p99" in Page(written(run, tmp_path)).text


def test_nothing_that_cannot_be_seen_is_shown_as_none() -> None:
    assert cells(conditions(runs.scheduler())) == [
        ["", "least", "median", "most"],
        ["load: processes that ran or waited for a core", "0.900", "1.00", "1.10"],
        ["a fixed piece of work, ms", "2.00", "2.00", "2.00"],
        ["time that the hypervisor gave to others, %", "0", "0", "0"],
        ["cores that other programs took from the harness", "below 0.1", "below 0.1", "below 0.1"],
    ]


def test_how_it_grows_is_drawn_for_what_rises_and_what_falls() -> None:
    plots = {each.name: each for each in gallery(Results(runs.scheduler())) if "nodes" in each.name}
    scales = "Both scales are logarithmic: equal distances are equal ratios."
    bars = " Bars on the points are intervals of 95%."
    assert {name: (each.title, each.reading) for name, each in plots.items()} == {
        "throughput-nodes-p50": (
            "Throughput against nodes, p50",
            f"Higher is better (p50: the median). {scales}{bars}",
        ),
        "pod-nodes-p50": (
            "Time until a pod is bound against nodes, p50",
            f"Lower is better (p50: the median). {scales}{bars}",
        ),
        "pod-nodes-p99": (
            "Time until a pod is bound against nodes, p99",
            f"Lower is better (p99: one in a hundred takes longer). {scales}",
        ),
    }
    for name, axis in (("throughput", "pods/s, throughput"), ("pod", "ms, time until a pod is bound")):
        assert f">{axis}</text>" in plots[f"{name}-nodes-p50"].svg


def test_the_parts_of_what_cannot_be_told_apart_are_empty() -> None:
    table = parts(Results(only(runs.plugin(), "500")), "cycle")
    assert table
    assert table.note == (
        "Means. Where a plugin is called in-process and its time cannot be divided, there is the whole alone."
    )
    assert cells(table)[1:4] == [
        ["Go plugin, in-process", "", "", "", "", "", "", "", "0.0911"],
        ["wasm in-process, wasmtime (ours)", "", "", "", "0.0150", "0.177", "", "", "0.192"],
        [
            "wasm over HTTP, node names (ours)",
            "0.0579",
            "0.131",
            "0.0728",
            "0.0429",
            "0.179",
            "0.0560",
            "0.0765",
            "0.616",
        ],
    ]


def test_what_has_one_part_is_drawn_undivided(tmp_path: Path) -> None:
    run = only(runs.plugin(), "500")
    report.write(run, tmp_path)
    legend = [
        each.text
        for each in ElementTree.parse(tmp_path / "cycle-parts-500.svg").iter("{http://www.w3.org/2000/svg}text")
        if each.text in {*PARTS.values(), "in-process, undivided"}
    ]
    assert legend == [*PARTS.values(), "in-process, undivided"]
    others = [each.name for each in run.variants if each.name != "native"]
    results = Results(without(run, *others))
    assert (parts(results, "cycle"), [*breakdown(results, results.run.cases[0], "cycle")]) == (None, [])


def test_what_goes_on_in_a_case_is_compared_with_its_own_quiet_rounds() -> None:
    results = Results(runs.plugin())
    found = [(each.what, each.after.name, each.plain, each.before.name) for each in results.changes("cycle")]
    assert found == [
        ("3 plugins", "plugins-3", "cycle", "500"),
        ("nodes of 40,000 bytes", "large-nodes", "cycle", "500"),
        ("100 node updates a second", "churn", "cycle quiet", "churn"),
        ("30 swaps a minute", "swaps", "cycle quiet", "swaps"),
    ]


def test_what_was_left_out_is_told_with_the_reason() -> None:
    assert cells(left_out(runs.plugin())) == [
        ["variant", "in", "why"],
        ["wasm in-process, upstream host", "8 of 10 cases", runs.UPSTREAM_LEFT_OUT],
        ["wasm over HTTP, whole nodes (ours); Go extender, whole nodes", "15,000 nodes", runs.WHOLE_LEFT_OUT],
        [
            "wasm in-process, upstream host; Go plugin, in-process; wasm in-process, wasmtime (ours); Go extender, "
            "node names; wasm over HTTP, whole nodes (ours); Go extender, whole nodes",
            "500 nodes, swaps",
            runs.SWAPS_LEFT_OUT,
        ],
    ]


MARKDOWN = """\
**At 500 nodes kube-scheduler binds 208 pods a second with our extender (“wasm over HTTP, node names”): 0.73 times \
(0.68 to 0.78) as many as with “kube-scheduler as it is”, and no difference is shown to “Go extender, node names” \
(1.04 times, 0.99 to 1.09).**

**Throughput, pods/s.** Medians, and how many times those of “kube-scheduler as it is” and of the Go extender asked in \
the same way they are, with intervals of 95%.

| case | variant | p50 | beside in-process | beside Go extender |
| --- | --- | --- | --- | --- |
| 500 nodes, 1,000 pods at once | kube-scheduler as it is | 289 |  |  |
| 500 nodes, 1,000 pods at once | Go plugin, in-process | 266 | 0.92 (0.90 to 0.94) |  |
| 500 nodes, 1,000 pods at once | wasm over HTTP, node names (ours) | 208 | 0.73 (0.68 to 0.78) | 1.04 (0.99 to 1.09) |
| 500 nodes, 1,000 pods at once | Go extender, node names | 201 | 0.70 (0.65 to 0.74) |  |
| 500 nodes, 1,000 pods at once | wasm over HTTP, whole nodes (ours) | 49.9 | 0.17 (0.16 to 0.18) | 4.03 (3.79 to \
4.29) |
| 500 nodes, 1,000 pods at once | Go extender, whole nodes | 12.4 | 0.043 (0.042 to 0.045) |  |

AMD EPYC 7B13, 2 cores, 8.3 GB, Linux 6.1 x86\\_64; kwx 0.1.0, python 3.11.7, kubernetes 1.36.1, etcd 3.6.5, kwok \
0.7.0. Measured by: kwx bench scheduler
"""


def test_markdown() -> None:
    assert report.markdown(only(runs.scheduler(), "batch-500")) == MARKDOWN


COSTS = """\
With topNodes: 1 filter leaves one node. So kube-scheduler asks no prioritize and computes no scores of its own. What \
in-tree plugins prefer (topology spread, affinity, images) does not count. What they require does.

| throughput, pods/s | 500 nodes | 1,000 nodes |
| --- | --- | --- |
| kube-scheduler as it is | 286 | 268 |
| Go plugin, in-process | 266 (0.94) | 237 (0.89) |
| wasm over HTTP, best node (ours) | 267 (0.94) | 240 (0.91) |
| Go extender, best node | 264 (0.93) | 236 (0.87) |

In brackets: how many times that of “kube-scheduler as it is”.

| at 500 nodes | lowest and highest round | ours divided by it | verdict |
| --- | --- | --- | --- |
| wasm over HTTP, best node (ours) | 259 to 277 pods/s |  |  |
| kube-scheduler as it is | 277 to 296 pods/s | 0.94 (0.89 to 0.99) | ours loses |
| Go plugin, in-process | 259 to 281 pods/s | 1.00 (0.94 to 1.06) | no difference shown |
| Go extender, best node | 257 to 265 pods/s | 1.01 (0.96 to 1.07) | no difference shown |

Higher is better. The ratio is the median of the ratios in the same rounds, with its interval of 95%. Where the \
interval reaches 1, no difference is shown, which does not mean that there is none."""
FEW_COSTS = """\
64% of the time of our extender is transport and JSON.

| cycle, ms | 500 nodes |
| --- | --- |
| Go plugin, in-process | 0.088 |
| wasm over HTTP, node names (ours) | 0.61 |

| at 500 nodes | lowest and highest round | ours divided by it | verdict |
| --- | --- | --- | --- |
| wasm over HTTP, node names (ours) | 0.58 to 0.63 ms |  |  |
| Go plugin, in-process | 0.086 to 0.090 ms |  | too little to tell |

Lower is better. The ratio is the median of the ratios in the same rounds, with its interval of 95%. Where the \
interval reaches 1, no difference is shown, which does not mean that there is none."""
ALONE = """\
64% of the time of our extender is transport and JSON.

| cycle, ms | 500 nodes |
| --- | --- |
| wasm over HTTP, node names (ours) | 0.60 |"""
WHOLE = ("kwx-whole", "goextender-whole")


@pytest.mark.parametrize(
    ("run", "told"),
    [
        pytest.param(
            without(
                only(runs.top(), "batch-500", "batch-1000"),
                *("stock-unbatched", "native-noscores", "kwx-top5", "kwx", "goextender"),
            ),
            COSTS,
            id="the best node alone",
        ),
        pytest.param(
            without(shortened(only(runs.plugin(), "500"), 2), "upstream", "wasmtime", "goextender", *WHOLE),
            FEW_COSTS,
            id="two rounds",
        ),
        pytest.param(
            without(only(runs.plugin(), "500"), "native", "upstream", "wasmtime", "goextender", *WHOLE),
            ALONE,
            id="nothing beside it",
        ),
        pytest.param(only(runs.plugin()), "Nothing has been measured yet.", id="nothing"),
    ],
)
def test_what_an_extender_costs_is_told_in_tables(run: Run, told: str) -> None:
    assert report.costs(run) == told


PLUGIN_PLOTS = [
    "cycle-nodes-p50",
    "cycle-nodes-p99",
    "cycle-parts-500",
    "cycle-parts-500-whole",
    "cycle-parts-5000",
    "cycle-parts-5000-whole",
    "cycle-ratio-base",
    "cycle-ratio-go",
    "cycle-distribution-500",
    "cycle-distribution-5000",
    "cycle-plugins-3",
    "cycle-large-nodes",
    "cycle-churn",
    "cycle-swaps",
    "start-cold",
    "cycle-timeline-swaps-kwx",
]
SCHEDULER_PLOTS = [
    "throughput",
    "throughput-nodes-p50",
    "throughput-ratio-base",
    "throughput-ratio-go",
    "pod-nodes-p50",
    "pod-nodes-p99",
    "pod-distribution-steady-500",
    "pod-distribution-steady-1000",
    "pod-ratio-go",
    "extender-parts-batch-500",
    "extender-parts-batch-500-whole",
    "cpu-batch-500",
    "memory-batch-500",
    "extender-parts-batch-1000",
    "extender-parts-batch-1000-whole",
    "cpu-batch-1000",
    "memory-batch-1000",
]


@pytest.mark.parametrize(
    ("run", "plots"),
    [
        pytest.param(runs.plugin(points=100_000), PLUGIN_PLOTS, id="plugin"),
        pytest.param(runs.scheduler(), SCHEDULER_PLOTS, id="scheduler"),
    ],
)
def test_a_report_is_a_page_markdown_and_plots_that_need_nothing_else(
    run: Run, plots: list[str], tmp_path: Path
) -> None:
    files = report.write(run, tmp_path)
    assert [each.name for each in files] == ["report.html", "report.md", *(f"{plot}.svg" for plot in plots)]
    assert sorted(tmp_path.iterdir()) == sorted(files)

    text = files[0].read_text()
    page = Page(text)
    assert len(text) < 1_500_000
    assert findings(Results(run)).answer in page.text
    assert "<script" not in text
    assert set(re.findall(r"[a-z]+://[^\"' <)]*", text)) == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    links = [value for _, name, value in page.attributes if name in {"src", "href", "xlink:href", "srcset", "data"}]
    links += re.findall(r"url\(([^)]*)\)", text)
    assert {each[:1] for each in links} == {"#"}
    ids = Counter(value for _, name, value in page.attributes if name == "id")
    assert set(ids.values()) == {1}
    assert {each[1:] for each in links} <= ids.keys()

    for file in files[2:]:
        svg = ElementTree.parse(file).getroot()
        assert [each.tag.rpartition("}")[2] for each in svg[:2]] == ["title", "desc"]
        assert all(each.text for each in svg[:2])
        assert file.read_text() in text


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    run = replace(runs.plugin(), cases=runs.plugin().cases[:2])
    run.save(tmp_path)
    program = (
        "import sys; from pathlib import Path; from bench import report; from bench.run import Run\n"
        "folder = Path(sys.argv[1]); report.write(Run.load(folder), folder)"
    )
    found = []
    for seed in "12":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", program, tmp_path], check=True, timeout=2 * PATIENCE_S, env=environment)
        found.append({file.name: file.read_bytes() for file in tmp_path.iterdir()})
    assert found[0] == found[1]


def test_text_of_others_is_text(tmp_path: Path) -> None:
    bad = '<script>alert(1)</script> & "|" $x$ \x1b[31m \u65e5\u672c'
    run = runs.plugin()
    run = replace(
        run,
        module=bad,
        variants=[replace(each, title=f"{each.name} {bad}") for each in run.variants],
        cases=[replace(each, name=f"../{each.name} {bad}", title=f"{each.title} {bad}") for each in run.cases[:2]],
    )
    files = report.write(run, tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(files)
    text = files[0].read_text()
    assert "<script" not in text
    assert "<td>&lt;script&gt;alert(1)&lt;/script&gt; &amp; &#34;|&#34; $x$ " in text
    assert f"100 nodes {bad}".replace("\x1b", "\ufffd") in Page(text).text.replace("\x1b", "\ufffd")
    for file in files[2:]:
        ElementTree.parse(file)
    assert (
        '| 100 nodes &lt;script>alert(1)&lt;/script> &amp; "\\|" $x$ \x1b\\[31m \u65e5\u672c | native &lt;'
        in files[1].read_text()
    )


def unfinished() -> Run:
    """A run that was stopped in its second case."""
    run = shortened(runs.plugin(), 8)
    first, second, *_ = run.cases
    second = replace(shortened(replace(run, cases=[second]), 3).cases[0], rounds=8)
    later = replace(second, name="5000", title="5,000 nodes", nodes=5000, series=[])
    return replace(run, ended="", cases=[first, second, later])


def one_sample() -> Run:
    """A run whose timeline has one sample."""
    run = only(runs.plugin(points=1), "500", "swaps")
    return replace(shortened(run, 1), conditions=[])


TOO_FEW = (
    "There are too few rounds in 2 of 2 cases: with fewer than 5 nobody knows how far rounds disagree, there are no "
    "intervals, and any difference may be chance. Run again with more rounds."
)


def test_markdown_tells_that_rounds_are_too_few() -> None:
    text = report.markdown(shortened(only(runs.plugin(), "100", "500"), 4))
    assert text.split("\n\n")[1] == TOO_FEW
    assert "| 500 nodes | wasm over HTTP, node names (ours) | 0.603 |\n" in text


@pytest.mark.parametrize("run", [runs.plugin(), runs.scheduler()], ids=lambda run: str(run.level))
def test_markdown_is_short(run: Run) -> None:
    assert len(report.markdown(run).splitlines()) < 60


def busy() -> Run:
    """A run during which other programs had more than half of the machine."""
    return replace(only(runs.plugin(), "500"), conditions=[replace(runs.plugin().conditions[0], others=1.2)])


def test_markdown_of_too_noisy_a_run_begins_with_that() -> None:
    assert report.markdown(busy()).split("\n\n")[:2] == [
        "**The machine was too noisy**: do not rely on these figures.",
        PLUGIN_ANSWER,
    ]


@pytest.mark.parametrize(
    ("run", "classes"),
    [
        (busy(), ["product", "answer", "noise", "aside", "subject", "noise"]),
        (only(runs.plugin(), "500"), ["product", "answer", "aside", "subject", "noise"]),
    ],
)
def test_a_page_opens_with_the_answer_then_its_subject_then_the_noise(
    run: Run, classes: list[str], tmp_path: Path
) -> None:
    """Of too noisy a run, that comes with the answer as well."""
    found = [value.split()[0] for _, name, value in Page(written(run, tmp_path)).attributes if name == "class"]
    assert [each for each in found if each in {*classes}] == classes


def test_plots_that_stand_side_by_side_have_one_scale() -> None:
    results = Results(runs.plugin())
    figures = []
    for q in (0.5, 0.99):
        figure = Figure()
        growth._paint(results, "cycle", q, results.scale("cycle"), figure)
        figures.append(figure.axes[0].get_ylim())
    assert figures[0] == figures[1]


def test_a_page_tells_what_to_type_for_a_variant(tmp_path: Path) -> None:
    text = Page(written(only(runs.plugin(), "500"), tmp_path)).text
    assert "Go plugin, in-process native 0.0887" in text
    assert "wasm over HTTP, whole nodes (ours) kwx-whole 26.8" in text


def unlike(rounds: int) -> Run:
    """A run in which every second round of stock kube-scheduler takes twice as long."""
    run = shortened(only(runs.scheduler(), "batch-500"), rounds)
    series = [
        replace(each, rounds=[[sample / (1 + at % 2) for sample in one] for at, one in enumerate(each.rounds)])
        if (each.variant, each.metric) == ("stock", "throughput")
        else each
        for each in run.cases[0].series
    ]
    return replace(run, cases=[replace(run.cases[0], series=series)])


@pytest.mark.parametrize(("rounds", "answer"), [(2, FEW_ROUNDS), (6, UNLIKE_ROUNDS)])
def test_rounds_that_are_few_or_differ_are_told(rounds: int, answer: str) -> None:
    assert findings(Results(unlike(rounds))).whole_answer == answer


def test_without_intervals_there_is_no_ratio(tmp_path: Path) -> None:
    files = report.write(unlike(2), tmp_path)
    assert [each.name for each in files if "ratio" in each.name] == []
    assert "No intervals: too few rounds." in (tmp_path / "throughput.svg").read_text()
    row = cells(sides(Results(unlike(2))))[1]
    assert row[1:] == ["", "", "", "500 nodes, 1,000 pods at once"]


def test_a_p99_without_interval_is_explained() -> None:
    run = shortened(only(runs.plugin(), "500"), 5)
    assert samples(Results(run), "cycle").note == (
        "Lower is better. Beside in-process: beside “Go plugin, in-process”. p99 without interval: too few samples."
    )


def unasked(series: Series) -> Series:
    return replace(series, rounds=[[] for _ in series.rounds], parts={}) if series.metric == "prioritize" else series


def test_a_module_of_which_no_node_needs_a_score_is_told() -> None:
    run = only(runs.plugin(), "500")
    asked = findings(Results(run))
    run = replace(run, cases=[replace(each, series=[*map(unasked, each.series)]) for each in run.cases])
    told = Finding(
        "What was asked",
        "No more than one node was left by filter for any pod: prioritize was never asked, and a cycle is filter "
        "alone.",
    )
    assert findings(Results(run)) == asked._replace(more=[told, *asked.more])


def test_the_harness_is_in_no_sum() -> None:
    results = Results(only(runs.scheduler(), "batch-500"))
    case = results.run.cases[0]
    assert "cpu harness" in results.metrics(case)
    assert results.processes(case, "cpu") == ["kube-scheduler", "kube-apiserver", "etcd", "kwok", "extender"]
    assert results.processes(case, "memory") == ["kube-scheduler", "extender"]


METHOD = {
    "plugin": [
        "figures per pod are not those of the scheduler level",
        "The Go plugin goes through the nodes one by one; in kube-scheduler 16 goroutines do.",
        "In-process variants take updates of nodes between cycles, outside the time that is measured",
        "nodes of these cases do not change, which is the best case for ours.",
        "kube-scheduler has nobody score the only node that is left",
    ],
    "scheduler": [
        "(numFeasibleNodesToFind: 230 of 500, 420 of 1,000, 500 of 5,000)",
        "(opportunistic batching), but never with an extender. By default it does so for no pod",
        "has the scores of its in-tree plugins switched off",
        "scheduler is of another Kubernetes release than the others",
        "kube-apiserver, etcd and kwok outlive rounds",
        f"it is measured for at most {WINDOW:g} s",
        "time runs from when it was due",
    ],
}


@pytest.mark.parametrize("run", [runs.plugin(), runs.scheduler()], ids=lambda run: str(run.level))
def test_a_page_says_in_whose_favour_its_figures_are(run: Run, tmp_path: Path) -> None:
    text = Page(written(replace(run, cases=[]), tmp_path)).text
    assert [level for level, texts in METHOD.items() for each in texts if each in text] == [run.level] * len(
        METHOD[run.level]
    )


EMPTY = Case(name="500", title="500 nodes", nodes=500, rounds=8, left_out={"upstream": runs.UPSTREAM_LEFT_OUT})
NO_SAMPLES = Series(variant="kwx", metric="cycle", unit="us", better="lower", rounds=[[], []])


@pytest.mark.parametrize(
    ("run", "texts"),
    [
        pytest.param(
            unfinished(),
            [
                "Not finished. This run has not ended: 1 of the 2 cases begun are complete. 500 nodes has 3 of 8 "
                "rounds; 5,000 nodes has not begun.",
                "Our extender (“wasm over HTTP, node names”) takes",
            ],
            id="unfinished",
        ),
        pytest.param(
            replace(runs.plugin(), cases=[EMPTY], ended=""),
            ["Not finished. This run has not ended. 500 nodes has not begun."],
            id="not begun",
        ),
        pytest.param(
            replace(runs.plugin(), cases=[EMPTY]),
            ["Nothing has been measured yet.", f"wasm in-process, upstream host 500 nodes {runs.UPSTREAM_LEFT_OUT}"],
            id="a case without series",
        ),
        pytest.param(
            replace(runs.plugin(), cases=[replace(EMPTY, series=[NO_SAMPLES])]),
            ["Nothing has been measured yet."],
            id="a series without samples",
        ),
        pytest.param(replace(runs.plugin(), cases=[], conditions=[]), ["Nothing has been measured yet."], id="no case"),
        pytest.param(
            replace(runs.scheduler(), cases=[], conditions=[]), ["Nothing has been measured yet."], id="no load"
        ),
        pytest.param(
            only(runs.scheduler(), "steady-500"),
            ["At 500 nodes a pod is bound after 11 ms with our extender (“wasm over HTTP, node names”):"],
            id="a steady load alone",
        ),
        pytest.param(
            only(runs.plugin(), "cold"),
            ["and for the first cycle, our extender takes 913 ms (683 if compiled code is cached): 15.3 times"],
            id="starts alone",
        ),
        pytest.param(one_sample(), ["1 sample in windows of 1 s", "6 swaps"], id="one sample"),
        pytest.param(
            shortened(only(runs.plugin(), "100", "500"), 1),
            [
                "too little to tell",
                "beside “Go plugin, in-process” 100 nodes; 500 nodes",
                f"quiet The machine was quiet. {TOO_FEW}",
            ],
            id="one round",
        ),
        pytest.param(
            busy(),
            [
                "too noisy Do not rely on these figures.",
                "found other programs using up to 60% of the harness's cores",
            ],
            id="noisy",
        ),
    ],
)
def test_whatever_a_run_holds_is_told(run: Run, texts: list[str], tmp_path: Path) -> None:
    text = Page(written(run, tmp_path)).text
    assert [each for each in texts if each not in text] == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(RunError) as error:
        report.write(only(runs.scheduler(), "batch-500"), tmp_path)
    assert str(error.value) == f"the report cannot be written into {tmp_path}: Is a directory"


@pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium: apt-get install chromium")
def test_a_browser_has_nothing_to_complain_of(tmp_path: Path) -> None:
    assert CHROMIUM
    report.write(only(runs.plugin(), "500", "swaps"), tmp_path)
    options = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
    run = subprocess.run(
        [
            *(CHROMIUM, *options.split(), "--disable-component-update", "--enable-logging=stderr", "--dump-dom"),
            *(f"--user-data-dir={tmp_path / 'profile'}", (tmp_path / "report.html").as_uri()),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert [line for line in run.stderr.splitlines() if "CONSOLE" in line] == []
    assert run.stdout.count("<svg") == 7
