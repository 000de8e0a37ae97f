"""Builds the Go program of tests/gotypes once per test run."""

import shutil
import subprocess
from pathlib import Path

import pytest

from .oracle import GoTypes

BUILD_TIMEOUT_S = 500.0
SOURCE = Path(__file__).parents[2] / "gotypes"


@pytest.fixture(scope="session")
def gotypes(tmp_path_factory: pytest.TempPathFactory) -> GoTypes:
    """The built program; Go's own cache makes every build but the first quick."""
    if shutil.which("go") is None:
        pytest.fail("no `go` on the PATH: these tests compare with the Go types of the Kubernetes API")
    binary = tmp_path_factory.mktemp("gotypes") / "gotypes"
    done = subprocess.run(
        ["go", "build", "-o", str(binary), "."],
        cwd=SOURCE,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_TIMEOUT_S,
    )
    if done.returncode != 0:
        pytest.fail(f"`go build` in {SOURCE} failed:\n{done.stderr}")
    return GoTypes(binary)
