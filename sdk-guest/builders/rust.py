"""The guests in Rust of the checkout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from extender.commands.build.rust import LIBRARY

SDK = LIBRARY.parents[2]
MODULES = SDK / "rust" / "modules"

EXAMPLES: Mapping[str, Path] = {
    name: SDK / "rust" / "examples" / f"{name}.rs"
    for name in ("nodenumber", "headroom", "seats", "fullest", "usher", "nodeinfo", "quorum")
}
"""The example modules by name, each with its root source file."""

POLICIES: Mapping[str, Path] = {
    "gang": SDK / "policies" / "gang" / "gang.rs",
    "gpu_pack": SDK / "policies" / "gpu-pack" / "gpu_pack.rs",
    "topology": SDK / "policies" / "topology" / "topology.rs",
}
"""The policies that the extender is shipped with, in the same way."""

TESTS: Sequence[Path] = (LIBRARY, *EXAMPLES.values(), *POLICIES.values())
"""The files whose tests are those of library, examples and policies."""
