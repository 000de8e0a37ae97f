"""What goes on whatever guests do: health, admin, the watch on the API server and Events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

import uvloop

from wasm_runtime.supervision import Supervised, SupervisedThread

Work = Callable[[], Coroutine[Any, Any, None]]
"""Goes on until it is cancelled, and can be begun anew."""


class Background:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = SupervisedThread("background", self._loop.run_forever)
        self._thread.start()

    def spawn(self, work: Work, name: str) -> Future[asyncio.Task[None]]:
        """Starts a task that runs until `stop`. If it ends before, that is told of, and it is begun anew.

        Returns the task, which may be cancelled on the loop.
        """
        return asyncio.run_coroutine_threadsafe(self._spawn(work, name), self._loop)

    async def _spawn(self, work: Work, name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(_keep(work, name), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def stop(self) -> None:
        """Cancels the tasks and ends the thread."""
        asyncio.run_coroutine_threadsafe(self._cancel(), self._loop).result()
        self._thread.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _keep(work: Work, name: str) -> None:
    supervised = Supervised(name)
    try:
        while True:
            await asyncio.sleep(await _failure(work, supervised))
    finally:
        supervised.ends()


async def _failure(work: Work, supervised: Supervised) -> float:
    """Works until that ends. Returns the seconds after which it is to be begun anew."""
    supervised.begins()
    try:
        await work()
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # uvicorn exits where it cannot start.
        return supervised.failed(error)
    return supervised.failed(RuntimeError("it has come to an end"))
