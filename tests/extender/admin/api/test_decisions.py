"""Decisions, as the admin API shows them: what each plugin said of each node, and what became of the pod."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from extender.admin.api.decisions import router
from extender.cluster import PodGoneError, PodKey
from extender.scheduling import decisions as store
from extender.scheduling.decisions import Attempt, Decisions
from extender.scheduling.judgements import judgement, judgements
from tests.extender.cache import Cache
from tests.extender.kwx import failure, plugin, profile
from tests.extender.objects import NODE_NAMES, binding_args, meta_victims, names_args, node, nodes_args, pod
from tests.extender.objects import preemption_args as preemption
from tests.extender.rollouts.inside import Inside
from wasm_runtime.protobuf import encode_pod

NORMALIZED = json.dumps(dict.fromkeys(NODE_NAMES, 10) | {"node-3": 100})
DIGIT = plugin("score_by_digit", weight=3)
PROFILES = {
    "default": [
        plugin("filter_by_digit", "72no sevens", name="sevens"),
        plugin("filter_by_digit", "23", name="twos"),
        plugin("normalize_from_config", NORMALIZED, name="relative"),
        DIGIT,
    ],
    "none": [plugin("filter_by_digit", "*2full", name="all")],
    "traps": [plugin("trap")],
    "waits": [plugin("binding_from_config", "aaaeafa30000")],
    "pre": [plugin("prefilter_from_config", "0nnode-1\0node-4\0", name="pre", extensionPoints=["preFilter"])],
}
UNSTABLE = ("time", "milliseconds", "digest")


def stable(value: Any) -> Any:
    """What a document says, without what differs from run to run."""
    if isinstance(value, list):
        return list(map(stable, value))
    if isinstance(value, dict):
        return {key: stable(each) for key, each in value.items() if key not in UNSTABLE}
    return value


class Page:
    """An extender, and what its API shows."""

    def __init__(self, inside: Inside) -> None:
        self.inside = inside
        app = FastAPI()
        app.include_router(router)
        app.state.context = SimpleNamespace(decisions=inside.decisions, ledger=inside.ledger, read_pod=self._read)
        self.pods: dict[str, bytes] = {}
        """What the API server has, by the pod's name."""
        self._transport = httpx.ASGITransport(app)

    async def _read(self, key: PodKey) -> bytes:
        if key.name not in self.pods:
            raise PodGoneError("the pod is gone")
        return self.pods[key.name]

    def show(self, path: str = "", **query: str | int) -> Any:
        """The answer, whatever its status."""

        async def ask() -> Any:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://admin") as client:
                return (await client.get(f"/decisions{path}", params=query)).json()

        return stable(asyncio.run(ask()))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    profiles = [profile(name, *plugins) for name, plugins in PROFILES.items()]
    top = profile("top", plugin("filter_by_digit", "92no nines", name="nines"), DIGIT, topNodes=2)
    with Inside(tmp_path_factory.mktemp("decisions"), *profiles, top) as inside:
        yield Page(inside)


def rejection(plugin: str, reason: str, nodes: int = 1, *, is_final: bool = False) -> Any:
    return {"plugin": plugin, "reason": reason, "isFinal": is_final, "nodes": nodes}


def judged(
    name: str,
    *,
    rejected: Any = None,
    total: float | None = None,
    answer: int | None = None,
    answered: bool = True,
    **scores: Any,
) -> Any:
    """A node; of each plugin that scored it its weight, raw score and score."""
    return {
        "name": name,
        "rejection": rejected,
        "scores": [
            {"plugin": plugin, "weight": weight, "raw": raw, "score": score}
            for plugin, (weight, raw, score) in scores.items()
        ],
        "total": total,
        "answer": answer,
        "isAnswered": answered and not rejected,
    }


def scored(digit: int, relative: int = 10) -> Any:
    total = (relative + 30 * digit) / 4
    given: Any = {"relative": (1, 7, relative), "score_by_digit": (3, None, 10 * digit)}
    return judged(f"node-{digit}", total=total, answer=int(total / 10 + 0.5), **given)


