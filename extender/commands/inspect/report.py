"""The result of an inspection, as JSON output has it."""

from __future__ import annotations

from typing import Any

import msgspec


class IgnoredExport(msgspec.Struct):
    """An export that no host knows."""

    name: str
    did_you_mean: str | None
    """The export of the ABI with a similar name, if there is one."""


class RegisteredEvent(msgspec.Struct):
    """A change in the cluster after which a pod that the guest rejected is worth another attempt."""

    resource: str
    actions: list[str]


class Memory(msgspec.Struct):
    """The guest's linear memory, in pages of 64 KiB."""

    minimum_pages: int
    maximum_pages: int | None
    """The limit that the module declares; None if only the plugin's memoryLimit bounds the memory."""
    started_pages: int | None
    """Pages after the guest's start; None if the guest could not be started."""


class Compilation(msgspec.Struct):
    """How the module was compiled."""

    milliseconds: float
    """Time until the code could be run, with the start of the compiler's process."""
    from_cache: bool
    """Whether the compile cache had the code."""
    code_bytes: int


class InspectionReport(msgspec.Struct):
    """The result of an inspection."""

    module: str
    """The path of the module's file."""
    digest: str
    size: int
    """Bytes of the module."""
    language: str
    """The language that the module was written in; `unknown` if nothing in the module tells."""
    tools: list[str]
    sdk: str
    """Language and version of the library that the module was written with; empty if the module does not say."""
    extension_points: dict[str, list[str]]
    """The exports that serve each extension point, in the order of a scheduling cycle."""
    resident_exports: list[str]
    """The exports by which the guest is told of nodes, pods and groups, and keeps what it needs of each."""
    ignored_exports: list[IgnoredExport]
    imports: dict[str, list[str]]
    """Names of the imports by their module."""
    node_data: list[str]
    """Imports by which the guest may ask for more of a node than its name."""
    cluster_events: list[RegisteredEvent] | None
    """The events that enqueue registers; None if the guest could not be started, empty if it names none: then all."""
    config_schema: dict[str, Any] | None
    """The JSON Schema of the module's guestConfig, if it has one that can be used."""
    portable: bool
    """Whether the module does the same in kube-scheduler-wasm-extension's host, as far as can be told."""
    obstacles: list[str]
    """Why the module does not do the same there."""
    memory: Memory | None
    """The linear memory; None if the module exports none of its own."""
    compilation: Compilation
    problems: list[str]
    """Why the module cannot be a plugin of this extender; empty if it can."""
