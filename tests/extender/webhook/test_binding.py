"""The binding cycle as kube-scheduler and the operator meet it: over HTTP, with other pods under way."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import encode

from extender.webhook.bind_handler import GONE
from tests.extender import guests
from tests.extender.kwx import Extender, failure, plugin, profile
from tests.extender.objects import binding_args, filtered, names_args, pod
from tests.extender.raw import Connection, request
from tests.patience import PATIENCE_S
from wasm_runtime.blob import digest

DONE = {"Error": ""}
NODES = ["node-1", "node-2", "node-3"]
MOST_WAITING = 12
"""Pods that wait at once: more than there are guests."""


def steps(name: str, answers: str = "aaaaafa", **more: Any) -> dict[str, Any]:
    """Answers of PreFilter, Reserve, Unreserve, Permit, PreBind, Bind, PostBind, and Permit's milliseconds to wait."""
    return plugin("binding_from_config", answers, name=name, **more)


FAILURES = {
    "rejects": ([steps("a"), steps("b", "a2aaafa")], "plugin b: reserve: Unschedulable: not today"),
    "fails": (
        [steps("a"), steps("b", "aaaa1fa")],
        failure(steps("b"), "prebind of node node-2: not today"),
    ),
    "traps": (
        [steps("a"), steps("b", "aaataaa")],
        failure(steps("b"), "permit of node node-2: trap: unreachable in answer < permit"),
    ),
    "waits": ([steps("a", "aaaeafa40")], "plugin a: permit: the pod waited for its 0.04 s and nobody let it go on"),
    "prefilter-fails": ([steps("a", "1aaaafa")], failure(steps("a"), "prefilter: not today")),
}
"""Plugins of a profile that do not let the pod on its node, and why."""

PROFILES = [
    profile("default", steps("a"), steps("b")),
    profile("plain", plugin("nodenumber")),
    profile("without-2", plugin("filter_by_digit", "22no")),
    profile("fails-in-filter", plugin("trap")),
    profile("keeps-none", plugin("reject")),
    profile("guest-binds", steps("a", "aaaaaaa")),
    *(profile(name, *plugins) for name, (plugins, _) in FAILURES.items()),
    *(
        profile(f"{name}-ignored", *(each | {"failurePolicy": "Ignore"} for each in plugins))
        for name, (plugins, _) in FAILURES.items()
    ),
    profile("remembers", plugin("reserve_after_filter")),
    profile("forgets", plugin("reserve_after_filter", instances=1)),
    profile("patient", steps("p", "aaaeafa60000", instances=2)),
    profile("sees", plugin("waiting_pod", "g")),
    profile("ends", plugin("waiting_pod", "r")),
]


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    sections: dict[str, Any] = {"cluster": {"mode": "dry-run"}, "server": {"bindTimeout": "10m"}}
    with Extender(tmp_path_factory.mktemp("binding"), *PROFILES, **sections) as extender:
        yield extender


def show(extender: Extender, profile: str, name: str) -> None:
    """The filter that comes before a bind."""
    answer = extender.post(f"/profiles/{profile}/filter", names_args(NODES, pod(name)))
    assert answer["NodeNames"] == NODES


def bind(extender: Extender, profile: str, name: str) -> Any:
    return extender.post(f"/profiles/{profile}/bind", binding_args("node-2", name))


def lines(extender: Extender, name: str) -> list[tuple[str, str, str]]:
    """What guests logged of a pod: plugin, node, message."""
    ours = [line for line in extender.log() if line.get("pod") == f"default/{name}" and "guest" in line]
    return [(line["plugin"], line.get("node", ""), line["event"]) for line in ours]


def bound(extender: Extender, name: str) -> list[str]:
    """The nodes that a pod was bound to by the extender."""
    return [line["node"] for line in extender.events("dry run: would bind the pod") if line["pod"] == f"default/{name}"]


# -- one pod ---------------------------------------------------------------------------------------


