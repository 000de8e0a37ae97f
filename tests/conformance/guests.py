"""Guests as WebAssembly text, put together from what they do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tests.wasm_runtime.guest_modules import call, types
from wasm_runtime import abi
from wasm_runtime.abi import Severity
from wasm_runtime.engine import Log
from wasm_runtime.module import wasi

SIGNATURES: Final = {str(name): signature for name, signature in {**abi.IMPORTS, **wasi.FUNCTIONS}.items()}

REASON: Final = "k8s.io/scheduler/result.status_reason"
CURRENT_POD: Final = "k8s.io/scheduler/currentPod"
NODE_NAME: Final = "k8s.io/scheduler/currentNodeName"
TARGET_POD: Final = "k8s.io/scheduler/targetPod"
NODE_OBJECT: Final = "k8s.io/api/node"
LOG: Final = "k8s.io/klog/log"
LOGS: Final = "k8s.io/klog/logs"
EXIT: Final = "wasi_snapshot_preview1/proc_exit"
WRITE: Final = "wasi_snapshot_preview1/fd_write"

TEXT: Final = 1024
"""Address at which a guest's `text` begins."""
BUFFER: Final = 4096
"""Address of the buffer into which a guest has its host write."""
PAGE: Final = 65_536
"""Bytes of a page, at which the memory of a guest with one page ends."""

_DIGITS: Final = 96
"""Address at which the digits of a number end, for `$tell`."""

TELL: Final = f"""
(func $tell (param $number i32) (param $at i32) (param $length i32)
  (local $digit i32)
  (local.set $digit (i32.const {_DIGITS}))
  (loop $next
    (local.set $digit (i32.sub (local.get $digit) (i32.const 1)))
    (i32.store8 (local.get $digit) (i32.add (i32.const 48) (i32.rem_u (local.get $number) (i32.const 10))))
    (br_if $next (local.tee $number (i32.div_u (local.get $number) (i32.const 10)))))
  (call ${LOGS} (i32.const 0) (local.get $at) (local.get $length)
    (local.get $digit) (i32.sub (i32.const {_DIGITS + 1}) (local.get $digit))))
"""
"""Logs bytes and a number, which are read as `told`."""

NEEDS: Final = {"prescore": "score", "normalizescore": "score"}
"""Exports that are called only where another one is there."""


def size(text: str | bytes) -> int:
    """The bytes of a text."""
    return len(text.encode() if isinstance(text, str) else text)


def told(number: int, text: str = "", node: str = "") -> Log:
    """The log line that `$tell` writes for an unsigned number and bytes, in a call that is about `node`."""
    return Log(Severity.INFO, text, (str(number),), node)


def guest(*fields: str, uses: Iterable[str] = (), pages: int = 1, data: Mapping[int, str | bytes] | None = None) -> str:
    """A module with a memory of some pages, which has `data` at its addresses, and imports by `module/name`.

    An import is called `$module/name` inside. A guest that uses `$tell` has it.
    """
    tells = any("$tell" in each for each in fields)
    functions = dict.fromkeys([*uses, *([LOGS] if tells else [])])
    return "\n".join(
        [
            "(module $guest",
            *map(_import, functions),
            f'(memory (export "memory") {pages})',
            *(f'(data (i32.const {at}) "{_escaped(text)}")' for at, text in (data or {}).items()),
            TELL if tells else "",
            *fields,
            ")",
        ]
    )


def _import(function: str) -> str:
    module, _, name = function.rpartition("/")
    return f'(import "{module}" "{name}" (func ${function} {types(SIGNATURES[function])}))'


def _escaped(text: str | bytes) -> str:
    return "".join(f"\\{byte:02x}" for byte in (text.encode() if isinstance(text, str) else text))


def export(name: str, *body: str, code: int = 0, value: int = 0) -> str:
    """An export of the ABI that does something and returns a code, and a value beside it where it has one.

    In what permit returns, the code is the high half.
    """
    signature = abi.EXPORTS[name].signature
    high, low = (code, value) if name == "permit" else (value, code)
    returned = {
        (): "",
        ("i32",): f"(i32.const {code})",
        ("i64",): f"(i64.const {high << 32 | low & 0xFFFF_FFFF})",
    }[signature.results]
    return f'(func ${name} (export "{name}") {types(signature)} {" ".join(body)} {returned})'


def resident(name: str, *body: str, value: int = 0) -> str:
    """An export of a guest that keeps nodes, which gets `$n` where it gets anything.

    It does something and returns a value where it has one.
    """
    signature = abi.RESIDENT[name]
    given = "(param $n i32)" if signature.params else ""
    returned = f"(i32.const {value})" if signature.results else ""
    return (
        f'(func ${name} (export "{name}") {given} (result {" ".join(signature.results)}) {" ".join(body)} {returned})'
    )


NUMBERS: Final = 8192
"""Where a guest has the buffer for numbers of nodes."""

KEEPS: Final = " ".join([resident("nodechanged"), resident("noderemoved"), resident("nodebuffer", value=NUMBERS)])
"""What a guest needs to be asked about lists of nodes."""


def only(name: str, *body: str, code: int = 0, value: int = 0) -> str:
    """An export, and the export that it needs."""
    needed = export(NEEDS[name]) if name in NEEDS else ""
    return export(name, *body, code=code, value=value) + needed


def tell(number: str, at: int = 0, length: int = 0) -> str:
    """A call of `$tell` with a number, which is an expression, and bytes of the memory."""
    return f"(call $tell {number} (i32.const {at}) (i32.const {length}))"


def tells(function: str, *arguments: int | str, buffer: int = BUFFER, shown: int = 16) -> str:
    """Tells what a function returned (0 if nothing) and the first bytes of a buffer, which are `*` before."""
    asked = call(function, *arguments)
    answer = asked if SIGNATURES[function].results else f"{asked} (i32.const 0)"
    return (
        f"(memory.fill (i32.const {buffer}) (i32.const {ord('*')}) (i32.const {shown}))"
        f" {tell(f'(block (result i32) {answer})', buffer, shown)}"
    )
