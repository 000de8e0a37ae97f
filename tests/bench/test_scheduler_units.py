"""What is measured of schedulers, beside the measuring itself: plans, loads, and what figures are checked against."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from http.client import HTTPException
from pathlib import Path
from types import SimpleNamespace
from typing import Final, NamedTuple

import msgspec
import pytest

from bench import conditions
from bench.controlplane import ControlPlaneError
from bench.plugin import workload
from bench.run import Run
from bench.scheduler.api import telling
from bench.scheduler.arrivals import check_pace
from bench.scheduler.errors import MeasureError, TooLateError
from bench.scheduler.load import CPU_REQUESTS, MEMORY_REQUESTS, NAMESPACE, alike, node, pod
from bench.scheduler.measure import patiently, take, too_slow, why_left_out
from bench.scheduler.plan import VARIANTS, Load, Plan, PlanError, plan
from bench.scheduler.round import Figures, attempted, check_attempts, check_placed, pace
from bench.scheduler.scrape import Attempts, Span
from bench.scheduler.variants import MAY_BATCH, WAYS, configuration
from extender.cluster.client.envelope import unwrap
from wasm_runtime.protobuf import identity

MODULE: Final = Path("headroom.wasm")
QUICK: Final = ["stock", "native", "kwx-top1", "kwx", "goextender"]
MAIN: Final = ["stock", "native", "native-noscores", "kwx-top1", "goextender-top1", "kwx", "goextender"]
EVERY: Final = ["stock", "stock-unbatched", *MAIN[1:5], "kwx-top5", *MAIN[5:], "kwx-whole", "goextender-whole"]

METRICS: Final = """
# TYPE scheduler_schedule_attempts_total counter
scheduler_schedule_attempts_total{profile="default-scheduler",result="error"} %d
scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} %d
# TYPE scheduler_scheduling_attempt_duration_seconds histogram
scheduler_scheduling_attempt_duration_seconds_bucket{profile="default-scheduler",result="error",le="0.001"} 3
scheduler_scheduling_attempt_duration_seconds_bucket{profile="default-scheduler",result="error",le="+Inf"} 3
scheduler_scheduling_attempt_duration_seconds_bucket{profile="default-scheduler",result="scheduled",le="0.001"} %d
scheduler_scheduling_attempt_duration_seconds_bucket{profile="default-scheduler",result="scheduled",le="0.002"} %d
scheduler_scheduling_attempt_duration_seconds_bucket{profile="default-scheduler",result="scheduled",le="+Inf"} %d
scheduler_scheduling_attempt_duration_seconds_sum{profile="default-scheduler",result="scheduled"} %g
scheduler_scheduling_attempt_duration_seconds_sum{profile="default-scheduler",result="error"} 7
# TYPE scheduler_scheduling_algorithm_duration_seconds histogram
scheduler_scheduling_algorithm_duration_seconds_bucket{le="0.001"} %d
scheduler_scheduling_algorithm_duration_seconds_bucket{le="+Inf"} %d
scheduler_scheduling_algorithm_duration_seconds_sum %g
# TYPE other_total counter
other_total 1
"""


@pytest.mark.parametrize(
    ("preset", "nodes", "variants", "rounds"),
    [
        ("quick", [500], QUICK, {"batch": 3, "steady": 3}),
        ("default", [500, 1_000], MAIN, {"batch": 8, "steady": 5}),
        ("full", [100, 500, 1_000, 5_000], EVERY, {"batch": 8, "steady": 5, "alike": 8}),
    ],
)
def test_presets(preset: str, nodes: list[int], variants: list[str], rounds: dict[str, int]) -> None:
    found = plan(preset, MODULE)  # type: ignore[arg-type]
    assert (found.nodes, found.variants) == (nodes, variants)
    assert {load.name: load.rounds for load in found.loads} == rounds


def test_what_is_asked_for_comes_once_and_in_order() -> None:
    found = plan("quick", MODULE, [200, 100, 200], ["kwx", "stock", "kwx"], Path("checkout"))
    assert (found.nodes, found.variants) == ([100, 200], ["stock", "kwx", "upstream"])


def test_pods_that_are_alike_take_a_node_each() -> None:
    found = plan("full", MODULE)
    assert {nodes: [load.name for load in found.loads_on(nodes)] for nodes in found.nodes} == {
        100: ["batch", "steady"],
        500: ["batch", "steady"],
        1_000: ["batch", "steady", "alike"],
        5_000: ["batch", "steady", "alike"],
    }
    assert plan("default", MODULE, loads=["alike"]).nodes == [1_000]
    with pytest.raises(PlanError) as caught:
        plan("default", MODULE, [500, 5_000], loads=["alike"])
    assert str(caught.value) == "expected at least 900 nodes, on which all pods have room, found 500"


def test_a_load_leaves_variants_out_that_it_tells_nothing_about() -> None:
    found = plan("full", MODULE, [1_000])
    assert {load.name: found.case(1_000, load).left_out for load in found.loads} == {
        "batch": {"stock-unbatched": "these pods differ, so that none are batched"},
        "steady": {"stock-unbatched": "these pods differ, so that none are batched"},
        "alike": dict.fromkeys(("kwx-whole", "goextender-whole"), "whole nodes are sent about pods that differ alone"),
    }
    assert plan("default", MODULE).case(1_000, found.loads[0]).left_out == {}


def test_an_unknown_load_is_refused() -> None:
    with pytest.raises(PlanError) as caught:
        plan("quick", MODULE, loads=["batches"])
    assert str(caught.value) == "no load is named 'batches'; there are: batch, steady, alike"


@pytest.mark.parametrize(
    ("nodes", "variants", "problem"),
    [
        ([], ["stck"], f"no variant is named 'stck'; there are: {', '.join(VARIANTS)}"),
        (
            [],
            ["upstream"],
            "the variant upstream is built of a checkout of kube-scheduler-wasm-extension: give --upstream",
        ),
        ([100, 99], [], "expected at least 100 nodes, on which all pods have room, found 99"),
    ],
)
def test_what_cannot_be_measured_is_refused(nodes: list[int], variants: list[str], problem: str) -> None:
    with pytest.raises(PlanError) as caught:
        plan("quick", MODULE, nodes, variants)
    assert str(caught.value) == problem


def test_each_variant_can_be_started() -> None:
    assert WAYS.keys() == VARIANTS.keys()


def test_pods_are_new_and_each_has_its_name() -> None:
    pods = [pod(at) for at in range(1_100)]
    found = [identity(unwrap(each.body)) for each in pods]
    assert [each.name for each in found] == [each.name for each in pods]
    assert len({each.name for each in pods}) == len(pods)
    assert {(each.namespace, each.uid, each.resource_version) for each in found} == {(NAMESPACE, "", "")}


def test_pods_that_are_alike_differ_by_their_names_alone() -> None:
    """All else is one and the same, of which kube-scheduler makes a pod's signature; the port makes it one a node."""
    pods = [alike(at) for at in range(30)]
    found = [unwrap(each.body).replace(each.name.encode(), b"") for each in pods]
    assert (len({each.name for each in pods}), len(set(found))) == (30, 1)
    assert {(each.zone, each.instance_type) for each in pods} == {("", "")}
    host_port = b"TCP\x10\x90\x3f"  # Behind the protocol field 2 of ContainerPort, which is 8080.
    assert (host_port in pods[0].body, host_port in pod(0).body) == (True, False)