def test_a_pod_is_bound_with_every_step_of_every_plugin(extender: Extender) -> None:
    extender.post("/filter", names_args(NODES, pod("whole-1")))
    assert extender.post("/bind", binding_args("node-2", "whole-1")) == DONE
    assert bound(extender, "whole-1") == ["node-2"]
    on_node = ["reserve", "permit", "prebind", "bind", "postbind"]
    of = {name: [(name, "", "prefilter"), *((name, "node-2", export) for export in on_node)] for name in ("a", "b")}
    logged = lines(extender, "whole-1")
    assert {name: [line for line in logged if line[0] == name] for name in of} == of


def test_a_pod_that_a_guest_has_bound_is_not_bound_again(extender: Extender) -> None:
    show(extender, "guest-binds", "bound-1")
    assert bind(extender, "guest-binds", "bound-1") == DONE
    assert bound(extender, "bound-1") == []


@pytest.mark.parametrize("name", FAILURES.keys() - {"prefilter-fails"})
def test_an_error_says_which_plugin_stopped_the_binding_and_is_logged(extender: Extender, name: str) -> None:
    show(extender, name, name)
    _, error = FAILURES[name]
    assert bind(extender, name, name) == {"Error": error}
    assert bound(extender, name) == []
    logged = [line for line in extender.events(f"bind failed: {error}") if line["pod"] == f"default/{name}"]
    assert [(line["level"], line["node"]) for line in logged] == [("error", "node-2")]


def test_a_failure_is_logged_with_plugin_digest_export_and_fault(extender: Extender) -> None:
    show(extender, "traps", "logged-1")
    bind(extender, "traps", "logged-1")
    (line,) = [
        line for line in extender.log() if line.get("pod") == "default/logged-1" and line["event"].startswith("bind")
    ]
    assert {key: line[key] for key in ("plugin", "digest", "export", "fault")} == {
        "plugin": "b",
        "digest": digest(guests.module("binding_from_config")),
        "export": "permit",
        "fault": "unreachable",
    }


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("rejects", FAILURES["rejects"][1]),
        ("waits", FAILURES["waits"][1]),
        ("fails", ""),
        ("traps", ""),
        ("prefilter-fails", ""),
    ],
)
def test_failures_may_be_ignored_and_rejections_not(extender: Extender, name: str, answer: str) -> None:
    show(extender, f"{name}-ignored", f"{name}-ignored")
    assert bind(extender, f"{name}-ignored", f"{name}-ignored") == {"Error": answer}
    assert bound(extender, f"{name}-ignored") == ([] if answer else ["node-2"])


def test_a_pod_can_be_bound_that_only_another_profile_has_been_asked_about(extender: Extender) -> None:
    """bind names the pod alone: its profile is known from the pod, and that from its filter."""
    extender.post("/filter", names_args(NODES, pod("plain-1", scheduler="plain")))
    assert extender.post("/bind", binding_args("node-2", "plain-1")) == DONE
    assert lines(extender, "plain-1") == []
    assert bound(extender, "plain-1") == ["node-2"]


def test_the_profile_of_the_path_goes_before_the_pods(extender: Extender) -> None:
    extender.post("/profiles/plain/filter", names_args(NODES, pod("plain-2", scheduler="rejects")))
    assert bind(extender, "plain", "plain-2") == DONE


def not_filtered(name: str) -> str:
    return (
        f"bind refused: no filter of pod default/{name} was answered here in the last 30 minutes; kube-scheduler tries"
        " the pod again, and filters first if its extender has filterVerb beside bindVerb"
    )


@pytest.mark.parametrize("path", ["/bind", "/profiles/rejects/bind", "/profiles/plain/bind"])
def test_a_pod_that_filter_was_not_asked_about_is_not_bound(extender: Extender, path: str) -> None:
    extender.post("/prioritize", names_args(NODES, pod("stranger-1")))
    assert extender.post(path, binding_args("node-2", "stranger-1")) == {"Error": not_filtered("stranger-1")}
    assert bound(extender, "stranger-1") == []
    assert [line["pod"] for line in extender.events(f"bind failed: {not_filtered('stranger-1')}")].count(
        "default/stranger-1"
    )


