"""An inspection for people to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from extender.commands.inspect.report import Compilation, IgnoredExport, InspectionReport, Memory, RegisteredEvent
from extender.commands.terminal import cut
from extender.telemetry.printable import printable
from wasm_runtime import abi
from wasm_runtime.engine import KIBIBYTE, MEBIBYTE
from wasm_runtime.errors import shorten
from wasm_runtime.module.sections import PAGE

MAX_ROWS: Final = 20
"""Items of a list that are shown."""
MAX_TEXT: Final = 1_000
"""Characters of an item."""
WIDTH: Final = 18
"""Characters of a label."""


def lines(report: InspectionReport) -> Iterator[str]:
    """All about a module; each line has a label and a fact."""
    for label, facts in _facts(report).items():
        for at, fact in enumerate(cut(facts, MAX_ROWS) or ["none"]):
            yield f"{'' if at else label:{WIDTH}}{shorten(printable(fact), MAX_TEXT)}".rstrip()


def _facts(report: InspectionReport) -> dict[str, list[str]]:
    return {
        "Module": [report.module],
        "Digest": [report.digest],
        "Size": [f"{report.size} bytes"],
        "Language": [report.language],
        "Made with": report.tools or ["unknown"],
        "Library": [report.sdk or "unknown"],
        "Extension points": [f"{point}: {', '.join(names)}" for point, names in report.extension_points.items()],
        "Learns of changes": _learns(report.resident_exports),
        "Ignored exports": list(map(_ignored, report.ignored_exports)),
        "Imports": [f"{module}: {', '.join(names)}" for module, names in report.imports.items()],
        "Node data": _node_data(report.node_data),
        "Cluster events": _events(report.cluster_events),
        "guestConfig": _config(report.config_schema),
        "Portable": _portable(report.obstacles),
        "Memory": _memory(report.memory),
        "Code": [_code(report.compilation)],
        "Problems": report.problems,
    }


def _learns(exports: list[str]) -> list[str]:
    if not exports:
        return []
    pods = "of pods only where the extender has an API server (cluster.mode kubeconfig or in-cluster)"
    return [f"by {', '.join(exports)}", *([pods] if abi.POD_STREAMS.keys() & set(exports) else [])]


def _ignored(export: IgnoredExport) -> str:
    return f"{export.name}; did you mean {export.did_you_mean}?" if export.did_you_mean else export.name


def _node_data(imports: list[str]) -> list[str]:
    if imports:
        return [f"{', '.join(imports)}: it may need whole nodes, not only names"]
    return ["none: names are enough"]


def _events(events: list[RegisteredEvent] | None) -> list[str]:
    if events is None:
        return ["not known"]
    return [f"{event.resource}: {', '.join(event.actions)}" for event in events] or ["all, as it names none"]


def _config(schema: Mapping[str, Any] | None) -> list[str]:
    """The top-level keys of a schema, with what they may be. The schema is the author's and may have any form."""
    if schema is None:
        return ["not known, as the module has no schema of it"]
    properties = schema.get("properties")
    required = schema.get("required")
    if not isinstance(properties, dict):
        return ["what its schema allows; --output json shows it"]
    return [_key(name, rule, required if isinstance(required, list) else []) for name, rule in properties.items()]


def _key(name: str, rule: object, required: list[Any]) -> str:
    facts: Mapping[str, Any] = rule if isinstance(rule, dict) else {}
    kind = " or ".join(map(str, kinds)) if isinstance(kinds := facts.get("type", "any"), list) else str(kinds)
    values = facts.get("enum")
    kind = f"one of {', '.join(map(str, values))}" if isinstance(values, list) else kind
    told = [kind, *(["required"] if name in required else [])]
    told += [f"by default {facts['default']}"] if "default" in facts else []
    description = f": {facts['description']}" if "description" in facts else ""
    return f"{name} ({', '.join(told)}){description}"


def _portable(obstacles: list[str]) -> list[str]:
    if obstacles:
        return ["no, the upstream host (kube-scheduler-wasm-extension) would not run it as it runs here:", *obstacles]
    return ["yes, to the upstream host (kube-scheduler-wasm-extension)"]


def _memory(memory: Memory | None) -> list[str]:
    if memory is None:
        return []
    sizes = {"minimum": memory.minimum_pages, "maximum": memory.maximum_pages, "after its start": memory.started_pages}
    return [", ".join(f"{when} {_pages(pages)}" for when, pages in sizes.items() if pages is not None)]


def _pages(count: int) -> str:
    return f"{count} {'page' if count == 1 else 'pages'} ({count * PAGE / MEBIBYTE:g} MiB)"


def _code(compilation: Compilation) -> str:
    source = "from the compile cache" if compilation.from_cache else "compiled"
    return f"{compilation.code_bytes / KIBIBYTE:.1f} KiB, {source} in {compilation.milliseconds:.1f} ms"
