"""The guests in AssemblyScript of the checkout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from extender.commands.build.assemblyscript import LIBRARY

FOLDER = LIBRARY.parent
MODULES = FOLDER / "modules"

EXAMPLES: Mapping[str, Path] = {
    name: FOLDER / "examples" / f"{name}.ts"
    for name in ("nodenumber", "headroom", "seats", "fullest", "usher", "nodeinfo", "quorum")
}
"""The example modules by name, each with its root source file."""

TESTS: Sequence[Path] = tuple(EXAMPLES.values())
"""The files whose tests are those of library and examples."""
