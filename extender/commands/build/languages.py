"""The languages in which plugins can be built."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from extender.commands.build import assemblyscript, go, rust, zig
from extender.commands.build.errors import BuildError


class Builder(Protocol):
    """The functions that the module of each language has."""

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
    """The suffix of a source file."""
    marks: Sequence[str]
    """Paths of root files, of which the folder of a plugin has one."""
    builder: Builder


LANGUAGES: Final[Mapping[str, Language]] = {
    "go": Language(".go", ("main.go",), go),
    "rust": Language(".rs", ("src/lib.rs",), rust),
    "typescript": Language(".ts", (f"{assemblyscript.FOLDER}/index.ts",), assemblyscript),
    "zig": Language(".zig", ("main.zig",), zig),
}
"""The languages by their names on the command line."""


SCHEMA: Final = "config.schema.json"
"""The file with the schema of a plugin in its folder. For a single source file its name begins with the source's."""


class Project(NamedTuple):
    """A plugin that can be built."""

    name: str
    """The name of the module, without `.wasm`."""
    source: Path
    """The root file of the plugin."""
    folder: Path
    """The folder that the module is written to by default."""
    builder: Builder
    language: str
    schema: Path
    """The file with the JSON Schema of the guestConfig, which need not exist."""


def find(path: Path) -> Project:
    """The plugin in a folder, or of a root file. Raises BuildError if there is none."""
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
    """A line with the path of a module, its size and its digest."""
    contents = module.read_bytes()
    return f"{module!s:<26}{len(contents):>9} bytes  sha256:{hashlib.sha256(contents).hexdigest()}"
