"""What an inspection tells, as data."""

from __future__ import annotations

from typing import Any

import msgspec


class IgnoredExport(msgspec.Struct):
    """An export that means nothing to a host."""

    name: str
    did_you_mean: str | None
    """The export of the ABI that it looks like."""


class RegisteredEvent(msgspec.Struct):
    """A change in the cluster after which a pod that the guest rejected is worth another attempt."""

    resource: str
    actions: list[str]


class Memory(msgspec.Struct):
    """The guest's linear memory, in pages of 64 KiB."""

    minimum_pages: int
    maximum_pages: int | None
    """None: as much as the plugin's memoryLimit allows."""
    started_pages: int | None
    """After its start; None if it has not started."""


class Compilation(msgspec.Struct):
    """How the module was compiled."""

    milliseconds: float
    """Until the code was ready to be run; the start of the compiler's process is part of it."""
    from_cache: bool
    """Whether the compile cache had the code."""
    code_bytes: int


class InspectionReport(msgspec.Struct):
    """All that is known of a module."""

    module: str
    """Its file."""
    digest: str
    size: int
    """Bytes."""
    language: str
    """`unknown` where nothing tells."""
    tools: list[str]
    sdk: str
    """Language and version of the library that it was written with; empty where it does not say."""
    extension_points: dict[str, list[str]]
    """The exports that serve each extension point, in the order of a scheduling cycle."""
    resident_exports: list[str]
    """The exports by which it learns of nodes and pods, and keeps what it needs of each."""
    ignored_exports: list[IgnoredExport]
    imports: dict[str, list[str]]
    """Names by module."""
    node_data: list[str]
    """Imports by which it may ask for more of a node than its name."""
    cluster_events: list[RegisteredEvent] | None
    """None if it has not started; empty if it names none, which means all."""
    config_schema: dict[str, Any] | None
    """JSON Schema of its guestConfig, if it has one that can be used."""
    portable: bool
    """Whether it does the same in the upstream host, as far as can be told."""
    obstacles: list[str]
    """Why it does not."""
    memory: Memory | None
    """None if it exports no memory of its own."""
    compilation: Compilation
    problems: list[str]
    """Why it cannot be a plugin here."""
