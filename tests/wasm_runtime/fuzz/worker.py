"""Plays modules, in a process of its own: one may end it.

On standard output is a JSON value a line, before each module its number and after one that something is wrong
with what that is.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

from tests.wasm_runtime.fuzz.cases import Cases
from tests.wasm_runtime.fuzz.play import FEW, Player, PropertyError
from wasm_runtime.nodes import node_table

MAX_GROWTH_BYTES = 300_000_000
"""Bytes that the process may grow by, in all."""

_STATM = Path("/proc/self/statm")


def main(seed: int, first: int, directories: list[str]) -> None:
    """Plays modules from the first on until nobody reads on."""
    node_table.SLACK = FEW
    cases = Cases(seed, map(Path, directories))
    player = Player()
    player.play(cases[0])
    least = _resident()
    number = first
    while True:
        print(number, flush=True)
        try:
            player.play(cases[number])
            if _resident() - least > MAX_GROWTH_BYTES:
                raise PropertyError(f"the process has grown to {_resident() / 1e6:.0f} MB")
        except Exception:
            print(json.dumps(traceback.format_exc()), flush=True)
        number += 1


def _resident() -> int:
    """Bytes of this process that are in memory; 0 where that is not known."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if _STATM.exists() else 0


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
