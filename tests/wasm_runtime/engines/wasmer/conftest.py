"""The engine under test, where it can be had."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from wasm_runtime.engines.wasmer import WasmerEngine

collect_ignore_glob = [] if sys.version_info < (3, 11) and find_spec("wasmer") else ["test_*.py"]


@pytest.fixture(scope="session")
def engine() -> WasmerEngine:
    from wasm_runtime.engines.wasmer import WasmerEngine  # noqa: PLC0415

    return WasmerEngine()
