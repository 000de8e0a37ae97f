"""What keeps a module from running in the upstream host, a kube-scheduler with kube-scheduler-wasm-extension.

Source: `scheduler/plugin` of kubernetes-sigs/kube-scheduler-wasm-extension, and the engine that it runs guests
with, wazero 1.7.2 (https://github.com/tetratelabs/wazero/tree/v1.7.2), which has WebAssembly 2.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from wasm_runtime import abi
from wasm_runtime.abi import FunctionType
from wasm_runtime.engine import Module
from wasm_runtime.module import wasi

MAIN: Final = {
    "filter": "filter",
    "score": "score",
    "reserve": "reserve",
    "unreserve": "reserve",
    "permit": "permit",
    "bind": "bind",
}
"""The extension points of which a plugin needs one, by export (`detectInterfaces` in `guest.go`)."""

REFUSED: Final = frozenset(
    frozenset(points.split())
    for points in (
        "reserve permit",
        "filter reserve permit",
        "filter reserve bind",
        "filter permit bind",
        "score reserve permit",
        "filter score reserve permit",
        "score reserve permit bind",
        "filter reserve permit bind",
    )
)
"""Sets of them for which there is no type of plugin (`maskInterfaces` in `mask.go`)."""

PAIRS: Final = (("reserve", "unreserve"), ("addpod", "removepod"))
"""Exports that are both called where there is one of them."""

_EXPORTS: Final = {name: export for name, export in abi.EXPORTS.items() if name not in abi.OUR_EXPORTS}
_IMPORTS: Final = {**abi.IMPORTS, **wasi.FUNCTIONS}


def obstacles(module: Module, proposals: Iterable[str], *, leaves: bool) -> list[str]:
    """Every reason why the module would not do there what it does here.

    `proposals` are those that it needs beyond WebAssembly 2.0; `leaves` tells whether its `_start` has left by
    exit status 0.
    """
    functions = {name: each for name, each in module.exports.items() if isinstance(each, FunctionType)}
    return [
        *(f"uses {proposal}, which the upstream host does not have" for proposal in proposals),
        *_memory(module),
        *_signatures(functions),
        *_points(functions),
        *_pairs(functions),
        *_start(functions, leaves),
        *_imports(module),
    ]


def _memory(module: Module) -> Iterator[str]:
    if module.exports.get(abi.MEMORY) != "memory":
        yield f"exports no memory named {abi.MEMORY!r}"


def _signatures(functions: Mapping[str, FunctionType]) -> Iterator[str]:
    for name, export in _EXPORTS.items():
        found = functions.get(name, export.signature)
        if found != export.signature:
            yield f"exports {name} as {found}, the upstream host has {export.signature}"


def _points(functions: Mapping[str, FunctionType]) -> Iterator[str]:
    main = dict.fromkeys(point for name, point in MAIN.items() if name in functions)
    if frozenset(main) in REFUSED:
        yield f"serves {', '.join(main)}, a combination for which the upstream host has no type of plugin"
    if not main and functions.keys() & _EXPORTS.keys() != {"prefilter"}:
        points = ", ".join(dict.fromkeys(MAIN.values()))
        yield f"serves none of {points}; without them the upstream host only takes a plugin that has prefilter alone"


def _pairs(functions: Mapping[str, FunctionType]) -> Iterator[str]:
    for pair in PAIRS:
        missing = [name for name in pair if name not in functions]
        if len(missing) == 1:
            (there,) = {*pair} - {*missing}
            yield f"exports {there} without {missing[0]}, which the upstream host calls all the same and panics"


def _start(functions: Mapping[str, FunctionType], leaves: bool) -> Iterator[str]:
    command, reactor = abi.START
    start = functions.get(command)
    if start is None and reactor in functions:
        yield f"exports {reactor} without {command}, which alone the upstream host calls; export it as {command}, too"
    if start is not None and start.params:
        yield f"exports {command} as {start}, the upstream host calls it without arguments"
    if leaves:
        yield f"leaves by exit status 0 in {command}, after which the upstream host cannot call it"


def _imports(module: Module) -> Iterator[str]:
    for wanted, found in module.imports.items():
        known = _IMPORTS.get(wanted)
        if known is None:
            yield f"imports {wanted}, which the upstream host does not have"
        elif found != known:
            yield f"imports {wanted} as {found}, the upstream host has {known}"
