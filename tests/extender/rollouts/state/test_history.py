"""What is known of rollouts after a restart, and for how long."""

import logging
import os
import resource
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from extender.rollouts.report import Difference, Failure, NodeDifference, ProbeReport, VerbReport
from extender.rollouts.revision import RolloutStage
from extender.rollouts.rollout import Rollout
from extender.rollouts.state.history import MAX_FILE_BYTES
from extender.rollouts.state.store import Store
from tests.extender import kwx
from tests.extender.kwx import Extender
from tests.patience import wait_until

CONFIG = Path("kwx.yaml")
REPORT = ProbeReport(
    {"filter": VerbReport(requests=3, alike=2, different=1, active_milliseconds=0.5)},
    [Difference("default/pod", "filter", 1, [NodeDifference("node-1", "passes", "no room")])],
    [Failure("candidate", "filter", "it traps", 1)],
    ["preempt was never asked for"],
)


def rollout(number: int, profile: str = "default", plugin: str = "plugin", why: str = "") -> Rollout:
    """Those with numbers below 10 have the same length."""
    return Rollout(
        id=number, profile=profile, plugin=plugin, by="operator", why=why, report=REPORT, began=1.5, changed=2.5
    )


def numbers(rollouts: list[Rollout]) -> list[int]:
    return [rollout.id for rollout in rollouts]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path, CONFIG)
    yield store
    store.close()


@pytest.fixture
def file(store: Store, tmp_path: Path) -> Path:  # noqa: ARG001 - makes the folder
    """The one that is written to."""
    (folder,) = tmp_path.iterdir()
    return folder / "rollouts.jsonl"


@contextmanager
def restarted(store: Store, directory: Path) -> Iterator[Store]:
    store.close()
    after = Store.open(directory, CONFIG)
    try:
        yield after
    finally:
        after.close()


def test_it_outlives_the_process(store: Store, tmp_path: Path) -> None:
    rollouts = [rollout(number) for number in (1, 2, 3)]
    for each in rollouts:
        store.append(each)
    assert store.history() == rollouts[::-1]
    with restarted(store, tmp_path) as after:
        assert after.history() == rollouts[::-1]


def test_a_rollout_of_an_earlier_process_is_found_by_its_number(tmp_path: Path) -> None:
    served = kwx.profile("default", kwx.plugin("nodenumber"))
    with Extender(tmp_path, served) as extender:
        (started,) = extender.admin.get("/api/v1/history").json()
    with Extender(tmp_path, served) as extender:
        assert extender.admin.get(f"/api/v1/rollouts/{started['id']}").json() == started


