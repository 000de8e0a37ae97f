"""The guests of a pool: how many there are, who gets which, who waits, and what follows on a broken one."""

import ctypes
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from tests.patience import PATIENCE_S
from tests.wasm_runtime.guest_modules import binary, export, module
from tests.wasm_runtime.world import end_of_maker, idle_guests, settle, until, waiting
from wasm_runtime import Fault, Guest, GuestError, Settings, WasmtimeEngine
from wasm_runtime.engine import NoHandle
from wasm_runtime.guests.core_guest import CoreGuest
from wasm_runtime.guests.guest_place import CYCLE_TIMEOUT_S
from wasm_runtime.guests.pool import MAX_WAIT_FOR_NEW_S, Pool

NOBODY = ""
"""The UID of no pod: any guest will do."""


class Pools:
    """Makes pools of real guests, and what the test needs to have a hand in that."""

    def __init__(self, engine: WasmtimeEngine) -> None:
        self._module = engine.compile(binary(module(export("filter", "(i32.const 0)"))))
        self._pools: list[Pool] = []
        self._threads = ThreadPoolExecutor(8)
        self._waiting: list[int] = []
        """The threads that began to wait."""
        self.begun = 0
        """How many were begun to be made."""
        self.made: list[Guest] = []
        self.error: BaseException | None = None
        """What making a guest fails with from now on."""
        self.may_make = threading.Event()
        """Cleared, every guest stays in the making."""
        self.may_make.set()

    def __call__(self, limit: int, **does: Any) -> Pool:
        pool = Pool("plugin", self._new, limit, **{"keeps_cycles": False, **does})
        self._pools.append(pool)
        return pool

    def _new(self) -> Guest:
        self.begun += 1
        assert self.may_make.wait(60)
        if self.error is not None:
            raise self.error
        guest = CoreGuest(self._module.instantiate(Settings("plugin"), NoHandle()), {"filter"})
        self.made.append(guest)
        return guest

    def waits(self, pool: Pool, keep_free: int = 0, uid: str = NOBODY, seconds: float = 60) -> "Future[Guest]":
        """Begins to wait for a guest in another thread."""
        before = waiting(pool)

        def take() -> Guest:
            self._waiting.append(threading.get_ident())
            return pool.take(uid, time.monotonic() + seconds, keep_free)

        taken = self._threads.submit(take)
        until(lambda: taken.done() or waiting(pool) > before)
        assert not taken.done()
        return taken

    def interrupt_first(self) -> None:
        """Has the thread that waits longest get what Ctrl-C raises, as soon as it wakes."""
        thread, error = ctypes.c_ulong(self._waiting[0]), ctypes.py_object(KeyboardInterrupt)
        assert ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, error) == 1

    def close(self) -> None:
        self.may_make.set()
        for pool in self._pools:
            pool.close()
            end_of_maker(pool)
        self._threads.shutdown()
        for guest in self.made:
            guest.close()


@pytest.fixture
def pools(engine: WasmtimeEngine) -> Iterator[Pools]:
    pools = Pools(engine)
    yield pools
    pools.close()


def take(pool: Pool, uid: str = NOBODY, keep_free: int = 0) -> Guest:
    """A guest that can be had at once."""
    return pool.take(uid, time.monotonic(), keep_free)


def at_once(pool: Pool, uid: str = NOBODY) -> bool:
    """Whether a pod can have a guest at once."""
    has_one = pool.reserve(uid)
    pool.release()
    return has_one


def busy(pool: Pool, keep_free: int = 0) -> str:
    """What is said when there is none."""
    with pytest.raises(GuestError) as caught:
        take(pool, keep_free=keep_free)
    assert (caught.value.fault, caught.value.fatal) == (Fault.BUSY, False)
    return str(caught.value)


def on_cycle(pool: Pool, *uids: str) -> list[Guest]:
    """Idle guests, each on the cycle of a pod that has just given it back."""
    guests = [take(pool, uid) for uid in uids]
    for guest, uid in zip(guests, uids, strict=True):
        guest.uid = uid
        pool.put_back(guest)
    return guests


def breaks(guest: Guest) -> Guest:
    guest.is_broken = True
    return guest


