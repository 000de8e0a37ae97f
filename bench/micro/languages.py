"""`python -m bench.micro.languages`: what a plugin costs in each language that has a library.

The same policy everywhere, that of `kwx new`: Filter and Score by labels of nodes of 4 KB. A guest judges lists of the
nodes that it keeps, and nodes one by one, each decoded in each call. The guests take turns, so that a busy second slows
all of them. All times are those of the processor, with what the host does for the calls.
"""

from __future__ import annotations

import os
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from bench.micro.webhook import machine
from bench.peers import objects
from bench.plugin.worker import pod_of
from bench.plugin.workload import pod as waiting
from extender.commands.build import LANGUAGES, SDK
from extender.commands.new.project import TEMPLATES
from tests.sdk_guest.plugins import without
from wasm_runtime import Nodes, NodeTable, Plugin, Settings, WasmtimeEngine
from wasm_runtime.abi import RESIDENT
from wasm_runtime.blob import Blob
from wasm_runtime.engine import MEBIBYTE, Module, NoHandle
from wasm_runtime.guests.guest import Pod
from wasm_runtime.protobuf import encode_node, encode_pod

COUNTS: Final = (500, 5_000)
ROUNDS: Final = 8
STARTS: Final = 9
"""Guests that are made of a module, one after the other."""
REFERENCE: Final = "Rust"
NONE: Final = "-"
SETTINGS: Final = Settings("tier", memory_limit=1024 * MEBIBYTE, timeout=60.0)

Rounds = Mapping[tuple[str, bool], float]
"""Microseconds a node of Filter and Score together, by library and whether it keeps nodes: medians of the rounds."""


class Source(NamedTuple):
    """The policy in a language."""

    language: str
    """The name of the language in `kwx build`."""
    file: str
    text: Callable[[], str]
    keeps: bool = True
    """Whether the library keeps nodes."""


class Compiled:
    """The engine, which compiles each module once."""

    def __init__(self) -> None:
        self.seconds: dict[bytes, float] = {}
        """CPU seconds of the compilation, by module."""
        self._engine = WasmtimeEngine()
        self._modules: dict[bytes, Module] = {}

    def compile(self, module: bytes | Blob) -> Module:
        """The module, ready to be instantiated."""
        wasm = Blob.of(module).content
        if wasm not in self._modules:
            begun = time.process_time()
            self._modules[wasm] = self._engine.compile(wasm)
            self.seconds[wasm] = time.process_time() - begun
        return self._modules[wasm]


def main() -> None:
    """Runs it and prints a Markdown table."""
    modules, engine = built(), Compiled()
    print(f"{machine()}; load {os.getloadavg()[0]:.1f}; {ROUNDS} rounds\n", flush=True)
    judged = {count: measure(engine, modules, count) for count in COUNTS}
    heads = [f"{count:,} nodes, {how}, µs a node" for count in COUNTS for how in ("decoded", "kept")]
    print(f"| library | size, KB | compile, s | instantiate, ms | {' | '.join(heads)} |")
    print("|---|---|---|---|" + "---|" * len(heads))
    for name, wasm in modules.items():
        instantiate = started(engine.compile(wasm)) * 1e3
        cells = [f"{len(wasm) / 1e3:.0f}", f"{engine.seconds[wasm]:.2f}", f"{instantiate:.2f}"]
        cells += [beside(judged[count], (name, keeps)) for count in COUNTS for keeps in (False, True)]
        print(f"| {name} | {' | '.join(cells)} |")
    print(f"\nIn parentheses: that of {REFERENCE} in the same rounds is 1. Load at the end {os.getloadavg()[0]:.1f}.")


def built() -> Mapping[str, bytes]:
    """The modules by the names of libraries, small. Raises BuildError."""
    modules = {}
    with TemporaryDirectory(prefix="kwx-bench-") as folder:
        for at, (name, source) in enumerate(SOURCES.items()):
            file = Path(folder, str(at), source.file)
            file.parent.mkdir()
            file.write_text(source.text())
            modules[name] = LANGUAGES[source.language].builder.build(file, file.with_suffix(".wasm")).read_bytes()
    return modules


def started(module: Module) -> float:
    """The median of the seconds in which a guest is made, and has started."""
    seconds = []
    for _ in range(STARTS):
        begun = time.thread_time()
        instance = module.instantiate(SETTINGS, NoHandle())
        seconds.append(time.thread_time() - begun)
        instance.close()
    return statistics.median(seconds)


def measure(engine: Compiled, modules: Mapping[str, bytes], count: int) -> Rounds:
    """The medians of rounds in which all guests judge so many nodes, in turns."""
    table = NodeTable()
    table.put((objects.node_name(at), encode_node(objects.node(at, version=1))) for at in range(count))
    request = Nodes(table, [objects.node_name(at) for at in range(count)])
    times: defaultdict[tuple[str, bool], list[float]] = defaultdict(list)
    with ExitStack() as stack:
        plugins = {}
        for key, wasm in variants(modules):
            plugins[key] = Plugin(engine, wasm, SETTINGS, nodes=table)
            stack.callback(plugins[key].close)
        for at in range(ROUNDS):
            pod = pod_of(encode_pod(waiting(at)))
            for key, plugin in plugins.items():
                plugin.maintain(table)  # Collects garbage, for which no verb is to pay.
                times[key].append(_judge(plugin, pod, request) / count * 1e6)
    return {key: statistics.median(each) for key, each in times.items()}


def _judge(plugin: Plugin, pod: Pod, nodes: Nodes) -> float:
    """CPU seconds of Filter and Score about a pod, on all nodes."""
    begun = time.thread_time()
    with plugin.guest(pod, nodes, "filter") as (guest, deadline):
        guest.filter(nodes, deadline)
    with plugin.guest(pod, nodes, "score") as (guest, deadline):
        guest.score(nodes, deadline)
    return time.thread_time() - begun


def variants(modules: Mapping[str, bytes]) -> Iterator[tuple[tuple[str, bool], bytes]]:
    """Each module as it is, and as a host sees it that knows none of the exports by which nodes are kept."""
    for name, wasm in modules.items():
        if SOURCES[name].keeps:
            yield (name, True), wasm
        yield (name, False), without(wasm, *RESIDENT) if SOURCES[name].keeps else wasm


def beside(judged: Rounds, key: tuple[str, bool]) -> str:
    """The figure, and how many times that of the reference it is."""
    return f"{judged[key]:.2f} ({judged[key] / judged[REFERENCE, key[1]]:.1f})" if key in judged else NONE


def template(*parts: str) -> Callable[[], str]:
    """Reads the template of `kwx new`."""
    return lambda: TEMPLATES.joinpath(*parts).read_text(encoding="utf-8")


def of_readme(fence: str) -> Callable[[], str]:
    """Reads the first plugin in a language from the README."""
    return lambda: re.findall(rf"```{fence}\n(.*?)```", _indented(), re.DOTALL)[0]


def _indented() -> str:
    return (SDK / "README.md").read_text(encoding="utf-8").replace("\n   ", "\n")


SOURCES: Final[Mapping[str, Source]] = {
    "Rust": Source("rust", "tier.rs", template("rust", "src", "lib.rs")),
    "TypeScript": Source("typescript", "tier.ts", template("typescript", "assembly", "index.ts")),
    "Go, `lazy`": Source("go", "main.go", template("go", "main.go")),
    "Go, k8s.io/api": Source("go", "main.go", of_readme("go")),
    "Zig": Source("zig", "tier.zig", of_readme("zig"), keeps=False),
}


if __name__ == "__main__":
    main()
