"""What the tests of registries share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.extender.sources.oci.registry import Registry, running


@pytest.fixture(autouse=True)
def logins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Docker's configuration, which is not there: no user's own logins."""
    monkeypatch.delenv("REGISTRY_AUTH_FILE", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return tmp_path / "config.json"


@pytest.fixture(scope="package")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry that lets everybody in; each test has a repository of its own there."""
    with running(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture
def repository(tmp_path: Path) -> str:
    """A name that no other test has."""
    return f"policies/{tmp_path.name.lower().replace('_', '-').strip('-').replace('--', '-')}"
