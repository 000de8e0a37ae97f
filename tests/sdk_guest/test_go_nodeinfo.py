"""What the Go library counts of pods is what kube-scheduler's framework counts, which is asked about the same bytes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from bench.controlplane.gobuild import BUILD_ENVIRONMENT, BUILD_FLAGS
from bench.peers import gopeer
from tests.sdk_guest.builds import SDK

pytestmark = pytest.mark.timeout(600)  # The first time programs in Go are built.

SOURCE: Final = Path(__file__).parents[1] / "nodeinfo"
STEPS: Final = 2000
"""How many pods come or go in a test."""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the library, and of a module that has Kubernetes as a requirement. No module of them changes."""
    folder = tmp_path_factory.mktemp("workspace")
    used = "".join(f"\t{json.dumps(str(each))}\n" for each in (SOURCE, SDK / "go", gopeer.MODULE, gopeer.PROTOCOL))
    (folder / "go.work").write_text(f"go 1.26.0\n\nuse (\n{used})\n")
    return folder


def go(workspace: Path, command: str, *arguments: str | Path) -> None:
    done = subprocess.run(
        ["go", command, *BUILD_FLAGS, *arguments, SOURCE],
        cwd=workspace,
        env={**os.environ, **BUILD_ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def program(workspace: Path) -> Path:
    program = workspace / "nodeinfo"
    go(workspace, "build", "-o", program)
    return program


@pytest.mark.parametrize("seed", range(1, 6))
def test_random_pods_count_as_in_the_framework(program: Path, seed: int) -> None:
    command: list[str | Path] = [program, f"-seed={seed}", f"-steps={STEPS}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_sources_are_formatted_and_pass_gos_own_checks(workspace: Path) -> None:
    found = subprocess.run(["gofmt", "-d", SOURCE], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout == ""
    go(workspace, "vet")
