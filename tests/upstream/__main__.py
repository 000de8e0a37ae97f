"""Prints what upstream wants of every compiled guest and what it does here, as Markdown.

`python -m tests.upstream /path/to/checkout`, a checkout of kube-scheduler-wasm-extension.
"""

import re
import sys
from pathlib import Path

from tests.upstream.play import Failed, play
from tests.upstream.table import TABLE
from wasm_runtime import WasmtimeEngine
from wasm_runtime.engine import Log


def main(checkout: Path) -> None:
    print("| guest | what is called | upstream wants | here |", "|---|---|---|---|", sep="\n")
    engine = WasmtimeEngine()
    for guest, rows in TABLE.items():
        for row in rows:
            same = "an error, in its words" if isinstance(row.expected, Failed) else brief(row.expected)
            played = play(engine, checkout, guest, row)
            records = [each.message if isinstance(each, Log) else each.message.decode() for each in played.records]
            here = "; ".join([brief(played.answer), *map(str.strip, records)])
            print(
                line(guest.removesuffix(".wasm"), f"{row.asked} ({row.case or 'no test'})", row.upstream or same, here)
            )


def brief(answer: object) -> str:
    """An answer with its codes as words."""
    return answer.error if isinstance(answer, Failed) else re.sub(r"<\w+\.(\w+): \d+>", r"\1", repr(answer))


def line(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