def decision(name: str, **more: Any) -> Any:
    return {
        "namespace": "default",
        "name": name,
        "uid": f"uid-of-{name}",
        "profile": "default",
        "outcome": "answered",
        "node": "",
        "message": "",
        "schedulerMessage": "",
        "nodesKnown": 0,
        "nodesAsked": 10,
        "nodesAnswered": 0,
        "rejections": [],
        "calls": [],
        "preemption": None,
        "permit": None,
        "bind": None,
        "nodes": [],
        "nodesLeftOut": 0,
        **more,
    }


def calls(**points: str) -> Any:
    return [{"plugin": plugin, "point": point} for plugin, point in points.items()]


SEVENS = rejection("sevens", "no sevens")
TWOS = rejection("twos", "node(s) rejected by plugin twos without a reason", is_final=True)


def test_a_pod_that_is_bound_has_what_each_plugin_said_of_each_node_and_where_it_went(page: Page) -> None:
    kept = [name for name in NODE_NAMES if name not in {"node-2", "node-7"}]
    page.inside.filter("web")
    page.inside.ask("/prioritize", names_args(kept, pod("web")))
    page.inside.bind("web", node="node-9")
    (shown,) = page.show("/default/web")
    assert shown == decision(
        "web",
        outcome="bound",
        node="node-9",
        nodesAnswered=8,
        rejections=[SEVENS, TWOS],
        calls=calls(sevens="filter", twos="filter", relative="score", score_by_digit="score"),
        bind={"node": "node-9", "error": ""},
        nodes=[
            *map(scored, (9, 8)),
            scored(3, 100),
            *map(scored, (6, 5, 4, 1, 0)),
            judged("node-2", rejected=TWOS),
            judged("node-7", rejected=SEVENS),
        ],
    )
    (one,) = page.show("/default/web", node="node-2")
    assert one == shown | {"nodes": [judged("node-2", rejected=TWOS)]}
    (few,) = page.show("/default/web", limit=2)
    assert few == shown | {"nodes": shown["nodes"][:2], "nodesLeftOut": 8}
    assert page.show()[0] == shown | {"nodes": [], "nodesLeftOut": 10}
    assert page.show(node="node-2", limit=1) == [one]


def test_a_pod_that_no_node_takes_has_the_reasons_and_what_preemption_came_to(page: Page) -> None:
    candidates = {"node-1": meta_victims("uid-of-a"), "node-2": meta_victims("uid-of-b")}
    page.inside.filter("pending", "none")
    page.inside.ask("/profiles/none/preempt", preemption(candidates, pod("pending")))
    full = rejection("all", "full", 10)
    (shown,) = page.show("/default/pending", limit=1)
    assert shown == decision(
        "pending",
        profile="none",
        outcome="rejected",
        rejections=[full],
        calls=calls(all="filter"),
        preemption={"candidates": ["node-1", "node-2"], "kept": []},
        nodes=[judged("node-0", rejected=rejection("all", "full"))],
        nodesLeftOut=9,
    )
    assert page.show(outcome="rejected") == [shown | {"nodes": [], "nodesLeftOut": 10}]
    assert page.show(outcome="rejected", namespace="kube-system") == []


def test_the_nodes_that_prefilter_names_are_told_from_others(page: Page) -> None:
    page.inside.filter("named", "pre")
    (shown,) = page.show("/default/named")
    reason = "node(s) not among those that PreFilter of plugin pre names"
    assert (shown["nodesAnswered"], shown["rejections"]) == (2, [rejection("pre", reason, 8, is_final=True)])
    assert shown["nodes"][:3] == [
        judged("node-1"),
        judged("node-4"),
        judged("node-0", rejected=rejection("pre", reason, is_final=True)),
    ]


def test_with_top_nodes_it_is_shown_which_of_those_that_pass_are_answered(page: Page) -> None:
    page.inside.filter("top", "top")
    (shown,) = page.show("/default/top", limit=4)
    assert (shown["nodesAnswered"], shown["rejections"]) == (2, [rejection("nines", "no nines")])
    assert shown["nodes"] == [
        judged(f"node-{at}", score_by_digit=(3, None, 10 * at), total=10.0 * at, answer=at, answered=at > 6)
        for at in (8, 7, 6, 5)
    ]


