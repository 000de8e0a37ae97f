from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from fractions import Fraction
from math import floor
from typing import Any

import pytest

from extender.scheduling import prioritize
from tests.extender.kwx import Extender, failure, plugin, profile
from tests.extender.objects import NODE_NAMES, names_args, node, nodes_args, pod, priorities, scores


def constant(score: int, weight: int = 1, **more: Any) -> dict[str, Any]:
    """Every node has the same score."""
    return plugin("score_from_config", str(score), name=f"constant-{score}-{weight}", weight=weight, **more)


ROUNDED = {0: 0, 4: 0, 5: 1, 14: 1, 15: 2, 44: 4, 45: 5, 50: 5, 54: 5, 55: 6, 94: 9, 95: 10, 100: 10}
"""A plugin's score of 0..100, and the answer in 0..10."""

MEANS = {
    "equal": ([constant(100), constant(0)], 5, 50),
    "weighted": ([constant(100, 3), constant(0)], 8, 75),
    "half-up": ([constant(50), constant(51)], 5, 51),
    "third": ([constant(100), constant(0, 2)], 3, 33),
    "two-thirds": ([constant(100, 2), constant(0)], 7, 67),
    "heavy": ([constant(100, 1000), constant(0, 1000), constant(50, 1)], 5, 50),
    "skipped": ([plugin("skip_in_prescore", weight=9), constant(40)], 4, 40),
    "all-skipped": ([plugin("skip_in_prescore")], 0, 0),
    "no-score": ([plugin("filter_by_digit", "*2no")], 0, 0),
    "ignored": ([plugin("trap", weight=9, failurePolicy="Ignore"), constant(40)], 4, 40),
    "all-ignored": ([plugin("trap", failurePolicy="Ignore")], 0, 0),
    "prefilter-comes-first": ([plugin("score_after_prefilter")], 10, 100),
    "prefilter-comes-first-unasked": ([plugin("score_after_prefilter", extensionPoints=["score"])], 10, 100),
    "normalized": ([plugin("every_export")], 0, 0),
}
"""Plugins of a profile, and their answer for any node in the ranges 0..10 and 0..100."""

FAILURES = {
    "trap": (plugin("trap"), "score of node node-0: trap: unreachable in func[1]"),
    "exit": (plugin("exit"), "score of node node-0: the guest left by exit status 3"),
    "error": (plugin("error_status"), "score of node node-0: no quota service"),
    "spin": (
        plugin("spin", timeout="50ms"),
        "score of node node-0: interrupted at its timeout of 50 ms; mend the guest, or raise the plugin's timeout",
    ),
    "too-high": (constant(101), "score of node node-0: score 101 is outside 0..100"),
}

PROFILES = [
    *(profile(f"rounded-{score}", constant(score)) for score in ROUNDED),
    *(profile(name, *plugins) for name, (plugins, _, _) in MEANS.items()),
    *(profile(f"{name}-of-100", *plugins, scoreRange=100) for name, (plugins, _, _) in MEANS.items()),
    *(profile(name, constant(40), failing) for name, (failing, _) in FAILURES.items()),
    profile("by-digit", plugin("score_by_digit")),
    profile("by-digit-with-zeros", plugin("score_by_digit"), zeroScores=True),
    profile("default", plugin("nodenumber")),
    profile("mapping", plugin("nodenumber") | {"guestConfig": {"reverse": True}}),
    profile("text", plugin("nodenumber", '{"reverse": true}')),
    profile("reversed-module", plugin("nodenumber_reversed")),
    profile("both-ways", plugin("nodenumber", weight=3), plugin("nodenumber_reversed")),
]


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    with Extender(tmp_path_factory.mktemp("prioritize"), *PROFILES) as extender:
        yield extender


def ask(extender: Extender, name: str, request: Any = None) -> Any:
    return extender.post(f"/profiles/{name}/prioritize", request or names_args())


def all_nodes(score: int) -> list[dict[str, Any]]:
    return priorities(dict.fromkeys(NODE_NAMES, score))


@pytest.mark.parametrize("score", ROUNDED)
def test_a_score_is_scaled_to_10_and_halves_are_rounded_up(extender: Extender, score: int) -> None:
    assert ask(extender, f"rounded-{score}") == all_nodes(ROUNDED[score])


