"""Linking a guest to the trampoline, and the driver to the guest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, cast

import wasmtime
from wasmtime import Func, Instance, Linker, Memory, Store, ValType

from wasm_runtime import abi, driver
from wasm_runtime.engines.wasmtime.callbacks import Callbacks
from wasm_runtime.engines.wasmtime.limits import Limits
from wasm_runtime.engines.wasmtime.ticker import Ticker
from wasm_runtime.module.binary import Interface

_GUEST: Final = "guest"
"""The linker's name of the guest's instance."""

_CALLED: Final = frozenset({abi.MEMORY, *abi.START, *driver.POINTS})
"""The exports that a host has any use for."""


class WasmtimeCode(NamedTuple):
    """What the instances of a module share: its compiled code, and what the engine adds to every guest."""

    engine: wasmtime.Engine
    ticker: Ticker
    trampoline: wasmtime.Module
    driver: wasmtime.Module
    guest: wasmtime.Module
    interface: Interface
    """Of the guest."""


class Linked(NamedTuple):
    """What the guest and the driver export. Of the guest it is what a host has any use for."""

    guest: Mapping[str, object]
    driver: Mapping[str, object]


def link(
    store: Store,
    code: WasmtimeCode,
    callbacks: Callbacks,
    limits: Limits,
    instantiate: Callable[[Callable[[], Instance]], Instance],
) -> Linked:
    """Links a guest whose memory and tables are within `limits`. Raises what `instantiate` raises.

    `instantiate` runs what makes the guest's instance, in which code of the guest may run.
    """
    exports, imports = code.interface
    trampoline = Instance(store, code.trampoline, []).exports(store)
    linker = Linker(code.engine)
    linker.define_wasi()
    random = linker.get(store, abi.WASI, "random_get")
    linker.allow_shadowing = True
    for function in imports.keys() & driver.HOST_FUNCTIONS.keys():
        linker.define(store, function.module, function.name, trampoline[str(function)])
    limits.set()
    instance = instantiate(lambda: linker.instantiate(store, code.guest))
    # By name: `Instance.exports` takes the square of their number, two minutes for 60,000.
    linker.define_instance(store, _GUEST, instance)
    guest = {name: linker.get(store, _GUEST, name) for name in exports.keys() & _CALLED}
    limits.lift()
    points = wasmtime.Table(
        store,
        wasmtime.TableType(ValType.funcref(), wasmtime.Limits(len(driver.POINTS), None)),
        None,
    )
    for name, at in driver.POINTS.items():
        if isinstance(exports.get(name), abi.FunctionType):
            points.set(store, at, cast(Func, guest[name]))
    memory = cast(Memory, guest[abi.MEMORY])
    imported = [memory, random, *callbacks.functions(store), trampoline["imports"], points]
    linked = Instance(store, code.driver, imported).exports(store)
    limits.set()
    return Linked(guest, linked)
