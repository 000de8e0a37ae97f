from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import msgspec
import pytest
import wasmtime

from bench.controlplane.process import isolated_environment
from extender.commands.demo import demo
from extender.commands.demo.cycle import CycleReport, NodeReport, VerbLatency
from extender.commands.demo.demo import DemoReport
from extender.commands.demo.gpus import GpuReport
from extender.commands.demo.swap import SwapReport
from extender.commands.terminal import cut, show
from extender.telemetry.printable import escaped, printable
from tests.extender.commands.terminal import read_terminal, run_on_terminal
from tests.extender.kwx import KWX
from tests.patience import Beside
from tests.wasm_runtime.custom import custom

ERASE_LINE = "\x1b[2K"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("node-7 größe 節點", "node-7 größe 節點"),
        ("a\nb\tc\r\n", "a b c  "),
        ("\x1b[31mred\x1b[0m\a\b", "�[31mred�[0m��"),
        ("\x9b2J\u202e\x00", "�2J��"),
    ],
)
def test_texts_of_others_are_text_only(text: str, shown: str) -> None:
    assert printable(text) == shown


EVIL = "\x1b[2J\x9b1A\u202e[bold red]\r\n\u2066x"
"""Erases the screen, goes up a line, turns the direction of writing, is markup of rich, begins a line."""
TAME = "�[2J�1A�[bold red]"


@pytest.mark.parametrize("said", [{"a\x1b\x9b\u202e": ["\x7f\u2028größe 節點 🦀"]}, "\ufeff\U000e0001"])
def test_json_says_the_same_in_characters_that_are_printable(said: object) -> None:
    shown = escaped(json.dumps(said, ensure_ascii=False, indent=2))
    assert json.loads(shown) == said
    assert all(character.isprintable() for character in shown.replace("\n", ""))
    assert escaped('{"größe": "節點 🦀"}') == '{"größe": "節點 🦀"}'


def test_what_a_guest_says_is_text_only_in_the_log_on_a_terminal(tmp_path: Path) -> None:
    code = "import logging; from extender.telemetry import logs; logs.configure();"
    code += f" logging.getLogger('guest').info({EVIL!r}, extra={{'guest': {{'key': {EVIL!r}}}, 'pod': {EVIL!r}}})"
    shown = run_on_terminal([sys.executable, "-c", code], 200, isolated_environment(tmp_path))
    assert shown.count(TAME) == 3
    assert [character for character in shown.replace("\n", "") if not character.isprintable()] == []


def test_what_a_guest_says_is_text_only_in_the_demonstration(capsys: pytest.CaptureFixture[str]) -> None:
    verbs = [VerbLatency(verb, EVIL, 1.0, 1.0) for verb in ("filter", "prioritize", "preempt", "bind")]
    node = NodeReport(EVIL, passes=False, reason=EVIL, score=None, preemption=False, bound=True)
    show(
        demo._nodes(
            DemoReport("", "", CycleReport(verbs, [node]), SwapReport(1, 0, 0.1, {}, {}), GpuReport({}, []), "")
        )
    )
    shown = capsys.readouterr().out
    assert shown.count(TAME) == 4
    assert [character for character in shown.replace("\n", "") if not character.isprintable()] == []


@pytest.mark.parametrize(
    ("items", "shown"),
    [
        ([], []),
        (["a", "b"], ["a", "b"]),
        (["a", "b", "c", "d"], ["a", "b", "and 2 more; --output json shows them all"]),
    ],
)
def test_long_lists_say_how_much_is_missing(items: list[str], shown: list[str]) -> None:
    assert cut(items, 2) == shown


def test_on_a_terminal_what_takes_long_is_shown_while_it_does_and_then_gone(tmp_path: Path) -> None:
    module = tmp_path / "guest.wasm"
    guest = '(module (memory (export "memory") 1) (func (export "filter") (result i32) (i32.const 0)))'
    module.write_bytes(wasmtime.wat2wasm(guest) + custom("padding", bytes(300_000)))
    terminal, stderr = os.openpty()
    with subprocess.Popen(
        [KWX, "inspect", module.name, "--output", "json"],
        stdout=subprocess.PIPE,
        stderr=stderr,
        cwd=tmp_path,
        env=isolated_environment(tmp_path) | {"TERM": "xterm"},
    ) as process:
        os.close(stderr)
        shown = b"".join(read_terminal(terminal)).decode()
        assert process.stdout
        assert msgspec.json.decode(Beside(process.stdout.read).end())["module"] == "guest.wasm"
    os.close(terminal)
    assert process.returncode == 0
    assert shown.rindex(ERASE_LINE) > shown.rindex("Compiling guest.wasm …")


NAME = "n" * 63
TEXT = " ".join(f"word{at}" for at in range(40))
SHOW = f"""
from rich.text import Text
from extender.commands.terminal import Table, show
rows = [("{NAME}", "7", "{TEXT}"), ("größe", "1000", ""), ("節點", "", "two\\nlines")]
show([Text("{TEXT}"), Table(("Plugin", "Weight", "Why"), rows, {{"Weight"}}, {{"7": "red"}})])
"""


def test_away_from_a_terminal_each_row_is_one_line() -> None:
    shown = subprocess.run([sys.executable, "-c", SHOW], check=True, capture_output=True, text=True, timeout=60).stdout
    assert shown.splitlines() == [
        TEXT,
        f"{'Plugin':63}  Weight  Why",
        f"{NAME}       7  {TEXT}",
        f"{'größe':63}    1000",
        f"{'節點':61}          two",  # Each of its characters is as wide as two.
        f"{'':63}          lines",
    ]


@pytest.mark.parametrize(("columns", "width"), [(40, 24), (80, 24), (110, 37), (200, 127), (600, 600)])
def test_on_a_terminal_text_wraps_and_no_name_is_cut(tmp_path: Path, columns: int, width: int) -> None:
    """Where it is so narrow that hardly a word would fit, the terminal wraps the line."""
    shown = run_on_terminal([sys.executable, "-c", SHOW], columns, isolated_environment(tmp_path)).splitlines()
    assert shown[:2] == [TEXT, f"{'Plugin':63}  Weight  Why"]
    rows = textwrap.wrap(TEXT, width)
    assert shown[2:-3] == [f"{NAME}       7  {rows[0]}", *(f"{'':73}{row}" for row in rows[1:])]
    assert shown[-3:] == [f"{'größe':63}    1000", f"{'節點':61}          two", f"{'':73}lines"]
