"""What /metrics tells of verbs, guests and the process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from extender.histogram import BUCKETS
from tests.extender.kwx import Extender, plugin, profile
from tests.extender.objects import binding_args, names_args

PROFILES = [
    profile("default", plugin("filter_by_digit", "72no"), plugin("nodenumber")),
    profile("failing", plugin("trap")),
]


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    with Extender(tmp_path_factory.mktemp("metrics"), *PROFILES, cluster={"mode": "dry-run"}) as extender:
        yield extender


def counts(extender: Extender, name: str) -> dict[tuple[str, ...], float]:
    """How often something was measured, by the values of its labels, in the reverse order of their names."""
    answer = extender.admin.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        tuple(value for _, value in sorted(sample.labels.items(), reverse=True)): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if sample.name == f"{name}_count"
    }


def test_every_part_of_a_verb_and_every_call_of_a_guest_is_counted(extender: Extender) -> None:
    for _ in range(3):
        extender.post("/filter", names_args())
    extender.post("/prioritize", names_args())
    extender.post("/profiles/failing/filter", names_args())
    extender.post("/bind", binding_args())
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
