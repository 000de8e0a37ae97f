"""A builder for each language that has a library for guests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from builders import go, rust, zig


class Builder(Protocol):
    """What the module of a language has."""

    EXAMPLES: Mapping[str, Path]
    """The example modules by name, each with its root source file."""

    def check(self) -> None:
        """Raises BuildError, with how to get the compiler, unless it is there."""

    def build(self, source: Path, module: Path) -> Path:
        """Compiles the plugin whose root file is `source` to `module`."""

    def test(self, sources: Sequence[Path]) -> None:
        """Runs the tests of the sources, or of the library and its examples, natively."""


class Language(NamedTuple):
    """A language that guests are written in."""

    suffix: str
    """Of a source file."""
    examples: Path
    """Where its example modules go."""
    builder: Builder
    policies: Mapping[str, Path] = {}
    """The policies that the extender is shipped with, by name, each with its root source file."""


POLICIES = Path(__file__).resolve().parents[2] / "extender" / "policies"
"""Where the modules of policies go."""

LANGUAGES: Mapping[str, Language] = {
    "zig": Language(".zig", zig.MODULES, zig),
    "go": Language(".go", go.MODULES, go),
    "rust": Language(".rs", rust.MODULES, rust, rust.POLICIES),
}
