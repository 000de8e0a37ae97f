"""Threads that die or cannot be started: /readyz tells of what is missing, and all goes on once it can."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.extender import kwx
from tests.extender.objects import NODE_NAMES, filtered
from tests.extender.registry.inside import Inside
from tests.wasm_runtime.world import settle
from wasm_runtime.guest import Pod
from wasm_runtime.plugin import Plugin
from wasm_runtime.snapshot import Nodes, Snapshot

NO_THREAD = "can't start new thread"


class NoThreads:
    """While `is_so`, no thread whose name begins so can be started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names = ""
        self.is_so = False
        start = threading.Thread.start

        def start_or_fail(thread: threading.Thread) -> None:
            if self.is_so and thread.name.startswith(self.names):
                raise RuntimeError(NO_THREAD)
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_or_fail)


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> NoThreads:
    return NoThreads(monkeypatch)


def break_guest(plugin: Plugin) -> None:
    with plugin.guest(Pod("1", "default/web", b""), Nodes(Snapshot(), ["node-7"]), "filter") as (guest, _):
        guest.is_broken = True


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_plugin_without_a_guest_is_told_until_there_is_one(
    tmp_path: Path, no_threads: NoThreads, policy: str
) -> None:
    digits = kwx.plugin("filter_by_digit", "72ends in 7", failurePolicy=policy)
    with Inside(tmp_path, kwx.profile("default", digits)) as inside:
        (plugin,) = inside.registry.plugins

        def told() -> str | None:
            updates = inside.updates
            return updates.missing if policy == "Fail" else updates.oddities

        assert told() is None
        no_threads.is_so = True
        break_guest(plugin)
        assert told() == (
            f"plugin filter_by_digit has no guest, and none can be made: {NO_THREAD}; it is tried again now and then"
        )
        assert (inside.updates.missing is None) is (policy == "Ignore")
        no_threads.is_so = False
        plugin._pool._retry_at = time.monotonic()
        plugin.tend(Snapshot())
        settle(plugin._pool)
        assert told() is None
        kept = [name for name in NODE_NAMES if name != "node-7"]
        assert inside.filter("web") == filtered(kept, failed={"node-7": "ends in 7"})
