"""The guest exports that each verb calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from extender.scheduling.profile import Profile
from wasm_runtime import abi

EXPORTS: Final[Mapping[str, Collection[str]]] = {
    "filter": ("prefilter", "filter"),
    "prioritize": ("score",),
    "preempt": ("prefilter", "filter", "addpod", "removepod", "postfilter"),
    "bind": tuple(name for name in abi.EXPORTS if name in abi.BIND_CYCLE),
}
"""Those of which a guest needs one at least, to have a say in a verb."""


def verbs(profiles: Iterable[Profile]) -> set[str]:
    """The verbs in which some plugin has a say."""
    runs = [profile.runs for profile in profiles]
    return {verb for verb, exports in EXPORTS.items() if any(run(export) for run in runs for export in exports)}
