"""What is asked beyond what can be answered in time: it is refused with the reason, and soon all is as before."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pytest

from bench.micro import crowd
from bench.micro.edge import resident
from bench.micro.overload import HEADINGS, PLUGINS, Figures, cells, run
from bench.micro.overload import extender as overloaded
from extender.webhook import judging_handler
from extender.webhook import overload as module
from extender.webhook.overload import Overload
from extender.webhook.protocol import Answer
from tests.extender.kwx import Extender, plugin, profile
from tests.extender.objects import NODE_NAMES, filter_error, filtered, meta_victims, names_args, preemption_args
from tests.extender.raw import Connection
from tests.extender.rollouts.inside import Inside
from tests.extender.served import Served
from tests.extender.telemetry.test_metrics import counts
from tests.patience import PATIENCE_S, Beside, wait_until

REFUSED = (
    "overloaded: no turn within 1 s, so the answer would come too late; ask again later, have fewer clients ask, or"
    " make plugins faster (kwx_guest_seconds)"
)
ASKED = {
    "filter": names_args(),
    "prioritize": names_args(),
    "preempt": preemption_args({"node-7": meta_victims("uid-of-a")}),
}
ANSWERS = {
    "filter": (200, filter_error(REFUSED)),
    "prioritize": (503, {"error": REFUSED}),
    "preempt": (503, {"error": REFUSED}),
}
"""kube-scheduler reads the reason of filter alone: it goes into the pod's Event. It tries the pod again in all cases
but prioritize, where it does without these scores."""


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Inside]:
    with Inside(tmp_path, profile("default", plugin("nodenumber"))) as inside:
        yield inside


@pytest.fixture
def held(inside: Inside) -> Iterator[Event]:
    """All threads that judge are busy until it is set."""
    may_end = Event()
    workers = inside.router._handlers["filter"]._workers  # type: ignore[attr-defined]
    busy = [workers.submit(may_end.wait, PATIENCE_S) for _ in range(workers._crew._max_threads)]
    yield may_end
    may_end.set()
    assert all(each.result(PATIENCE_S) for each in busy)


async def ask(inside: Inside, verb: str) -> tuple[int, Any]:
    """Status and body."""
    answer = inside.begin_to_ask(f"/{verb}", ASKED[verb])
    return parsed(answer if isinstance(answer, Answer) else await answer)


def parsed(answer: Answer) -> tuple[int, Any]:
    """Status and body."""
    return answer.status, json.loads(answer.body)


@pytest.mark.parametrize("verb", ASKED)
def test_who_waits_too_long_for_a_thread_is_refused(
    inside: Inside, held: Event, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging_handler, "MAX_WAIT_S", 0.05)
    assert inside.run(ask(inside, verb)) == ANSWERS[verb]
    held.set()
    monkeypatch.undo()
    assert inside.filter("web-8") == filtered(NODE_NAMES)


def test_once_one_has_waited_for_half_that_time_nobody_joins_it(
    inside: Inside, held: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who comes then is refused without a wait, and the others are answered when a thread has time."""
    monkeypatch.setattr(judging_handler, "MAX_WAIT_S", PATIENCE_S)
    monkeypatch.setattr(judging_handler, "MAX_BACKLOG_S", 0.05)
    workers = inside.router._handlers["filter"]._workers  # type: ignore[attr-defined]

    async def ask_on() -> tuple[int, Any]:
        first = asyncio.ensure_future(ask(inside, "filter"))
        while workers.backlog_s <= 0.05:
            await asyncio.sleep(0.01)
        assert await asyncio.wait_for(ask(inside, "filter"), PATIENCE_S) == ANSWERS["filter"]
        assert not first.done()
        held.set()
        return await asyncio.wait_for(first, PATIENCE_S)

    assert inside.run(ask_on()) == (200, filtered(NODE_NAMES))


def test_those_that_are_refused_do_not_stay_in_the_queue(
    inside: Inside, held: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging_handler, "MAX_WAIT_S", 0.01)
    for _ in range(20):
        assert inside.run(ask(inside, "filter")) == ANSWERS["filter"]
    assert len(inside.router._handlers["filter"]._workers._crew._queue) == 1  # type: ignore[attr-defined]
    held.set()


