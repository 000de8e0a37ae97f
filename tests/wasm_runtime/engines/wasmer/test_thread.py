"""One thread for all that happens, whoever asks for it."""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from wasm_runtime.engines.wasmer.thread import OneThread


@pytest.fixture(scope="module")
def thread() -> OneThread:
    return OneThread("one")


def test_everything_happens_in_one_thread(thread: OneThread) -> None:
    idents = {thread.run(threading.get_ident)}
    with ThreadPoolExecutor(4) as callers:
        idents |= set(callers.map(lambda _: thread.run(threading.get_ident), range(20)))
    assert len(idents) == 1
    assert threading.get_ident() not in idents


def test_arguments_and_result_are_handed_over(thread: OneThread) -> None:
    assert thread.run(divmod, 17, 5) == (3, 2)


def test_what_runs_in_the_thread_already_runs_at_once(thread: OneThread) -> None:
    assert thread.run(thread.run, thread.run, max, 1, 2) == 2


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), BaseException("worse")])
def test_what_is_raised_comes_back_and_the_thread_lives(thread: OneThread, error: BaseException) -> None:
    def fail() -> None:
        raise error

    for _ in range(2):
        with pytest.raises(type(error)) as caught:
            thread.run(fail)
        assert caught.value is error
    assert thread.run(abs, -1) == 1


def test_one_call_ends_before_another_begins(thread: OneThread) -> None:
    events: list[tuple[str, int]] = []
    pause = threading.Event()

    def call(number: int) -> None:
        events.append(("begins", number))
        pause.wait(0.001)
        events.append(("ends", number))

    with ThreadPoolExecutor(8) as callers:
        list(callers.map(lambda number: thread.run(call, number), range(40)))
    assert [kind for kind, _ in events] == ["begins", "ends"] * 40
    assert [number for kind, number in events if kind == "begins"] == [n for kind, n in events if kind == "ends"]


def test_nothing_is_kept_of_a_call(thread: OneThread) -> None:
    """Neither what was given nor what came back: both may be large, or have to be dropped."""

    class Thing:
        pass

    given, result = Thing(), thread.run(Thing)
    assert thread.run(lambda thing: thing, given) is given
    gone = [weakref.ref(given), weakref.ref(result)]
    gc.disable()
    try:
        del given, result
        thread.run(abs, 1)
        assert [each() for each in gone] == [None, None]
    finally:
        gc.enable()
