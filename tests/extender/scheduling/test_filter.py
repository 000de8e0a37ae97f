from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.extender import guests
from tests.extender.kwx import Extender, failure, plugin, profile
from tests.extender.objects import (
    NODE_NAMES,
    filter_error,
    filtered,
    names_args,
    node,
    nodes_args,
    pod,
)
from wasm_runtime.blob import digest

ODD = 'say "no"\n\t\\ <b>&amp;</b> \u2028 größer 🚫 \x01 [red]%s'
OTHERS = [name for name in NODE_NAMES if name not in {"node-3", "node-7"}]
SEVEN, FIVE, THREE = "ends in 7 (sevens)", "ends in 5 (fives)", "ends in 3 (threes)"
"""Reasons where several plugins filter: they say whose they are."""
NOT_NAMED = "node(s) not among those that PreFilter of plugin pre names"


def by_digit(settings: str, name: str = "digit", **more: Any) -> dict[str, Any]:
    return plugin("filter_by_digit", settings, name=name, **more)


def prefilter(settings: str, **more: Any) -> dict[str, Any]:
    """PreFilter as `settings` say; Filter, which would reject every node, if `extensionPoints` lets it."""
    return plugin("prefilter_from_config", settings, name="pre", **more)


PREFILTER_ONLY = {"extensionPoints": ["preFilter"]}

VERDICTS = {
    "every-export": ([plugin("every_export")], filtered(NODE_NAMES)),
    "score-only": ([plugin("nodenumber")], filtered(NODE_NAMES)),
    "unschedulable": ([by_digit("*2no room")], filtered([], failed=dict.fromkeys(NODE_NAMES, "no room"))),
    "unresolvable": ([by_digit("*3no GPU")], filtered([], unresolvable=dict.fromkeys(NODE_NAMES, "no GPU"))),
    "pending": ([by_digit("*6not yet")], filtered([], failed=dict.fromkeys(NODE_NAMES, "not yet"))),
    "one-of-each": (
        [by_digit("72ends in 7", "sevens"), by_digit("33ends in 3", "threes"), by_digit("56ends in 5", "fives")],
        filtered(
            ["node-0", "node-1", "node-2", "node-4", "node-6", "node-8", "node-9"],
            failed={"node-7": SEVEN, "node-5": FIVE},
            unresolvable={"node-3": THREE},
        ),
    ),
    "first-to-reject": (
        [by_digit("72first", "a"), by_digit("*3second", "b"), by_digit("*2third", "c")],
        filtered(
            [],
            failed={"node-7": "first (a)"},
            unresolvable={name: "second (b)" for name in NODE_NAMES if name != "node-7"},
        ),
    ),
    "no-reason": (
        [by_digit("72", "quiet"), by_digit("33", "mute")],
        filtered(
            OTHERS,
            failed={"node-7": "node(s) rejected by plugin quiet without a reason"},
            unresolvable={"node-3": "node(s) rejected by plugin mute without a reason"},
        ),
    ),
    "odd-reason": (
        [by_digit("72" + ODD)],
        filtered([name for name in NODE_NAMES if name != "node-7"], failed={"node-7": ODD}),
    ),
    "reason-no-utf8": (
        [plugin("reason_no_utf8")],
        filtered([], failed=dict.fromkeys(NODE_NAMES, "a\ufffd\ufffd\ufffdb")),
    ),
    "reason-too-long": (
        [plugin("reason_too_long")],
        filtered([], failed=dict.fromkeys(NODE_NAMES, "x" * 4096)),
    ),
    "prefilter-names": (
        [prefilter("0nnode-7\0ghost\0node-3\0", **PREFILTER_ONLY)],
        filtered(["node-3", "node-7"], unresolvable=dict.fromkeys(OTHERS, NOT_NAMED)),
    ),
    "prefilter-names-before-filter": (
        [prefilter("0nnode-7\0node-3\0")],
        filtered(
            [],
            failed={"node-3": "Filter was called", "node-7": "Filter was called"},
            unresolvable=dict.fromkeys(OTHERS, NOT_NAMED),
        ),
    ),
    "prefilter-names-before-another-plugin": (
        [prefilter("0nnode-7\0node-3\0", **PREFILTER_ONLY), by_digit("72ends in 7")],
        filtered(["node-3"], failed={"node-7": "ends in 7 (digit)"}, unresolvable=dict.fromkeys(OTHERS, NOT_NAMED)),
    ),
    "prefilter-names-unknown-nodes": (
        [prefilter("0nghost\0")],
        filtered([], unresolvable=dict.fromkeys(NODE_NAMES, NOT_NAMED)),
    ),
    "prefilter-names-nothing": ([prefilter("0n", **PREFILTER_ONLY)], filtered(NODE_NAMES)),
    "prefilter-rejects": ([prefilter("2rno quota")], filtered([], failed=dict.fromkeys(NODE_NAMES, "no quota"))),
    "prefilter-rejects-for-good": (
        [prefilter("3rno such queue")],
        filtered([], unresolvable=dict.fromkeys(NODE_NAMES, "no such queue")),
    ),
    "prefilter-is-pending": (
        [prefilter("6rgang incomplete")],
        filtered([], failed=dict.fromkeys(NODE_NAMES, "gang incomplete")),
    ),
    "prefilter-rejects-without-a-reason": (
        [prefilter("2-")],
        filtered([], failed=dict.fromkeys(NODE_NAMES, "node(s) rejected by plugin pre without a reason")),
    ),
    "prefilter-skips-filter": ([prefilter("5-")], filtered(NODE_NAMES)),
    "prefilter-skips-and-names": ([prefilter("5nnode-7\0")], filtered(NODE_NAMES)),
    "prefilter-is-not-called-when-no-node-is-left": (
        [by_digit("*2no room"), prefilter("1-")],
        filtered([], failed=dict.fromkeys(NODE_NAMES, "no room (digit)")),
    ),
    "prefilter-rejects-before-another-plugin": (
        [prefilter("3rno such queue"), by_digit("72ends in 7")],
        filtered([], unresolvable=dict.fromkeys(NODE_NAMES, "no such queue (pre)")),
    ),
}
"""Plugins of a profile, and its answer for ten nodes."""

