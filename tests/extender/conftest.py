"""What the tests of the extender share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import pytest

from bench.controlplane.binaries import cache_root

COMPILERS: Final = {"GOCACHE": "go-build", "ZIG_GLOBAL_CACHE_DIR": "zig"}
"""The environment that says where a compiler's cache is, and the folder that it has otherwise in the user's."""


@pytest.fixture(scope="session", autouse=True)
def _compiled_code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every module is compiled once for all tests, and nothing is kept among the user's own but the control plane.

    Compilers keep what they have built before, which takes Go a quarter of an hour: tests of other folders come later.
    """
    built = cache_root()
    built.mkdir(parents=True, exist_ok=True)
    cache = tmp_path_factory.mktemp("cache")
    (cache / "kwx").mkdir()
    (cache / "kwx" / built.name).symlink_to(built)
    with pytest.MonkeyPatch.context() as patch:
        for compiler, folder in COMPILERS.items():
            patch.setenv(compiler, os.environ.get(compiler) or str(built.parents[1] / folder))
        patch.setenv("XDG_CACHE_HOME", str(cache))
        yield
