"""The real engine, and guests made from text."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from wasmtime._func import FUNCTIONS

from tests.wasm_runtime.guest_modules import binary
from tests.wasm_runtime.world import close, settle
from wasm_runtime import Plugin, Pod, Settings, WasmtimeEngine
from wasm_runtime.engine import Engine, GuestJournal, Handle, Instance, Log, NoHandle


class Loader:
    """Makes plugins and bare instances of guests, and closes them all in the end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.journals: list[tuple[str, Pod | None, GuestJournal]] = []
        self._made: list[Plugin | Instance] = []

    def plugin(
        self,
        text: str,
        extension_points: Sequence[str] | None = None,
        *,
        handle: Handle | None = None,
        **settings: Any,
    ) -> Plugin:
        """Unless a timeout is given, there is time enough for the busiest machine."""
        plugin = Plugin(
            self._engine,
            binary(text),
            Settings("plugin", **{"timeout": 30.0, **settings}),
            extension_points=extension_points,
            sink=lambda *record: self.journals.append(record),
            handle=handle,
        )
        self._made.append(plugin)
        return plugin

    def instance(self, text: str, *, handle: Handle | None = None, **settings: Any) -> Instance:
        """An instance below the rules of Plugin and Guest: any code is an answer."""
        module = self._engine.compile(binary(text))
        instance = module.instantiate(Settings("plugin", **settings), handle or NoHandle())
        self._made.append(instance)
        return instance

    def logged(self) -> list[str]:
        """The messages that guests logged since this was last asked."""
        records = [record for _, _, journal in self.journals for record in journal.records]
        self.journals.clear()
        return [record.message for record in records if isinstance(record, Log)]

    def settle(self) -> None:
        """Waits until no guest is being replaced."""
        for made in self._made:
            if isinstance(made, Plugin):
                settle(made._pool)

    def close(self) -> None:
        for made in self._made:
            if isinstance(made, Plugin):
                close(made)
            else:
                made.close()


@pytest.fixture(scope="session")
def engine() -> WasmtimeEngine:
    return WasmtimeEngine()


@pytest.fixture
def load(engine: WasmtimeEngine) -> Iterator[Loader]:
    loader = Loader(engine)
    yield loader
    loader.close()


@pytest.fixture
def open_instances() -> Callable[[], int]:
    """How many instances are open, beyond those that were when the test began: each has three callbacks."""
    before = len(FUNCTIONS.handles)
    return lambda: (len(FUNCTIONS.handles) - before) // 3
