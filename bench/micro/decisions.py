"""`python -m bench.micro.decisions`: what keeping decisions costs a filter and a prioritize of 500 nodes.

An extender that keeps them and one that does not are asked in turn; what counts is the ratio of medians in one run.
Where two plugins filter, reasons end in the plugin's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import wasmtime

from bench.micro import webhook
from bench.micro.webhook import GUESTS, machine, measure, percentiles
from bench.servers import configured

COUNT: Final = 500
KEPT: Final = (0, 1000)
"""Pods of which decisions are kept."""
SCORES: Final = """
    (module (memory (export "memory") 1) (func (export "score") (result i64) (i64.const 0x700000000)))"""


def main() -> None:
    """Runs it and prints a Markdown table."""
    print(machine())
    print(f"{COUNT} nodes, {webhook.ROUNDS} interleaved rounds of {webhook.REQUESTS} requests\n")
    print("| verb | guest | without, p50, ms | kept, p50, ms | ratio |")
    print("|---|---|---|---|---|")
    keeps, _, rejects = GUESTS.values()
    cases = [
        *(("filter", name, [text]) for name, text in GUESTS.items()),
        ("filter", "rejects half, with a reason, and a second one keeps the rest", [rejects, keeps]),
        ("prioritize", "scores all the same", [SCORES]),
    ]
    for verb, name, texts in cases:
        with ExitStack() as stack:
            ports = [stack.enter_context(_extender(texts, kept)) for kept in KEPT]
            without, kept_ms = (percentiles(times)[0] for times in measure(ports, COUNT, f"/{verb}"))
        print(f"| {verb} | {name} | {without:.3f} | {kept_ms:.3f} | {kept_ms / without:.3f} |", flush=True)


@contextmanager
def _extender(texts: Sequence[str], kept: int) -> Iterator[int]:
    """The port of an extender with a plugin for each text of a module, which keeps decisions about so many pods."""
    with TemporaryDirectory(prefix="kwx-bench-") as name:
        folder = Path(name)
        for at, text in enumerate(texts):
            (folder / f"guest-{at}.wasm").write_bytes(wasmtime.wat2wasm(text))
        plugins = [{"name": f"guest-{at}", "guestURL": f"file://./guest-{at}.wasm"} for at in range(len(texts))]
        sections = {"profiles": [{"name": "default", "plugins": plugins}], "server": {"decisions": kept}}
        with configured(folder, sections) as ports:
            yield ports.verbs


if __name__ == "__main__":
    main()