class TestLimit:
    @pytest.mark.parametrize("limit", [1, 2, 5])
    def test_is_how_many_there_may_be(self, pools: Pools, limit: int, open_instances: Callable[[], int]) -> None:
        pool = pools(limit)
        taken = [take(pool) for _ in range(limit)]
        assert len({id(guest) for guest in taken}) == open_instances() == len(pool) == limit
        assert busy(pool) == f"instance: all {limit} that may be used here are in use; raise the plugin's instances"
        assert len(pool) == limit

    def test_is_grown_to_only_when_needed(self, pools: Pools) -> None:
        pool = pools(5)
        assert len(pool) == 1
        for _ in range(3):
            pool.put_back(take(pool))
        assert len(pool) == 1

    def test_counts_those_in_the_making(self, pools: Pools) -> None:
        pool = pools(2)
        take(pool)
        pools.may_make.clear()
        making = pools._threads.submit(pool.take, NOBODY, time.monotonic())
        until(lambda: len(pool) == 2)
        assert busy(pool) == "instance: all 2 that may be used here are in use; raise the plugin's instances"
        pools.may_make.set()
        assert making.result(PATIENCE_S) is pools.made[1]

    def test_has_room_again_when_one_could_not_be_made(self, pools: Pools) -> None:
        pool = pools(2)
        first = take(pool)
        pools.error = GuestError(Fault.TRAP, "_start", "trap: unreachable")
        with pytest.raises(GuestError, match=r"^_start: trap: unreachable$"):
            take(pool)
        assert len(pool) == 1
        pools.error = None
        assert take(pool) is not first


class TestSpare:
    def test_leaves_guests_to_others(self, pools: Pools) -> None:
        pool = pools(3)
        for _ in range(2):
            take(pool, keep_free=1)
        assert (
            busy(pool, keep_free=1) == "instance: all 2 that may be used here are in use; raise the plugin's instances"
        )
        take(pool)
        assert busy(pool) == "instance: all 3 that may be used here are in use; raise the plugin's instances"

    def test_leaves_an_idle_one_to_others(self, pools: Pools) -> None:
        pool = pools(2)
        one, two = take(pool), take(pool)
        pool.put_back(two)
        assert (
            busy(pool, keep_free=1) == "instance: all 1 that may be used here are in use; raise the plugin's instances"
        )
        assert take(pool) is two
        pool.put_back(one)
        pool.put_back(two)
        assert take(pool, keep_free=1) is two

    @pytest.mark.parametrize("limit", [1, 2])
    def test_still_has_one(self, pools: Pools, limit: int) -> None:
        take(pools(limit), keep_free=limit)


class TestChoice:
    def test_is_the_guest_on_the_pods_cycle(self, pools: Pools) -> None:
        pool = pools(3)
        guests = on_cycle(pool, "a", "b", "c")
        assert [take(pool, uid) for uid in "bac"] == [guests[1], guests[0], guests[2]]

    @pytest.mark.parametrize("keeps_cycles", [True, False])
    def test_is_else_the_last_of_those_that_are_on_no_cycle(self, pools: Pools, keeps_cycles: bool) -> None:
        pool = pools(4, keeps_cycles=keeps_cycles)
        guests = on_cycle(pool, *"abcd")
        for uid in "cb":
            pool.forget(uid)
        assert [take(pool, uid) for uid in "efgh"] == [guests[2], guests[1], guests[0], guests[3]]

    def test_is_else_the_one_that_was_idle_longest(self, pools: Pools) -> None:
        pool = pools(3)
        guests = on_cycle(pool, *"abc")
        assert [take(pool, uid) for uid in "def"] == guests

    def test_is_rather_a_new_one_than_one_that_is_kept_for_its_cycle(self, pools: Pools) -> None:
        pool = pools(3, keeps_cycles=True)
        kept = on_cycle(pool, "a", "b")
        assert take(pool, "c") not in kept
        assert len(pool) == 3

    def test_is_one_that_is_kept_where_there_may_be_no_other(self, pools: Pools) -> None:
        pool = pools(2, keeps_cycles=True)
        longest, other = on_cycle(pool, "a", "b")
        assert [take(pool, "c"), take(pool, "d")] == [longest, other]

    @pytest.mark.parametrize(
        ("limit", "keeps_cycles", "idle"),
        [(3, True, [True, False, False]), (2, True, [True, True, True]), (3, False, [True, True, True])],
    )
    def test_may_be_had_at_once_if_the_guests_are_not_kept_for_others(
        self, pools: Pools, limit: int, keeps_cycles: bool, idle: list[bool]
    ) -> None:
        """Where another one would be made, which takes its time, that is not at once."""
        pool = pools(limit, keeps_cycles=keeps_cycles)
        on_cycle(pool, "a", "b")
        assert [at_once(pool, uid) for uid in ("a", "c", NOBODY)] == idle
        pool.forget("b")
        assert at_once(pool, "c")
        assert len(pools.made) == 2

    def test_of_one_that_leaves_some_to_others_is_the_same(self, pools: Pools) -> None:
        """Two are the most that it may have, so that there is no third to be made."""
        pool = pools(3, keeps_cycles=True)
        longest, _ = on_cycle(pool, "a", "b")
        assert take(pool, "c", keep_free=1) is longest

    def test_is_one_that_was_on_no_cycle_yet(self, pools: Pools) -> None:
        pool = pools(3, keeps_cycles=True)
        assert take(pool, "a") is pools.made[0]

    def test_is_one_whose_cycle_was_ended(self, pools: Pools) -> None:
        pool = pools(3, keeps_cycles=True)
        _, ended = on_cycle(pool, "a", "b")
        pool.forget("b")
        pool.forget("nobody")
        assert take(pool, "c") is ended

    @pytest.mark.parametrize(("ago", "taken"), [(CYCLE_TIMEOUT_S + 1, True), (CYCLE_TIMEOUT_S - 5, False)])
    def test_is_one_that_nobody_came_back_to(self, pools: Pools, ago: float, taken: bool) -> None:
        pool = pools(3, keeps_cycles=True)
        _, left = on_cycle(pool, "a", "b")
        left.left -= ago
        assert (take(pool, "c") is left) is taken

    def test_is_the_pods_own_even_when_nobody_came_back_for_long(self, pools: Pools) -> None:
        pool = pools(3, keeps_cycles=True)
        first, second = on_cycle(pool, "a", "b")
        first.left = second.left = 0.0
        assert take(pool, "b") is second