ALIKE: Final = {"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": []}}
EXTENDER: Final = {
    "urlPrefix": "http://there",
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "weight": 1,
    "nodeCacheCapable": True,
    "httpTimeout": "30s",
}


def without(key: str) -> dict[str, object]:
    return {name: value for name, value in EXTENDER.items() if name != key}


@pytest.mark.parametrize(
    ("variant", "extender"),
    [
        ("kwx", EXTENDER),
        ("kwx-whole", {**EXTENDER, "nodeCacheCapable": False}),
        ("kwx-top1", without("prioritizeVerb")),
        ("goextender-top1", without("prioritizeVerb")),
        ("kwx-top5", EXTENDER),
    ],
)
def test_an_extender_is_asked_to_score_where_more_than_one_node_may_be_left(
    variant: str, extender: dict[str, object]
) -> None:
    assert configuration(WAYS[variant], Place(), "http://there")["extenders"] == [extender]  # type: ignore[arg-type]


def test_a_plugin_is_the_only_one_that_scores() -> None:
    headroom, nobody = {"name": "Headroom", "weight": 10}, {"disabled": [{"name": "*"}]}
    found = configuration(WAYS["native-noscores"], Place(), "")["profiles"]  # type: ignore[arg-type]
    plugins = {
        "multiPoint": {"enabled": [headroom]},
        "preScore": nobody,
        "score": {"enabled": [headroom], **nobody},
    }
    assert found == [{"schedulerName": "default-scheduler", "plugins": plugins, "pluginConfig": []}]


