"""sdk-guest/ABI.md says what wasm_runtime does."""

from __future__ import annotations

import re
from pathlib import Path

from wasm_runtime import abi
from wasm_runtime.driver import layout
from wasm_runtime.engine import KIBIBYTE, MAX_LONG_REASONS, Settings
from wasm_runtime.engines.wasmtime.instance import MAX_TABLES
from wasm_runtime.guests.guest import name
from wasm_runtime.guests.pool import CYCLE_TIMEOUT_S
from wasm_runtime.nodes.node_feed import MAX_NODES_PER_BATCH
from wasm_runtime.nodes.node_table import SLACK

DOCUMENT = (Path(__file__).parents[1] / "sdk-guest" / "ABI.md").read_text(encoding="utf-8")
TEXT = " ".join(DOCUMENT.split())


def table(heading: str) -> list[list[str]]:
    """The rows of the first table behind a heading, without its head."""
    lines = DOCUMENT.partition(f"# {heading}\n")[2].splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        cells = re.split(r"(?<!\\)\|", line.strip("|"))
        first, *others = (cell.strip().replace("\\|", "|") for cell in cells)
        rows.append([first.strip("`"), *others])
    return rows


def test_exports() -> None:
    assert table("Exports") == [
        [export, entry.extension_point, str(entry.signature), entry.result] for export, entry in abi.EXPORTS.items()
    ]


def test_exports_of_guests_that_keep_nodes() -> None:
    assert [row[:2] for row in table("Resident nodes")] == [
        [export, str(signature)] for export, signature in abi.RESIDENT.items()
    ]
    needs = DOCUMENT.partition("Each export is optional, with these rules: ")[2].partition(".")[0]
    assert " ".join(needs.split()) == (
        "`nodechanged` and `noderemoved` come together, `filternodes` and `scorenodes` need both of them,"
        " `nodebuffer`, and `filter` or `score` respectively"
    )


def test_imports() -> None:
    assert [row[:2] for row in table("Imports")] == [
        [str(function), str(signature)] for function, signature in abi.IMPORTS.items()
    ]


def test_status_codes() -> None:
    assert [row[:2] for row in table("Status codes")] == [[str(code.value), name(code)] for code in abi.Code]


def test_limits() -> None:
    assert f"cut to {layout.REASON_LIMIT:,} bytes" in TEXT
    assert f"`outputLimit` ({Settings('plugin').output_limit // KIBIBYTE} KiB) a call" in TEXT
    assert f"after {CYCLE_TIMEOUT_S:.0f} seconds" in TEXT
    assert f"{MAX_TABLES} tables |" in TEXT
    assert f"most nodes there were at once, or that pods were on, plus {SLACK:,} and the names" in TEXT
    assert f"Reasons beyond {MAX_LONG_REASONS} and one for each node" in TEXT
    assert f"| time of announcing {MAX_NODES_PER_BATCH} nodes, " in TEXT
    assert f"| the verb fails after the {MAX_NODES_PER_BATCH} at hand; " in TEXT
    assert f"must be in {abi.MIN_NODE_SCORE}..{abi.MAX_NODE_SCORE}" in TEXT