def test_a_pod_is_bound_only_by_the_path_by_which_it_was_filtered(extender: Extender) -> None:
    show(extender, "plain", "path-1")
    for path in ("/bind", "/profiles/default/bind"):
        assert extender.post(path, binding_args("node-2", "path-1")) == {"Error": not_filtered("path-1")}
    assert bind(extender, "plain", "path-1") == DONE


def test_a_pod_is_bound_only_to_nodes_that_filter_has_answered(extender: Extender) -> None:
    for name in ("not-asked-1", "rejected-1"):
        nodes = NODES if name == "rejected-1" else ["node-1", "node-3"]
        answer = extender.post("/profiles/without-2/filter", names_args(nodes, pod(name)))
        assert answer["NodeNames"] == ["node-1", "node-3"]
        assert bind(extender, "without-2", name) == {
            "Error": f"bind refused: node node-2 is none of those that filter has answered for pod default/{name};"
            " kube-scheduler tries the pod again, and binds it to one of those"
        }
        assert extender.post("/profiles/without-2/bind", binding_args("node-3", name)) == DONE
        assert bound(extender, name) == ["node-3"]


def test_a_filter_that_failed_or_kept_no_node_lets_nothing_be_bound(extender: Extender) -> None:
    for name in ("fails-in-filter", "keeps-none"):
        extender.post(f"/profiles/{name}/filter", names_args(NODES, pod(name)))
        assert bind(extender, name, name) == {"Error": not_filtered(name)}


def test_each_answer_counts_of_those_that_kube_scheduler_asks_for_before_it_chooses(extender: Extender) -> None:
    """It asks about the pods of a gang in each place where they may go."""
    for nodes in NODES[:2], NODES[2:]:
        extender.post("/profiles/plain/filter", names_args(nodes, pod("gang-1")))
    assert bind(extender, "plain", "gang-1") == DONE


def test_a_bound_pod_is_forgotten_and_one_that_was_not_bound_is_kept_for_the_next_attempt(extender: Extender) -> None:
    show(extender, "default", "again-1")
    assert bind(extender, "default", "again-1") == DONE
    assert bind(extender, "default", "again-1") == {"Error": not_filtered("again-1")}
    show(extender, "rejects", "again-2")
    for _ in range(2):
        assert bind(extender, "rejects", "again-2") == {"Error": FAILURES["rejects"][1]}


def test_a_node_with_a_name_that_none_can_have_is_refused(extender: Extender) -> None:
    answer = extender.client.post("/bind", json=binding_args("x" * 254, "odd-1"))
    problem = "the body is no ExtenderBindingArgs: Expected `str` of length <= 253 - at `$.Node`"
    assert (answer.status_code, answer.json()) == (400, {"error": problem})


# -- several pods ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "seen"),
    [("remembers", ["3", "3", "3"]), ("forgets", ["0", "0", "3"])],
)
def test_the_guest_that_saw_a_pods_prefilter_and_filter_binds_it(
    extender: Extender, profile: str, seen: Sequence[str]
) -> None:
    """Pods come in between; where there is but one instance, only the last one's cycle can go on."""
    names = [f"{profile}-{at}" for at in range(3)]
    for name in names:
        show(extender, profile, name)
    answers = {}
    for name in reversed(names):
        answers[name] = bind(extender, profile, name)
    assert answers == {
        name: {"Error": f"plugin reserve_after_filter: reserve: Unschedulable: {count}"}
        for name, count in zip(names, seen, strict=True)
    }


def ask(extender: Extender, profile: str, name: str) -> str:
    """What the guest of another pod learns of a pod that may wait, or does to it."""
    answer = extender.post(f"/profiles/{profile}/filter", names_args(["node-1"], pod(f"uid-of-{name}")))
    return str(answer["FailedNodes"]["node-1"])