class TestWaiting:
    def test_is_until_one_comes_back(self, pools: Pools) -> None:
        pool = pools(1)
        guest = take(pool)
        waiting = pools.waits(pool)
        pool.put_back(guest)
        assert waiting.result(PATIENCE_S) is guest

    def test_of_several_is_for_one_each(self, pools: Pools) -> None:
        pool = pools(2)
        guests = [take(pool), take(pool)]
        waiting = [pools.waits(pool) for _ in guests]
        for guest in guests:
            pool.put_back(guest)
        assert {id(each.result(PATIENCE_S)) for each in waiting} == {id(guest) for guest in guests}

    def test_of_one_that_leaves_it_to_others_does_not_hold_them_up(self, pools: Pools) -> None:
        """Who waits longest is told first, but may not have the guest."""
        pool = pools(2)
        guests = [take(pool), take(pool)]
        modest = pools.waits(pool, keep_free=1)
        other = pools.waits(pool)
        pool.put_back(guests[0])
        assert other.result(PATIENCE_S) is guests[0]
        assert not modest.done()
        pool.put_back(guests[0])
        pool.put_back(guests[1])
        assert modest.result(PATIENCE_S) in guests

    def test_ends_in_the_order_in_which_it_began(self, pools: Pools) -> None:
        pool = pools(1)
        guest = take(pool)
        waits = [pools.waits(pool) for _ in range(4)]
        for left, wait in zip([3, 2, 1, 0], waits, strict=True):
            pool.put_back(guest)
            assert wait.result(PATIENCE_S) is guest
            assert waiting(pool) == left

    def test_wakes_nobody_who_gets_none(self, pools: Pools) -> None:
        """Of many that wait, each would take the processor from the one that has the guest."""
        pool = pools(1)
        guest = take(pool)
        first, second = pools.waits(pool), pools.waits(pool)
        (_, other) = pool._waiters._waiting
        pool.put_back(guest)
        assert first.result(PATIENCE_S) is guest
        assert pool._waiters._waiting == [other]
        pool.put_back(guest)
        assert second.result(PATIENCE_S) is guest
        assert other.place

    def test_that_is_interrupted_gives_the_guest_to_another(self, pools: Pools) -> None:
        pool = pools(1)
        guest = take(pool)
        interrupted, other = pools.waits(pool), pools.waits(pool)
        pools.interrupt_first()
        pool.put_back(guest)
        with pytest.raises(KeyboardInterrupt):
            interrupted.result(PATIENCE_S)
        assert other.result(PATIENCE_S) is guest

    @pytest.mark.parametrize("limit", [1, 2, 3])
    def test_ends_for_all_whoever_gives_up(self, pools: Pools, limit: int) -> None:
        """Some wait for so short a time that guests are handed to them when it is just over."""
        pool = pools(limit, keeps_cycles=True)

        def use(number: int) -> int:
            dice, given = random.Random(number), 0
            for _ in range(200):
                gives_up = dice.random() < 0.5
                deadline = time.monotonic() + (dice.random() * 1e-3 if gives_up else PATIENCE_S)
                try:
                    guest = pool.take(str(dice.randrange(4)), deadline, keep_free=dice.randrange(2))
                except GuestError:
                    assert gives_up, "nobody woke who waits"
                else:
                    given += 1
                    pool.put_back(guest)
            return given

        with ThreadPoolExecutor(6) as threads:
            assert sum(done.result(PATIENCE_S) for done in [threads.submit(use, at) for at in range(6)]) > 500
        settle(pool)
        assert waiting(pool) == 0
        assert len(idle_guests(pool)) == len(pool) <= limit

    def test_ends_at_the_deadline(self, pools: Pools) -> None:
        pool = pools(1)
        take(pool)
        with pytest.raises(GuestError) as caught:
            pools.waits(pool, seconds=0.1).result(PATIENCE_S)
        assert str(caught.value) == "instance: all 1 that may be used here are in use; raise the plugin's instances"
        assert caught.value.fault is Fault.BUSY

    def test_ends_with_one_that_was_made_by_another_who_gave_up(self, pools: Pools) -> None:
        """Who fails to make one leaves the room to those that wait."""
        pool = pools(2)
        take(pool)
        pools.error = MemoryError("no room")
        pools.may_make.clear()
        fails = pools._threads.submit(pool.take, NOBODY, time.monotonic())
        until(lambda: len(pool) == 2)
        waiting = pools.waits(pool)
        pools.may_make.set()
        for each in (fails, waiting):
            with pytest.raises(MemoryError, match="no room"):
                each.result(PATIENCE_S)
        assert len(pool) == 1


