"""The faults that docs/troubleshooting.md shows: what is said there is said by a run in which the fault is planted."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import httpx

from tests.extender.commands.command import Command
from tests.patience import wait_until

PAGE: Final = Path(__file__).parents[3] / "docs" / "troubleshooting.md"
LEFT_OUT: Final = "…"
"""A line of the page that stands for any number of lines."""

_CHANGING: Final = [
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(Z| UTC)?", "TIME"),
    (r"\d+(\.\d+)? (ms|s|min|h)\b", "DURATION"),
    (r"sha256:[0-9a-f]+", "DIGEST"),
    (r"\b[0-9a-f]{12}\b", "DIGEST"),
    (r"file://\S*/", "file:///"),
    (r"(?<=[ =])/\S*/", "/"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r" {2,}", "  "),
    (r" +$", ""),
]
"""Patterns of what differs from run to run, and their placeholders."""


class Shown(NamedTuple):
    """A command, and what it prints."""

    command: str
    output: str


def shown(fault: str) -> list[Shown]:
    """The commands that the page shows below the heading of a fault."""
    section = re.search(rf"^### {re.escape(fault)}\n(.*?)(?=^##|\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert section, f"{PAGE} has no heading {fault!r}"
    blocks = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```", section[1], re.MULTILINE | re.DOTALL)
    assert blocks, f"{PAGE} shows nothing of {fault!r}"
    return [Shown(*block) for block in blocks]


def check(fault: str, command: Command, admin_url: str, folder: Path, *options: str | Path) -> None:
    """Asserts that each command which the page shows of a fault prints what the page says, by and by.

    Files of the commands are in `folder`; `kwx doctor` gets the `options` as well.
    """
    for each in shown(fault):
        _check_one(each, lambda line: _run(line, command, admin_url, folder, options))


def _check_one(expected: Shown, run: Callable[[str], str]) -> None:
    pattern = re.compile(_pattern(expected.output))

    def printed() -> str:
        return _steady(run(expected.command))

    def told() -> str:
        return f"{expected.command}\n{printed()}\nand not\n{_steady(expected.output)}"

    wait_until(lambda: pattern.fullmatch(printed()), told, interval_s=0.2)


def _pattern(output: str) -> str:
    lines = _steady(output).splitlines()
    return "".join(r"(?:.*\n)*" if line == LEFT_OUT else f"{re.escape(line)}\n" for line in lines)


def _steady(output: str) -> str:
    for changing, steady in _CHANGING:
        output = re.sub(changing, steady, output, flags=re.MULTILINE)
    return output


def _run(line: str, command: Command, admin_url: str, folder: Path, options: tuple[str | Path, ...]) -> str:
    program, *arguments = shlex.split(line)
    if program == "curl":
        return httpx.get(arguments[-1].replace("http://127.0.0.1:8889", admin_url), trust_env=False).text
    assert program == "kwx", line
    placed = [str(folder / each) if (folder / each).is_file() else each for each in arguments]
    more = options if arguments[0] == "doctor" else ()
    ended = command(*placed, "--server", admin_url, *more)
    return ended.stdout + ended.stderr
