"""A pool when threads, memory and guests fail it: its counts stay true, and whoever uses it next tries again."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.wasm_runtime.guest_modules import binary, export, module
from tests.wasm_runtime.world import end_of_maker, idle_guests, join_maker, settle, until
from wasm_runtime import Fault, Guest, GuestError, Settings, WasmtimeEngine
from wasm_runtime.engine import NoHandle
from wasm_runtime.guests.core_guest import CoreGuest
from wasm_runtime.guests.pool import FIRST_RETRY_S, MAX_RETRY_S, Pool

NO_THREAD = "can't start new thread"
NO_ROOM = MemoryError("no room")
TRAP = GuestError(Fault.TRAP, "_start", "trap: unreachable")


class Faults:
    """Makes pools of real guests, each step of which may be made to fail."""

    def __init__(self, engine: WasmtimeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
        self._module = engine.compile(binary(module(export("filter", "(i32.const 0)"))))
        self._pools: list[Pool] = []
        self.fails: Callable[[str], BaseException | None] = lambda _: None
        """What a step fails with: `start` or `run` of a thread, `new`, `prepare` or `close` of a guest."""
        for step in ("start", "run"):
            monkeypatch.setattr(threading.Thread, step, self._or_fail(step, getattr(threading.Thread, step)))

    def _or_fail(self, step: str, do: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
        def do_or_fail(thread: threading.Thread) -> None:
            if thread.name.startswith("makes-"):
                self.step(step)
            do(thread)

        return do_or_fail

    def step(self, name: str) -> None:
        if error := self.fails(name):
            raise error

    def pool(self, limit: int = 1, *, keeps_cycles: bool = False, learns: bool = False) -> Pool:
        pool = Pool(
            "plugin",
            self._new,
            limit,
            keeps_cycles=keeps_cycles,
            learns=learns,
            prepare=lambda _: self.step("prepare"),
        )
        self._pools.append(pool)
        return pool

    def always(self, name: str, error: BaseException) -> None:
        """Lets a step fail from now on."""
        self.fails = {name: error}.get

    def end(self) -> None:
        """Nothing fails any more."""
        self.fails = lambda _: None

    def _new(self) -> Guest:
        self.step("new")
        guest = CoreGuest(self._module.instantiate(Settings("plugin"), NoHandle()), {"filter"})
        close = guest.close

        def close_and_fail() -> None:
            close()
            self.step("close")

        guest.close = close_and_fail  # type: ignore[method-assign]
        return guest

    def close(self) -> None:
        self.end()
        for pool in self._pools:
            pool.close()
            end_of_maker(pool)


@pytest.fixture
def faults(engine: WasmtimeEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    faults = Faults(engine, monkeypatch)
    yield faults
    faults.close()


def take(pool: Pool, uid: str = "") -> Guest:
    return pool.take(uid, time.monotonic() + 60)


def put_back_broken(pool: Pool) -> None:
    guest = take(pool)
    guest.is_broken = True
    pool.put_back(guest)


def check(pool: Pool) -> None:
    """What is true of a pool at any time."""
    with pool._lock:
        places = list(pool._places)
        assert len(places) <= pool._limit
        assert len({id(place) for place in places}) == len(places)
        assert all(place.guest for place in places if place.state in {"idle", "maintained"})
        held = [id(place.guest) for place in places if place.guest]
        assert len(set(held)) == len(held)
        assert not any(place.guest.is_broken for place in places if place.state == "idle" and place.guest)
        assert all(place in places and place.state == "used" for place in list(pool._reserved.values()))


@pytest.mark.parametrize("error", [RuntimeError(NO_THREAD), NO_ROOM], ids=type)
class TestThreadThatCannotBeStarted:
    def test_costs_no_place(self, faults: Faults, open_instances: Callable[[], int], error: Exception) -> None:
        """Who asks next has the guest made."""
        pool = faults.pool()
        faults.always("start", error)
        for _ in range(3):
            put_back_broken(pool)
            assert open_instances() == len(pool) == 0
        pool.put_back(take(pool))
        assert open_instances() == len(pool) == len(idle_guests(pool)) == 1

    def test_is_told_until_there_is_a_guest(self, faults: Faults, error: Exception) -> None:
        pool = faults.pool()
        assert pool.problem == ""
        faults.always("start", error)
        put_back_broken(pool)
        assert pool.problem == str(error)
        guest = take(pool)
        assert pool.problem == ""
        pool.put_back(guest)

    def test_leaves_what_is_to_be_learnt_to_who_asks(self, faults: Faults, error: Exception) -> None:
        pool = faults.pool(2, learns=True)
        guest = take(pool)
        faults.always("start", error)
        assert take(pool) is not guest
        assert len(pool) == 2

    def test_fails_nobody_who_waits(self, faults: Faults, error: Exception) -> None:
        pool = faults.pool()
        guest = take(pool)
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(take, pool)
            until(lambda: len(pool._waiters) == 1)
            faults.always("start", error)
            guest.is_broken = True
            pool.put_back(guest)
            assert waiting.result(60) is not guest


class TestMaintenance:
    def test_makes_a_guest_where_there_is_none(self, faults: Faults) -> None:
        pool = faults.pool()
        faults.always("new", TRAP)
        put_back_broken(pool)
        settle(pool)
        assert (len(pool), pool.problem) == (0, str(TRAP))
        faults.end()
        pool._retry_at = time.monotonic()
        assert not pool.maintain(lambda _: False)
        settle(pool)
        assert (len(idle_guests(pool)), pool.problem) == (1, "")

    def test_tries_again_later_each_time(self, faults: Faults) -> None:
        pool = faults.pool()
        faults.always("new", TRAP)
        put_back_broken(pool)
        settle(pool)
        pauses = []
        for _ in range(7):
            pauses.append(round(pool._retry_at - time.monotonic()))
            made, pool._retry_at = pool._failures, time.monotonic()
            pool.maintain(lambda _: False)
            settle(pool)
            assert pool._failures == made + 1
            pool.maintain(lambda _: False)
            settle(pool)
            assert pool._failures == made + 1, "it was not time yet"
        assert pauses == [FIRST_RETRY_S, 2, 4, 8, 16, MAX_RETRY_S, MAX_RETRY_S]

    def test_leaves_a_closed_pool_alone(self, faults: Faults) -> None:
        pool = faults.pool()
        pool.close()
        assert not pool.maintain(lambda _: False)
        assert len(pool) == 0


LOOKERS: dict[str, Callable[[Pool], object]] = {
    "maintenance": lambda pool: pool.maintain(lambda _: False),
    "who asks": lambda pool: pool.put_back(take(pool)),
}


class TestMakerThatDies:
    @pytest.fixture(autouse=True)
    def _deaths(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """pytest would tell of them."""
        monkeypatch.setattr(threading, "excepthook", lambda _: None)

    def test_is_told_until_another_has_made_a_guest(self, faults: Faults) -> None:
        pool = faults.pool()
        told = "thread makes-plugin, which was to make one, has died"
        faults.always("run", NO_ROOM)
        put_back_broken(pool)
        for _ in range(2):
            until(lambda: pool.problem == told)
            pool.maintain(lambda _: False)
            assert pool.problem == told
        faults.end()
        until(lambda: not pool.maintain(lambda _: False) and not pool.problem)
        assert len(idle_guests(pool)) == len(pool) == 1

    @pytest.mark.parametrize("look", LOOKERS.values(), ids=LOOKERS)
    def test_is_started_again_by_whoever_looks_next(self, faults: Faults, look: Callable[[Pool], object]) -> None:
        pool = faults.pool()
        faults.always("run", NO_ROOM)
        put_back_broken(pool)
        faults.end()
        join_maker()
        look(pool)
        settle(pool)
        assert len(idle_guests(pool)) == len(pool) == 1

    def test_in_the_midst_of_its_work_leaves_that_to_another(self, faults: Faults) -> None:
        pool = faults.pool()
        fill = pool._fill

        def die(_: object) -> None:
            pool._fill = fill  # type: ignore[method-assign]
            raise NO_ROOM

        pool._fill = die  # type: ignore[assignment, method-assign]
        put_back_broken(pool)
        join_maker()
        pool.maintain(lambda _: False)
        settle(pool)
        assert len(idle_guests(pool)) == len(pool) == 1


def test_a_guest_that_cannot_be_closed_is_replaced_all_the_same(
    faults: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    pool = faults.pool()
    faults.always("close", OSError("it is stuck"))
    put_back_broken(pool)
    settle(pool)
    assert len(idle_guests(pool)) == len(pool) == 1
    assert [record.getMessage() for record in caplog.records] == ["a guest could not be closed"]
    pool.close()
    assert len(pool) == 0


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("limit", [1, 3])
def test_whatever_fails_counts_stay_true(
    faults: Faults, open_instances: Callable[[], int], limit: int, learns: bool
) -> None:
    """Threads take, reserve, break, maintain and end cycles while one step in four fails. No maker dies: that
    nobody looks for one while all wait is right, and takes long."""
    pool = faults.pool(limit, keeps_cycles=True, learns=learns)
    in_use: set[Guest] = set()
    lock = threading.Lock()
    chance = random.Random(7)
    errors = [RuntimeError, MemoryError, OSError]
    faults.fails = lambda step: (
        chance.choice(errors)("it has failed") if step != "run" and chance.random() < 0.25 else None
    )

    def use(guest: Guest, uid: str, breaks: bool) -> None:
        with lock:
            assert guest not in in_use
            in_use.add(guest)
            assert len(in_use) <= limit
        check(pool)
        guest.uid, guest.is_broken = uid, breaks
        with lock:
            in_use.remove(guest)
        pool.put_back(guest)

    def run(thread: int) -> int:
        dice = random.Random(thread)
        uses = 0
        for _ in range(150):
            uid = str(dice.randrange(4))
            reserved = dice.random() < 0.5 and pool.reserve(uid)
            try:
                for _ in range(2 if reserved else 1):
                    use(take(pool, uid), uid, dice.random() < 0.3)
                    uses += 1
            except (GuestError, MemoryError, RuntimeError, OSError):
                pass
            finally:
                pool.release()
            if dice.random() < 0.3:
                pool.maintain(lambda _: False)
            if dice.random() < 0.2:
                pool.forget(uid)
            check(pool)
        return uses

    with ThreadPoolExecutor(6) as threads:
        assert sum(done.result(120) for done in [threads.submit(run, thread) for thread in range(6)]) > 300
    faults.end()
    pool.maintain(lambda _: False)
    settle(pool)
    check(pool)
    assert pool._reserved == {}
    assert open_instances() == len(pool) == len(idle_guests(pool))
    assert {id(take(pool)) for _ in range(limit)} == {id(place.guest) for place in pool._places}
    assert open_instances() == limit
