"""topNodes: filter answers the best nodes alone."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from extender import config
from extender.rollouts import drain
from extender.rollouts.config_rollout import NotConfiguredError
from extender.rollouts.report import Difference, NodeDifference
from extender.rollouts.revision import RolloutStage
from extender.rollouts.swap_command import FromUpload, SwapCommand
from extender.scheduling import top_nodes
from extender.scheduling.top_nodes import TopNodes
from tests.extender import guests, kwx
from tests.extender.kwx import failure, plugin, profile
from tests.extender.objects import (
    NODE_NAMES,
    filter_error,
    filtered,
    meta_victims,
    names_args,
    node,
    nodes_args,
    pod,
    preemption_args,
    priorities,
)
from tests.extender.rollouts.inside import Inside
from tests.patience import PATIENCE_S
from wasm_runtime.blob import Blob
from wasm_runtime.guests.guest import Pod
from wasm_runtime.nodes.node_table import Nodes, NodeTable

DIGIT = plugin("score_by_digit")
EQUAL = plugin("score_from_config", "50", name="equal")
NO_SEVENS = plugin("filter_by_digit", "72ends in 7", name="no-sevens")
NO_NINES = plugin("filter_by_digit", "93ends in 9", name="no-nines")
TRAP = plugin("trap", extensionPoints=["score"])
SKIPS = plugin("skip_in_prescore")

PROFILES = [
    profile("best", DIGIT, topNodes=1),
    profile("three", DIGIT, topNodes=3),
    profile("filtered", NO_NINES, NO_SEVENS, DIGIT, topNodes=1),
    profile("weighted", DIGIT, plugin("nodenumber", weight=2), topNodes=2),
    profile("equal", EQUAL, topNodes=1),
    profile("equal-three", EQUAL, topNodes=3),
    profile("skipped", SKIPS, topNodes=1),
    profile("ignored", TRAP | {"failurePolicy": "Ignore"}, DIGIT, topNodes=1),
    profile("failing", TRAP, DIGIT, topNodes=1),
    profile("out-of-range", plugin("score_from_config", "101", name="high"), topNodes=1),
    profile("all", NO_NINES, DIGIT),
    profile("finely", DIGIT, topNodes=3, scoreRange=100),
    profile("stages", plugin("score_after_prefilter"), topNodes=2),
]


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with Inside(tmp_path_factory.mktemp("top"), *PROFILES) as inside:
        yield inside


@pytest.fixture
def every_filter_is_an_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top_nodes, "ATTEMPT_S", 0.0)


def kept(inside: Inside, name: str, of: str, names: Sequence[str] = NODE_NAMES) -> list[str]:
    answer = inside.filter(name, of, names)
    assert answer == filtered(answer["NodeNames"])
    return list(answer["NodeNames"])


class TestBest:
    def test_the_best_node_alone_is_answered(self, inside: Inside) -> None:
        assert inside.filter("one", "best") == filtered(["node-9"])

    def test_the_best_are_answered_in_the_order_of_the_request(self, inside: Inside) -> None:
        names = ["node-8", "node-1", "node-9", "node-0", "node-7"]
        assert inside.filter("ordered", "three", names) == filtered(["node-8", "node-9", "node-7"])

    def test_scores_count_by_the_plugins_weights(self, inside: Inside) -> None:
        names = ["node-5", "node-6", "node-7"]  # nodenumber gives 10 to the digit of the pod's name.
        assert inside.filter("pod-5", "weighted", names) == filtered(["node-5", "node-7"])

    def test_rejected_nodes_keep_their_reasons_and_others_are_in_no_list(self, inside: Inside) -> None:
        answer = inside.filter("reasons", "filtered")
        failed, unresolvable = {"node-7": "ends in 7 (no-sevens)"}, {"node-9": "ends in 9 (no-nines)"}
        assert answer == filtered(["node-8"], failed, unresolvable)

    @pytest.mark.parametrize("names", [["node-4"], ["node-2", "node-9", "node-4"], []])
    def test_no_more_nodes_than_wanted_are_all_answered(self, inside: Inside, names: list[str]) -> None:
        assert inside.filter("few", "three", names) == filtered(names)

    def test_one_node_is_not_scored(self, inside: Inside) -> None:
        assert inside.filter("nominated", "failing", ["node-4"]) == filtered(["node-4"])

    def test_a_node_comes_back_whole_and_byte_for_byte(self, inside: Inside) -> None:
        nodes = [node("node-3"), node("node-8", version="17"), node("node-5")]
        answer = inside.ask("/profiles/best/filter", nodes_args(nodes, pod("whole")))
        assert answer == {**filtered(None), "Nodes": {"metadata": {}, "items": [nodes[1]]}}

    def test_without_it_all_that_pass_are_answered(self, inside: Inside) -> None:
        answer = inside.filter("all", "all", NODE_NAMES)
        assert answer == filtered(NODE_NAMES[:9], unresolvable={"node-9": "ends in 9"})

    def test_preempt_looks_at_all_candidates(self, inside: Inside) -> None:
        victims = {name: meta_victims(f"uid-on-{name}") for name in ("node-1", "node-2", "node-9")}
        answer = inside.ask("/profiles/filtered/preempt", preemption_args(victims, pod("preempting")))
        assert sorted(answer["NodeNameToMetaVictims"]) == ["node-1", "node-2"]

    def test_a_guest_scores_in_the_cycle_that_filter_began(self, inside: Inside) -> None:
        assert len(kept(inside, "staged", "stages")) == 2


class TestFailure:
    def test_a_score_that_fails_fails_the_filter(self, inside: Inside) -> None:
        cause = failure(TRAP, "score of node node-0: trap: unreachable in func[1]")
        assert inside.filter("failing", "failing") == filter_error(cause)

    def test_a_score_out_of_range_fails_the_filter(self, inside: Inside) -> None:
        high = plugin("score_from_config", name="high")
        cause = failure(high, "score of node node-0: score 101 is outside 0..100")
        assert inside.filter("high", "out-of-range") == filter_error(cause)

    def test_an_ignored_failure_leaves_the_choice_to_others(self, inside: Inside) -> None:
        assert inside.filter("ignoring", "ignored") == filtered(["node-9"])

    def test_where_no_plugin_scores_the_pod_nodes_are_equally_good(self, inside: Inside) -> None:
        chosen = [kept(inside, f"skipped-{at}", "skipped") for at in range(10)]
        assert sorted(chosen) == [[name] for name in NODE_NAMES]


class TestSpread:
    def test_pods_in_a_row_do_not_land_on_the_same_of_two_equal_nodes(self, inside: Inside) -> None:
        names = ["pair-3", "pair-4"]
        chosen = [kept(inside, f"row-{at}", "equal", names)[0] for at in range(6)]
        assert set(chosen[:2]) == set(names)
        assert chosen == chosen[:2] * 3

    def test_the_order_of_the_nodes_does_not_matter(self, inside: Inside) -> None:
        """kube-scheduler begins at another node each time."""
        first = kept(inside, "turned-1", "equal", ["turned-3", "turned-4"])
        assert first == ["turned-3"]
        assert kept(inside, "turned-2", "equal", ["turned-4", "turned-3"]) == ["turned-4"]

    def test_load_is_even(self, inside: Inside) -> None:
        rng = random.Random(7)
        names = [f"even-{at}" for at in range(20)]
        chosen: Counter[str] = Counter()
        for at in range(200):
            rng.shuffle(names)
            chosen.update(kept(inside, f"even-{at}", "equal", names))
        assert chosen == dict.fromkeys(names, 10)

    def test_pods_at_the_same_time_do_not_pile_up(self, inside: Inside) -> None:
        """Threads change places as often as they can."""
        names = [f"same-{at}" for at in range(30)]
        equal = inside.live.profiles.named("equal")
        assert equal
        top, nodes, asked = TopNodes(), Nodes(NodeTable(), names), Pod("", "default/web", b"")
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(4) as threads:
                keys = [(f"pod-{at}", "") for at in range(120)]
                best = list(threads.map(lambda key: top.choose(key, equal, asked, nodes, 1), keys, timeout=PATIENCE_S))
        finally:
            sys.setswitchinterval(interval)
        assert Counter(each.nodes.names[0] for each in best) == dict.fromkeys(names, 4)

    @pytest.mark.parametrize("most", [1, 3])
    def test_load_is_even_where_not_all_are_compared(self, inside: Inside, most: int) -> None:
        rng = random.Random(most)
        names = [f"many-{at}" for at in range(300)]
        equal = inside.live.profiles.named("equal")
        assert equal
        top, table, asked = TopNodes(), NodeTable(), Pod("", "default/web", b"")
        chosen: Counter[str] = Counter()
        for at in range(3_000):
            rng.shuffle(names)
            chosen.update(top.choose((f"pod-{at}", ""), equal, asked, Nodes(table, list(names)), most).nodes.names)
        assert len(chosen) == 300
        assert 9 * most <= min(chosen.values()) <= max(chosen.values()) <= 11 * most

    def test_the_same_of_many_nodes_within_an_attempt(self, inside: Inside) -> None:
        names = [f"lots-{at}" for at in range(300)]
        first = kept(inside, "again-of-many", "equal-three", names)
        assert len(first) == 3
        assert kept(inside, "again-of-many", "equal-three", names) == first

    def test_turns_are_bounded(self, inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(top_nodes, "MAX_TURNS", 1)
        names = ["turn-1", "turn-2", "turn-3"]
        chosen = [kept(inside, f"turn-{at}", "equal", names)[0] for at in range(4)]
        assert chosen == ["turn-1", "turn-2"] * 2

    def test_the_same_pod_gets_the_same_nodes_within_an_attempt(self, inside: Inside) -> None:
        first = kept(inside, "again", "equal-three")
        kept(inside, "between", "equal-three")
        assert kept(inside, "again", "equal-three") == first
        assert kept(inside, "again", "equal-three", NODE_NAMES[::-1]) == first[::-1]

    def test_a_better_node_is_taken_nevertheless(self, inside: Inside) -> None:
        assert kept(inside, "better", "best", NODE_NAMES[:5]) == ["node-4"]
        assert kept(inside, "better", "best") == ["node-9"]

    @pytest.mark.parametrize("most", [1, 3])
    def test_the_choice_is_that_of_a_plain_sort(self, tmp_path: Path, most: int) -> None:
        rng = random.Random(most)
        turns: dict[str, int] = {}
        with Inside(tmp_path, profile("default", DIGIT, topNodes=most)) as inside:
            for at in range(200):
                names = [f"sort-{at:02}" for at in rng.sample(range(30), rng.randint(most + 1, 30))]
                by_rank = sorted(names, key=lambda name: (-int(name[-1]), turns.get(name, 0), names.index(name)))
                expected = sorted(by_rank[:most], key=names.index)
                assert kept(inside, f"sorted-{at}", "default", names) == expected
                for name in expected:
                    turns[name] = max(turns.values(), default=0) + 1


@pytest.mark.usefixtures("every_filter_is_an_attempt")
class TestAttempts:
    def test_a_node_that_was_answered_before_comes_last(self, inside: Inside) -> None:
        chosen = [kept(inside, "refused", "best", NODE_NAMES[:4])[0] for _ in range(8)]
        assert chosen == ["node-3", "node-2", "node-1", "node-0"] * 2

    def test_of_several_all_come_last(self, inside: Inside) -> None:
        chosen = [kept(inside, "refused-3", "three", NODE_NAMES[:7]) for _ in range(3)]
        assert chosen == [
            ["node-4", "node-5", "node-6"],
            ["node-1", "node-2", "node-3"],
            ["node-0", "node-5", "node-6"],
        ]

    def test_other_pods_are_not_concerned(self, inside: Inside) -> None:
        assert kept(inside, "refused-1", "best") == ["node-9"]
        assert kept(inside, "refused-2", "best") == ["node-9"]

    def test_pods_are_bounded(self, inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(top_nodes, "MAX_ANSWERS_BYTES", 3 * (top_nodes.ANSWER_BYTES + top_nodes.NAME_BYTES))
        for at in range(4):
            assert kept(inside, f"bounded-{at}", "best") == ["node-9"]
        assert kept(inside, "bounded-3", "best") == ["node-8"]
        assert kept(inside, "bounded-0", "best") == ["node-9"]

    def test_names_are_bounded(self, inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(top_nodes, "MAX_TRIED", 2)
        chosen = [kept(inside, "bounded", "best", NODE_NAMES[:4])[0] for _ in range(5)]
        assert chosen == ["node-3", "node-2", "node-1", "node-3", "node-2"]


class TestPrioritize:
    def ask(self, inside: Inside, name: str, of: str, names: Sequence[str]) -> Any:
        return inside.ask(f"/profiles/{of}/prioritize", names_args(names, pod(name)))

    def test_it_answers_what_filter_has_found(self, inside: Inside) -> None:
        assert kept(inside, "scored", "finely") == ["node-7", "node-8", "node-9"]
        expected = priorities({"node-7": 70, "node-8": 80, "node-9": 90})
        assert self.ask(inside, "scored", "finely", ["node-7", "node-8", "node-9"]) == expected

    def test_it_answers_by_itself_about_other_nodes_and_pods(self, inside: Inside) -> None:
        kept(inside, "scored", "finely")
        expected = priorities({"node-1": 10, "node-9": 90})
        assert self.ask(inside, "scored", "finely", ["node-1", "node-9"]) == expected
        assert self.ask(inside, "unknown", "finely", ["node-1", "node-9"]) == expected

    def test_plugins_are_not_asked_again(self, tmp_path: Path) -> None:
        """Scores may depend on which other nodes pass."""
        with Inside(tmp_path, profile("default", plugin("score_in_turn"), topNodes=2, scoreRange=100)) as inside:
            assert kept(inside, "asked", "default") == ["node-8", "node-9"]
            answer = self.ask(inside, "asked", "default", ["node-8", "node-9"])
            assert answer == priorities({"node-8": 80, "node-9": 90})


NOTHING_TO_CHOOSE_BY = (
    "profiles[0].topNodes: the best nodes are chosen by score, and no plugin of profile default scores: leave out"
    " topNodes, or have a plugin that exports score (see kwx inspect) and whose extensionPoints do not leave it out"
)


class TestRollouts:
    @pytest.fixture
    def inside(self, tmp_path: Path) -> Iterator[Inside]:
        with Inside(tmp_path, profile("default", NO_SEVENS, DIGIT, topNodes=1)) as inside:
            yield inside

    @pytest.mark.parametrize("dry_run", [False, True])
    def test_the_last_score_is_not_swapped_away(self, inside: Inside, dry_run: bool) -> None:
        order = SwapCommand(FromUpload(Blob(guests.module("reject"))), "ann", dry_run=dry_run)
        over = inside.over(inside.rollouts.begin(inside.slot("score_by_digit"), order))
        assert (over.stage, over.problem) == (RolloutStage.FAILED, NOTHING_TO_CHOOSE_BY)
        assert kept(inside, "served", "", ["node-3", "node-4"]) == ["node-4"]

    @pytest.mark.parametrize(
        ("rollback", "stage"), [("automatic", RolloutStage.DRAINING), ("manual", RolloutStage.RETIRED)]
    )
    def test_it_is_not_rolled_back_to_none(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rollback: str, stage: RolloutStage
    ) -> None:
        """A start would refuse what then serves."""
        monkeypatch.setattr(drain, "MIN_DRAIN_S", 0.0)
        told = plugin("reject", name="told", swap={"rollback": rollback})
        (tmp_path / "back").mkdir()
        with Inside(tmp_path / "back", profile("default", told)) as inside:
            scoring = inside.upload(guests.module("score_by_digit"))
            content = kwx.configuration(profile("default", told, topNodes=1))
            inside.rollouts.configuration.apply(config.read(kwx.write(inside.folder, content)).profiles)
            inside.reconcile()
            over = inside.over(inside.rollouts.roll_back(inside.slot(), by="ann"))
            assert (over.stage, over.problem) == (RolloutStage.FAILED, NOTHING_TO_CHOOSE_BY)
            assert inside.active() == scoring
            assert [stage for _, stage in inside.rollouts.revisions(inside.slot())] == [RolloutStage.ACTIVE, stage]

    def test_another_plugin_may_lose_its_score(self, inside: Inside) -> None:
        inside.upload(guests.module("reject"), plugin="no-sevens")

    @pytest.mark.parametrize(
        "profiles",
        [
            profile("default", NO_SEVENS, topNodes=1),
            profile("default", plugin("every_export", extensionPoints=["filter"]), topNodes=1),
        ],
        ids=["no-plugin", "left-out"],
    )
    def test_a_configuration_that_leaves_nothing_to_choose_by_is_refused(
        self, inside: Inside, profiles: dict[str, Any]
    ) -> None:
        written = config.read(kwx.write(inside.folder, kwx.configuration(profiles)))
        with pytest.raises(NotConfiguredError) as refused:
            inside.rollouts.configuration.apply(written.profiles)
        assert refused.value.problems == [NOTHING_TO_CHOOSE_BY]
        assert kept(inside, "served", "", ["node-3", "node-4"]) == ["node-4"]

    def test_it_may_come_and_go_with_the_configuration(self, inside: Inside) -> None:
        for more, expected in (({}, ["node-3", "node-4"]), ({"topNodes": 1}, ["node-4"])):
            content = kwx.configuration(profile("default", NO_SEVENS, DIGIT, **more))
            inside.rollouts.configuration.apply(config.read(kwx.write(inside.folder, content)).profiles)
            assert kept(inside, f"of-{len(expected)}", "", ["node-3", "node-4"]) == expected

    def test_a_candidate_is_probed_on_the_nodes_that_were_scored(self, inside: Inside) -> None:
        inside.filter("probed", "", ["node-6", "node-7", "node-8"])
        over = inside.over(inside.begin(guests.module("score_in_turn"), plugin="score_by_digit"))
        assert over.stage is RolloutStage.ACTIVE
        assert over.report
        assert over.report.differences == [
            Difference(
                "default/probed",
                "prioritize",
                2,
                [NodeDifference("node-6", 60, 0), NodeDifference("node-8", 80, 10)],
            )
        ]
