from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
import wasmtime

from bench.controlplane.process import isolated_environment
from extender.terminal import cut, printable
from tests.extender.kwx import KWX
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
        shown = b"".join(_read(terminal)).decode()
        assert process.stdout
        assert msgspec.json.decode(process.stdout.read())["module"] == "guest.wasm"
    assert process.returncode == 0
    assert shown.rindex(ERASE_LINE) > shown.rindex("Compiling guest.wasm …")


def _read(terminal: int) -> Iterator[bytes]:
    """What comes to a terminal until nobody holds its other end."""
    with suppress(OSError):  # Linux tells it by an error.
        while output := os.read(terminal, 4096):
            yield output
    os.close(terminal)