def test_settings_of_in_tree_plugins_come_behind_those_of_the_variant() -> None:
    found = configuration(WAYS["upstream"], Place(), "", MAY_BATCH)["profiles"][0]["pluginConfig"]  # type: ignore[arg-type]
    assert found == [{"name": "Headroom", "args": {"guestURL": "file:///there/headroom.wasm"}}, ALIKE]


def test_some_pods_have_wishes_and_nodes_that_grant_them() -> None:
    pods, nodes = [pod(at) for at in range(720)], [node(at) for at in range(20)]
    assert Counter(each.zone for each in pods if each.zone) == dict.fromkeys({each.zone for each in nodes}, 40)
    types = {each.instance_type for each in nodes}
    assert Counter(each.instance_type for each in pods if each.instance_type) == dict.fromkeys(types, 15)


@pytest.mark.parametrize(
    ("cpus", "memories"),
    [(CPU_REQUESTS, MEMORY_REQUESTS), (workload.CPU_REQUESTS, workload.MEMORY_REQUESTS)],
    ids=["scheduler", "plugin"],
)
def test_every_request_comes_as_often(cpus: Sequence[int], memories: Sequence[int]) -> None:
    pods = [workload.pod(at, cpus, memories) for at in range(len(cpus) * len(memories))]
    found = [pod["spec"]["containers"][0]["resources"]["requests"] for pod in pods]
    assert Counter(each["cpu"] for each in found) == dict.fromkeys((f"{cpu}m" for cpu in cpus), len(memories))
    assert Counter(each["memory"] for each in found) == dict.fromkeys((f"{each}Mi" for each in memories), len(cpus))


class Place:
    """Where a configuration is for."""

    module = Path("/there/headroom.wasm")
    control_plane = SimpleNamespace(kubeconfig=lambda _: Path("/there/kubeconfig"))


def test_pods_that_took_a_node_of_the_one_before_are_counted() -> None:
    attempts = """
# TYPE scheduler_batch_attempts_total counter
scheduler_batch_attempts_total{profile="default-scheduler",result="hint_used"} %d
scheduler_batch_attempts_total{profile="default-scheduler",result="hint_not_used"} 5
scheduler_batch_attempts_total{profile="default-scheduler",result="no_hint"} 7
"""
    assert (Attempts.read(attempts % 30) - Attempts.read(attempts % 10)).batched == 20
    assert (Attempts.read("") - Attempts.read("")).batched == 0


def test_attempts_between_two_readings() -> None:
    earlier = Attempts.read(METRICS % (1, 10, 5, 10, 10, 1.5, 9, 10, 1.0))
    later = Attempts.read(METRICS % (1, 30, 5, 30, 30, 1.54, 29, 30, 1.01))
    found = later - earlier
    assert found.results == {"error": 0, "scheduled": 20}
    assert found.buckets == {
        "attempt": {0.001: 0, 0.002: 20, math.inf: 20},
        "algorithm": {0.001: 20, math.inf: 20},
    }
    assert found.quantile("attempt", 0.5) == pytest.approx(0.0015)
    assert found.quantile("algorithm", 0.5) == pytest.approx(0.0005)
    assert found.mean("attempt") == pytest.approx(0.002)
    assert found.mean("algorithm") == pytest.approx(0.0005)