@contextmanager
def waiting(extender: Extender, *names: str) -> Iterator[list[Future[Any]]]:
    """Pods that wait on Permit; whoever still does in the end is rejected."""
    with ThreadPoolExecutor(len(names)) as threads:
        for name in names:
            show(extender, "patient", name)
        binds = [threads.submit(bind, extender, "patient", name) for name in names]
        try:
            extender.wait_until(lambda: [ask(extender, "sees", name) for name in names] == list(names))
            yield binds
        finally:
            for name in names:
                ask(extender, "ends", name)


REJECTED = {"Error": "plugin p: permit: the pod was rejected while it waited"}


def test_a_pod_that_waits_is_seen_and_rejected_by_the_guest_of_another_plugin(extender: Extender) -> None:
    with waiting(extender, "patient-1") as (patient,):
        assert ask(extender, "sees", "nobody") == "does not wait"
        assert ask(extender, "ends", "nobody") == "does not wait"
        assert not patient.done()
        assert ask(extender, "ends", "patient-1") == "was rejected"
        assert patient.result(PATIENCE_S) == REJECTED
    assert ask(extender, "sees", "patient-1") == "does not wait"
    assert lines(extender, "patient-1")[-2:] == [("p", "node-2", "permit"), ("p", "node-2", "unreserve")]
    assert bound(extender, "patient-1") == []


def test_more_pods_wait_than_there_are_guests_while_others_are_scheduled_and_bound(extender: Extender) -> None:
    names = [f"crowd-{at}" for at in range(MOST_WAITING)]
    with waiting(extender, *names) as patients:
        for name in ("passing-0", "passing-1", "passing-2"):
            show(extender, "patient", name)
            show(extender, "default", name)
            assert bind(extender, "default", name) == DONE
        assert [patient.done() for patient in patients] == [False] * MOST_WAITING
        assert extender.admin.get("/livez").text == "ok"
        metrics = extender.admin.get("/metrics").text
        assert f'kwx_waiting_pods{{plugin="p"}} {MOST_WAITING}.0' in metrics.splitlines()
        assert 'kwx_waiting_pods{plugin="a"} 0.0' in metrics.splitlines()
    assert [patient.result(PATIENCE_S) for patient in patients] == [REJECTED] * MOST_WAITING


def test_a_pod_that_waits_is_rejected_when_its_caller_hangs_up(extender: Extender) -> None:
    name = "hang-up-1"
    show(extender, "patient", name)
    with Connection(extender.address) as client:
        client.send(request("/profiles/patient/bind", encode(binding_args("node-2", name))))
        extender.wait_until(lambda: ask(extender, "sees", name) == name)
    error = f"bind failed: plugin p: permit: {GONE}"
    extender.wait_until(lambda: [line["pod"] for line in extender.events(error)] == [f"default/{name}"])
    assert ask(extender, "sees", name) == "does not wait"
    assert lines(extender, name)[-1] == ("p", "node-2", "unreserve")


def test_operators_see_pods_that_wait_and_end_their_waits(extender: Extender) -> None:
    names = ["operated-1", "operated-2", "operated-3"]
    with waiting(extender, *names) as (first, second, third):
        waits = extender.admin.get("/api/v1/waits").json()
        assert sorted((wait["name"], wait["uid"], wait["node"]) for wait in waits) == [
            (name, f"uid-of-{name}", "node-2") for name in names
        ]
        for wait in waits:
            (patience,) = wait["plugins"]
            begun, end = (datetime.fromisoformat(at.replace("Z", "+00:00")) for at in _times(wait))
            assert (patience["name"], wait["namespace"]) == ("p", "default")
            assert timedelta(seconds=59) <= end - begun <= timedelta(seconds=61)

        allowed = extender.admin.post("/api/v1/waits/uid-of-operated-1/allow")
        assert (allowed.status_code, allowed.json()["name"]) == (200, "operated-1")
        assert first.result(PATIENCE_S) == DONE
        assert bound(extender, "operated-1") == ["node-2"]

        extender.admin.post("/api/v1/waits/uid-of-operated-2/reject").raise_for_status()
        assert second.result(PATIENCE_S) == {"Error": "plugin p: permit: local rejected the pod while it waited"}
        reason = {"reason": "make room"}
        extender.admin.post("/api/v1/waits/uid-of-operated-3/reject", json=reason).raise_for_status()
        assert third.result(PATIENCE_S) == {
            "Error": "plugin p: permit: local rejected the pod while it waited: make room"
        }
        assert extender.admin.get("/api/v1/waits").json() == []
    said = [(line["pod"], line["requested_by"], line["node"]) for line in extender.log() if "requested_by" in line]
    assert said[-3:] == [(f"default/{name}", "local", "node-2") for name in names]
    for act in ("allow", "reject"):
        refused = extender.admin.post(f"/api/v1/waits/uid-of-operated-1/{act}")
        assert (refused.status_code, refused.json()["message"]) == (
            404,
            "no pod of UID 'uid-of-operated-1' waits on Permit; GET /api/v1/waits lists those that do",
        )