def test_with_a_cluster_it_is_shown_where_the_pod_is_or_what_kube_scheduler_says_of_it(page: Page) -> None:
    name, says = "elsewhere", "0/12 nodes are available: 2 Insufficient cpu."
    page.inside.filter(name)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": says}
    pending = pod(name) | {"status": {"conditions": [{"type": "Ready", "status": "False"}, condition]}}
    page.pods[name] = encode_pod(pending)
    (shown,) = page.show(f"/default/{name}")
    assert (shown["outcome"], shown["node"], shown["schedulerMessage"]) == ("answered", "", says)
    bound = pod(name)
    bound["spec"]["nodeName"] = "node-4"
    page.pods[name] = encode_pod(bound)
    (shown,) = page.show(f"/default/{name}")
    assert (shown["outcome"], shown["node"], shown["schedulerMessage"]) == ("bound", "node-4", "")


@pytest.mark.parametrize("profile", ["default", "none", "pre", "top", "traps"])
@pytest.mark.parametrize("is_scored", [False, True])
def test_one_node_is_judged_as_among_all_others(page: Page, profile: str, *, is_scored: bool) -> None:
    """Nodes that filter took out have scores here too, since prioritize is asked about all but one of them."""
    name = f"{profile}-{is_scored}"
    page.inside.ask(f"/profiles/{profile}/filter", names_args(NODE_NAMES[1:], pod(name)))
    if is_scored:
        page.inside.ask(f"/profiles/{profile}/prioritize", names_args(NODE_NAMES[:-1], pod(name)))
    attempts = page.inside.decisions.find("default", name)
    assert attempts
    for attempt in attempts:
        among = {each.node: each for each in judgements(attempt)}
        alone = {node: judgement(attempt, node) for node in [*NODE_NAMES, "ghost"]}
        assert {node: each for node, each in alone.items() if each} == among


def test_a_verb_without_an_answer_says_why(page: Page) -> None:
    error = page.inside.filter("trapped", "traps")["Error"]
    assert error.startswith(failure(PROFILES["traps"][0], "filter of node node-0"))
    (shown,) = page.show("/default/trapped")
    assert shown == decision("trapped", profile="traps", outcome="failed", nodesAsked=0, message=f"filter: {error}")


def test_each_filter_begins_an_attempt_and_the_last_four_are_kept(page: Page) -> None:
    for count in range(1, 7):
        page.inside.filter("again", names=NODE_NAMES[:count])
    assert [each["nodesAsked"] for each in page.show("/default/again")] == [6, 5, 4, 3]
    assert [each["nodesAsked"] for each in page.show() if each["name"] == "again"] == [6]


def test_a_prioritize_or_bind_that_no_filter_preceded_is_shown_as_well(page: Page) -> None:
    page.inside.score("scored")
    page.inside.score("scored")
    shown = page.show("/default/scored")
    only = scored(7) | {"isAnswered": True}
    assert [(each["outcome"], each["nodesAsked"], each["nodes"]) for each in shown] == [("answered", 0, [only])] * 2
    error = page.inside.bind("stranger")
    (stranger,) = page.show("/default/stranger")
    assert (stranger["outcome"], stranger["message"], stranger["node"]) == ("notBound", error, "")
    assert stranger["bind"] == {"node": "node-7", "error": error}


def test_a_pod_that_waits_on_permit_is_shown_with_those_that_let_it_wait(page: Page) -> None:
    inside = page.inside
    inside.filter("waiting", "waits")

    async def wait() -> Any:
        answer = asyncio.ensure_future(inside.begin_to_ask("/profiles/waits/bind", binding_args(pod_name="waiting")))  # type: ignore[arg-type]
        while not (waiting := inside.waiting.find("uid-of-waiting")):
            await asyncio.sleep(0.01)
        shown = await asyncio.to_thread(page.show, "/default/waiting")
        waiting.reject("that will do")
        await answer
        return shown

    (shown,) = inside.run(asyncio.wait_for(wait(), 30))
    waited = {"node": "node-7", "plugins": {"binding_from_config": 30.0}}
    assert (shown["outcome"], shown["node"], shown["permit"]) == ("waiting", "node-7", waited)
    (after,) = page.show("/default/waiting")
    assert (after["outcome"], after["permit"]) == ("notBound", waited)


