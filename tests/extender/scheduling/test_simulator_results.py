"""The annotations of kube-scheduler-simulator: what plugins said of nodes, given at bind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from extender.cluster import PodKey
from extender.scheduling import simulator_results
from tests.extender.kwx import plugin, profile
from tests.extender.objects import NODE_NAMES, names_args, pod
from tests.extender.rollouts.inside import Inside

DOMAIN = "kube-scheduler-simulator.sigs.k8s.io"
EVEN = json.dumps(dict.fromkeys(NODE_NAMES, 10) | {"node-3": 100})
PLUGINS = [
    plugin("filter_by_digit", "72no sevens", name="sevens"),
    plugin("filter_by_digit", "23no twos", name="twos"),
    plugin("normalize_from_config", EVEN, name="relative"),
    plugin("score_by_digit", weight=3),
]
PROFILES = [
    profile("default", *PLUGINS, simulatorResults=True),
    profile("annotates", *PLUGINS[:1], plugin("annotates_from_config", "-a\none\n"), simulatorResults=True),
    profile("plain", *PLUGINS),
]


class Binder:
    """Keeps what pods would be given."""

    def __init__(self) -> None:
        self.annotations: dict[str, Mapping[str, str]] = {}
        """By the pod's name."""

    async def bind(self, key: PodKey, _: str, annotations: Mapping[str, str]) -> None:
        """Always a success."""
        self.annotations[key.name] = annotations


class World(Inside):
    """An extender, and what it gives pods."""

    def __init__(self, folder: Path) -> None:
        self.binder = Binder()
        super().__init__(folder, *PROFILES, binder=self.binder, cluster={"mode": "dry-run"})

    def given(self, name: str, node: str, profile: str = "") -> dict[str, Any]:
        """The annotations of a pod that is bound to a node after filter and prioritize, by key."""
        path = f"/profiles/{profile}/" if profile else "/"
        kept = self.filter(name, profile)["NodeNames"]
        self.ask(f"{path}prioritize", names_args(kept, pod(name)))
        assert self.bind(name, profile, node) == ""
        return dict(self.binder.annotations[name])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("results"))
    with world:
        yield world


def results(given: Mapping[str, str]) -> dict[str, Any]:
    """The annotations of the simulator but for the history, decoded; there must be no others."""
    node = given[f"{DOMAIN}/selected-node"]
    told = {f"{DOMAIN}/selected-node", f"{DOMAIN}/result-history"}
    others = {key: json.loads(value) for key, value in given.items() if key not in told}
    assert set(others) == {f"{DOMAIN}/{name}-result" for name in ("filter", "score", "finalscore")}
    return {"selected-node": node, **{key.removeprefix(f"{DOMAIN}/"): value for key, value in others.items()}}


def test_a_pod_gets_what_each_plugin_said_of_each_node(world: World) -> None:
    found = results(world.given("web", "node-9"))
    assert found["selected-node"] == "node-9"
    passed = {"sevens": "passed", "twos": "passed"}
    assert found["filter-result"] == dict.fromkeys(NODE_NAMES, passed) | {
        "node-2": {"sevens": "passed", "twos": "no twos"},
        "node-7": {"sevens": "no sevens"},
    }
    scored = [at for at in range(10) if at not in {2, 7}]
    assert found["score-result"] == {f"node-{at}": {"relative": "7", "score_by_digit": str(10 * at)} for at in scored}
    assert found["finalscore-result"] == {
        f"node-{at}": {"relative": "100" if at == 3 else "10", "score_by_digit": str(30 * at)} for at in scored
    }


def history(given: Mapping[str, str]) -> list[dict[str, str]]:
    """What each attempt came to, the last one last."""
    (told,) = (json.loads(value) for key, value in given.items() if key == f"{DOMAIN}/result-history")
    return list(told)


def test_the_history_has_the_earlier_attempts_too(world: World) -> None:
    """An attempt that came to no node, and the last one as it stands in the other annotations."""
    world.ask("/filter", names_args(["node-2", "node-7"], pod("again")))
    given = world.given("again", "node-9")
    failed, last = history(given)
    assert last == {key: value for key, value in given.items() if key != f"{DOMAIN}/result-history"}
    assert results(failed) == {
        "selected-node": "",
        "filter-result": {"node-2": {"sevens": "passed", "twos": "no twos"}, "node-7": {"sevens": "no sevens"}},
        "score-result": {},
        "finalscore-result": {},
    }


def test_of_a_long_history_the_last_attempts_are_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        world.ask("/filter", names_args(NODE_NAMES, pod("often")))
    whole = world.given("often", "node-9")
    assert len(history(whole)) == 3
    for name, lacks, expected in (("often-2", 1, 2), ("often-3", 0, 3)):
        for _ in range(2):
            world.ask("/filter", names_args(NODE_NAMES, pod(name)))
        monkeypatch.setattr(simulator_results, "MAX_BYTES", sum(map(len, whole.values())) - lacks)
        assert len(history(world.given(name, "node-9"))) == expected


def test_those_of_guests_are_beside_them(world: World) -> None:
    given = world.given("annotated", "node-9", "annotates")
    assert given.pop("a") == "one"
    assert results(given)["filter-result"]["node-9"] == {"sevens": "passed"}


def test_nobody_gets_them_who_has_not_asked_for_them(world: World) -> None:
    assert world.given("plain", "node-9", "plain") == {}


def test_of_too_many_nodes_the_one_that_was_chosen_and_the_best_are_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulator_results, "MAX_BYTES", 400)
    given = world.given("small", "node-4")
    found = results(given)
    assert list(found["filter-result"]) == ["node-4", "node-9"]
    assert list(found["score-result"]) == list(found["finalscore-result"]) == ["node-4", "node-9"]
    assert sum(len(value) for value in given.values()) < 400
    assert f"{DOMAIN}/result-history" not in given


def test_nothing_of_the_pod_itself_is_in_them(world: World) -> None:
    secret = pod("secret", annotations={"token": "hunter2"})
    secret["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": "hunter2"}]
    world.ask("/filter", names_args(NODE_NAMES, secret))
    assert world.bind("secret", node="node-9") == ""
    assert "hunter2" not in json.dumps(dict(world.binder.annotations["secret"]))