def test_in_a_batch_attempts_are_not_told_since_they_wait_for_each_others_bindings() -> None:
    attempts = Attempts.read(METRICS % (0, 10, 5, 10, 10, 0.015, 9, 10, 0.005))
    batch = {metric: figures.samples for metric, figures in attempted(attempts, "batch").items()}
    assert batch == {
        "algorithm": [pytest.approx(0.5)],
        "algorithm p50": [pytest.approx(1 / 1.8)],
        "algorithm p90": [1.0],
        "algorithm p99": [1.0],
    }
    assert attempted(attempts, "steady").keys() - batch.keys() == {
        "attempt",
        "attempt p50",
        "attempt p90",
        "attempt p99",
    }


@pytest.mark.parametrize("span", ["attempt", "algorithm"])
@pytest.mark.parametrize("metrics", ["", METRICS % (0, 0, 0, 0, 0, 0, 0, 0, 0)], ids=["no histogram", "no attempt"])
@pytest.mark.parametrize("figure", [Attempts.mean, partial(Attempts.quantile, q=0.5)], ids=["mean", "quantile"])
def test_a_figure_of_no_attempt_is_an_error(span: Span, metrics: str, figure: Callable[..., float]) -> None:
    with pytest.raises(MeasureError) as caught:
        figure(Attempts.read(metrics), span)
    assert str(caught.value) == f"the scheduler's metrics tell of no {span} that placed a pod"


def test_attempts_in_vain_are_refused() -> None:
    check_attempts(Attempts.read(METRICS % (0, 10, 5, 10, 10, 1, 10, 10, 1)))
    with pytest.raises(MeasureError) as caught:
        check_attempts(Attempts.read(METRICS % (2, 10, 5, 10, 10, 1, 10, 10, 1)))
    assert str(caught.value) == "the scheduler tried pods in vain, although all have room: 2 error"


def test_the_pace_of_a_batch_is_of_what_is_told_after_the_warm_up() -> None:
    """Two are told with the last one of the warm-up, three with the very last one."""
    bound = [("a", 1.0), ("b", 2.0), ("c", 2.0), ("d", 2.0), ("e", 3.0), ("f", 4.0), ("g", 4.0), ("h", 4.0)]
    assert pace(Load("batch", 8, 2), bound, {}) == {"throughput": Figures("1/s", [2.0])}


def test_a_steady_pod_takes_from_when_it_was_due_until_it_is_bound() -> None:
    """In the order of the bindings; those of the warm-up were due before."""
    bound = [("a", 1.0), ("c", 2.5), ("b", 2.75)]
    assert pace(Load("steady", 3, 1, 4), bound, {"b": 2.0, "c": 2.25}) == {"pod": Figures("ms", [250.0, 750.0])}


@pytest.mark.parametrize(
    "late",
    [
        pytest.param([0.0, 0.001, 0.0, 0.002], id="in time"),
        pytest.param([0.0, 0.5, 0.48, 0.3, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0], id="held up once"),
        pytest.param([0.0, 0.019, 0.019], id="less than a pod behind"),
    ],
)
def test_pods_that_come_at_their_rate(late: Sequence[float]) -> None:
    check_pace(late, 50)


def test_pods_that_fall_behind_their_rate_are_refused() -> None:
    """Each takes 25 ms to create and 20 ms to come."""
    with pytest.raises(TooLateError) as caught:
        check_pace([at * 0.005 for at in range(100)], 50)
    assert str(caught.value) == (
        "the API server took pods more slowly than 50 a second: in the end they came 372 ms late;"
        " stop other programs, or run with fewer nodes or on a machine with more cores"
    )


@pytest.mark.parametrize(
    ("variant", "error", "reason"),
    [
        ("kwx-whole", TooLateError("late\nthe end of kwx's log"), "late"),
        ("kwx-whole", MeasureError("why"), ""),
        ("upstream", MeasureError("why"), "it is made for another Kubernetes, and does not run here: why"),
    ],
)
def test_who_is_left_out_after_a_failure(variant: str, error: Exception, reason: str) -> None:
    assert why_left_out(variant, error) == reason


def test_what_comes_too_late_is_played_once_more() -> None:
    said: list[str] = []
    answers: Iterator[TooLateError | str] = iter([TooLateError("3 of 5 pods were bound within 2 s\na log"), "played"])

    def play() -> str:
        answer = next(answers)
        if isinstance(answer, TooLateError):
            raise answer
        return answer

    assert patiently(play, said.append) == "played"
    assert said == ["once more, since 3 of 5 pods were bound within 2 s"]