@pytest.mark.parametrize("verb", ASKED)
def test_a_request_that_the_loop_has_not_come_to_in_time_is_refused_unread(
    inside: Inside, verb: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many are told of in one line of the log."""
    caplog.set_level(logging.WARNING, module.__name__)
    monkeypatch.setattr(module, "REPORT_INTERVAL_S", 0.0)
    overload = inside.context.overload

    async def ask_late() -> list[tuple[int, Any]]:
        overload.refuses_from = 0.0
        refused = [inside.router.answer("POST", f"/{verb}", b"{") for _ in range(3)]
        while not caplog.messages:
            await asyncio.sleep(0.01)
        overload.beat()
        return [*(parsed(each) for each in refused if isinstance(each, Answer)), await ask(inside, verb)]

    *refused, answered = inside.run(asyncio.wait_for(ask_late(), PATIENCE_S))
    assert refused == [ANSWERS[verb]] * 3
    assert (answered[0], answered != ANSWERS[verb]) == (200, True)
    assert caplog.messages == [f"3 requests were refused: {REFUSED}"]


def test_after_the_loop_was_held_who_comes_just_then_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those that were there with the one that has held it: they have waited meanwhile."""
    now = 100.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    overload = Overload()

    def is_refused_after(seconds: float) -> bool:
        nonlocal now
        now += seconds
        overload.hear()
        return now > overload.refuses_from

    async def turns() -> list[list[bool]]:
        told = []
        for _ in range(2):
            told.append([is_refused_after(seconds) for seconds in (2, 1, 1)])
            await asyncio.sleep(0)
        return told

    assert asyncio.run(turns()) == [[False, False, True]] * 2


def test_the_loop_says_so_by_the_first_bytes_that_it_reads_of_a_client() -> None:
    served = Served()
    try:
        with Connection(served.address) as client:
            assert served.overload.problem == "the verbs are not served yet"
            assert client.ask("/a", b"").body == b"POST /a 0"
            assert served.overload.problem is None
            served.overload.end()
            assert client.ask("/b", b"").body == b"POST /b 0"
            assert (served.overload.problem, served.overload.refuses_from) == ("the extender ends", math.inf)
    finally:
        served.stop()


def test_it_is_told_for_how_long_nobody_was_served(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    overload = Overload()
    assert overload.problem == "the verbs are not served yet"
    overload.beat()
    now += module.STALLED_S - 1
    assert overload.problem is None
    now += 3
    assert overload.problem == "no verb was answered for 7 s"
    overload.beat()
    assert overload.problem is None


def test_who_ends_is_not_ready_while_it_answers_what_is_in_flight(tmp_path: Path) -> None:
    """So that nobody sends it more; it lives until the end."""
    with Extender(tmp_path, profile("default", plugin("spin", timeout="3s"))) as extender:
        asking = Beside(lambda: extender.post("/filter", names_args()))
        extender.wait_until(lambda: counts(extender, "kwx_verb_phase_seconds").get(("filter", "decode")) == 1)
        assert extender.admin.get("/readyz").text == "ok"
        extender.process.send_signal(signal.SIGTERM)
        extender.wait_until(lambda: extender.admin.get("/readyz").status_code == 503)
        report = extender.admin.get("/readyz").text
        assert report == ("[+]plugins ok\n[+]threads ok\n[-]verbs failed: the extender ends\nreadyz check failed\n")
        assert extender.admin.get("/livez").text == "ok"
        assert "interrupted at its timeout" in asking.end()["Error"]
        assert extender.process.wait(PATIENCE_S) == 0


HARMLESS = re.compile(
    rf"{re.escape(REFUSED)}|{crowd.NO_CONNECTION}: .+"
    r"|plugin slow \(sha256:[0-9a-f]{12}\): (instance|filter of node \S+): .+"
)
"""What may be said to whoever is not answered; the guest's own time passes more quickly on a busy machine."""
MAX_GROWTH_MIB = 150


def test_among_clients_that_do_no_good_each_gets_a_whole_answer_or_the_reason_and_memory_is_bounded() -> None:
    """Over TLS; the full form is `bench.micro.overload`."""
    with overloaded("300") as (ports, place):
        before = resident(ports)
        with crowd.beside(crowd.be_bad, place, 30):
            load = crowd.load(place, clients=240, rate=math.inf, seconds=3, patience_s=PATIENCE_S)
            peak = resident(ports)
        assert [problem for problem in load.problems if not HARMLESS.fullmatch(problem)] == []
        assert load.lost == 0
        assert load.answered_ms
        assert REFUSED in load.problems
        assert peak - before < MAX_GROWTH_MIB
        wait_until(lambda: crowd.load(place, 1, math.inf, 0.1, PATIENCE_S).answered_ms, "filter is answered")


@pytest.mark.nightly
@pytest.mark.parametrize("name", PLUGINS)
def test_an_overload_leaves_nothing_behind(name: str) -> None:
    """The full form. How quickly health and filter are answered depends on the machine: they are printed."""
    figures: Figures = run(name, 10)
    print(*map(" = ".join, zip(HEADINGS, cells(figures), strict=True)), sep="; ")
    assert [problem for problem in figures.load.problems if not HARMLESS.fullmatch(problem)] == []
    assert (figures.load.lost, figures.livez_missed) == (0, 0)
    assert figures.peak_mib - figures.before_mib < MAX_GROWTH_MIB
    assert math.isfinite(figures.back_s)


@pytest.mark.nightly
def test_the_end_comes_in_its_time_among_clients_that_do_no_good() -> None:
    """The process ends by itself: Kubernetes need not kill it, and no thread has kept it from ending."""
    with overloaded(PLUGINS["quick"]) as (ports, place), crowd.beside(crowd.be_bad, place, 60):
        assert crowd.load(place, 20, math.inf, 2, PATIENCE_S).answered_ms
        process = psutil.Process(ports.process)
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