def test_of_a_pod_that_never_came_it_is_said_where_to_look(page: Page) -> None:
    assert page.show("/default/nobody") == {
        "detail": "nothing is known of pod default/nobody: it was not asked about here: kube-scheduler's own filters"
        " may have left no node for it, which kubectl describe pod tells; the last 1000 pods since the extender has"
        " started are remembered"
    }


def test_names_and_reasons_of_any_kind_are_no_more_than_text(tmp_path: Path) -> None:
    name, reason = "x/</script>\x1b[2J\u202e", "\x1b]0;title\x07<img src=x>" + "é" * 2000
    with Inside(tmp_path, profile("default", plugin("filter_by_digit", f"72{reason}"))) as inside:
        page = Page(inside)
        inside.ask("/filter", names_args(["node-7", "node-\x1b[31m7"], pod(name)))
        (shown,) = page.show()
        assert (shown["name"], shown["rejections"][0]["nodes"]) == (name, 2)
        assert shown["rejections"][0]["reason"].startswith("\x1b]0;title\x07<img src=x>éé")
        assert page.show(node="node-\x1b[31m7")[0]["nodes"][0]["name"] == "node-\x1b[31m7"


def test_what_containers_run_with_and_annotations_are_not_kept(tmp_path: Path) -> None:
    secret = pod("secret", annotations={"token": "hunter2"})
    secret["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": "hunter2"}]
    with Inside(tmp_path, profile("default", DIGIT)) as inside:
        inside.ask("/filter", names_args(NODE_NAMES, secret))
        inside.ask("/prioritize", names_args(NODE_NAMES, secret))
        assert "hunter2" not in repr(inside.decisions.latest()) + json.dumps(Page(inside).show("/default/secret"))


def test_simulations_leave_nothing(tmp_path: Path) -> None:
    with Inside(tmp_path, profile("default", DIGIT), cache=Cache()) as inside:
        inside.ask("/filter", nodes_args([node("template-1")]))
        inside.ask("/prioritize", nodes_args([node("template-1")]))
        assert inside.decisions.latest() == []


def attempt(at: int, route: str = "") -> Attempt:
    return Attempt(f"default/web-{at}", f"uid-{at}", route, "default", float(at))


def test_of_too_many_pods_those_go_that_were_tried_longest_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Decisions(3)
    for at in (0, 1, 2, 0, 3):
        kept.begin(attempt(at))
    assert [each.pod for each in kept.latest()] == ["default/web-3", "default/web-0", "default/web-2"]
    monkeypatch.setattr(store, "MAX_BYTES", 3 * store.ATTEMPT_BYTES)
    kept.begin(attempt(4))
    assert [each.pod for each in kept.latest()] == ["default/web-4", "default/web-3"]
    kept.amend("default/web-5", "uid-5", "", "default", preempted=store.Preempted(0.0, ["node"] * 1000, []))
    assert [each.pod for each in kept.latest()] == ["default/web-5"]


def test_routes_are_kept_apart_and_none_is_kept_where_none_is_wanted() -> None:
    kept, none = Decisions(10), Decisions(0)
    for decisions in (kept, none):
        decisions.begin(attempt(1))
        decisions.begin(attempt(1, "batch"))
        decisions.amend("default/web-1", "uid-1", "", "default", failure=store.Failure(1.0, "filter", "no"))
    assert [each.failure is None for each in kept.find("default", "web-1")] == [True, False]
    assert none.latest() == []


def test_names_that_nobody_knows_any_more_are_left_out(tmp_path: Path) -> None:
    with Inside(tmp_path, profile("default", *PROFILES["none"])) as inside:
        inside.filter("old")
        (kept,) = inside.decisions.latest()
        assert kept.asked
        kept.asked._node_table = lambda: None  # type: ignore[assignment]
        (shown,) = Page(inside).show("/default/old")
        assert (shown["nodes"], shown["rejections"]) == ([], [rejection("all", "full", 10)])
