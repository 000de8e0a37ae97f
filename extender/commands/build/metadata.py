"""The metadata that `kwx build` writes into a module, for those who configure the plugin."""

from __future__ import annotations

from importlib import metadata
from typing import Final

import msgspec

from extender.commands.build.errors import BuildError
from extender.commands.build.languages import Project
from extender.commands.build.sdk import beside
from extender.config import guest_schema
from wasm_runtime.module.metadata import Metadata

VERSION: Final = "VERSION"
"""The file with the version of a library that is beside a plugin, in the library's folder."""


def describe_plugin(project: Project) -> Metadata:
    """The metadata of a plugin: its library, and its schema if it has one.

    Raises BuildError for a schema that cannot be used, and OSError.
    """
    told = Metadata(sdk=f"{project.language} {_version(project)}")
    if project.schema.exists():
        try:
            schema = guest_schema.read(project.schema.read_bytes())
        except guest_schema.SchemaError as error:
            raise BuildError(f"{project.schema} {error}") from error
        told.config_schema = msgspec.Raw(msgspec.json.encode(schema))
    return told


def _version(project: Project) -> str:
    """The version of the library beside the source, or of the installed one."""
    file = beside(project.source, VERSION)
    return file.read_text(encoding="utf-8").strip() if file else metadata.version("kube-wasm-extender")
