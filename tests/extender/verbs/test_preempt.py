from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.extender.kwx import Extender, plugin, profile
from tests.extender.objects import meta_victims, node, nodes_args, pod, preemption_args

VICTIMS = {
    "node-3": meta_victims("a", "b", violations=1),
    "node-7": meta_victims("c"),
    "node-1": meta_victims("d", "e", "f"),
}


def post_filter(settings: str, name: str = "post", **more: Any) -> dict[str, Any]:
    """PostFilter: nominating mode, status code and node."""
    return plugin("postfilter_from_config", settings, name=name, **more)


def by_digit(settings: str, **more: Any) -> dict[str, Any]:
    return plugin("filter_by_digit", settings, name="digit", **more)


ALL = ["node-3", "node-7", "node-1"]

KEPT = {
    "nothing-to-say": ([plugin("nodenumber")], ALL),
    "every-export": ([plugin("every_export")], ALL),
    "filter": ([by_digit("72no room")], ["node-3", "node-1"]),
    "filter-unresolvable": ([by_digit("73no room")], ["node-3", "node-1"]),
    "filter-rejects-all": ([by_digit("*2no room")], []),
    "two-filters": ([by_digit("72"), plugin("filter_by_digit", "32", name="threes")], ["node-1"]),
    "prefilter-names": (
        [plugin("prefilter_from_config", "0nnode-7\0node-9\0", name="pre", extensionPoints=["preFilter"])],
        ["node-7"],
    ),
    "prefilter-rejects": ([plugin("prefilter_from_config", "2rno", name="pre")], []),
    "override": ([post_filter("10node-7")], ["node-7"]),
    "override-without-a-node": ([post_filter("10")], ALL),
    "override-by-a-node-that-is-no-candidate": ([post_filter("10node-9")], []),
    "override-by-a-node-that-filter-rejected": ([by_digit("72"), post_filter("10node-7")], []),
    "noop": ([post_filter("00node-7")], ALL),
    "unschedulable": ([post_filter("12node-7")], ALL),
    "unresolvable": ([post_filter("13node-7")], ALL),
    "the-first-success-ends-postfilter": ([post_filter("10node-7", "a"), post_filter("10node-1", "b")], ["node-7"]),
    "noop-is-a-success": ([post_filter("00", "a"), post_filter("10node-1", "b")], ALL),
    "unschedulable-passes-on": ([post_filter("12node-7", "a"), post_filter("10node-1", "b")], ["node-1"]),
    "ignored-filter": (
        [plugin("trap", failurePolicy="Ignore", extensionPoints=["filter"]), by_digit("72")],
        ["node-3", "node-1"],
    ),
    "ignored-postfilter": (
        [plugin("trap", failurePolicy="Ignore", extensionPoints=["postFilter"]), post_filter("10node-1")],
        ["node-1"],
    ),
    "no-candidate-is-left-for-postfilter": ([by_digit("*2"), plugin("trap", extensionPoints=["postFilter"])], []),
}
"""Plugins of a profile, and which of the candidates they keep."""

FAILURES = {
    "trap": (plugin("trap"), "plugin trap: filter of node node-3: trap: unreachable in func[0]"),
    "trap-in-postfilter": (
        plugin("trap", extensionPoints=["postFilter"]),
        "plugin trap: postfilter: trap: unreachable in func[2]",
    ),
    "error-in-postfilter": (
        plugin("error_status", extensionPoints=["postFilter"]),
        "plugin error_status: postfilter: no quota service",
    ),
    "skip-in-postfilter": (
        post_filter("15node-7"),
        "plugin post: postfilter: status code 5 Skip is none of 0 Success, 1 Error, 2 Unschedulable,"
        " 3 UnschedulableAndUnresolvable, 6 Pending",
    ),
    "spin": (
        plugin("spin", timeout="50ms"),
        "plugin spin: filter of node node-3: interrupted at its timeout of 50 ms",
    ),
}

PROFILES = [
    *(profile(name, *plugins) for name, (plugins, _) in KEPT.items()),
    *(profile(name, failing) for name, (failing, _) in FAILURES.items()),
    profile("accelerator", plugin("accelerator")),
]


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    with Extender(tmp_path_factory.mktemp("preempt"), *PROFILES) as extender:
        yield extender


def ask(extender: Extender, name: str, request: Any = None) -> Any:
    return extender.post(f"/profiles/{name}/preempt", request or preemption_args(VICTIMS))


def answer(*names: str) -> dict[str, Any]:
    return {"NodeNameToMetaVictims": {name: VICTIMS[name] for name in names}}


@pytest.mark.parametrize("name", KEPT)
def test_candidates_are_narrowed_by_filter_and_then_by_postfilter(extender: Extender, name: str) -> None:
    _, kept = KEPT[name]
    assert ask(extender, name) == answer(*kept)
    assert ask(extender, name) == answer(*kept)


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_leaves_no_candidate_and_is_logged_with_its_cause(extender: Extender, name: str) -> None:
    _, cause = FAILURES[name]
    the_pod = pod(f"failing-{name}")
    assert ask(extender, name, preemption_args(VICTIMS, the_pod)) == answer()
    errors = extender.events(f"preempt failed: {cause}")
    assert [(line["level"], line["verb"], line["pod"]) for line in errors] == [
        ("error", "preempt", f"default/failing-{name}")
    ]


def test_victims_that_came_as_pods_are_answered_by_uid(extender: Extender) -> None:
    request = {
        "Pod": pod(),
        "NodeNameToVictims": {
            "node-3": {"Pods": [pod("a"), pod("b")], "NumPDBViolations": 1},
            "node-7": {"Pods": [pod("c")], "NumPDBViolations": 0},
            "node-1": {"Pods": [], "NumPDBViolations": 0},
        },
        "NodeNameToMetaVictims": None,
    }
    assert ask(extender, "filter", request) == {
        "NodeNameToMetaVictims": {
            "node-3": meta_victims("uid-of-a", "uid-of-b", violations=1),
            "node-1": meta_victims(),
        }
    }


def test_the_order_of_the_candidates_is_kept(extender: Extender) -> None:
    assert list(ask(extender, "filter")["NodeNameToMetaVictims"]) == ["node-3", "node-1"]


def test_no_candidates_are_no_failure(extender: Extender) -> None:
    for name in ("filter", "override", "trap", "trap-in-postfilter"):
        assert ask(extender, name, preemption_args({})) == answer()


def test_names_without_node_data_leave_no_candidate_until_a_request_has_brought_the_nodes(extender: Extender) -> None:
    wants = pod("train-1", annotations={"kwx.dev/accelerator": "h100"})
    assert ask(extender, "accelerator", preemption_args(VICTIMS, wants)) == answer()
    assert [line["fault"] for line in extender.log() if line.get("plugin") == "accelerator"] == ["no node data"]
    nodes = [node(name, labels={"kwx.dev/accelerator": "h100"} if name != "node-7" else {}) for name in VICTIMS]
    extender.post("/profiles/accelerator/filter", nodes_args(nodes, wants))
    assert ask(extender, "accelerator", preemption_args(VICTIMS, wants)) == answer("node-3", "node-1")