def _times(wait: dict[str, Any]) -> tuple[str, str]:
    """When a wait began, and when it ends."""
    return wait["startTime"], wait["plugins"][0]["expirationTime"]


def test_binds_at_once_are_answered_each_with_its_own(extender: Extender) -> None:
    names = [f"many-{at}" for at in range(40)]
    profiles = ["default", "rejects"]
    with ThreadPoolExecutor(8) as threads:

        def cycle(at: int) -> Any:
            show(extender, profiles[at % 2], names[at])
            return bind(extender, profiles[at % 2], names[at])

        answers = list(threads.map(cycle, range(len(names))))
    assert answers == [DONE, {"Error": FAILURES["rejects"][1]}] * 20
    assert [bound(extender, name) for name in names] == [["node-2"], []] * 20


# -- time ------------------------------------------------------------------------------------------


def test_the_verb_ends_in_time_and_says_what_took_it(tmp_path: Path) -> None:
    profiles = [
        profile("default", steps("patient", "aaaeafa60000")),
        profile("slow", steps("slow", "aaaasfa", timeout="500ms", failurePolicy="Ignore")),
    ]
    sections: dict[str, Any] = {"cluster": {"mode": "dry-run"}, "server": {"bindTimeout": "400ms"}}
    with Extender(tmp_path, *profiles, **sections) as extender:
        for name in ("default", "slow"):
            show(extender, name, name)
        assert bind(extender, "default", "default") == {
            "Error": "plugin patient: permit: the pod was to wait for 60 s, but the verb ends before;"
            " raise server.bindTimeout, and the extender's httpTimeout with it"
        }
        assert bind(extender, "slow", "slow") == {
            "Error": "cannot bind pod default/slow to node node-2:"
            " no time was left of server.bindTimeout; raise it, and the extender's httpTimeout with it"
        }
        assert [bound(extender, name) for name in ("default", "slow")] == [[], []]
        assert extender.post("/profiles/slow/filter", names_args(NODES)) == filtered(NODES)


def test_pods_that_wait_are_rejected_when_the_process_is_to_end(tmp_path: Path) -> None:
    patient = profile("patient", steps("p", "aaaeafa60000"))
    sections: dict[str, Any] = {"cluster": {"mode": "dry-run"}, "server": {"bindTimeout": "10m"}}
    with (
        Extender(tmp_path, patient, profile("sees", plugin("waiting_pod", "g")), **sections) as extender,
        ThreadPoolExecutor(1) as threads,
    ):
        show(extender, "patient", "last-1")
        waits = threads.submit(bind, extender, "patient", "last-1")
        extender.wait_until(lambda: ask(extender, "sees", "last-1") == "last-1")
        extender.process.send_signal(signal.SIGTERM)
        assert waits.result(PATIENCE_S) == {
            "Error": "plugin p: permit: the extender ends, and the pod waited; kube-scheduler tries the pod again"
        }
        assert extender.process.wait(10) == 0
