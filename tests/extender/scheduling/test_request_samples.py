"""Which requests are kept, for how long, and who may listen."""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Sequence

import pytest

from extender.scheduling import filter_recording, request_samples
from extender.scheduling.filter_recording import FilterRecording, RecordedRequest
from extender.scheduling.request_samples import MAX_SAMPLES, MAX_SAMPLES_BYTES, RequestSamples
from extender.scheduling.requests import Candidates
from extender.scheduling.sample import NAME_BYTES, Sample
from extender.scheduling.verb import JudgingVerbName
from extender.scheduling.verbs import JUDGING
from tests.patience import Beside
from wasm_runtime.guests.guest import Pod

NAMES = ("node-1", "node-2")
MANY = NAMES * (MAX_SAMPLES_BYTES // NAME_BYTES)
"""Twice as many as are kept."""


def sample(at: int, verb: JudgingVerbName = "filter", names: Sequence[str] = NAMES, held: int = 0) -> Sample:
    return Sample(verb, Pod(str(at), f"default/web-{at}", b"pod"), names, held=held)


@pytest.fixture
def taking_all(monkeypatch: pytest.MonkeyPatch) -> RequestSamples:
    """Takes every request, however soon one follows the other."""
    monkeypatch.setattr(request_samples, "SAMPLE_INTERVAL_S", 0.0)
    monkeypatch.setattr(request_samples, "MAX_SHADOWED_PER_S", math.inf)
    return RequestSamples()


def record(traffic: RequestSamples, samples: Sequence[Sample], profile: str = "default") -> None:
    for each in samples:
        traffic.record(profile, each)


def test_of_a_profile_that_nobody_asked_there_is_nothing() -> None:
    assert RequestSamples().last("default") == []


def test_of_profiles_that_are_gone_nothing_stays() -> None:
    kept = RequestSamples()
    for name in ("stays", "goes"):
        record(kept, [sample(1), sample(2, "prioritize")], name)
    kept.retain({"stays", "new"})
    assert (kept.last("stays"), kept.last("goes")) == ([sample(1), sample(2, "prioritize")], [])


def test_every_request_is_kept_until_there_are_enough_and_then_one_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_samples, "SAMPLE_INTERVAL_S", math.inf)
    kept = RequestSamples()
    record(kept, [sample(at) for at in range(MAX_SAMPLES + 5)])
    assert kept.last("default") == [sample(at) for at in range(MAX_SAMPLES)]


def test_the_last_ones_take_the_place_of_the_first(taking_all: RequestSamples) -> None:
    record(taking_all, [sample(at) for at in range(MAX_SAMPLES + 5)])
    assert taking_all.last("default") == [sample(at) for at in range(5, MAX_SAMPLES + 5)]


def test_each_verb_of_each_profile_has_its_own_in_the_order_in_which_they_came(taking_all: RequestSamples) -> None:
    mixed = [sample(at, verb) for at in range(MAX_SAMPLES) for verb in JUDGING]
    record(taking_all, mixed)
    record(taking_all, [sample(99)], "other")
    assert taking_all.last("default") == mixed
    assert taking_all.last("other") == [sample(99)]


