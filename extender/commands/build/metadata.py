"""What `kwx build` writes into a module of its author's: for those who configure the plugin."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Final

import msgspec

from extender.commands.build.errors import BuildError
from extender.commands.build.languages import Project
from extender.config import guest_schema
from wasm_runtime.module.metadata import Metadata

VERSION: Final = "VERSION"
"""The version of a library that is beside a plugin, in the library's folder."""


def describe_plugin(project: Project) -> Metadata:
    """Raises BuildError for a schema that no extender would take, and OSError."""
    told = Metadata(sdk=f"{project.language} {_version(project)}")
    if project.schema.exists():
        try:
            schema = guest_schema.read(project.schema.read_bytes())
        except guest_schema.SchemaError as error:
            raise BuildError(f"{project.schema} {error}") from error
        told.config_schema = msgspec.Raw(msgspec.json.encode(schema))
    return told


def _version(project: Project) -> str:
    """That of a library beside the source, or of the one that is installed."""
    beside = (each / "guest" / VERSION for each in project.source.resolve().parents)
    file = next(filter(Path.exists, beside), None)
    return file.read_text(encoding="utf-8").strip() if file else metadata.version("kube-wasm-extender")