def test_it_is_json_a_line(store: Store, file: Path) -> None:
    store.append(rollout(1, why="line\nfeed"))
    store.append(rollout(2))
    lines = [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
    assert [(line["id"], line["why"], line["dryRun"]) for line in lines] == [(1, "line\nfeed", False), (2, "", False)]


def test_what_an_older_version_has_written_is_known(store: Store, file: Path) -> None:
    """It did not know `settled`."""
    active = msgspec.structs.replace(rollout(1), stage=RolloutStage.ACTIVE)
    line = {key: value for key, value in msgspec.to_builtins(active).items() if key != "settled"}
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(msgspec.json.encode(line) + b"\n")
    assert store.history() == [active]


def test_a_rollout_is_shown_as_it_was_added_last(store: Store) -> None:
    first, second = rollout(1), rollout(2)
    later = msgspec.structs.replace(first, stage=RolloutStage.DRAINING, problem="it failed")
    for each in (first, second, later):
        store.append(each)
    assert store.history() == [second, later]
    assert store.history(1) == [second]
    assert [store.rollout(number) for number in (1, 2, 3)] == [later, second, None]


def test_it_can_be_asked_for_a_part(store: Store) -> None:
    for number, (profile, plugin) in enumerate([("a", "x"), ("a", "y"), ("b", "x"), ("b", "y"), ("a", "x")]):
        store.append(rollout(number, profile, plugin))
    assert numbers(store.history()) == [4, 3, 2, 1, 0]
    assert numbers(store.history(2)) == [4, 3]
    assert numbers(store.history(0)) == []
    assert numbers(store.history(profile="a")) == [4, 1, 0]
    assert numbers(store.history(plugin="x")) == [4, 2, 0]
    assert numbers(store.history(1, "a", "x")) == [4]
    assert numbers(store.history(profile="c")) == []


def test_it_is_bounded(store: Store, file: Path) -> None:
    """A rollout takes a little more than an eighth of a file."""
    for number in range(30):
        store.append(rollout(number, why="x" * (MAX_FILE_BYTES // 8)))
    assert numbers(store.history()) == list(range(29, 20, -1))
    assert sorted(path.name for path in file.parent.glob("rollouts*")) == ["rollouts.1.jsonl", "rollouts.jsonl"]
    assert all(path.stat().st_size <= MAX_FILE_BYTES for path in file.parent.iterdir())


def test_a_rollout_of_any_size_is_taken(store: Store) -> None:
    for number in (1, 2, 3):
        store.append(rollout(number, why="x" * MAX_FILE_BYTES))
    assert numbers(store.history()) == [3, 2]


def test_a_look_takes_memory_for_its_answer_however_long_the_history_is(
    store: Store, tmp_path: Path, file: Path
) -> None:
    """Read whole, both files would take three times what they have, of each thread that looks."""
    for path, first in ((file.with_name("rollouts.1.jsonl"), 0), (file, 1000)):
        lines = [msgspec.json.encode(rollout(first + each, why="x" * (MAX_FILE_BYTES // 1000))) for each in range(900)]
        path.write_bytes(b"\n".join(lines) + b"\n")
    tracemalloc.start()
    try:
        assert numbers(store.history(2)) == [1899, 1898]
        assert numbers([found for number in (1, 900, 1001) if (found := store.rollout(number))]) == [1, 1001]
        with restarted(store, tmp_path) as after:
            assert after.next_id() > 0
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MAX_FILE_BYTES // 4


@pytest.mark.parametrize("left", [1, 100, -2, -1])
def test_a_half_line_counts_for_nothing(
    store: Store, tmp_path: Path, file: Path, caplog: pytest.LogCaptureFixture, left: int
) -> None:
    store.append(rollout(1))
    whole = len(file.read_bytes())
    store.append(rollout(2))
    os.truncate(file, whole + left if left > 0 else 2 * whole + left)
    with restarted(store, tmp_path) as after:
        assert numbers(after.history()) == [1]
        after.append(rollout(3))
        assert numbers(after.history()) == [3, 1]
    assert len(file.read_bytes()) == 2 * whole
    assert caplog.messages == []


def test_a_half_first_line_counts_for_nothing(store: Store, file: Path) -> None:
    file.write_bytes(b'{"id":1')
    only = rollout(2)
    store.append(only)
    assert store.history() == [only]
    assert file.read_bytes() == msgspec.json.encode(only) + b"\n"


def test_what_a_full_disk_has_cut_counts_for_nothing(store: Store, file: Path) -> None:
    store.append(rollout(1))
    whole = file.stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (whole + 100, limits[1]))
    try:
        store.append(rollout(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.stat().st_size == whole + 100
    assert numbers(store.history()) == [1]
    store.append(rollout(3))
    assert numbers(store.history()) == [3, 1]
    assert file.stat().st_size == 2 * whole


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"no JSON",
        b"[" * 200_000,
        b'{"id": "x"}',
        b"\xff\x00",
    ],
)
def test_damaged_lines_are_left_out(
    store: Store, tmp_path: Path, file: Path, caplog: pytest.LogCaptureFixture, line: bytes
) -> None:
    store.append(rollout(1))
    with file.open("ab") as content:
        content.write((line + b"\n") * 2)
    store.append(rollout(3))
    with restarted(store, tmp_path) as after:
        assert numbers(after.history()) == [3, 1]
    warnings = [(record.getMessage(), vars(record)["path"]) for record in caplog.records]
    assert warnings == [("2 lines of the history are damaged and left out", str(file))]


def test_what_another_version_has_added_is_left_out(store: Store, file: Path) -> None:
    store.append(rollout(1))
    with file.open("ab") as content:
        content.write(b'{"id":2,"profile":"default","plugin":"plugin","by":"source","stage":"thinking"}\n')
    store.append(rollout(3))
    assert numbers(store.history(2)) == [3, 1]


def test_what_is_no_file_is_no_history(
    store: Store, tmp_path: Path, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.mkdir()
    with restarted(store, tmp_path) as after:
        after.append(rollout(1))
        assert after.history() == []
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (
            logging.WARNING,
            f"a restart will not know what is live now, nor the history: {file.parent}: Is a directory;"
            " name a server.stateDirectory that can be read and written and has room",
        )
    ]


class TestNumbers:
    def test_count_up(self, store: Store) -> None:
        numbers = [store.next_id() for _ in range(10_000)]
        assert numbers == sorted(set(numbers))

    def test_count_up_over_restarts_without_a_history(self, store: Store, tmp_path: Path, file: Path) -> None:
        before = store.next_id()
        store.append(rollout(before))
        file.unlink()
        wait_until(lambda: time.time_ns() // 1_000_000 > before, "a process takes longer than a millisecond to restart")
        with restarted(store, tmp_path) as after:
            assert after.next_id() > before

    @pytest.mark.parametrize("name", ["rollouts.jsonl", "rollouts.1.jsonl"])
    def test_count_up_though_the_clock_was_set_back(self, store: Store, tmp_path: Path, file: Path, name: str) -> None:
        ahead = store.next_id() + 10**9
        for number in (ahead, 1):
            store.append(rollout(number))
        file.rename(file.with_name(name))
        with restarted(store, tmp_path) as after:
            assert [after.next_id(), after.next_id()] == [ahead + 1, ahead + 2]

    def test_count_up_where_nothing_is_kept(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        numbers = [Store.open(tmp_path / "file", CONFIG).next_id() for _ in range(3)]
        assert numbers == sorted(numbers)
