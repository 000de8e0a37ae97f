"""No test waits without bound, nor for time to pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suite.waits import HELPERS, findings

TESTS, BENCH = Path("tests"), Path("bench")


def found(folder: Path, *, may_sleep: bool = False) -> list[str]:
    files = (file for file in sorted(folder.rglob("*.py")) if str(file) != HELPERS)
    return [finding for file in files for finding in findings(file, may_sleep=may_sleep)]


def test_no_test_waits_without_bound_nor_for_time_to_pass() -> None:
    assert found(TESTS) == []


def test_no_measurement_waits_without_bound() -> None:
    """Time is what a measurement is about: how long it takes, and what rate things come at."""
    assert found(BENCH, may_sleep=True) == []


MENDS = {
    "thread.join()": "thread.join waits for ever: give it a timeout, or use tests.patience.Beside",
    "event.wait()": "event.wait waits for ever: give it a timeout, and assert what it returns",
    "queue.get()": "queue.get waits for ever: give it a timeout",
    "pool.submit(work).result()": "pool.submit(work).result waits for ever: give it a timeout",
    "lock.acquire()": "lock.acquire waits for ever: give it a timeout, and assert what it returns",
    "child.communicate(b'')": "child.communicate waits for ever: give it a timeout",
    "child.stdout.readline()": (
        "child.stdout.readline waits for ever: use tests.patience.Beside(child.stdout.readline).end()"
    ),
    "subprocess.run(['x'], check=True)": "subprocess.run waits for ever: give it a timeout",
    "time.sleep(1)": (
        "time.sleep waits for time to pass: use tests.patience.wait_until for an event, or delay to play what is slow"
    ),
}


@pytest.mark.parametrize(("line", "mend"), MENDS.items(), ids=list(MENDS))
def test_what_waits_without_bound_is_told_with_its_mend(line: str, mend: str, tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(f"def test() -> None:\n    {line}\n")
    assert list(findings(file)) == [f"{file}:2: {mend}"]


BOUNDED = [
    "thread.join(10)",
    "event.wait(timeout=10)",
    "names.get('key')",
    "', '.join(names)",
    "child.communicate(b'', timeout=10)",
    "subprocess.run(['x'], timeout=10)",
    "await event.wait()",
    "await asyncio.wait_for(event.wait(), 10)",
    "await child.stdout.readline()",
    "Beside(child.stdout.readline).end()",
    "file.readline()",
]


@pytest.mark.parametrize("line", BOUNDED)
def test_what_has_a_bound_is_right(line: str, tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(f"async def test() -> None:\n    {line}\n")
    assert list(findings(file)) == []


def test_where_time_is_measured_it_may_be_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "measure.py"
    file.write_text("time.sleep(1)\nthread.join()\n")
    assert list(findings(file, may_sleep=True)) == [f"{file}:2: {MENDS['thread.join()']}"]