@pytest.mark.parametrize("name", MEANS)
def test_the_answer_is_the_mean_by_weight_of_the_plugins_that_score(extender: Extender, name: str) -> None:
    _, of_10, of_100 = MEANS[name]
    assert ask(extender, name) == all_nodes(of_10)
    assert ask(extender, f"{name}-of-100") == all_nodes(of_100)


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_answered_without_scores_and_logged_with_its_cause(extender: Extender, name: str) -> None:
    cause = failure(*FAILURES[name])
    assert ask(extender, name, names_args(the_pod=pod(f"failing-{name}"))) == []
    errors = extender.events(f"prioritize failed: {cause}")
    assert [(line["level"], line["verb"], line["pod"]) for line in errors] == [
        ("error", "prioritize", f"default/failing-{name}")
    ]


@pytest.mark.parametrize("score_range", [10, 100])
@pytest.mark.parametrize("weights", [1, 2, 3, 7, 100, 101, 999, 20_000])
def test_totals_are_rounded_alike_whatever_the_weights(weights: int, score_range: int) -> None:
    scale, whole = prioritize._scale(weights, score_range), 100 * weights
    near = {round(answer * whole / (2 * score_range)) for answer in range(2 * score_range + 1)}
    totals = (
        range(whole + 1) if whole < 1000 else sorted({at + by for at in near for by in (-1, 0, 1)} & {*range(whole)})
    )
    exact = [floor(Fraction(total * score_range, whole) + Fraction(1, 2)) for total in totals]
    assert list(map(scale, totals)) == exact


def test_weights_however_large_take_no_table() -> None:
    tracemalloc.start()
    try:
        prioritize._scale.__wrapped__(20_000, 100)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_each_node_has_its_own_score_in_the_order_of_the_request(extender: Extender) -> None:
    request = names_args(["node-9", "node-0", "node-5"])
    assert ask(extender, "by-digit", request) == scores(node_9=9, node_0=0, node_5=5)


def test_whole_nodes_are_scored_like_names(extender: Extender) -> None:
    request = nodes_args([node("node-9"), node("node-0"), node("node-5")])
    assert ask(extender, "by-digit", request) == scores(node_9=9, node_0=0, node_5=5)


def test_zeros_are_named_where_that_is_asked_for(extender: Extender) -> None:
    names = ["node-1", "node-0"]
    assert ask(extender, "by-digit", names_args(names)) == [{"Host": "node-1", "Score": 1}]
    assert ask(extender, "by-digit-with-zeros", names_args(names)) == [
        {"Host": "node-1", "Score": 1},
        {"Host": "node-0", "Score": 0},
    ]


def test_a_name_that_comes_twice_is_scored_twice(extender: Extender) -> None:
    names = ["node-4", "node-2", "node-4"]
    assert ask(extender, "by-digit", names_args(names)) == [
        {"Host": "node-4", "Score": 4},
        {"Host": "node-2", "Score": 2},
        {"Host": "node-4", "Score": 4},
    ]


def test_no_nodes_have_no_scores(extender: Extender) -> None:
    for request in (names_args([]), nodes_args([])):
        assert ask(extender, "by-digit", request) == []
        assert ask(extender, "trap", request) == []


def test_thousands_of_names(extender: Extender) -> None:
    names = [f"node-{at}" for at in range(5_000)]
    assert ask(extender, "by-digit", names_args(names)) == priorities({name: int(name[-1]) for name in names})


@pytest.mark.parametrize(
    ("name", "on_7", "elsewhere"),
    [("default", 10, 0), ("mapping", 0, 10), ("text", 0, 10), ("reversed-module", 0, 10), ("both-ways", 8, 3)],
)
def test_the_example_prefers_nodes_by_the_last_digit_of_the_pods_name(
    extender: Extender, name: str, on_7: int, elsewhere: int
) -> None:
    expected = priorities({each: on_7 if each == "node-7" else elsewhere for each in NODE_NAMES})
    assert ask(extender, name) == expected


def test_another_pod_begins_another_cycle(extender: Extender) -> None:
    for digit in (3, 8, 3):
        answer = ask(extender, "default", names_args(the_pod=pod(f"web-{digit}")))
        assert answer == priorities({f"node-{digit}": 10})
