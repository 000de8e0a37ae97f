"""The languages that plugins are built of."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from extender.commands.build import assemblyscript, go, rust, zig
from extender.commands.build.errors import BuildError


class Builder(Protocol):
    """What the module of a language has."""

    def check(self) -> None:
        """Raises BuildError, with how to get the compiler, unless it is there."""

    def build(self, source: Path, module: Path, *, readable: bool = False) -> Path:
        """Compiles the plugin whose root file is `source` to `module`. Raises BuildError.

        If `readable`, a fault of the guest tells where in the sources it was, as far as the language can.
        """

    def test(self, sources: Sequence[Path]) -> None:
        """Runs the unit tests of the sources, natively. Raises BuildError if one fails."""


class Language(NamedTuple):
    """A language that plugins are written in."""

    suffix: str
    """Of a source file."""
    marks: Sequence[str]
    """Files of which a project has one: its plugin is in that folder, or its root file is this one."""
    builder: Builder


LANGUAGES: Final[Mapping[str, Language]] = {
    "go": Language(".go", ("main.go",), go),
    "rust": Language(".rs", ("src/lib.rs",), rust),
    "typescript": Language(".ts", (f"{assemblyscript.FOLDER}/index.ts",), assemblyscript),
    "zig": Language(".zig", ("main.zig",), zig),
}
"""By the name on the command line."""


SCHEMA: Final = "config.schema.json"
"""The file with a plugin's schema in its folder; beside a source file it is called after that."""


class Project(NamedTuple):
    """A plugin that can be built."""

    name: str
    """Of its module, without `.wasm`."""
    source: Path
    """Its root file."""
    folder: Path
    """Where the module goes by default."""
    builder: Builder
    language: str
    schema: Path
    """The JSON Schema of its guestConfig, if it is there."""


def find(path: Path) -> Project:
    """The plugin in a folder, or of a root file. Raises BuildError."""
    for name, language in LANGUAGES.items():
        if path.suffix == language.suffix and path.is_file():
            return Project(path.stem, path, Path(), language.builder, name, path.with_suffix(f".{SCHEMA}"))
        for mark in language.marks:
            if (path / mark).is_file():
                return Project(path.resolve().name, path / mark, path, language.builder, name, path / SCHEMA)
    marks = ", ".join(mark for language in LANGUAGES.values() for mark in language.marks)
    suffixes = ", ".join(language.suffix for language in LANGUAGES.values())
    raise BuildError(f"{path}: expected a folder with {marks}, or a file that ends in {suffixes}")


def describe(module: Path) -> str:
    """Where a module is, its size and its digest."""
    contents = module.read_bytes()
    return f"{module!s:<26}{len(contents):>9} bytes  sha256:{hashlib.sha256(contents).hexdigest()}"