@pytest.mark.parametrize(
    ("samples", "kept"),
    [
        ([sample(at, names=NAMES * (MAX_SAMPLES_BYTES // NAME_BYTES // 5)) for at in range(4)], [2, 3]),
        ([*(sample(at) for at in range(3)), sample(3, names=MANY)], [3]),
        ([sample(0, names=MANY), sample(1)], [1]),
        ([sample(at, "preempt", held=MAX_SAMPLES_BYTES // 3) for at in range(5)], [3, 4]),
        (
            [Sample("filter", Pod(str(at), "default/web", bytes(MAX_SAMPLES_BYTES // 3)), NAMES) for at in range(5)],
            [3, 4],
        ),
    ],
    ids=["names", "one-alone-is-kept", "but-not-with-others", "victims", "pods"],
)
def test_what_is_kept_is_bounded_in_bytes(taking_all: RequestSamples, samples: list[Sample], kept: list[int]) -> None:
    record(taking_all, samples)
    assert [int(each.pod.uid) for each in taking_all.last("default")] == kept


def test_who_pushed_others_out_is_followed_by_one_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_samples, "SAMPLE_INTERVAL_S", math.inf)
    kept = RequestSamples()
    record(kept, [sample(0), sample(1, names=MANY), sample(2)])
    assert [each.pod.uid for each in kept.last("default")] == ["1"]


def test_a_request_about_no_node_is_none_that_was_judged(taking_all: RequestSamples) -> None:
    with taking_all.listening("default") as heard:
        record(taking_all, [sample(0, names=()), sample(1)])
        assert heard.get_nowait() == sample(1)
    assert taking_all.last("default") == [sample(1)]


def test_who_listens_gets_what_comes_to_that_profile_meanwhile(taking_all: RequestSamples) -> None:
    record(taking_all, [sample(0)])
    with taking_all.listening("default") as one, taking_all.listening("default") as two:
        record(taking_all, [sample(1), sample(2, "prioritize")])
        record(taking_all, [sample(3)], "other")
        for heard in (one, two):
            assert [heard.get_nowait() for _ in range(heard.qsize())] == [sample(1), sample(2, "prioritize")]
    record(taking_all, [sample(4)])
    assert (one.empty(), two.empty()) == (True, True)


def test_who_takes_too_long_misses_what_comes(taking_all: RequestSamples) -> None:
    with taking_all.listening("default") as heard:
        record(taking_all, [sample(at) for at in range(MAX_SAMPLES + 5)])
        assert [heard.get_nowait() for _ in range(heard.qsize())] == [sample(at) for at in range(MAX_SAMPLES)]
        record(taking_all, [sample(99)])
        assert heard.get_nowait() == sample(99)


def test_what_waits_for_who_listens_is_bounded_in_bytes(taking_all: RequestSamples) -> None:
    with taking_all.listening("default") as heard:
        record(taking_all, [sample(0, names=MANY), sample(1)])
        assert [heard.get_nowait() for _ in range(heard.qsize())] == [sample(0, names=MANY)]
        half = sample(2, "preempt", held=MAX_SAMPLES_BYTES // 2)
        record(taking_all, [sample(3), half, half, sample(4)])
        assert [heard.get_nowait() for _ in range(heard.qsize())] == [sample(3), half, sample(4)]


def test_who_listens_gets_but_so_many_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_samples, "MAX_SHADOWED_PER_S", 1e-9)
    busy = RequestSamples()
    with busy.listening("default") as heard:
        record(busy, [sample(at) for at in range(3)])
        assert heard.get_nowait() == sample(0)
        with pytest.raises(queue.Empty):
            heard.get_nowait()


def test_who_listens_gets_requests_of_each_verb_though_one_follows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_samples, "MAX_SHADOWED_PER_S", 1e-9)
    busy = RequestSamples()
    cycle = [sample(1), sample(1, "prioritize"), sample(1, "preempt")]
    with busy.listening("default") as heard:
        record(busy, cycle)
        assert [heard.get_nowait() for _ in range(heard.qsize())] == cycle


ASKED = Candidates(list(NAMES), held=1000)


def taken(recording: FilterRecording) -> list[Sample]:
    requests = list(recording.take())
    assert [each.at for each in requests] == sorted(each.at for each in requests)
    assert all(each == RecordedRequest(each.at, each.sample, ASKED) for each in requests)
    return [each.sample for each in requests]


def test_a_tape_takes_all_that_filter_is_asked_of_its_profile_from_its_start_on_until_there_are_enough() -> None:
    busy = RequestSamples()
    with busy.recording("default") as recording, busy.recording("other") as other:
        other.start(100)
        busy.record("default", sample(0), ASKED)
        assert (recording.is_full, taken(recording)) == (True, [])
        recording.start(4)
        for at in range(1, 4):
            busy.record("default", sample(at), ASKED)
        assert taken(recording) == [sample(at) for at in range(1, 4)]
        busy.record("default", sample(4, "prioritize"))
        busy.record("default", sample(5, names=()), ASKED)
        busy.record("other", sample(6), ASKED)
        assert (recording.is_full, taken(recording)) == (False, [])
        for at in range(7, 10):
            busy.record("default", sample(at), ASKED)
        assert (recording.is_full, taken(recording), recording.dropped) == (True, [sample(7)], 0)
        assert taken(other) == [sample(6)]
    other.start(1)
    busy.record("other", sample(10), ASKED)
    assert taken(other) == []


def test_a_tape_drops_what_comes_while_too_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    size = RecordedRequest(0.0, sample(0), ASKED).size
    assert size == 2 * NAME_BYTES + len(b"pod") + ASKED.held
    monkeypatch.setattr(filter_recording, "MAX_WAITING_BYTES", 3 * size)
    busy = RequestSamples()
    with busy.recording("default") as recording:
        recording.start(6)
        for at in range(5):
            busy.record("default", sample(at), ASKED)
        assert (taken(recording), recording.dropped) == ([sample(at) for at in range(3)], 2)
        for at in range(5, 8):
            busy.record("default", sample(at), ASKED)
        assert (taken(recording), recording.dropped, recording.is_full) == ([sample(at) for at in range(5, 8)], 2, True)


def test_other_threads_read_whole_rows_while_one_records(taking_all: RequestSamples) -> None:
    rows: list[list[int]] = []
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            rows.append([int(each.pod.uid) for each in taking_all.last("default")])

    reader = Beside(read)
    for at in range(20_000):
        taking_all.record("default", sample(at))
    is_over.set()
    reader.end()
    assert [row for row in rows if row and row != list(range(row[0], row[0] + len(row)))] == []
    assert any(len(row) == MAX_SAMPLES for row in rows)