class TestReplacement:
    def test_is_there_before_the_next_call(self, pools: Pools, open_instances: Callable[[], int]) -> None:
        pool = pools(1)
        for number in range(1, 5):
            pool.put_back(breaks(take(pool)))
            settle(pool)
            assert len(pools.made) == number + 1
            assert open_instances() == len(pool) == 1
        assert take(pool) is pools.made[-1]
        assert len(pools.made) == 5

    def test_is_waited_for(self, pools: Pools) -> None:
        """It is on its way already: another one would come later."""
        pool = pools(5)
        broken = take(pool)
        pools.may_make.clear()
        pool.put_back(breaks(broken))
        waiting = pools.waits(pool)
        pools.may_make.set()
        assert waiting.result(PATIENCE_S) is pools.made[1]
        assert len(pools.made) == 2
        assert len(pool) == 1

    def test_that_takes_longer_than_the_deadline(self, pools: Pools) -> None:
        pool = pools(5)
        broken = take(pool)
        pools.may_make.clear()
        pool.put_back(breaks(broken))
        assert busy(pool) == "instance: another one is still being made"

    def test_takes_its_share_of_the_limit(self, pools: Pools) -> None:
        pool = pools(2)
        broken, _ = take(pool), take(pool)
        pools.may_make.clear()
        pool.put_back(breaks(broken))
        assert busy(pool) == "instance: another one is still being made"
        assert (
            busy(pool, keep_free=1) == "instance: all 1 that may be used here are in use; raise the plugin's instances"
        )
        assert len(pool) == 2

    def test_leaves_idle_ones_to_those_that_wait(self, pools: Pools) -> None:
        """Of two, the one in use breaks: one that leaves one to others may have the idle one meanwhile."""
        pool = pools(2)
        guests = [take(pool), take(pool)]
        pool.put_back(guests[1])
        waiting = pools.waits(pool, keep_free=1)
        pools.may_make.clear()
        pool.put_back(breaks(guests[0]))
        assert waiting.result(PATIENCE_S) is guests[1]

    @pytest.mark.parametrize(
        "error",
        [
            GuestError(Fault.TRAP, "_start", "trap: unreachable"),
            MemoryError("no room"),
            OSError("the engine has failed"),
        ],
        ids=type,
    )
    def test_that_cannot_be_made_fails_who_asks_next(
        self, pools: Pools, open_instances: Callable[[], int], error: Exception
    ) -> None:
        """With what it failed with, and until it can be made again."""
        pool = pools(1)
        broken = take(pool)
        pools.error = error
        pool.put_back(breaks(broken))
        settle(pool)
        assert open_instances() == len(pool) == 0
        for _ in range(3):
            with pytest.raises(type(error)) as caught:
                take(pool)
            assert caught.value is error
        pools.error = None
        assert take(pool) is pools.made[1]
        assert len(pool) == 1

    def test_that_cannot_be_made_fails_who_waits_for_it(self, pools: Pools) -> None:
        pool = pools(1)
        broken = take(pool)
        pools.error = GuestError(Fault.TRAP, "_start", "trap: unreachable")
        pools.may_make.clear()
        pool.put_back(breaks(broken))
        waiting = pools.waits(pool)
        pools.may_make.set()
        with pytest.raises(GuestError, match=r"^_start: trap: unreachable$"):
            waiting.result(PATIENCE_S)

    def test_of_several_at_once(self, pools: Pools, open_instances: Callable[[], int]) -> None:
        pool = pools(4)
        taken = [take(pool) for _ in range(4)]
        for guest in taken:
            pool.put_back(breaks(guest))
        again = [pool.take(NOBODY, time.monotonic() + 60) for _ in range(4)]
        assert open_instances() == len(pool) == 4
        assert not set(again) & set(taken)


