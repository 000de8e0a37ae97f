"""Inspects a module. Only the start and the enqueue of the guest run, within a plugin's limits."""

from __future__ import annotations

import difflib
import os
import re
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from extender.commands.inspect.report import Compilation, IgnoredExport, InspectionReport, Memory, RegisteredEvent
from extender.commands.terminal import compiling
from extender.config import RuntimeConfig, guest_schema
from extender.config.guest_schema import Schema
from extender.rollouts.engines import EngineError
from extender.rollouts.plugin_factory import LoadError
from extender.scheduling.profile import mend
from extender.sources import SourceError
from extender.sources.download import Limit
from extender.sources.file import read
from wasm_runtime import abi
from wasm_runtime.abi import ClusterEvent, Import
from wasm_runtime.blob import Blob
from wasm_runtime.compile.cache import CacheError, CompileCache, Entry
from wasm_runtime.compile.compiler import Compiler
from wasm_runtime.engine import Module, NoHandle, Settings
from wasm_runtime.engines.wasmtime import WasmtimeEngine
from wasm_runtime.engines.wasmtime.proposals import proposals
from wasm_runtime.errors import GuestError, ModuleError
from wasm_runtime.guests.core_guest import CoreGuest
from wasm_runtime.module import metadata
from wasm_runtime.module.metadata import Metadata
from wasm_runtime.module.portability import obstacles
from wasm_runtime.module.sections import PAGE, memory
from wasm_runtime.module.toolchain import toolchain
from wasm_runtime.module.validate import validate
from wasm_runtime.nodes.node_table import Nodes, NodeTable

MEANT: Final = (*abi.EXPORTS, *abi.RESIDENT, abi.MEMORY, *abi.START)
"""The exports that a host knows."""
LIKENESS: Final = 0.75
"""Similarity from 0 to 1 (`difflib`) at which a name is taken for a misspelled one of MEANT."""

ACTIONS: Final = (
    "Add",
    "Delete",
    "UpdateNodeAllocatable",
    "UpdateNodeLabel",
    "UpdateNodeTaint",
    "UpdateNodeCondition",
    "UpdateNodeAnnotation",
)
"""Names of the lowest bits of an ActionType. What higher ones mean changes between releases of Kubernetes."""

NOT_STARTED: Final = "does not start here, so it is not known whether it would there"


class InspectionError(Exception):
    """The file is no module that can be inspected. `str()` says why."""


class Started(NamedTuple):
    """What the start and the enqueue of a guest have shown."""

    pages: int | None = None
    has_left: bool = False
    events: list[ClusterEvent] | None = None
    problem: str | None = None


def inspect(path: Path, guest_config: str = "") -> InspectionReport:
    """Inspects the module in a file, and the guestConfig for it. Raises InspectionError."""
    binary, module, compilation = _load(path)
    wasm = binary.content
    problems = _problems(module)
    told, schema, config_problems = _told(wasm, guest_config)
    problems += config_problems
    started = Started() if problems else _start(module, guest_config)
    in_the_way = [
        *obstacles(module, proposals(wasm), leaves=started.has_left),
        *([NOT_STARTED] if started.problem else []),
    ]
    made = toolchain(wasm, module, told.sdk)
    return InspectionReport(
        module=os.fsencode(path).decode(errors="replace"),
        digest=binary.digest,
        size=len(wasm),
        language=made.language,
        tools=list(made.tools),
        sdk=told.sdk,
        extension_points=_extension_points(module.exports),
        resident_exports=[name for name in abi.RESIDENT if name in module.exports],
        ignored_exports=[IgnoredExport(name, _meant(name)) for name in module.exports if name not in MEANT],
        imports=_by_module(module.imports),
        node_data=[str(each) for each in module.imports if each in abi.NODE_DATA],
        cluster_events=_events(started.events),
        config_schema=schema,
        portable=not in_the_way,
        obstacles=in_the_way,
        memory=_memory(wasm, started.pages),
        compilation=compilation,
        problems=[*problems, *filter(None, [started.problem])],
    )


