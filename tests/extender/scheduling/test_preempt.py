from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import wasmtime

from extender.config import FailurePolicy
from extender.scheduling import preempt
from extender.scheduling.profile import Profile, ProfilePlugin
from tests.extender import guests
from tests.extender.kwx import Extender, failure, plugin, profile
from tests.extender.objects import meta_victims, node, nodes_args, pod, preemption_args, victims_args
from wasm_runtime.engine import GuestJournal, Log, Settings
from wasm_runtime.engines.wasmtime import WasmtimeEngine
from wasm_runtime.guests.guest import Pod
from wasm_runtime.guests.plugin import Plugin
from wasm_runtime.nodes.node_table import Nodes, NodeTable
from wasm_runtime.protobuf import encode_pod

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
    "every-export": (
        [plugin("every_export", extensionPoints=["postFilter", "preScore", "score", "reserve", "permit"])],
        ALL,
    ),
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
    "trap": (plugin("trap"), "filter of node node-3: trap: unreachable in func[0]"),
    "trap-in-postfilter": (
        plugin("trap", extensionPoints=["postFilter"]),
        "postfilter: trap: unreachable in func[2]",
    ),
    "error-in-postfilter": (
        plugin("error_status", extensionPoints=["postFilter"]),
        "postfilter: no quota service",
    ),
    "skip-in-postfilter": (
        post_filter("15node-7"),
        "postfilter: status code 5 Skip is none of 0 Success, 1 Error, 2 Unschedulable,"
        " 3 UnschedulableAndUnresolvable, 6 Pending",
    ),
    "spin": (
        plugin("spin", timeout="50ms"),
        "filter of node node-3: interrupted at its timeout of 50 ms; mend the guest, or raise the plugin's timeout",
    ),
}


def lock(settings: str = "00", **more: Any) -> dict[str, Any]:
    """Rejects nodes of which pods were taken away, but not one that is named lock-*; codes of RemovePod and AddPod."""
    return plugin("passes_without_lock", settings, name="lock", **more)


WHERE = "of node node-3: status code"
LOCKED = {
    "lock": ([lock()], ["node-3", "node-1"]),
    "lock-after-filter": ([by_digit("32"), lock()], ["node-1"]),
    "lock-before-postfilter": ([lock(), post_filter("10node-1")], ["node-1"]),
    "lock-twice": ([lock(), lock() | {"name": "again"}], ["node-3", "node-1"]),
    "lock-ignored": ([lock("10", failurePolicy="Ignore"), by_digit("32")], ["node-7", "node-1", "node-5"]),
    "trapped-lock-ignored": ([lock("0t", failurePolicy="Ignore")], ["node-3", "node-7", "node-1", "node-5"]),
}
"""Plugins of a profile, and which of the candidates they keep: node-3 and node-1 have a lock among their victims."""

LOCK_FAILURES = {
    "removepod-fails": (lock("10"), "removepod of node node-3: Error without a reason"),
    "addpod-fails": (lock("01"), "addpod of node node-3: Error without a reason"),
    "removepod-rejects": (lock("20"), f"removepod {WHERE} 2 Unschedulable is none of 0 Success, 1 Error"),
    "addpod-skips": (lock("05"), f"addpod {WHERE} 5 Skip is none of 0 Success, 1 Error"),
    "removepod-traps": (lock("t0"), "removepod of node node-3: trap: unreachable in move < removepod"),
    "addpod-traps": (lock("0t"), "addpod of node node-3: trap: unreachable in move < addpod"),
}

