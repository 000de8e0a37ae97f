"""The guests in Go of the checkout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from extender.commands.build.go import LIBRARY

MODULES = LIBRARY.parent / "out" / "go"
"""Not committed: Go's modules are large."""

EXAMPLES: Mapping[str, Path] = {
    "nodenumber": LIBRARY / "examples" / "nodenumber" / "main.go",
    "headroom": LIBRARY / "examples" / "headroom" / "main.go",
    "quorum": LIBRARY / "examples" / "quorum" / "main.go",
}
"""The example modules by name, each with a file of its package."""

TESTS: Sequence[Path] = (LIBRARY / "status.go",)
"""The files whose tests are those of library and examples."""