class Work:
    """What is done with a guest that is maintained: it begins, and ends when it may."""

    def __init__(self, pools: Pools, *, more: bool = False) -> None:
        self._threads = pools._threads
        self._more = more
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self.done: list[Guest] = []

    def __call__(self, guest: Guest) -> bool:
        self.begun.set()
        assert self.may_end.wait(60)
        self.done.append(guest)
        return self._more

    def maintains(self, pool: Pool) -> "Future[bool]":
        """Begins to maintain in another thread."""
        maintaining = self._threads.submit(pool.maintain, self)
        assert self.begun.wait(60)
        return maintaining


class TestTending:
    def test_is_done_to_each_idle_guest(self, pools: Pools) -> None:
        pool = pools(3)
        guests = on_cycle(pool, "a", "b", "c")
        in_use = take(pool, "b")
        work = Work(pools)
        work.may_end.set()
        assert not pool.maintain(work)
        assert work.done == [guests[0], guests[2]]
        pool.put_back(in_use)
        assert [take(pool) for _ in guests] == [guests[0], guests[2], in_use]

    def test_begins_with_the_guest_that_the_next_pod_gets(self, pools: Pools) -> None:
        pool = pools(3)
        first, second, third = on_cycle(pool, "a", "b", "c")
        second.end_cycle()
        work = Work(pools)
        work.may_end.set()
        assert not pool.maintain(work)
        assert work.done == [second, first, third]

    def test_leaves_each_guest_its_turn(self, pools: Pools) -> None:
        """Who comes in the middle gets one that has been told all."""
        pool = pools(3)
        first, second, _ = on_cycle(pool, "a", "b", "c")
        work = Work(pools)
        maintaining = pools._threads.submit(pool.maintain, lambda guest: guest is second and work(guest))
        assert work.begun.wait(60)
        assert take(pool, "d") is first
        work.may_end.set()
        assert not maintaining.result(PATIENCE_S)

    @pytest.mark.parametrize(("more", "left"), [("", False), ("a", True), ("c", True), ("abc", True)])
    def test_tells_whether_there_is_more_to_do(self, pools: Pools, more: str, left: bool) -> None:
        pool = pools(3)
        on_cycle(pool, "a", "b", "c")
        assert pool.maintain(lambda guest: (guest.uid or "") in more if more else False) is left

    def test_is_waited_for(self, pools: Pools, open_instances: Callable[[], int]) -> None:
        """Another guest would have to be told of all that this one knows already."""
        pool = pools(5)
        work = Work(pools)
        maintaining = work.maintains(pool)
        assert not at_once(pool)
        waiting = pools.waits(pool)
        work.may_end.set()
        assert waiting.result(PATIENCE_S) is pools.made[0]
        assert not maintaining.result(PATIENCE_S)
        assert open_instances() == len(pool) == 1

    def test_leaves_the_others_to_those_who_need_one(self, pools: Pools) -> None:
        pool = pools(2)
        first, second = on_cycle(pool, "a", "b")
        work = Work(pools)
        maintaining = work.maintains(pool)
        assert [at_once(pool, uid) for uid in "abc"] == [False, True, True]
        assert take(pool, "c") is second
        work.may_end.set()
        assert not maintaining.result(PATIENCE_S)
        assert work.done == [first]

    @pytest.mark.parametrize("keeps_cycles", [True, False])
    def test_of_the_guest_on_a_pods_cycle_is_waited_for(self, pools: Pools, keeps_cycles: bool) -> None:
        """Another one knows nothing of the pod."""
        pool = pools(3, keeps_cycles=keeps_cycles)
        own, other = on_cycle(pool, "a", "b")
        work = Work(pools)
        maintaining = work.maintains(pool)
        other.end_cycle()
        waiting = pools.waits(pool, uid="a")
        assert idle_guests(pool) == [other]
        work.may_end.set()
        assert waiting.result(PATIENCE_S) is own
        assert not maintaining.result(PATIENCE_S)

    def test_of_the_guest_on_a_pods_cycle_that_takes_longer_than_the_deadline(self, pools: Pools) -> None:
        pool = pools(2)
        on_cycle(pool, "a", "b")
        work = Work(pools)
        maintaining = work.maintains(pool)
        with pytest.raises(GuestError, match=r"^instance: it still learns of nodes or pods, or collects garbage$"):
            take(pool, "a")
        work.may_end.set()
        assert not maintaining.result(PATIENCE_S)

    def test_of_a_guest_that_is_on_no_known_pods_cycle_is_not_waited_for(self, pools: Pools) -> None:
        pool = pools(2)
        _, other = on_cycle(pool, "a", "b")
        idle_guests(pool)[0].uid = NOBODY
        work = Work(pools)
        maintaining = work.maintains(pool)
        assert take(pool, NOBODY) is other
        work.may_end.set()
        assert not maintaining.result(PATIENCE_S)

    def test_does_not_keep_a_cycle_from_ending(self, pools: Pools) -> None:
        pool = pools(1)
        (guest,) = on_cycle(pool, "a")
        work = Work(pools)
        maintaining = work.maintains(pool)
        pool.forget("a")
        work.may_end.set()
        assert not maintaining.result(PATIENCE_S)
        assert guest.uid is None

    def test_does_not_count_as_use(self, pools: Pools) -> None:
        """Nobody has come back to the guest's cycle, and garbage is collected once it was idle for a while."""
        pool = pools(1)
        (guest,) = on_cycle(pool, "a")
        guest.left = 5.0
        assert not pool.maintain(lambda _: False)
        assert guest.left == 5.0

    @pytest.mark.parametrize("limit", [1, 2])
    def test_that_takes_longer_than_the_deadline(self, pools: Pools, limit: int) -> None:
        """More instances would be no help."""
        pool = pools(limit)
        work = Work(pools)
        maintaining = work.maintains(pool)
        assert busy(pool) == "instance: it still learns of nodes or pods, or collects garbage"
        work.may_end.set()
        assert not maintaining.result(PATIENCE_S)
        assert take(pool) is pools.made[0]

    def test_makes_way_for_those_who_wait(self, pools: Pools) -> None:
        """Though there is more to do, and the one who maintains asks again at once."""
        pool = pools(1)
        work = Work(pools, more=True)

        def again_and_again() -> None:
            while pool.maintain(work):
                pass

        maintaining = pools._threads.submit(again_and_again)
        assert work.begun.wait(60)
        waiting = pools.waits(pool)
        work.may_end.set()
        assert waiting.result(PATIENCE_S) is pools.made[0]
        maintaining.result(PATIENCE_S)
        assert work.done == [pools.made[0]]

    def test_is_not_done_while_anybody_waits(self, pools: Pools) -> None:
        """Also one who may not have the idle guest."""
        pool = pools(2)
        guests = [take(pool), take(pool)]
        pool.put_back(guests[1])
        waiting = pools.waits(pool, keep_free=1)
        work = Work(pools)
        work.may_end.set()
        assert not pool.maintain(work)
        assert work.done == []
        pool.put_back(guests[0])
        assert waiting.result(PATIENCE_S) is guests[0]
        assert not pool.maintain(work)
        assert work.done == [guests[1]]

    @pytest.mark.parametrize("error", [GuestError(Fault.TRAP, "nodechanged", "trap"), MemoryError("no room")], ids=type)
    def test_of_a_guest_that_breaks_replaces_it(
        self, pools: Pools, open_instances: Callable[[], int], error: Exception
    ) -> None:
        pool = pools(1)

        def work(guest: Guest) -> bool:
            breaks(guest)
            raise error

        with pytest.raises(type(error)) as caught:
            pool.maintain(work)
        assert caught.value is error
        assert pool.take(NOBODY, time.monotonic() + 60) is pools.made[1]
        assert open_instances() == len(pool) == 1

    def test_of_a_guest_that_is_closed_meanwhile(self, pools: Pools, open_instances: Callable[[], int]) -> None:
        pool = pools(2)
        on_cycle(pool, "a", "b")
        work = Work(pools)
        maintaining = work.maintains(pool)
        pool.close()
        assert open_instances() == len(pool) == 1
        work.may_end.set()
        assert not maintaining.result(PATIENCE_S)
        assert open_instances() == len(pool) == 0
        assert len(work.done) == 1
        assert not pool.maintain(work)


