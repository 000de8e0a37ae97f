"""The two modules that stand between a guest and the host, as WebAssembly text.

The *trampoline* exports every import that a guest may have, so that a guest can be linked before
there is anything to link it to: each export jumps through a table that is still empty. The *driver*
is linked after the guest, shares its memory, fills that table with the host functions and loops over
the nodes. Both are the same for every guest: compile them once.

Logs and Events are written down in the driver's memory and read after the call: a callback for each would be Python
code per node, and wasmtime-py keeps a callback's exception in a global of its module.
"""

from __future__ import annotations

import re
from importlib import resources

from wasm_runtime import abi
from wasm_runtime.driver import layout

HOST_FUNCTIONS = {**abi.IMPORTS, **abi.WASI_HERE}
"""Every import that the driver implements, in the order of the table of imports."""

POINTS = {name: at for at, name in enumerate([*abi.EXPORTS, *abi.RESIDENT])}
"""The place of each guest export in the table of points."""


def trampoline() -> str:
    """The text of the module that a guest is linked to. Its exports are named `module/name`."""
    lines = [f'(module $kwx-trampoline (table (export "imports") {len(HOST_FUNCTIONS)} funcref)']
    for at, (function, signature) in enumerate(HOST_FUNCTIONS.items()):
        parameters = " ".join(f"(local.get {n})" for n in range(len(signature.params)))
        types = f"(param {' '.join(signature.params)}) (result {' '.join(signature.results)})"
        lines.append(f"(type $t{at} (func {types}))")
        lines.append(f'(func ${function} (export "{function}") {types}')
        lines.append(f"  (call_indirect (type $t{at}) {parameters} (i32.const {at})))")
    return "\n".join([*lines, ")"])


def driver() -> str:
    """The text of the driver. It imports `guest.memory` and, from `host`, two functions and two tables."""
    text = resources.files(__name__).joinpath("driver.wat").read_text()
    constants = {
        **{name: value for name, value in vars(layout).items() if isinstance(value, int)},
        **abi.HostDocument.__members__,
        **abi.GuestResult.__members__,
        "IMPORTS": len(HOST_FUNCTIONS),
        "POINTS": len(POINTS),
        "ELEMENTS": " ".join(f"${function}" for function in HOST_FUNCTIONS),
    }
    text = re.sub(r"@([a-z_]+)", lambda field: str(getattr(layout.Header, field[1]).offset), _code(text))
    return re.sub(r"%([A-Z_]+)", lambda name: _constant(constants[name[1]]), text)


def _code(text: str) -> str:
    return "\n".join(line.partition(";;")[0] for line in text.splitlines())


def _constant(value: object) -> str:
    return str(int(value)) if isinstance(value, int) else str(value)
