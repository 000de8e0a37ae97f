"""What a probe sees, and whom it refuses. Times are measured, and never asserted but for those that a guest wastes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pytest

from extender.config import SwapConfig
from extender.rollouts.probe import CandidateRefusedError, probe
from extender.rollouts.report import Difference, Failure, NodeDifference, ProbeReport, Side, VerbReport
from extender.scheduling.node_source import NotSyncedError
from extender.scheduling.pod_source import PodNotKnownError
from extender.scheduling.request_samples import MAX_SAMPLES
from extender.scheduling.requests import RequestError
from extender.scheduling.sample import Sample
from extender.scheduling.verb import JudgingVerbName, Victims
from extender.scheduling.verbs import JUDGING
from tests.extender import guests
from tests.extender.objects import NODE_NAMES, pod
from tests.patience import PATIENCE_S
from wasm_runtime.engine import GuestJournal, Log, Settings
from wasm_runtime.engines.wasmtime import WasmtimeEngine
from wasm_runtime.guests.guest import Pod
from wasm_runtime.guests.plugin import Plugin
from wasm_runtime.nodes.node_table import Nodes, NodeTable
from wasm_runtime.protobuf import encode_pod

WASTE = "20000"
"""Rounds in thousands that take some milliseconds, as the configuration of `slow`."""
ONE = ["node-7"]

Make = Callable[..., Plugin]
Guest = tuple[Any, ...]
"""What it is made of by `make`."""


@pytest.fixture(scope="module")
def engine() -> WasmtimeEngine:
    return WasmtimeEngine()


@pytest.fixture
def make(engine: WasmtimeEngine) -> Iterator[Make]:
    """Makes plugins of guests and their configuration."""
    made: list[Plugin] = []

    def make(
        guest: str, config: str = "", timeout: float = 10.0, points: Sequence[str] | None = None, **more: Any
    ) -> Plugin:
        settings = Settings("plugin", config, timeout=timeout)
        made.append(Plugin(engine, guests.module(guest), settings, extension_points=points, **more))
        return made[-1]

    yield make
    for plugin in made:
        plugin.close()


def sample(
    verb: JudgingVerbName = "filter",
    name: str = "web-7",
    names: Sequence[str] = NODE_NAMES,
    victims: Victims | None = None,
) -> Sample:
    return Sample(verb, Pod(f"uid-of-{name}", f"default/{name}", encode_pod(pod(name))), names, victims)


EACH = [sample("filter"), sample("prioritize"), sample("preempt", victims=lambda _: [])]
"""A request of each verb."""


def swap(factor: float = 3, floor: str = "10s") -> SwapConfig:
    """By default nobody is too slow."""
    return SwapConfig.model_validate({"slowdownFactor": factor, "slowdownFloor": floor})


def run(
    active: Plugin | None,
    candidate: Plugin,
    samples: Iterable[Sample] = EACH,
    limits: SwapConfig | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> ProbeReport:
    node_table = NodeTable()
    return probe(active, candidate, samples, lambda names: Nodes(node_table, names), limits or swap(), is_cancelled)


def timeless(report: ProbeReport) -> ProbeReport:
    """The report with 1 for each time, 0 included: what a guest has no export for takes less than is told."""

    def timeless(verb: VerbReport) -> VerbReport:
        times = {side: getattr(verb, side) for side in ("active_milliseconds", "candidate_milliseconds")}
        return msgspec.structs.replace(verb, **{side: None if time is None else 1 for side, time in times.items()})

    return msgspec.structs.replace(report, verbs={verb: timeless(each) for verb, each in report.verbs.items()})


def judged(requests: int = 1, *, different: int = 0, left_out: int = 0, timed: int = 2) -> VerbReport:
    """`timed` is of how many revisions there is a time."""
    return VerbReport(
        requests,
        alike=requests - different,
        different=different,
        left_out=left_out,
        active_milliseconds=1 if timed == 2 else None,
        candidate_milliseconds=1 if timed else None,
    )


NOTHING: dict[JudgingVerbName, VerbReport] = dict.fromkeys(JUDGING, VerbReport())


def only(verb: JudgingVerbName, report: VerbReport) -> dict[JudgingVerbName, VerbReport]:
    return NOTHING | {verb: report}


# -- what is decided otherwise ---------------------------------------------------------------------


def test_those_that_decide_alike_differ_in_nothing(make: Make) -> None:
    samples = [sample(each.verb, f"web-{at}", victims=each.victims) for at in range(20) for each in EACH]
    report = run(make("filter_by_digit", "72no room"), make("filter_by_digit", "72no room"), samples)
    assert timeless(report) == ProbeReport(dict.fromkeys(JUDGING, judged(20)))


def test_what_the_candidate_decides_otherwise_is_shown_node_by_node(make: Make) -> None:
    report = run(make("filter_by_digit", "72no room"), make("filter_by_digit", "33no GPU"))
    assert timeless(report) == ProbeReport(
        {"filter": judged(different=1), "prioritize": judged(), "preempt": judged(different=1)},
        [
            Difference(
                "default/web-7",
                "filter",
                2,
                [
                    NodeDifference("node-3", "passes", "rejected for good: no GPU"),
                    NodeDifference("node-7", "rejected: no room", "passes"),
                ],
            ),
            Difference(
                "default/web-7",
                "preempt",
                2,
                [NodeDifference("node-3", "passes", "rejected"), NodeDifference("node-7", "rejected", "passes")],
            ),
        ],
    )


UNEXPLAINED = "node(s) rejected by plugin plugin without a reason"
OTHERWISE: dict[str, tuple[Guest, Guest, Sample, list[tuple[Any, ...]]]] = {
    "another-reason": (
        ("filter_by_digit", "72no room"),
        ("filter_by_digit", "72no GPU"),
        sample(),
        [("node-7", "rejected: no room", "rejected: no GPU")],
    ),
    "unresolvable": (
        ("filter_by_digit", "72no room"),
        ("filter_by_digit", "73no room"),
        sample(),
        [("node-7", "rejected: no room", "rejected for good: no room")],
    ),
    "nothing-to-say": (
        ("nodenumber",),
        ("filter_by_digit", "72"),
        sample(),
        [("node-7", "passes", f"rejected: {UNEXPLAINED}")],
    ),
    "prefilter": (
        ("prefilter_from_config", "2rno quota"),
        ("filter_by_digit", "x2"),
        sample(names=ONE),
        [("node-7", "rejected: no quota", "passes")],
    ),
    "score": (
        ("score_from_config", "70"),
        ("score_by_digit",),
        sample("prioritize", names=["node-3", "node-7", "node-0"]),
        [("node-3", 70, 30), ("node-0", 70, 0)],
    ),
    "prescore-skips": (
        ("score_from_config", "70"),
        ("skip_in_prescore",),
        sample("prioritize", names=ONE),
        [("node-7", 70, "skipped")],
    ),
    "scores-no-more": (
        ("score_from_config", "0"),
        ("reject",),
        sample("prioritize", names=ONE),
        [("node-7", 0, "skipped")],
    ),
    "prefilter-has-been-called-before-score": (
        ("score_from_config", "0"),
        ("score_after_prefilter",),
        sample("prioritize", names=ONE),
        [("node-7", 0, 100)],
    ),
    "victims": (
        ("filter_by_digit", "x2"),
        ("passes_without_lock", "00"),
        sample("preempt", victims=lambda name: [encode_pod(pod("lock" if name in {"node-3"} else "batch"))]),
        [(name, "passes", "rejected") for name in NODE_NAMES if name != "node-3"],
    ),
    "postfilter": (
        ("postfilter_from_config", "00"),
        ("postfilter_from_config", "10node-3"),
        sample("preempt", names=["node-3", "node-7"]),
        [("node-7", "passes", "rejected")],
    ),
    "postfilter-is-not-called-where-no-candidate-is-left": (
        ("filter_by_digit", "x2"),
        ("reject_then_trap",),
        sample("preempt", names=ONE),
        [("node-7", "passes", "rejected")],
    ),
    "postfilter-cannot-help": (
        ("postfilter_from_config", "10node-3"),
        ("postfilter_from_config", "12node-3"),
        sample("preempt", names=["node-3", "node-7"]),
        [("node-7", "rejected", "passes")],
    ),
}
"""The active revision, the candidate, a request, and on which nodes they differ."""


@pytest.mark.parametrize("name", OTHERWISE)
def test_whatever_decides_on_a_node_is_compared(make: Make, name: str) -> None:
    active, candidate, request, nodes = OTHERWISE[name]
    report = run(make(*active), make(*candidate), [request])
    assert timeless(report) == ProbeReport(
        only(request.verb, judged(different=1)),
        [Difference("default/web-7", request.verb, len(nodes), [NodeDifference(*each) for each in nodes])],
    )


def test_what_is_shown_is_bounded(make: Make) -> None:
    nodes = [f"node-{at}" for at in range(1_000)]
    samples = [sample(name=f"web-{at // 2}", names=nodes[at % 2 :]) for at in range(100)]
    report = run(make("filter_by_digit", "*2" + "a" * 3_000), make("reject"), samples)
    reason = f"rejected: {'a' * 116} … {'a' * 126}"
    shown = [NodeDifference(name, reason, "rejected: no") for name in nodes[:10]]
    assert timeless(report) == ProbeReport(
        only("filter", judged(100, different=100)),
        [Difference(f"default/web-{at}", "filter", 1_000, shown) for at in range(20)],
    )


def test_a_name_that_no_pod_can_have_is_shortened(make: Make) -> None:
    with pytest.raises(CandidateRefusedError) as refused:
        run(None, make("error_status"), [sample(name="x" * 1_000, names=ONE)])
    name = f"default/{'x' * 150} … {'x' * 158}"
    assert str(refused.value) == f"filter of pod {name} fails: filter of node node-7: no quota service"


def test_requests_may_come_as_long_as_they_like(make: Make) -> None:
    asked = itertools.count()
    report = run(
        make("filter_by_digit", "x2"),
        make("filter_by_digit", "x2"),
        (sample(name=f"web-{at}", names=ONE) for at in itertools.count()),
        is_cancelled=lambda: next(asked) == 1_000,
    )
    assert timeless(report) == ProbeReport(only("filter", judged(1_000)))


def test_nothing_more_is_judged_once_it_is_cancelled(make: Make) -> None:
    report = run(make("slow", "1"), make("slow", WASTE), limits=swap(floor="1ms"), is_cancelled=lambda: True)
    assert report == ProbeReport(
        NOTHING,
        notes=["there was no request to judge: nothing is known but that the candidate starts"],
    )


def test_nobody_is_too_slow_once_it_is_cancelled(make: Make) -> None:
    answers = iter([False, True])
    samples = [sample(names=ONE)]
    report = run(make("slow", "0"), make("slow", WASTE), samples, swap(floor="1ms"), lambda: next(answers, True))
    assert timeless(report) == ProbeReport(only("filter", judged()))


def test_a_report_survives_json(make: Make) -> None:
    report = run(make("score_from_config", "70"), make("skip_in_prescore"))
    assert report.differences
    assert msgspec.json.decode(msgspec.json.encode(report), type=ProbeReport) == report


# -- what fails ------------------------------------------------------------------------------------

FAILURES: dict[str, tuple[Guest, JudgingVerbName, str]] = {
    "trap": (("trap",), "filter", "filter of node node-0: trap: unreachable in func[0]"),
    "trap-on-one-pod": (
        ("trap_on_pod", "web-7"),
        "prioritize",
        "score of node node-0: trap: unreachable in look < score",
    ),
    "error": (("error_status",), "filter", "filter of node node-0: no quota service"),
    "error-in-prefilter": (("prefilter_from_config", "1rno quota"), "filter", "prefilter: no quota"),
    "error-in-prefilter-before-score": (
        ("prefilter_from_config", "1-"),
        "prioritize",
        "prefilter: Error without a reason",
    ),
    "late-node": (("filter_by_digit", "91odd"), "preempt", "filter of node node-9: odd"),
    "removepod": (
        ("passes_without_lock", "t0"),
        "preempt",
        "removepod of node node-0: trap: unreachable in move < removepod",
    ),
    "postfilter": (("trap", "", 10.0, ["postFilter"]), "preempt", "postfilter: trap: unreachable in func[2]"),
    "deadline": (
        ("spin", "", 0.05),
        "filter",
        "filter of node node-0: interrupted at its timeout of 50 ms; mend the guest, or raise the plugin's timeout",
    ),
}
"""A guest, the verb in which it fails, and how."""


def request(verb: JudgingVerbName) -> Sample:
    return sample(verb, victims=lambda _: [encode_pod(pod("batch"))])


def failed(side: Side, verb: JudgingVerbName, message: str, count: int = 1) -> list[Failure]:
    return [Failure(side, verb, message, count)]


@pytest.mark.parametrize("name", FAILURES)
def test_a_candidate_that_fails_where_the_active_one_does_not_is_refused(make: Make, name: str) -> None:
    guest, verb, cause = FAILURES[name]
    with pytest.raises(CandidateRefusedError) as refused:
        run(make("nodenumber"), make(*guest), [request(verb)] * 3)
    assert str(refused.value) == f"{verb} of pod default/web-7 fails, where the active revision has an answer: {cause}"
    assert refused.value.report == ProbeReport(
        only(verb, VerbReport(1, candidate_failures=1)), failures=failed("candidate", verb, cause)
    )


@pytest.mark.parametrize("name", FAILURES)
def test_a_candidate_that_mends_what_fails_differs_on_all_nodes(make: Make, name: str) -> None:
    guest, verb, cause = FAILURES[name]
    report = run(make(*guest), make("filter_by_digit", "x2"), [request(verb)])
    assert report == ProbeReport(
        only(verb, VerbReport(1, different=1, active_failures=1)),
        [Difference("default/web-7", verb, len(NODE_NAMES), failure=cause)],
        failed("active", verb, cause),
    )


@pytest.mark.parametrize("name", FAILURES)
def test_a_request_that_both_fail_refuses_nobody(make: Make, name: str) -> None:
    guest, verb, cause = FAILURES[name]
    report = run(make(*guest), make(*guest), [request(verb)] * 3)
    assert report == ProbeReport(
        only(verb, VerbReport(3, alike=3, active_failures=3, candidate_failures=3)),
        failures=[*failed("active", verb, cause, 3), *failed("candidate", verb, cause, 3)],
    )


def test_a_candidate_is_refused_at_the_first_pod_on_which_it_fails(make: Make) -> None:
    samples = [sample(name=f"web-{at}", names=ONE) for at in range(5)]
    with pytest.raises(CandidateRefusedError) as refused:
        run(make("filter_by_digit", "x2"), make("trap_on_pod", "web-3"), samples)
    cause = "filter of node node-7: trap: unreachable in look < filter"
    assert str(refused.value) == f"filter of pod default/web-3 fails, where the active revision has an answer: {cause}"
    assert timeless(refused.value.report) == ProbeReport(
        only("filter", VerbReport(4, 3, 0, 0, 1, 0, 1, 1)), failures=failed("candidate", "filter", cause)
    )


def test_a_candidate_is_refused_that_fails_when_it_is_asked_again(make: Make) -> None:
    with pytest.raises(CandidateRefusedError) as refused:
        run(make("slow", "0"), make("tire", "4"), [sample(names=ONE)])
    assert str(refused.value) == (
        "filter of pod default/web-7 fails, where the active revision has an answer:"
        " filter of node node-7: trap: unreachable in func[1]"
    )


def test_failures_that_are_shown_are_bounded_and_all_are_counted(make: Make) -> None:
    samples = [sample(names=[f"node-{at // 2}"]) for at in range(60)]
    report = run(make("trap"), make("filter_by_digit", "*1no"), samples)
    causes = [f"filter of node node-{at}" for at in range(5)]
    assert report == ProbeReport(
        only("filter", VerbReport(60, alike=60, active_failures=60, candidate_failures=60)),
        failures=[
            failure
            for cause in causes
            for failure in (
                *failed("active", "filter", f"{cause}: trap: unreachable in func[0]", 2),
                *failed("candidate", "filter", f"{cause}: no", 2),
            )
        ],
    )


# -- what is not compared --------------------------------------------------------------------------


def test_without_requests_it_says_that_nothing_is_known(make: Make) -> None:
    assert run(make("trap"), make("spin"), []) == ProbeReport(
        NOTHING,
        notes=["there was no request to judge: nothing is known but that the candidate starts"],
    )


def test_without_an_active_revision_the_candidate_judges_alone(make: Make) -> None:
    report = run(None, make("slow", WASTE), [sample(names=ONE)], swap(floor="1ms"))
    assert timeless(report) == ProbeReport(
        only("filter", VerbReport(1, candidate_milliseconds=1)),
        notes=["no revision is active: nothing was compared"],
    )


def test_without_an_active_revision_a_failure_refuses(make: Make) -> None:
    with pytest.raises(CandidateRefusedError) as refused:
        run(None, make("error_status"))
    cause = "filter of node node-0: no quota service"
    assert str(refused.value) == f"filter of pod default/web-7 fails: {cause}"
    assert refused.value.report == ProbeReport(
        only("filter", VerbReport(1, candidate_failures=1)),
        failures=failed("candidate", "filter", cause),
        notes=["no revision is active: nothing was compared"],
    )


def gone(error: Exception) -> Victims:
    def victims(_: str) -> Sequence[bytes]:
        raise error

    return victims


@pytest.mark.parametrize("error", [NotSyncedError("stale"), PodNotKnownError("gone"), RequestError("no pod")])
def test_a_request_whose_victims_are_not_to_be_had_any_more_is_left_out(make: Make, error: Exception) -> None:
    samples = [sample("preempt", victims=gone(each)) for each in (error, RequestError("another one"))]
    report = run(make("filter_by_digit", "x2"), make("passes_without_lock", "00"), samples)
    assert report == ProbeReport(
        only("preempt", VerbReport(left_out=2)),
        notes=[
            "there was no request to judge: nothing is known but that the candidate starts",
            f"2 of the preempt requests were left out: {error}",
        ],
    )


def test_victims_that_no_revision_asks_for_are_not_looked_for(make: Make) -> None:
    report = run(make("reject"), make("reject"), [sample("preempt", victims=gone(PodNotKnownError("gone")))])
    assert timeless(report) == ProbeReport(only("preempt", judged()))


def test_a_binding_cycle_is_not_tried(make: Make) -> None:
    candidate = make("drain")
    report = run(make("drain"), candidate, [sample(name=f"web-{at}") for at in range(10)])
    assert timeless(report) == ProbeReport(
        only("filter", judged(10)),
        notes=["not tried, since a pod is bound but once: reserve, permit, prebind, postbind"],
    )
    assert len(candidate._pool) == 1, "a guest is kept for a pod whose bind never comes"


# -- what takes how long ---------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt"])
@pytest.mark.parametrize("requests", [1, MAX_SAMPLES])
def test_a_candidate_that_is_too_slow_is_refused(
    make: Make, monkeypatch: pytest.MonkeyPatch, verb: JudgingVerbName, requests: int
) -> None:
    monkeypatch.setattr("extender.rollouts.probe.PERSISTENCE", PATIENCE_S)
    samples = [sample(verb, names=ONE, victims=lambda _: [])] * requests
    with pytest.raises(CandidateRefusedError) as refused:
        run(make("slow", "0"), make("slow", WASTE), samples, swap(floor="1ms"))
    assert re.sub(r"\d+\.\d\d ms", "… ms", str(refused.value)) == (
        f"{verb} takes … ms where the active revision takes … ms (median of {max(5, requests)} requests), more than"
        " swap.slowdownFactor 3 and swap.slowdownFloor 1 ms allow; mend the guest or raise them"
    )
    assert timeless(refused.value.report) == ProbeReport(only(verb, judged(requests)))


@pytest.mark.parametrize(
    ("active", "candidate", "limits"),
    [("0", WASTE, swap(floor="10s")), (WASTE, "40000", swap(factor=1000, floor="1ms"))],
    ids=["by-less-than-the-floor", "by-less-than-the-factor"],
)
def test_a_candidate_that_is_slower_by_no_more_than_is_allowed_is_not_refused(
    make: Make, active: str, candidate: str, limits: SwapConfig
) -> None:
    report = run(make("slow", active), make("slow", candidate), [sample(names=ONE)], limits)
    assert timeless(report) == ProbeReport(only("filter", judged()))


def test_a_candidate_that_was_slow_once_is_measured_anew(make: Make) -> None:
    """It wastes time in the call that warms it up and in the five that are measured first, as a compiler might."""
    report = run(make("slow", "0"), make("slow", f"{WASTE},6"), [sample(names=ONE)], swap(floor="1ms"))
    assert timeless(report) == ProbeReport(only("filter", judged()))


def test_what_prefilter_takes_is_the_filter_verbs(make: Make) -> None:
    """The guest that has judged a pod in filter goes on with its cycle in prioritize."""
    active, candidate, limits = make("slow", "p0"), make("slow", f"p{WASTE}"), swap(floor="1ms")
    report = run(active, candidate, [sample("prioritize", names=ONE)], limits)
    assert timeless(report) == ProbeReport(only("prioritize", judged()))
    with pytest.raises(CandidateRefusedError, match=r"^filter takes"):
        run(active, candidate, [sample("filter", names=ONE)], limits)


Logged = list[tuple[str, str | None, list[str]]]
"""Whose guest logged, for which pod, and what."""


@pytest.fixture
def logged() -> Logged:
    return []


@pytest.fixture
def keep(make: Make, logged: Logged) -> Callable[[str], Plugin]:
    """Makes plugins with guests that keep nodes, and log under a name."""

    def keep(name: str) -> Plugin:
        def sink(_: str, pod: Pod | None, journal: GuestJournal) -> None:
            messages = [record.message for record in journal.records if isinstance(record, Log)]
            logged.append((name, pod and pod.name, messages))

        return make("keep_nodes", sink=sink)

    return keep


def test_a_guest_is_told_of_the_nodes_before_it_is_asked(keep: Callable[[str], Plugin], logged: Logged) -> None:
    """What it is told in a pod's call is the pod's; what it logs between them is nobody's."""
    node_table = NodeTable()
    node_table.put((name, b"node") for name in ONE)
    samples = [sample(name=f"web-{at}", names=ONE) for at in range(5)]
    probe(None, keep("new"), samples, lambda names: Nodes(node_table, names), swap(), lambda: False)
    calls = [("new", f"default/web-{at}", ["filter"]) for at in (0, 0, 1, 2, 3, 4)]
    assert logged == [("new", None, ["nodechanged"]), *calls]


def test_both_are_asked_turn_about_so_often_that_a_median_means_something(
    keep: Callable[[str], Plugin], logged: Logged
) -> None:
    """Once to warm up, and then five times."""
    run(keep("old"), keep("new"), [sample(names=ONE)])
    assert [name for name, _, _ in logged] == ["new", "old", "old", "new"] * 3


def test_a_verb_that_takes_less_than_can_be_told_takes_a_time_all_the_same(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does for which neither revision has an export."""
    monkeypatch.setattr("extender.rollouts.probe.time.thread_time", lambda: 1.0)
    report = run(make("reject"), make("reject"), [sample("prioritize")])
    prioritize = report.verbs["prioritize"]
    assert (prioritize.active_milliseconds, prioritize.candidate_milliseconds) == (0.0, 0.0)
    assert timeless(report) == ProbeReport(only("prioritize", judged()))


def test_they_are_not_asked_again_for_long(
    keep: Callable[[str], Plugin], logged: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender.rollouts.probe.PERSISTENCE", 0.0)
    run(keep("old"), keep("new"), [sample(names=ONE)])
    assert [name for name, _, _ in logged] == ["new", "old", "old", "new"]