class TestPreparation:
    @pytest.fixture
    def prepared(self) -> list[Guest]:
        return []

    @pytest.fixture
    def pool(self, pools: Pools, prepared: list[Guest]) -> Pool:
        pool = Pool("plugin", pools._new, 2, keeps_cycles=False, prepare=prepared.append)
        pools._pools.append(pool)
        return pool

    def test_is_done_before_anybody_waits(self, pools: Pools, pool: Pool, prepared: list[Guest]) -> None:
        """A guest that is made because it is needed at once is prepared by who needs it."""
        assert prepared == pools.made[:1]
        pool.put_back(breaks(take(pool)))
        settle(pool)
        take(pool), take(pool)
        assert prepared == pools.made[:2]
        assert len(pools.made) == 3

    def test_that_fails_makes_no_guest(
        self, open_instances: Callable[[], int], pools: Pools, pool: Pool, prepared: list[Guest]
    ) -> None:
        def fails(guest: Guest) -> None:
            prepared.append(guest)
            raise GuestError(Fault.TRAP, "nodechanged", "trap: unreachable")

        pool._prepare = fails
        pool.put_back(breaks(take(pool)))
        settle(pool)
        assert open_instances() == len(pool) == 0
        assert take(pool) is pools.made[2]
        with pytest.raises(GuestError, match=r"^nodechanged: trap: unreachable$"):
            Pool("plugin", pools._new, 1, keeps_cycles=False, prepare=fails)
        assert open_instances() == 1


