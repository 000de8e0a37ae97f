"""The guests of the checkout, of each language that has a library: examples, and the policies that are shipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from builders import assemblyscript, go, rust, zig

POLICIES = Path(__file__).resolve().parents[2] / "extender" / "policies"
"""Where the modules of policies go."""


class Sources(NamedTuple):
    """The guests in a language."""

    modules: Path
    """Where the modules of examples go."""
    examples: Mapping[str, Path]
    """By name, each with its root source file."""
    tests: Sequence[Path]
    """The files whose tests are those of library, examples and policies."""
    policies: Mapping[str, Path] = {}


SOURCES: Mapping[str, Sources] = {
    "zig": Sources(zig.MODULES, zig.EXAMPLES, zig.TESTS),
    "go": Sources(go.MODULES, go.EXAMPLES, go.TESTS),
    "rust": Sources(rust.MODULES, rust.EXAMPLES, rust.TESTS, rust.POLICIES),
    "typescript": Sources(assemblyscript.MODULES, assemblyscript.EXAMPLES, assemblyscript.TESTS),
}
