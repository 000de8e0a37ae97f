"""No test waits without bound, nor for time to pass."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.suite.waits import HELPERS, findings

TESTS = Path("tests")
LEFT = ("tests/extender/", "tests/manifests/")
"""Folders that are yet to be mended."""


def test_no_test_waits_without_bound() -> None:
    def found() -> Iterator[str]:
        for file in sorted(TESTS.rglob("*.py")):
            if not str(file).startswith((HELPERS, *LEFT)):
                yield from findings(file)

    assert list(found()) == []


MENDS = {
    "thread.join()": "thread.join waits for ever: give it a timeout, or use tests.patience.Beside",
    "event.wait()": "event.wait waits for ever: give it a timeout, and assert what it returns",
    "queue.get()": "queue.get waits for ever: give it a timeout",
    "pool.submit(work).result()": "pool.submit(work).result waits for ever: give it a timeout",
    "lock.acquire()": "lock.acquire waits for ever: give it a timeout, and assert what it returns",
    "child.communicate(b'')": "child.communicate waits for ever: give it a timeout",
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
]


@pytest.mark.parametrize("line", BOUNDED)
def test_what_has_a_bound_is_right(line: str, tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(f"async def test() -> None:\n    {line}\n")
    assert list(findings(file)) == []
