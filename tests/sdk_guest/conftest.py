from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.engines import ENGINES
from tests.extender.commands.command import command
from tests.sdk_guest.plugins import MakePlugin
from tests.wasm_runtime.world import close
from wasm_runtime import Plugin, WasmtimeEngine
from wasm_runtime.compile.cache import CompileCache
from wasm_runtime.compile.compiler import Compiler
from wasm_runtime.engine import MEBIBYTE, Engine

__all__ = ["command"]


@pytest.fixture(scope="session")
def engine(pytestconfig: pytest.Config) -> Compiler:
    """Keeps what it compiles from run to run: it takes some ten seconds a module in Go."""
    cache = CompileCache(pytestconfig.cache.mkdir("guests"), limit=512 * MEBIBYTE)
    return Compiler(WasmtimeEngine(), cache, timeout=300)


@pytest.fixture(scope="module", params=[make for _, make in ENGINES], ids=[name for name, _ in ENGINES])
def each_engine(request: pytest.FixtureRequest) -> Engine:
    """One engine after the other."""
    made: Engine = request.param()
    return made


@pytest.fixture
def make_plugin() -> Iterator[MakePlugin]:
    """Makes plugins that are closed after the test."""
    plugins = []

    def make(*arguments: Any, **options: Any) -> Plugin:
        plugin = Plugin(*arguments, **options)
        plugins.append(plugin)
        return plugin

    yield make
    for plugin in plugins:
        close(plugin)
