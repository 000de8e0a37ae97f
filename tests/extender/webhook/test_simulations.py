"""Requests with whole nodes that the cluster does not have: they ask what would be, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from extender.cluster.events.event import Event
from extender.scheduling import inline_policy, late_nodes
from extender.scheduling.inline_policy import MIN_QUICK_CALLS
from extender.webhook.protocol import Answer
from tests.extender.cache import Cache
from tests.extender.kwx import failure, plugin, profile
from tests.extender.objects import Object, filtered, names_args, node, nodes_args, pod, priorities
from tests.extender.rollouts.inside import Inside
from wasm_runtime.protobuf import encode_node

LABEL = "kwx.dev/accelerator"
KNOWN = ["node-0", "node-2"]
WHOLE = [node("node-0"), node("template-1", labels={LABEL: "h100"}), node("node-2"), node("template-3")]
"""Templates between nodes of the cluster, where node-2 has the label."""
NAMES = [each["metadata"]["name"] for each in WHOLE]
TRAIN = pod("train-1", annotations={LABEL: "h100"})


class Events:
    """Keeps Events."""

    def __init__(self) -> None:
        self.all: list[Event] = []

    def record(self, event: Event) -> None:
        self.all.append(event)


PROFILES = {
    "default": [plugin("accelerator")],
    "names": [plugin("filter_by_digit", "22ends in 2")],
    "both": [plugin("filter_by_digit", "22ends in 2"), plugin("accelerator")],
    "scores": [plugin("score_by_digit")],
    "binds": [plugin("reserve_after_filter")],
    "traps": [plugin("trap")],
}
"""The guests of accelerator keep nodes. The others ask for none."""


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Inside]:
    profiles = [profile(name, *plugins) for name, plugins in PROFILES.items()]
    top = profile("top", plugin("score_by_digit"), topNodes=1)
    with Inside(tmp_path, *profiles, top, cache=Cache()) as inside:
        inside.ledger.is_followed = True
        labelled = node("node-2", labels={LABEL: "h100"})
        inside.nodes.put([("node-0", encode_node(node("node-0"))), ("node-2", encode_node(labelled))])
        for path in ("/filter", "/profiles/top/filter", "/profiles/binds/filter"):
            inside.ask(path, names_args(KNOWN, TRAIN))
        yield inside


def passed(
    names: list[str], failed: dict[str, str] | None = None, unresolvable: dict[str, str] | None = None
) -> Object:
    """The whole answer of a filter that was asked about WHOLE."""
    items = [each for each in WHOLE if each["metadata"]["name"] in names]
    return {**filtered(None, failed, unresolvable), "Nodes": {"metadata": {}, "items": items}}


NO_LABEL = dict.fromkeys(("node-0", "template-3"), f"node has no label {LABEL}=h100")
SIGNED = {name: f"{reason} (accelerator)" for name, reason in NO_LABEL.items()}


def state(inside: Inside) -> dict[str, Any]:
    """All that requests leave behind."""
    context, nodes = inside.context, inside.nodes
    return {
        "nodes": (nodes.everything(), nodes.node_list(), nodes.unknown(NAMES), nodes.without_object(NAMES)),
        "pins": (dict(context.pins._pins), context.pins.profiles_in_use()),
        "samples": {name: context.samples.last(name) for name in (*PROFILES, "top")},
        "feasible": dict(context.feasible._answers),
        "turns": (dict(context.top_nodes._turns), dict(context.top_nodes._answers)),
        "pods": dict(context.pods._remembered),
        "ledger": (inside.ledger.position, dict(inside.ledger._entries)),
        "late": context.nodes.late.has_any(NAMES),
    }


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/filter", passed(["template-1", "node-2"], unresolvable=NO_LABEL)),
        ("/profiles/names/filter", passed(["node-0", "template-1", "template-3"], {"node-2": "ends in 2"})),
        ("/profiles/both/filter", passed(["template-1"], {"node-2": "ends in 2 (filter_by_digit)"}, SIGNED)),
        ("/profiles/top/filter", passed(NAMES)),
        ("/profiles/binds/filter", passed(NAMES)),
        ("/profiles/scores/prioritize", priorities({"template-1": 1, "node-2": 2, "template-3": 3})),
        ("/profiles/top/prioritize", priorities({"template-1": 1, "node-2": 2, "template-3": 3})),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_it_is_answered_and_nothing_begins(inside: Inside, path: str, answer: Any) -> None:
    before = state(inside)
    for name in ("train-1", "train-2"):
        assert inside.ask(path, nodes_args(WHOLE, pod(name, annotations={LABEL: "h100"}))) == answer
    assert state(inside) == before


def test_a_template_is_not_known_afterwards(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_nodes, "MAX_LAG_S", 0.0)
    inside.ask("/filter", nodes_args(WHOLE, TRAIN))
    assert inside.nodes.unknown(NAMES) == ["template-1", "template-3"]
    inside.nodes.put([("other", encode_node(node("other", labels={LABEL: "h100"})))])
    assert inside.ask("/filter", names_args(["node-0", "other"], TRAIN)) == filtered(
        ["other"], unresolvable={"node-0": NO_LABEL["node-0"]}
    )
    assert inside.ask("/filter", names_args(["template-1", "node-2"], TRAIN)) == filtered(
        ["node-2"], {"template-1": "node template-1 is not known"}
    )


def test_the_objects_of_the_clusters_own_nodes_count(inside: Inside) -> None:
    """node-2 comes without its label here."""
    assert inside.ask("/filter", nodes_args(WHOLE[1:3], TRAIN))["Nodes"]["items"] == WHOLE[1:3]


def test_a_pods_cycle_goes_on_as_if_nobody_had_asked(inside: Inside) -> None:
    """Reserve tells for how many nodes Filter was called since PreFilter."""
    inside.ask("/profiles/binds/filter", nodes_args(WHOLE, TRAIN))
    rejection = inside.bind("train-1", "binds", "node-2")
    assert rejection == "plugin reserve_after_filter: reserve: Unschedulable: 2"


def test_a_pod_is_bound_to_no_template(inside: Inside) -> None:
    inside.ask("/filter", nodes_args(WHOLE, TRAIN))
    assert inside.bind("train-1", node="template-1") == (
        "bind refused: node template-1 is none of those that filter has answered for pod default/train-1;"
        " kube-scheduler tries the pod again, and binds it to one of those"
    )


def test_no_guest_is_kept_for_it(inside: Inside) -> None:
    """One that takes part in binding stays with its pod."""
    live = inside.slot("reserve_after_filter", "binds").live
    assert live
    for at in range(10):
        inside.ask("/profiles/binds/filter", nodes_args(WHOLE, pod(f"train-{at}")))
    assert [place.guest.uid for place in live.plugin._pool._places if place.guest] == ["uid-of-train-1", None]


def test_it_is_neither_recorded_nor_shadowed(inside: Inside) -> None:
    with inside.samples.recording("default") as recording, inside.samples.listening("default") as shadow:
        recording.start(2)
        inside.ask("/filter", nodes_args(WHOLE, TRAIN))
        assert (list(recording.take()), shadow.qsize()) == ([], 0)
        inside.ask("/filter", nodes_args([WHOLE[0]], TRAIN))
        assert ([each.asked.names for each in recording.take()], shadow.qsize()) == ([["node-0"]], 1)


def test_it_does_not_run_on_the_loop_however_quick_the_plugins_are(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is it one of the quick ones that let others run there."""
    monkeypatch.setattr(inline_policy, "MAX_INLINE_S", 60.0)
    real, simulated = names_args(KNOWN), nodes_args(WHOLE)
    asked = [real] * (MIN_QUICK_CALLS - 1) + [simulated, real, real, simulated]

    async def scenario() -> list[bool]:
        were_on_loop = []
        for each in asked:
            answer = inside.begin_to_ask("/profiles/names/filter", each)
            were_on_loop.append(isinstance(answer, Answer))
            if not isinstance(answer, Answer):
                await answer
        return were_on_loop

    assert inside.run(scenario()) == [*[False] * (MIN_QUICK_CALLS + 1), True, False]


def test_its_failure_is_answered_and_is_no_event_of_the_pod(inside: Inside) -> None:
    events = Events()
    inside.router = inside.serving(inside.context._replace(recorder=events))
    trapped = failure(plugin("trap"), "filter of node node-0: trap: unreachable in func[0]")
    assert inside.ask("/profiles/traps/filter", nodes_args(WHOLE, TRAIN)) == filtered(None, error=trapped)
    assert inside.ask("/profiles/traps/prioritize", nodes_args(WHOLE, TRAIN)) == []
    assert events.all == []
    inside.ask("/profiles/traps/prioritize", names_args(KNOWN, TRAIN))
    assert [event.reason for event in events.all] == ["PluginFailed"]


def test_a_template_that_cannot_be_read_is_refused(inside: Inside) -> None:
    async def scenario() -> Any:
        return inside.begin_to_ask("/filter", nodes_args([{"metadata": {"name": "template-1"}, "spec": 5}], TRAIN))

    status, body, *_ = inside.run(scenario())
    expected = {"error": "Nodes: node template-1: spec: expected an object, got 5"}
    assert (status, msgspec.json.decode(body)) == (400, expected)