def _load(path: Path) -> tuple[Blob, Module, Compilation]:
    try:
        wasm = read(path, Limit(RuntimeConfig().module_limit, "runtime.moduleLimit"))
        with compiling(path, len(wasm)):
            binary = Blob(wasm)
            return binary, *_compile(binary)
    except (LoadError, CacheError, EngineError, SourceError) as error:
        raise InspectionError(str(error)) from error
    except ModuleError as error:
        raise InspectionError("\n".join(f"{path} {problem}" for problem in error.problems)) from error


class _Witness(CompileCache):
    """The compile cache, which notes whether it had the module."""

    had_it = True
    code_bytes = 0

    def get(self, key: str) -> Entry | None:
        entry = super().get(key)
        if entry is not None:
            self.code_bytes = entry.code.size
        return entry

    def put(self, key: str, interface: bytes, code: bytes | memoryview) -> None:
        self.had_it = False
        self.code_bytes = len(code)
        super().put(key, interface, code)


def _compile(binary: Blob) -> tuple[Module, Compilation]:
    settings = RuntimeConfig()
    cache = _Witness(limit=settings.cache_limit)
    compiler = Compiler(WasmtimeEngine(stack_limit=settings.stack_limit), cache, settings.compile_timeout)
    begun = time.perf_counter()
    module = compiler.compile(binary)
    took = time.perf_counter() - begun
    return module, Compilation(took * 1e3, cache.had_it, cache.code_bytes)


def _problems(module: Module) -> list[str]:
    try:
        validate(module)
    except ModuleError as error:
        return error.problems
    return []


def _told(wasm: bytes, guest_config: str) -> tuple[Metadata, Schema | None, list[str]]:
    """The metadata of a module, its schema, and what is wrong with the schema or, by the schema, with a guestConfig."""
    try:
        told = metadata.read(wasm)
        schema = guest_schema.read(bytes(told.config_schema)) if told.config_schema else None
    except ModuleError as error:
        return Metadata(), None, error.problems
    except guest_schema.SchemaError as error:
        return told, None, [f"has a schema of its guestConfig that cannot be used: {error}"]
    problems = guest_schema.problems(schema, guest_config) if schema and guest_config else []
    return told, schema, [f"does not accept this guestConfig: {problem}" for problem in problems]


def _start(module: Module, guest_config: str) -> Started:
    """Starts a guest and calls its enqueue, as `Plugin` does."""
    settings = Settings("plugin", config=guest_config)
    try:
        instance = module.instantiate(settings, NoHandle())
    except GuestError as error:
        return Started(problem=_says(error))
    with closing(instance):
        pages, has_left = instance.memory_size // PAGE, instance.has_left
        if "enqueue" not in module.exports:
            return Started(pages, has_left, [])
        try:
            events = CoreGuest(instance, ["enqueue"]).enqueue(
                Nodes(NodeTable(), ()), time.monotonic() + settings.timeout
            )
        except GuestError as error:
            return Started(pages, has_left, problem=_says(error))
        return Started(pages, has_left, events)


def _says(error: GuestError) -> str:
    return f"does not start: {error}{mend(error)}"


def _extension_points(exports: Iterable[str]) -> dict[str, list[str]]:
    served: dict[str, list[str]] = {}
    for name, export in abi.EXPORTS.items():
        if name in exports:
            served.setdefault(export.extension_point, []).append(name)
    return served


def _meant(name: str) -> str | None:
    """The export that an author may have meant by a name; None if none is similar."""
    known = {_letters(each): each for each in MEANT}
    near = difflib.get_close_matches(_letters(name), known, n=1, cutoff=LIKENESS)
    return known[near[0]] if near else None


def _letters(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def _by_module(imports: Iterable[Import]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for each in imports:
        names.setdefault(each.module, []).append(each.name)
    return names


def _events(events: Iterable[ClusterEvent] | None) -> list[RegisteredEvent] | None:
    return None if events is None else [RegisteredEvent(each.resource, _actions(each.action_type)) for each in events]


def _actions(bits: int) -> list[str]:
    rest = bits >> len(ACTIONS) << len(ACTIONS)
    return [*(name for at, name in enumerate(ACTIONS) if bits >> at & 1), *([f"{rest:#x}"] if rest else [])]


def _memory(wasm: bytes, started_pages: int | None) -> Memory | None:
    limits = memory(wasm, abi.MEMORY)
    return limits and Memory(limits.minimum, limits.maximum, started_pages)
