"""What clients of a port may take together, with real connections."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from extender.http import clients
from tests.extender.raw import Connection, request
from tests.extender.served import Served, head, is_gone
from tests.patience import delay

ROOM = 1_000_000
LARGE = 600_000
NO_ROOM = b'{"error":"bodies of other requests take 1000000 bytes already; ask again later"}'
TOO_MANY = b'{"error":"there are too many connections; ask again later"}'


@pytest.fixture
def small() -> Iterator[Served]:
    """Has room for one large request of a stranger, and for one of a client that it knows."""
    served = Served(budget_bytes=ROOM)
    served.application.max_request_bytes = ROOM
    yield served
    served.stop()


def begin(served: Served, client: Connection, size: int = LARGE, path: str = "/a") -> None:
    """Sends all of a request but its last byte, and waits until that has come."""
    held = sum(each.held for each in served.connections)
    client.send(request(path, b"x" * size)[:-1])
    served.wait_until(lambda: sum(each.held for each in served.connections) == held + size - 1)


def ask_in_vain(client: Connection) -> None:
    """Is refused for want of room before the end of the request: with its last bytes it may come to its end at once."""
    client.send(request("/in-vain", b"x" * LARGE)[:-1])
    assert client.read()[::2] == (503, NO_ROOM)
    client.send(b"x")


def test_a_request_for_which_there_is_no_room_is_refused_and_the_older_one_goes_on(small: Served) -> None:
    with Connection(small.address) as older, Connection(small.address) as newer:
        begin(small, older)
        ask_in_vain(newer)
        older.send(b"x")
        assert older.read().body == b"POST /a %d" % LARGE
        assert newer.ask("/newer", b"x" * LARGE).body == b"POST /newer %d" % LARGE


def test_the_largest_request_has_room(small: Served) -> None:
    with Connection(small.address) as client:
        assert client.ask("/a", b"x" * ROOM).body == b"POST /a %d" % ROOM


def test_a_known_client_is_not_kept_out_by_strangers(small: Served) -> None:
    with Connection(small.address) as known, Connection(small.address) as stranger:
        assert known.ask("/known", b"").body == b"POST /known 0"
        begin(small, stranger)
        assert known.ask("/a", b"x" * LARGE).body == b"POST /a %d" % LARGE
        begin(small, known)
        stranger.send(b"x")
        assert stranger.read().body == b"POST /a %d" % LARGE
        known.send(b"x")
        assert known.read().body == b"POST /a %d" % LARGE


def test_of_the_known_the_one_with_the_fewest_good_answers_goes_first(small: Served) -> None:
    with Connection(small.address) as scheduler, Connection(small.address) as other:
        for _ in range(3):
            scheduler.ask("/known", b"")
        other.ask("/known", b"")
        begin(small, other)
        scheduler.send(request("/a", b"x" * LARGE)[:-1])
        assert other.read()[::2] == (503, NO_ROOM)
        scheduler.send(b"x")
        assert scheduler.read().body == b"POST /a %d" % LARGE
        other.send(b"x")
        assert other.ask("/b", b"").body == b"POST /b 0"


def test_what_is_being_answered_takes_room(small: Served) -> None:
    with Connection(small.address) as first, Connection(small.address) as second:
        first.send(request("/later", b"x" * LARGE))
        small.wait_until(lambda: "/later" in small.application.asked)
        ask_in_vain(second)
        small.application.may_answer.set()
        assert first.read().body == b"POST /later %d" % LARGE
        assert second.ask("/a", b"x" * LARGE).body == b"POST /a %d" % LARGE


def test_what_its_client_does_not_take_takes_room(small: Served) -> None:
    with Connection(small.address) as slow, Connection(small.address) as other:
        slow.send(head("POST", "/large"))
        small.wait_until(lambda: any(each.held for each in small.connections))
        (held,) = (each.held for each in small.connections if each.held)
        assert ROOM < held <= 20_000_200
        assert other.ask("/a", b"x" * LARGE).status == 200  # The one is known by now, the other is not.
        assert len(slow.read().body) == 20_000_000
        small.wait_until(lambda: not any(each.held for each in small.connections))


def test_there_is_room_again_when_a_client_has_gone(small: Served) -> None:
    with Connection(small.address) as client:
        begin(small, client)
    small.wait_until(lambda: not small.connections)
    with Connection(small.address) as client:
        assert client.ask("/a", b"x" * LARGE).body == b"POST /a %d" % LARGE


def test_small_requests_need_no_room(small: Served) -> None:
    with ExitStack() as stack:
        begin(small, stack.enter_context(Connection(small.address)), ROOM)
        for _ in range(40):
            client = stack.enter_context(Connection(small.address))
            assert client.ask("/a", b"x" * clients.SMALL_BODY_BYTES).status == 200


def test_one_that_has_sent_nothing_yet_is_left_no_sooner_than_between_two_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Go's client keeps connections that it made and had no need of, and fails the first request to one that is
    closed at that moment."""
    monkeypatch.setattr(clients, "POLL_INTERVAL_S", 0.05)
    monkeypatch.setattr(clients, "SILENCE_TIMEOUT_S", 0.3)
    served = Served()
    try:
        with Connection(served.address) as spare, Connection(served.address) as silent:
            served.wait_until(lambda: len(served.connections) == 2)
            silent.send(b"POST /half HT")
            assert silent.read().status == 408
            assert spare.ask("/a", b"").body == b"POST /a 0"
    finally:
        served.stop()


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Takes few clients, looks at the clock often, and leaves who is silent for the sake of others alone."""
    monkeypatch.setattr(clients, "POLL_INTERVAL_S", 0.05)
    monkeypatch.setattr(clients, "SILENCE_TIMEOUT_S", 300.0)
    monkeypatch.setattr(clients, "CROWDED_TIMEOUT_S", 0.2)
    served = Served(max_connections=4)
    yield served
    served.stop()


def test_the_newest_connection_is_turned_away_and_who_is_known_stays(
    narrow: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, clients.__name__)
    with Connection(narrow.address) as known, ExitStack() as stack:
        assert known.ask("/a", b"").body == b"POST /a 0"
        strangers = [stack.enter_context(Connection(narrow.address)) for _ in range(3)]
        strangers[0].send(b"POST /half HT")
        newest = stack.enter_context(Connection(narrow.address))
        answer = newest.read()
        assert (answer.status, answer.headers["connection"], answer.body) == (503, "close", TOO_MANY)
        assert is_gone(newest)
        for silent in strangers:  # They have not said anything for too long, now that others want to come.
            assert is_gone(silent)
        with Connection(narrow.address) as other:
            assert other.ask("/b", b"").body == b"POST /b 0"
        assert known.ask("/c", b"").body == b"POST /c 0"
    assert caplog.messages[0] == "1 connections were turned away: the 4 that may be there at a time are"


def test_who_was_silent_while_others_were_turned_away_is_left_also_by_a_look_that_comes_late(
    narrow: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """As one does after a guest that took its time on the loop, or on a machine that stalls."""
    caplog.set_level(logging.WARNING, clients.__name__)
    with ExitStack() as stack:
        strangers = [stack.enter_context(Connection(narrow.address)) for _ in range(4)]
        narrow.wait_until(lambda: len(narrow.connections) == 4)
        loop = narrow.connections[0]._loop
        with Connection(narrow.address) as newest:
            assert newest.read().status == 503
        narrow.wait_until(lambda: bool(caplog.messages))
        loop.call_soon_threadsafe(delay, 1)
        for silent in strangers:
            assert is_gone(silent)
