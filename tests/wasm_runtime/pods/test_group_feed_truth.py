"""Guests that keep groups know them and their members as they are, whatever happens to either meanwhile."""

from __future__ import annotations

import random
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.patience import Beside
from tests.wasm_runtime import group_keeper, pod_keeper
from tests.wasm_runtime.group_keeper import STEP, play
from tests.wasm_runtime.guest_modules import binary
from wasm_runtime import NodeTable, WasmtimeEngine
from wasm_runtime.abi import RECORD_STREAMS, GroupSource
from wasm_runtime.engines.wasmtime.engine import WasmtimeModule
from wasm_runtime.pods.group_table import Group, GroupKey
from wasm_runtime.pods.pod_feeds import PodFeeds
from wasm_runtime.pods.pod_table import ResidentPod
from wasm_runtime.pods.record_feed import RecordBatch


@pytest.fixture(scope="module")
def keeping(engine: WasmtimeEngine) -> Iterator[WasmtimeModule]:
    yield engine.compile(binary(group_keeper.GUEST))


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    pod_keeper.small_batches(monkeypatch)


@given(steps=st.lists(STEP, max_size=40))
@settings(max_examples=150, deadline=None)
def test_several_instances_after_any_changes(keeping: WasmtimeModule, steps: list[tuple[str, Any]]) -> None:
    play(keeping, steps)


class Told:
    """What a guest has been told by all streams, by number."""

    def __init__(self) -> None:
        self.groups: dict[int, str] = {}
        self.pods: dict[int, str] = {}
        self.members: dict[int, int] = {}

    def tell(self, export: str, batch: RecordBatch, _: float) -> None:
        """Takes the records of one call."""
        at = 0
        while at < len(batch.records):
            words: tuple[int, ...] = struct.unpack_from("<3I", batch.records, at + 4)
            (number,) = struct.unpack_from("<I", batch.records, at)
            if export == "groupschanged":
                at += self._group(number, batch.records, at)
            elif export == "memberschanged":
                at += 16
                self._keep(self.members, number, words[1], words[2])
            else:
                length, begin = words[2], at + 16
                at = begin + (length + 7) // 8 * 8
                if export == "podschanged":
                    text = batch.records[begin : begin + length].decode() or self.pods.get(number, "")
                    self._keep(self.pods, number, words[1], text)

    def _group(self, number: int, records: bytes, at: int) -> int:
        begin: int
        length: int
        state, *_, begin, length = struct.unpack_from("<4IiQ2I", records, at + 4)
        names = records[at + 40 : at + 40 + begin + length].decode()
        self._keep(self.groups, number, state, names[begin:])
        return 40 + (begin + length + 7) // 8 * 8

    @staticmethod
    def _keep(kept: dict[int, Any], number: int, state: int, value: object) -> None:
        if state:
            kept[number] = value
        else:
            kept.pop(number, None)


def test_pods_members_and_groups_are_as_of_the_same_moment() -> None:
    """Each pod's object is the name of its group, while pods and groups come and go in another thread."""
    node_table, over = NodeTable(), threading.Event()
    pods = node_table.pods

    def changes() -> int:
        dice, count = random.Random(1), 0
        while not over.is_set():
            name = dice.choice("abcdefgh")
            key = GroupKey(GroupSource.LABEL, "default", name)
            pods.put([(dice.choice("123456"), ResidentPod("n", name.encode(), group=key))])
            pods.remove(dice.choice("123456"))
            pods.groups.put(key, Group(count % 3))
            pods.groups.remove(GroupKey(GroupSource.LABEL, "default", dice.choice("abcdefgh")))
            count += 1
        return count

    feeds, told = PodFeeds(RECORD_STREAMS), Told()
    work = Beside(changes)
    try:
        for _ in range(2_000):
            feeds.follow(pods)
            feeds.announce_all(told.tell, float("inf"), 1.0)
            assert {number: told.groups[group] for number, group in told.members.items()} == told.pods
    finally:
        over.set()
    assert work.end() > 0