class TestLearning:
    """Guests that are prepared though somebody waits for them."""

    @pytest.fixture
    def prepared(self) -> list[Guest]:
        return []

    @pytest.fixture
    def pool(self, pools: Pools, prepared: list[Guest]) -> Pool:
        return pools(3, learns=True, prepare=prepared.append)

    def test_is_not_a_part_of_the_request_that_makes_the_pool_grow(
        self, pools: Pools, pool: Pool, prepared: list[Guest]
    ) -> None:
        take(pool)
        pools.may_make.clear()
        waiting = pools.waits(pool)
        assert busy(pool) == "instance: another one is still being made"
        pools.may_make.set()
        assert waiting.result(PATIENCE_S) is pools.made[1]
        assert prepared == pools.made
        assert len(pool) == len(pools.made) == 2

    def test_is_not_waited_for_if_another_comes_back(self, pools: Pools, pool: Pool) -> None:
        guest = take(pool)
        pools.may_make.clear()
        waiting = pools.waits(pool)
        pool.put_back(guest)
        assert waiting.result(PATIENCE_S) is guest
        pools.may_make.set()
        settle(pool)
        assert idle_guests(pool) == pools.made[1:]

    @pytest.mark.parametrize("slowness_s", [0.0, 2 * MAX_WAIT_FOR_NEW_S])
    def test_lets_a_pod_have_a_guest_that_is_kept_for_another_meanwhile(
        self, pools: Pools, monkeypatch: pytest.MonkeyPatch, slowness_s: float
    ) -> None:
        """To learn all pods of a large cluster takes seconds. On a busy machine time passes between any two lines."""
        looks = count()
        slow_clock = SimpleNamespace(monotonic=lambda: time.monotonic() + next(looks) * slowness_s)
        for name in ("pool", "guest_place"):
            monkeypatch.setattr(f"wasm_runtime.guests.{name}.time", slow_clock)
        pool = pools(3, learns=True, keeps_cycles=True)
        (kept,) = on_cycle(pool, "a")
        pools.may_make.clear()
        assert not at_once(pool, "b")
        assert pool.take("b", time.monotonic() + 60) is kept
        pool.put_back(kept)
        assert at_once(pool, "c")
        pools.may_make.set()
        settle(pool)
        assert idle_guests(pool) == [kept, pools.made[1]]

    def test_of_several_is_one_after_the_other(self, pools: Pools, pool: Pool, prepared: list[Guest]) -> None:
        guests = [pool.take(NOBODY, time.monotonic() + 60) for _ in range(3)]
        assert guests == prepared == pools.made
        assert busy(pool) == "instance: all 3 that may be used here are in use; raise the plugin's instances"

    @pytest.mark.parametrize(
        "error", [GuestError(Fault.TRAP, "nodechanged", "trap: unreachable"), MemoryError("no room")], ids=type
    )
    @pytest.mark.parametrize("what", ["making", "preparing"])
    def test_that_fails_fails_who_asked_for_it(
        self, open_instances: Callable[[], int], pools: Pools, pool: Pool, what: str, error: Exception
    ) -> None:
        """Who else waits is the next to ask, and gets an answer of its own."""

        def fails(_: Guest) -> None:
            raise error

        take(pool)
        pools.may_make.clear()
        waiting = [pools.waits(pool) for _ in range(2)]
        if what == "making":
            pools.error = error
        else:
            pool._prepare = fails
        pools.may_make.set()
        for each in waiting:
            with pytest.raises(type(error)) as caught:
                each.result(PATIENCE_S)
            assert caught.value is error
        assert open_instances() == len(pool) == 1

    def test_that_fails_does_not_fail_who_has_another_by_then(self, pools: Pools, pool: Pool) -> None:
        guest = take(pool)
        pools.error = MemoryError("no room")
        pools.may_make.clear()
        waiting = pools.waits(pool)
        with pool._lock:
            pools.may_make.set()
            pool.put_back(guest)
        assert waiting.result(PATIENCE_S) is guest

    def test_ends_with_the_pool(self, open_instances: Callable[[], int], pools: Pools, pool: Pool) -> None:
        """Those who hold it still get guests, which they tell of nodes themselves."""
        take(pool)
        pools.may_make.clear()
        waiting = pools.waits(pool)
        pool.close()
        pools.may_make.set()
        guests = [pools.made[0], waiting.result(PATIENCE_S), take(pool)]
        end_of_maker(pool)
        assert open_instances() == len(pool) == 3
        for guest in guests:
            pool.put_back(guest)
        assert open_instances() == len(pool) == 0


