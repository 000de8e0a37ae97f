"""What a module must be to serve as a guest, found out before anything of it runs."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Final

from wasm_runtime import abi
from wasm_runtime.engine import Module
from wasm_runtime.errors import ModuleError
from wasm_runtime.module import wasi

_IMPORTS: Final = {**abi.IMPORTS, **wasi.FUNCTIONS}
_BY_NAME: Final = {function.name: function for function in _IMPORTS}
MAX_IMPORTS_TOLD: Final = 20
"""Wrong imports that are told one by one: there may be tens of thousands, and to find what is near takes its time."""

_MENDS: Final = {
    abi.Import(
        "env", "abort"
    ): "; AssemblyScript's compiler leaves it out by --use abort=, and a failure is a trap then"
}
"""How to do without an import that a compiler adds by itself."""

_NEEDS_SCORE: Final = ("prescore", "normalizescore")


def validate(module: Module) -> None:
    """Raises ModuleError with all problems of the module."""
    problems = [*_memory(module), *_exports(module), *_imports(module)]
    if problems:
        raise ModuleError(problems)


def _memory(module: Module) -> Iterator[str]:
    if module.exports.get(abi.MEMORY) != "memory":
        yield f"exports no memory named {abi.MEMORY!r}: the host hands everything to a guest through it"


def _exports(module: Module) -> Iterator[str]:
    signatures = {name: export.signature for name, export in abi.EXPORTS.items()}
    for name, signature in {**dict.fromkeys(abi.START, abi.FunctionType()), **signatures, **abi.RESIDENT}.items():
        found = module.exports.get(name)
        if found is not None and found != signature:
            yield f"exports {name} as {found}, the ABI has {signature}"
    for name in _NEEDS_SCORE:
        if name in module.exports and "score" not in module.exports:
            yield f"exports {name} without score, so it would never be called"
    for name, needed in abi.RESIDENT_NEEDS.items():
        missing = [each for each in needed if each not in module.exports]
        if name in module.exports and missing:
            yield f"exports {name} without {', '.join(missing)}"
    if not abi.EXPORTS.keys() & module.exports.keys():
        yield f"exports no extension point; it needs at least one of {', '.join(abi.EXPORTS)}"


def _imports(module: Module) -> Iterator[str]:
    wrong = [(wanted, found) for wanted, found in module.imports.items() if found != _IMPORTS.get(wanted)]
    for wanted, found in wrong[:MAX_IMPORTS_TOLD]:
        known = _IMPORTS.get(wanted)
        if known is None:
            hint = _MENDS.get(wanted) or _nearest(wanted.name)
            yield f"imports {wanted}, which the host does not have{hint}"
        else:
            yield f"imports {wanted} as {found}, the host has {known}"
    if len(wrong) > MAX_IMPORTS_TOLD:
        yield f"and {len(wrong) - MAX_IMPORTS_TOLD} more imports that the host does not have so"


def _nearest(name: str) -> str:
    """The nearest import by its name alone: many compilers put all imports into a module named `env`."""
    near = difflib.get_close_matches(name, _BY_NAME, n=1)
    return f"; the nearest that it has is {_BY_NAME[near[0]]}" if near else ""
