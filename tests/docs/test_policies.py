"""What the pages of the shipped policies show as a configuration gives the policies what they need."""

from __future__ import annotations

from pathlib import Path
from shutil import copy
from typing import Final

import pytest
import yaml

from tests.docs.test_docs import ROOT, split
from tests.extender.commands.command import Command, command

__all__ = ["command"]

HEAD: Final = "apiVersion: kwx.dev/v1alpha1\nkind: ExtenderConfiguration\n"
PAGES: Final = {
    "sdk-guest/policies/gang/README.md": 1,
    "sdk-guest/policies/gpu-pack/README.md": 1,
    "sdk-guest/policies/topology/README.md": 2,
    "docs/explanation/gangs-and-topology.md": 1,
}
"""How many configurations each has."""


@pytest.mark.parametrize(("page", "count"), PAGES.items())
def test_kube_scheduler_is_told_to_have_pods_bound(command: Command, page: str, count: int, tmp_path: Path) -> None:
    """Without an API server in `cluster.mode` it is not, and the policies know no pods."""
    for module in (ROOT / "extender" / "policies").glob("*.wasm"):
        copy(module, tmp_path)
    _, blocks = split((ROOT / page).read_text(encoding="utf-8"))
    shown = [block.text for block in blocks if block.language == "yaml" and "guestURL" in block.text]
    assert len(shown) == count
    for text in shown:
        file = tmp_path / "extender.yaml"
        file.write_text(HEAD + text)
        ended = command("scheduler-config", "--config", file)
        assert ended.status == 0, ended.stderr
        told = yaml.safe_load(ended.stdout)["extenders"]
        assert [each["bindVerb"] for each in told if "bindVerb" in each] == ["bind"], text
