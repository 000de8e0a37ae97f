"""What the clients of a port may take together: connections, time, and bytes of requests that are to be answered."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from wasm_runtime.engine import KIBIBYTE

POLL_INTERVAL_S: Final = 1.0
"""Seconds between two looks at the clock: a client may take so much longer than it is given."""

SILENCE_TIMEOUT_S: Final = 20.0
"""Seconds of silence in the midst of a request, after which a client is left: it is no scheduler."""

CROWDED_TIMEOUT_S: Final = 2.0
"""While others are turned away: seconds for a silent client without a good answer so far, amid a request or not."""

SMALL_BODY_BYTES: Final = 64 * KIBIBYTE
"""Bytes of a body that are not counted: the number of connections bounds them."""

logger = logging.getLogger(__name__)


class Client(Protocol):
    """One connection."""

    good_answers: int
    """How many good answers it has had. After the first one it is never left to make room for others."""
    heard: float
    """When it last sent something, by the loop's clock."""
    began: float | None
    """When the unfinished request began; None if there is none."""

    @property
    def is_awaited(self) -> bool:
        """Whether it is its turn: nothing is done for it, and what it sends is read."""

    def give_up(self, problem: str) -> None:
        """Ends the connection since its request does not come to its end."""

    def leave(self) -> None:
        """Ends the connection since nothing comes of it, or it takes no answer."""


class Clients:
    """The clients of one port. Of one event loop."""

    def __init__(self, max_connections: int, idle_timeout_s: float, arrival_timeout_s: float) -> None:
        """Seconds that a client may be silent before a request, and from a request's first byte to its last.

        Both count only while the client is awaited. A client of Go's makes connections to spare, and does not repeat a
        request that it wrote as the first to one that was being closed: the first request has as long as the next.
        """
        self._max_connections = max_connections
        self._idle_timeout_s = idle_timeout_s
        self._arrival_timeout_s = arrival_timeout_s
        self._clients: set[Client] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._turned_away = 0
        self._crowded_until = 0.0
        """On the loop's clock: who is silent when one is turned away is so for long enough only later."""

    def join(self, client: Client) -> bool:
        """Looks after a client from now on. False where there is no room for it."""
        if len(self._clients) >= self._max_connections:
            self._turned_away += 1
            return False
        self._clients.add(client)
        if self._timer is None:
            self._look_later()
        return True

    def part(self, client: Client) -> None:
        """Looks after it no more; does nothing for one that has not joined."""
        self._clients.discard(client)

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(POLL_INTERVAL_S, self._look)

    def _look(self) -> None:
        """Gives up requests and connections of clients that have been silent for too long."""
        now = asyncio.get_running_loop().time()
        if self._turned_away:
            self._crowded_until = now + CROWDED_TIMEOUT_S + POLL_INTERVAL_S
            logger.warning(
                "%d connections were turned away: the %d that may be there at a time are",
                self._turned_away,
                self._max_connections,
            )
        self._turned_away = 0
        crowded = min(now, self._crowded_until)  # Not whether it is so now: a look may come late.
        for client in list(self._clients):
            was_crowded = crowded - client.heard > CROWDED_TIMEOUT_S
            gives_way = was_crowded and not client.good_answers
            if not client.is_awaited:
                client.heard = now
                client.began = client.began and now
            elif client.began is not None:
                silence = CROWDED_TIMEOUT_S if gives_way else SILENCE_TIMEOUT_S
                if now - client.heard > silence:
                    client.give_up(f"no more of the request has come within {silence:g} seconds")
                elif now - client.began > self._arrival_timeout_s:
                    client.give_up(f"the request has not come to its end within {self._arrival_timeout_s:g} seconds")
            elif gives_way or now - client.heard > self._idle_timeout_s:
                client.leave()
        self._timer = None
        if self._clients:
            self._look_later()


class Sender(Client, Protocol):
    """A connection whose bytes are counted."""

    held: int
    """How many of its bytes are counted now."""

    def drop(self) -> None:
        """Refuses the request of which a part has come, and holds nothing of it any more."""


class RequestBudget:
    """Bounds the bytes of all requests that are unfinished or unanswered. For one event loop.

    Clients that have had a good answer share one budget, all others share a second one. What of a request comes with
    its end is not counted where the request is answered at once.
    """

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes` is the size of each of the two budgets."""
        self.max_bytes = max_bytes
        self._senders: set[Sender] = set()

    def hold(self, sender: Sender, size: int) -> None:
        """Holds so many bytes of a sender from now on.

        If that is too much, requests that have not come to their end are dropped, perhaps its own: first those of
        clients that have had the fewest good answers, the newest first.
        """
        sender.held = size
        if not size:
            self._senders.discard(sender)
            return
        self._senders.add(sender)
        is_known = sender.good_answers > 0
        alike = [each for each in self._senders if (each.good_answers > 0) == is_known]
        unfinished = sorted(
            (each for each in alike if each.began is not None), key=lambda each: (-each.good_answers, each.began)
        )
        while unfinished and sum(each.held for each in alike) > self.max_bytes:
            unfinished.pop().drop()