CODES = "0 Success, 1 Error, 2 Unschedulable, 3 UnschedulableAndUnresolvable, 6 Pending"

FAILURES = {
    "trap": (plugin("trap"), "filter of node node-0: trap: unreachable in func[0]"),
    "print-and-trap": (
        plugin("print_and_trap"),
        "filter of node node-0: trap: unreachable in give_up < func[2];"
        " the guest printed: panic: no quota\ngoroutine 1",
    ),
    "exit": (plugin("exit"), "filter of node node-0: the guest left by exit status 3"),
    "error": (plugin("error_status"), "filter of node node-0: no quota service"),
    "error-in-prefilter": (prefilter("1rno quota service"), "prefilter: no quota service"),
    "error-without-reason": (prefilter("1-"), "prefilter: Error without a reason"),
    "spin": (
        plugin("spin", timeout="50ms"),
        "filter of node node-0: interrupted at its timeout of 50 ms; mend the guest, or raise the plugin's timeout",
    ),
    "wait": (
        by_digit("*4hold on"),
        f"filter of node node-0: status code 4 Wait (hold on) is none of {CODES}",
    ),
    "skip": (by_digit("*5"), f"filter of node node-0: status code 5 Skip is none of {CODES}"),
    "unknown-code": (
        by_digit("*9what"),
        f"filter of node node-0: status code 9 (what) is none of {CODES}",
    ),
    "late-node": (by_digit("91odd"), "filter of node node-9: odd"),
}
"""A plugin that fails, and why."""

TRAPPED = failure(*FAILURES["trap"])