class TestClose:
    def test_gives_idle_guests_back(self, pools: Pools, open_instances: Callable[[], int]) -> None:
        pool = pools(3)
        on_cycle(pool, "a", "b", "c")
        for _ in range(2):
            pool.close()
            assert open_instances() == len(pool) == 0

    @pytest.mark.parametrize("broken", [True, False])
    def test_leaves_those_in_use_until_they_come_back(
        self, pools: Pools, open_instances: Callable[[], int], broken: bool
    ) -> None:
        pool = pools(3)
        one, two = take(pool), take(pool)
        pool.put_back(two)
        pool.close()
        assert open_instances() == len(pool) == 1
        one.is_broken = broken
        pool.put_back(one)
        assert open_instances() == len(pool) == 0
        assert len(pools.made) == 2

    def test_leaves_no_replacement_behind(self, pools: Pools, open_instances: Callable[[], int]) -> None:
        """One is in the making, two have not begun."""
        pool = pools(3)
        guests = [take(pool) for _ in range(3)]
        pools.may_make.clear()
        for guest in guests:
            pool.put_back(breaks(guest))
        until(lambda: pools.begun == 4)
        assert open_instances() == 2
        pool.close()
        pools.may_make.set()
        end_of_maker(pool)
        assert open_instances() == len(pool) == 0
        assert len(pools.made) == 4

    def test_lets_those_that_wait_have_one(self, pools: Pools, open_instances: Callable[[], int]) -> None:
        """They took the plugin just before it was exchanged."""
        pool = pools(1)
        guest = take(pool)
        waiting = pools.waits(pool)
        pool.close()
        pool.put_back(guest)
        assert waiting.result(PATIENCE_S) is pools.made[1]
        pool.put_back(waiting.result(PATIENCE_S))
        assert open_instances() == len(pool) == 0

    def test_ends_the_thread(self, pools: Pools) -> None:
        pool = pools(1)
        pool.put_back(breaks(take(pool)))
        pool.close()
        end_of_maker(pool)


def test_a_pool_whose_first_guest_cannot_be_made(pools: Pools) -> None:
    threads = threading.active_count()
    pools.error = GuestError(Fault.TRAP, "_start", "trap: unreachable")
    with pytest.raises(GuestError, match=r"^_start: trap: unreachable$"):
        pools(3)
    assert threading.active_count() == threads


@pytest.mark.parametrize("limit", [1, 3])
def test_many_threads(pools: Pools, open_instances: Callable[[], int], limit: int) -> None:
    """Nobody has a guest that another one has, and there are never more than the limit, though one in five breaks."""
    pool = pools(limit)
    in_use: set[Guest] = set()
    lock = threading.Lock()

    def run(thread: int) -> None:
        for number in range(50):
            guest = pool.take(str(thread), time.monotonic() + 60)
            with lock:
                assert guest not in in_use
                in_use.add(guest)
                assert len(in_use) <= limit
            guest.uid, guest.is_broken = str(thread), (thread + number) % 5 == 0
            with lock:
                in_use.remove(guest)
            pool.put_back(guest)

    with ThreadPoolExecutor(6) as threads:
        for done in [threads.submit(run, thread) for thread in range(6)]:
            done.result(PATIENCE_S)
    settle(pool)
    assert 1 <= open_instances() == len(pool) == len(idle_guests(pool)) <= limit
