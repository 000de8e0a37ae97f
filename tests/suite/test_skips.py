"""A test that is left out says what is missing and, behind a colon, how to get it: a run ends with these words."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SKIPS = {"skip", "skipif", "importorskip"}


def without_mend(file: Path) -> Iterator[str]:
    """The reasons in a file that do not say how to get what is missing. Those that are made elsewhere are not read."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(ast.Attribute(ast.Name("pytest") | ast.Attribute(_, "mark"), name)) if name in SKIPS:
                named = [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
                (reason,) = named or node.args[:1]
                if isinstance(reason, ast.Constant | ast.JoinedStr) and ": " not in ast.unparse(reason):
                    yield f"{file}:{node.lineno}: {ast.unparse(reason)}"


def test_whoever_reads_why_a_test_was_left_out_knows_what_to_do() -> None:
    assert [reason for file in sorted(Path("tests").rglob("*.py")) for reason in without_mend(file)] == []


@pytest.mark.parametrize(
    ("line", "is_told"),
    [
        ("pytest.skip('there is no foo')", True),
        ("pytest.skip('there is no foo: apt-get install foo')", False),
        ("pytest.skip(f'{foo} is too old')", True),
        ("pytest.skip(f'{foo} is too old: apt-get install foo')", False),
        ("pytest.skip(str(error))", False),
        ("@pytest.mark.skipif(not FOO, reason='there is no foo')\ndef test(): pass", True),
        ("pytest.importorskip('foo', reason='there is no foo')", True),
    ],
)
def test_a_reason_alone_is_told(line: str, tmp_path: Path, *, is_told: bool) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(line)
    assert bool(list(without_mend(file))) == is_told