PROFILES = [
    *(profile(name, *plugins) for name, (plugins, _) in VERDICTS.items()),
    *(profile(f"{name}-fails", failing) for name, (failing, _) in FAILURES.items()),
    *(
        profile(
            f"{name}-ignored",
            by_digit("12ends in 1", "ones"),
            failing | {"failurePolicy": "Ignore"},
            by_digit("72", "sevens"),
        )
        for name, (failing, _) in FAILURES.items()
    ),
    profile("second-fails", by_digit("72ends in 7"), plugin("trap")),
    profile("accelerator", plugin("accelerator")),
    profile("no-node-is-left-for-the-failure", by_digit("*2no room"), plugin("trap")),
]


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    with Extender(tmp_path_factory.mktemp("filter"), *PROFILES) as extender:
        yield extender


def ask(extender: Extender, name: str, request: Any = None) -> Any:
    return extender.post(f"/profiles/{name}/filter", request or names_args())


@pytest.mark.parametrize("name", VERDICTS)
def test_nodes_pass_or_are_rejected_with_the_reason_of_the_first_plugin_to_do_so(extender: Extender, name: str) -> None:
    _, expected = VERDICTS[name]
    assert ask(extender, name) == expected


@pytest.mark.parametrize("name", VERDICTS)
def test_a_second_request_for_the_same_pod_is_answered_alike(extender: Extender, name: str) -> None:
    assert ask(extender, name) == ask(extender, name)


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_fails_the_verb_and_says_which_plugin_export_node_and_cause(extender: Extender, name: str) -> None:
    cause = failure(*FAILURES[name])
    assert ask(extender, f"{name}-fails") == filter_error(cause)


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_that_is_ignored_leaves_the_plugin_out_and_is_logged(extender: Extender, name: str) -> None:
    cause = failure(*FAILURES[name])
    assert ask(extender, f"{name}-ignored") == filtered(
        [each for each in NODE_NAMES if each not in {"node-1", "node-7"}],
        failed={"node-1": "ends in 1 (ones)", "node-7": "node(s) rejected by plugin sevens without a reason"},
    )
    warning = extender.events(f"left out of a verb: {cause}")[-1]
    assert (warning["level"], warning["pod"]) == ("warning", "default/web-7")


def test_a_failure_is_logged_with_plugin_export_fault_and_pod(extender: Extender) -> None:
    ask(extender, "trap-fails", names_args(the_pod=pod("logged")))
    error = extender.events(f"filter failed: {TRAPPED}")[-1]
    assert {key: error[key] for key in ("level", "verb", "pod", "plugin", "digest", "export", "fault")} == {
        "level": "error",
        "verb": "filter",
        "pod": "default/logged",
        "plugin": "trap",
        "digest": digest(guests.module("trap")),
        "export": "filter",
        "fault": "unreachable",
    }


def test_a_later_plugin_that_fails_fails_the_whole_verb(extender: Extender) -> None:
    assert ask(extender, "second-fails") == filter_error(TRAPPED)


def test_a_plugin_is_not_called_when_no_node_is_left_for_it(extender: Extender) -> None:
    expected = filtered([], failed=dict.fromkeys(NODE_NAMES, "no room (digit)"))
    assert ask(extender, "no-node-is-left-for-the-failure") == expected


def test_a_trapped_guest_is_replaced(extender: Extender) -> None:
    for _ in range(3):
        assert ask(extender, "trap-fails") == filter_error(TRAPPED)


def test_no_nodes_are_no_failure(extender: Extender) -> None:
    assert ask(extender, "one-of-each", names_args([])) == filtered([])
    assert ask(extender, "trap-fails", names_args([])) == filtered([])
    assert ask(extender, "prefilter-rejects", names_args([])) == filtered([])


def test_the_order_of_the_request_is_kept(extender: Extender) -> None:
    names = ["node-9", "node-7", "node-0", "node-8", "node-3", "node-1"]
    assert ask(extender, "one-of-each", names_args(names)) == filtered(
        ["node-9", "node-0", "node-8", "node-1"], failed={"node-7": SEVEN}, unresolvable={"node-3": THREE}
    )


