"""The guests in Zig of the checkout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from extender.commands.build.zig import LIBRARY

SDK = LIBRARY.parents[1]
MODULES = SDK.parent / "extender" / "examples"

EXAMPLES: Mapping[str, Path] = {
    "nodenumber": SDK / "examples" / "nodenumber" / "main.zig",
    "nodenumber_reversed": SDK / "examples" / "nodenumber" / "reversed.zig",
    "accelerator": SDK / "examples" / "accelerator" / "main.zig",
}
"""The example modules by name, each with its root source file."""

TESTS: Sequence[Path] = (
    LIBRARY,
    SDK / "examples" / "nodenumber" / "nodenumber.zig",
    SDK / "examples" / "accelerator" / "main.zig",
)
"""The files whose tests are those of library and examples."""
