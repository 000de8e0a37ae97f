"""What the tests of the extender share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.controlplane.binaries import cache_root


@pytest.fixture(scope="session", autouse=True)
def _compiled_code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every module is compiled once for all tests, and nothing is kept among the user's own but the control plane."""
    built = cache_root()
    built.mkdir(parents=True, exist_ok=True)
    cache = tmp_path_factory.mktemp("cache")
    (cache / "kwx").mkdir()
    (cache / "kwx" / built.name).symlink_to(built)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        yield