def test_a_name_that_comes_twice_is_judged_twice(extender: Extender) -> None:
    names = ["node-1", "node-3", "node-7", "node-3", "node-1", "node-7"]
    assert ask(extender, "one-of-each", names_args(names)) == filtered(
        ["node-1", "node-1"], failed={"node-7": SEVEN}, unresolvable={"node-3": THREE}
    )


def test_names_that_no_node_can_have_are_names_like_others(extender: Extender) -> None:
    names = ["", "größer-7", "a\0b", "🚫", "x" * 253]
    assert ask(extender, "unschedulable", names_args(names)) == filtered([], failed=dict.fromkeys(names, "no room"))


def test_a_name_longer_than_any_is_refused(extender: Extender) -> None:
    answer = extender.client.post("/profiles/unschedulable/filter", json=names_args(["x" * 254]))
    assert (answer.status_code, answer.json()) == (400, {"error": "a node name has more than 253 characters"})


def test_thousands_of_names(extender: Extender) -> None:
    names = [f"node-{at}" for at in range(5_000)]
    assert ask(extender, "one-of-each", names_args(names)) == filtered(
        [name for name in names if name[-1] not in "357"],
        failed={name: FIVE if name[-1] == "5" else SEVEN for name in names if name[-1] in "57"},
        unresolvable={name: THREE for name in names if name[-1] == "3"},
    )


WANTS = pod("train-1", annotations={"kwx.dev/accelerator": "h100"})
H100 = {"kwx.dev/accelerator": "h100"}
ABSENT = failure(
    plugin("accelerator"),
    "filter: the guest asked for a node's object, but none is known here: only names were given;"
    " set cluster.mode to kubeconfig or in-cluster, so that nodes are read from the API server, or"
    " nodeCacheCapable: false in the KubeSchedulerConfiguration, so that requests carry them;"
    " with such a cluster.mode the nodes have not been listed yet, see /readyz?verbose",
)


def test_names_alone_are_an_error_that_says_what_to_configure_until_a_request_brought_nodes(tmp_path: Path) -> None:
    profiles = (
        profile("default", plugin("accelerator")),
        profile("ignored", plugin("accelerator", failurePolicy="Ignore")),
        profile("names", by_digit("72ends in 7")),
    )
    by_name = names_args(["node-0", "node-1"], WANTS)
    with Extender(tmp_path, *profiles) as fresh:
        assert fresh.post("/filter", by_name) == filter_error(ABSENT)
        assert fresh.post("/profiles/ignored/filter", by_name) == filtered(["node-0", "node-1"])
        assert fresh.post("/profiles/names/filter", by_name) == filtered(["node-0", "node-1"])

        nodes = [node("node-0", labels=H100), node("node-1", labels={"kwx.dev/accelerator": "a100"})]
        reasons = {"node-1": "node label kwx.dev/accelerator is a100, pod wants h100"}
        answer = fresh.post("/filter", nodes_args(nodes, WANTS))
        assert answer == filtered(None, unresolvable=reasons) | {"Nodes": {"metadata": {}, "items": nodes[:1]}}
        assert fresh.post("/filter", by_name) == filtered(["node-0"], unresolvable=reasons)


def test_a_node_is_read_again_when_its_resource_version_changes(extender: Extender) -> None:
    labelled = node("changing", version="1", labels=H100)
    changed = node("changing", version="2")
    reason = {"changing": "node has no label kwx.dev/accelerator=h100"}
    for _ in range(2):
        answer = ask(extender, "accelerator", nodes_args([labelled], WANTS))
        assert (answer["Nodes"]["items"], answer["FailedAndUnresolvableNodes"]) == ([labelled], {})
        answer = ask(extender, "accelerator", nodes_args([changed], WANTS))
        assert (answer["Nodes"]["items"], answer["FailedAndUnresolvableNodes"]) == ([], reason)


def test_a_node_without_a_resource_version_is_read_in_every_request(extender: Extender) -> None:
    for labels, kept in ((H100, 1), ({}, 0), (H100, 1)):
        answer = ask(extender, "accelerator", nodes_args([node("unversioned", version="", labels=labels)], WANTS))
        assert len(answer["Nodes"]["items"]) == kept