PROFILES = [
    *(profile(name, *plugins) for name, (plugins, _) in LOCKED.items()),
    *(profile(name, failing) for name, (failing, _) in LOCK_FAILURES.items()),
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
    cause = failure(*FAILURES[name])
    the_pod = pod(f"failing-{name}")
    assert ask(extender, name, preemption_args(VICTIMS, the_pod)) == answer()
    errors = extender.events(f"preempt failed: {cause}")
    assert [(line["level"], line["verb"], line["pod"]) for line in errors] == [
        ("error", "preempt", f"default/failing-{name}")
    ]


# -- what would be without the victims -------------------------------------------------------------

WHOLE = {
    "node-3": [pod("batch-0"), pod("lock-3")],
    "node-7": [pod("batch-1")],
    "node-1": [pod("lock-1")],
    "node-5": [pod("lock-5"), pod("lock-6")],
}


def evicted(*names: str) -> dict[str, Any]:
    return {
        "NodeNameToMetaVictims": {
            name: meta_victims(*(victim["metadata"]["uid"] for victim in WHOLE[name])) for name in names
        }
    }


@pytest.mark.parametrize("name", LOCKED)
def test_a_candidate_is_judged_without_its_victims(extender: Extender, name: str) -> None:
    _, kept = LOCKED[name]
    for _ in range(2):
        assert ask(extender, name, victims_args(WHOLE)) == evicted(*kept)


def test_victims_go_before_filter_and_come_back_after_it_node_after_node(extender: Extender) -> None:
    ask(extender, "lock", victims_args(WHOLE, pod("watched")))
    calls = [line for line in extender.log() if line.get("pod") == "default/watched"]
    assert [(line["event"], line.get("node"), line["guest"].get("pod")) for line in calls] == [
        ("prefilter", None, None),
        ("removepod", "node-3", "batch-0"),
        ("removepod", "node-3", "lock-3"),
        ("filter", "node-3", None),
        ("addpod", "node-3", "batch-0"),
        ("addpod", "node-3", "lock-3"),
        ("removepod", "node-7", "batch-1"),
        ("filter", "node-7", None),
        ("addpod", "node-7", "batch-1"),
        ("removepod", "node-1", "lock-1"),
        ("filter", "node-1", None),
        ("addpod", "node-1", "lock-1"),
        ("removepod", "node-5", "lock-5"),
        ("removepod", "node-5", "lock-6"),
        ("filter", "node-5", None),
        ("addpod", "node-5", "lock-5"),
        ("addpod", "node-5", "lock-6"),
    ]


@pytest.mark.parametrize("name", LOCK_FAILURES)
def test_a_failure_about_a_victim_leaves_no_candidate_and_is_logged(extender: Extender, name: str) -> None:
    cause = failure(*LOCK_FAILURES[name])
    assert ask(extender, name, victims_args(WHOLE, pod(f"failing-{name}"))) == answer()
    errors = extender.events(f"preempt failed: {cause}")
    assert [(line["level"], line["pod"]) for line in errors] == [("error", f"default/failing-{name}")]


def test_a_candidate_without_victims_is_just_filtered(extender: Extender) -> None:
    request = victims_args({"node-0": [], "node-7": WHOLE["node-7"], "node-1": WHOLE["node-1"]})
    answer = {"NodeNameToMetaVictims": {"node-0": meta_victims()} | evicted("node-1")["NodeNameToMetaVictims"]}
    assert ask(extender, "lock", request) == answer


def test_victims_by_uid_need_a_cluster_where_a_plugin_asks_for_the_pods(extender: Extender) -> None:
    assert ask(extender, "lock", preemption_args(VICTIMS, pod("by-uid"))) == answer()
    (line,) = [line for line in extender.log() if line.get("pod") == "default/by-uid"]
    assert (line["level"], line["event"]) == (
        "error",
        "preempt failed: the victims on node node-3 came as UIDs and a plugin asks for the pods (addpod, removepod):"
        " set cluster.mode to kubeconfig or in-cluster, so that pods are read from the API server,"
        " or nodeCacheCapable: false in the KubeSchedulerConfiguration, so that requests carry them",
    )


def test_a_victim_that_is_no_pod_is_refused_where_a_plugin_asks_for_it(extender: Extender) -> None:
    broken = json.dumps(victims_args({"node-3": [{"metadata": {"uid": "u"}, "spec": 5}]})).encode()
    problem = "NodeNameToVictims: the pod of UID u: spec: expected an object, got 5"
    assert extender.refuse("/profiles/lock/preempt", broken) == (400, problem)
    kept = {"NodeNameToMetaVictims": {"node-3": meta_victims("u")}}
    assert extender.post("/profiles/filter/preempt", broken) == kept


class Lock:
    """The guest by itself, and what it has logged."""

    def __init__(self, settings: str = "00", left_out: str = "") -> None:
        text = guests.text("passes_without_lock").replace(f'(export "{left_out}")', "")
        self._logs: list[Log] = []
        self.plugin = Plugin(
            WasmtimeEngine(), bytes(wasmtime.wat2wasm(text)), Settings("lock", settings), sink=self._keep
        )
        self.pod = Pod("u", "default/web", b"")
        self.nodes = Nodes(NodeTable(), ["node-3", "node-7"])

    def _keep(self, _: str, __: Pod | None, journal: GuestJournal) -> None:
        self._logs += [record for record in journal.records if isinstance(record, Log)]

    def preempt(self) -> list[str]:
        """The names of the candidates that stay."""
        victim = encode_pod(pod("batch"))
        profile = Profile("default", [ProfilePlugin(self.plugin, failure_policy=FailurePolicy.IGNORE)])
        return list(preempt.run(profile, self.pod, self.nodes, lambda _: [victim]))

    def calls(self) -> list[str]:
        """What was called, and for which node; forgets it."""
        logs, self._logs = self._logs, []
        return [" ".join(filter(None, (log.message, log.node))) for log in logs]


@pytest.mark.parametrize(
    ("left_out", "calls", "kept"),
    [
        ("addpod", ["removepod node-3", "filter node-3", "removepod node-7", "filter node-7"], []),
        ("removepod", ["filter node-3", "addpod node-3", "filter node-7", "addpod node-7"], ["node-3"]),
    ],
)
def test_a_guest_may_export_one_without_the_other(left_out: str, calls: list[str], kept: list[str]) -> None:
    lock = Lock(left_out=left_out)
    assert lock.preempt() == kept
    assert lock.calls() == ["prefilter", *calls]
    lock.plugin.close()


@pytest.mark.parametrize(("settings", "begins"), [("00", []), ("10", ["prefilter"]), ("01", ["prefilter"])])
def test_a_cycle_in_whose_state_victims_may_be_missing_is_not_gone_on_with(settings: str, begins: list[str]) -> None:
    lock = Lock(settings)
    lock.preempt()
    assert lock.calls()[0] == "prefilter"
    with lock.plugin.guest(lock.pod, lock.nodes, "postFilter"):
        pass
    assert lock.calls() == begins
    lock.plugin.close()


# -- the answer ------------------------------------------------------------------------------------


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