def test_what_comes_too_late_twice_is_an_error() -> None:
    def play() -> None:
        raise TooLateError("late")

    with pytest.raises(TooLateError):
        patiently(play, lambda _: None)


class Plane(NamedTuple):
    """A control plane of which a part has died, if there is a problem."""

    problem: str

    def check(self) -> None:
        if self.problem:
            raise ControlPlaneError(self.problem)


@pytest.mark.parametrize(
    ("problem", "error", "told"),
    [
        ("etcd ended", ConnectionResetError("reset"), ControlPlaneError("etcd ended")),
        ("etcd ended", MeasureError("the watch of the pods broke off"), ControlPlaneError("etcd ended")),
        ("", TimeoutError("timed out"), MeasureError("the API server does not answer as it should: timed out")),
        ("", HTTPException("cut"), MeasureError("the API server does not answer as it should: cut")),
        ("", TooLateError("late"), TooLateError("late")),
    ],
)
def test_what_goes_wrong_is_told_by_its_cause(
    problem: str, error: Exception, told: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.scheduler.api.MOURNING", 0)
    with pytest.raises(type(told)) as caught, telling(Plane(problem).check):
        raise error
    assert (type(caught.value), str(caught.value)) == (type(told), str(told))


ZONED, TYPED = pod(6), pod(15)


@pytest.mark.parametrize(
    ("pod_name", "on", "problem"),
    [
        (ZONED.name, 1, None),
        (ZONED.name, 0, f"pod {ZONED.name} was put into zone region-1a, it wishes region-1b: filter has no effect"),
        (TYPED.name, 3, None),
        (TYPED.name, 0, f"pod {TYPED.name} was put on general.large, it wishes general.xlarge: scores have no effect"),
    ],
)
def test_pods_must_be_where_the_policy_wants_them(pod_name: str, on: int, problem: str | None) -> None:
    nodes = {each.name: each for each in map(node, range(12))}
    placed = {pod_name: list(nodes)[on]}
    if problem is None:
        check_placed([ZONED, TYPED], placed, nodes)
        return
    with pytest.raises(MeasureError) as caught:
        check_placed([ZONED, TYPED], placed, nodes)
    assert str(caught.value) == problem


def a_run(throughputs: Mapping[str, list[float]]) -> tuple[Run, Plan]:
    chosen = Plan([20], list(throughputs), (Load("batch", 10, 1), Load("steady", 10, 1, 50)), MODULE)
    run = Run(
        level="scheduler",
        command="",
        preset="quick",
        begun="",
        machine=conditions.machine(),
        versions={},
        variants=[VARIANTS[name] for name in chosen.variants],
        cases=[chosen.case(20, load) for load in chosen.loads],
    )
    for variant, values in throughputs.items():
        for value in values:
            take(run.cases[0], variant, {"throughput": Figures("1/s", [value]), "cpu etcd": Figures("ms", [1.0])})
    return run, chosen


def test_who_cannot_keep_up_with_steady_pods_is_left_out() -> None:
    run, chosen = a_run({"stock": [200.0, 300.0], "kwx-whole": [20.0, 25.0], "goextender": [76.0, 76.0]})
    found = too_slow(run, run.cases[1], chosen.loads[1])
    assert found == {"kwx-whole": "it places 22 pods a second, and 50 come"}
    assert too_slow(run, msgspec.structs.replace(run.cases[1], nodes=100), chosen.loads[1]) == {}


def test_rounds_are_taken_into_the_series_of_their_metric() -> None:
    run, _ = a_run({"stock": [200.0, 300.0]})
    take(run.cases[0], "kwx", {"extender": Figures("ms", [3.0], {"decode": 1.0, "guest": 2.0})})
    found = [(each.variant, each.metric, each.rounds, each.parts) for each in run.cases[0].series]
    assert found == [
        ("stock", "throughput", [[200.0], [300.0]], {}),
        ("stock", "cpu etcd", [[1.0], [1.0]], {}),
        ("kwx", "extender", [[3.0]], {"decode": [1.0], "guest": [2.0]}),
    ]
