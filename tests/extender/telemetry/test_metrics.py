"""What /metrics tells of verbs, guests and the process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from extender.telemetry.histogram import BUCKETS
from tests.extender import guests
from tests.extender.kwx import Extender, plugin, profile
from tests.extender.objects import binding_args, meta_victims, names_args, preemption_args
from wasm_runtime.errors import Fault

PROFILES = [
    profile("default", plugin("filter_by_digit", "72no"), plugin("nodenumber")),
    profile("failing", plugin("trap")),
]


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    with Extender(tmp_path_factory.mktemp("metrics"), *PROFILES, cluster={"mode": "dry-run"}) as extender:
        yield extender


def counts(extender: Extender, name: str, suffix: str = "_count") -> dict[tuple[str, ...], float]:
    """How often something was measured, by the values of its labels, in the reverse order of their names."""
    answer = extender.admin.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        tuple(value for _, value in sorted(sample.labels.items(), reverse=True)): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if sample.name == name + suffix
    }


def test_every_part_of_a_verb_and_every_call_of_a_guest_is_counted(extender: Extender) -> None:
    for _ in range(3):
        extender.post("/filter", names_args())
    extender.post("/prioritize", names_args())
    extender.post("/profiles/failing/filter", names_args())
    assert extender.post("/bind", binding_args("node-0")) == {"Error": ""}
    assert counts(extender, "kwx_verb_phase_seconds") == {
        ("filter", "decode"): 4,
        ("filter", "nodes"): 4,
        ("filter", "judge"): 4,
        ("filter", "encode"): 3,
        ("prioritize", "decode"): 1,
        ("prioritize", "nodes"): 1,
        ("prioritize", "judge"): 1,
        ("prioritize", "encode"): 1,
    }
    assert counts(extender, "kwx_guest_seconds") == {
        ("filter_by_digit", "filter"): 3,
        ("nodenumber", "prescore"): 1,
        ("nodenumber", "score"): 1,
        ("trap", "filter"): 1,
    }
    assert counts(extender, "kwx_guest_sync_seconds") == {("filter_by_digit",): 3, ("nodenumber",): 2, ("trap",): 1}
    assert counts(extender, "kwx_guest_wait_seconds") == {("filter_by_digit",): 3, ("nodenumber",): 1, ("trap",): 1}


def totals(extender: Extender, name: str) -> dict[tuple[str, ...], float]:
    """What was counted, without what never was."""
    return {labels: value for labels, value in counts(extender, name, "_total").items() if value}


def test_what_becomes_of_calls_is_told_whatever_the_failure_policy_is(tmp_path: Path) -> None:
    profiles = [
        profile("default", plugin("filter_by_digit", "72no"), plugin("trap", failurePolicy="Ignore")),
        profile("failing", plugin("trap", name="strict")),
    ]
    with Extender(tmp_path, *profiles, cluster={"mode": "dry-run"}) as extender:
        assert {kind for _, _, kind in counts(extender, "kwx_plugin_failures", "_total")} == {
            fault.value for fault in Fault
        }
        assert plugins_line(extender) == "[+]plugins ok"
        extender.post("/filter", names_args())
        told = "plugin trap has failed once since the start, last 0 s ago; kwx plugin show trap has the last failure"
        assert plugins_line(extender) == f"[+]plugins ok, but {told}"
        extender.post("/filter", names_args())
        extender.post("/prioritize", names_args())
        extender.post("/profiles/failing/filter", names_args())
        extender.post("/profiles/failing/preempt", preemption_args({"node-1": meta_victims()}))
        extender.post("/bind", binding_args("node-0"))
        extender.post("/bind", binding_args("elsewhere"))
        failures = {("default", "trap", "trap"): 3, ("failing", "strict", "trap"): 2}
        assert totals(extender, "kwx_plugin_failures") == failures
        shown = extender.admin.get("/api/v1/plugins").json()
        assert [each["failures"] for each in shown] == [0, 3, 2]
        assert shown[1]["lastFailure"].startswith("plugin trap (sha256:")
        told = "; ".join(
            rf"plugin {name} has failed {times} times since the start, last \d+ s ago;"
            rf" kwx plugin show {name} has the last failure"
            for name, times in (("trap", 3), ("strict", 2))
        )
        assert re.fullmatch(rf"\[\+\]plugins ok, but {told}", plugins_line(extender)), plugins_line(extender)
        assert counts(extender, "kwx_plugin_info", "") == {
            (each["revision"]["id"], each["profile"], each["name"], each["digest"]): 1 for each in shown
        }
        assert counts(extender, "kwx_ready", "") == {(): 1}
        assert totals(extender, "kwx_plugin_rejected_nodes") == {("default", "filter_by_digit"): 2}
        assert totals(extender, "kwx_verb_results") == {
            ("filter", "success"): 2,
            ("filter", "error"): 1,
            ("prioritize", "success"): 1,
            ("preempt", "error"): 1,
            ("bind", "success"): 1,
            ("bind", "error"): 1,
        }


def plugins_line(extender: Extender) -> str:
    """What /readyz says of plugins."""
    (line,) = [line for line in extender.admin.get("/readyz?verbose").text.splitlines() if "]plugins " in line]
    return line


def test_buckets_tell_fractions_of_a_millisecond_and_timeouts_apart(extender: Extender) -> None:
    extender.post("/filter", names_args())
    text = extender.admin.get("/metrics").text
    bounds = {
        sample.labels["le"]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "kwx_verb_phase_seconds_bucket"
    }
    assert sorted(map(float, bounds)) == [*BUCKETS, float("inf")]
    assert "process_resident_memory_bytes" in text


def test_rollouts_are_counted_by_their_end(tmp_path: Path) -> None:
    """A good module, one that is none, and the way back. Dry runs do not count, and each end is there from the start.

    Else the first failure would be no increase.
    """
    (tmp_path / "swapped.wasm").write_bytes(guests.constant_score(10))
    with Extender(tmp_path, profile("default", plugin("swapped"))) as extender:
        ends = [("default", "swapped", end) for end in ("active", "failed", "rolled back")]
        assert rollouts(extender) == dict.fromkeys(ends, 0)
        upload = "/api/v1/plugins/swapped/module?dryRun=true&wait=20s"
        headers = {"Content-Type": "application/wasm"}
        refused = extender.admin.put(upload, content=b"none", headers=headers)
        assert (refused.json()["dryRun"], refused.json()["stage"]) == (True, "failed")
        for module, end in ((guests.constant_score(90), "active"), (b"none", "failed")):
            beside = tmp_path / "beside.wasm"
            beside.write_bytes(module)
            beside.replace(tmp_path / "swapped.wasm")
            extender.wait_until(lambda: rollouts(extender)["default", "swapped", end] == 1)  # noqa: B023 (called at once)
        answer = extender.admin.post("/api/v1/plugins/swapped/rollback?wait=20s", json={})
        assert answer.is_success, answer.text
        extender.wait_until(lambda: rollouts(extender)["default", "swapped", "rolled back"] == 1)
        assert rollouts(extender) == dict(zip(ends, (2, 1, 1), strict=True))


def rollouts(extender: Extender) -> dict[tuple[str, ...], float]:
    return counts(extender, "kwx_rollouts", "_total")
