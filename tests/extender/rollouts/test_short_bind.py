"""Whoever runs a plugin that gathers groups is told where bind has too little time for that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from extender.rollouts.service import SHORT_BIND
from tests.extender.kwx import Extender, plugin, profile

POLICIES = Path(__file__).parents[3] / "extender" / "policies"


@pytest.mark.parametrize(
    ("name", "server", "expected"),
    [
        ("gang", {}, [("warning", "default", "gang")]),
        ("gang", {"bindTimeout": "30s"}, []),
        ("topology", {}, []),
    ],
)
def test_at_the_start(
    tmp_path: Path, name: str, server: Mapping[str, Any], expected: Sequence[tuple[str, str, str]]
) -> None:
    judge = plugin(name, guestURL=f"file://{POLICIES / name}.wasm")
    with Extender(tmp_path, profile("default", judge), server=server) as extender:
        told = extender.events(SHORT_BIND % 4)
        assert [(line["level"], line["profile"], line["plugin"]) for line in told] == expected
