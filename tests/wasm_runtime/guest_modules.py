"""Small guests as WebAssembly text, put together from functions of a line or two."""

from __future__ import annotations

from collections.abc import Iterable

import wasmtime

from wasm_runtime import abi

REASON = "k8s.io/scheduler/result.status_reason"
POD = "k8s.io/scheduler/currentPod"
NODE = "k8s.io/api/node"
NODE_NAME = "k8s.io/scheduler/currentNodeName"
LOG = "k8s.io/klog/log"
WRITE = "wasi_snapshot_preview1/fd_write"
EXIT = "wasi_snapshot_preview1/proc_exit"
NOW = "wasi_snapshot_preview1/clock_time_get"

_WASI = {
    **abi.WASI_HERE,
    abi.Import(abi.WASI, "proc_exit"): abi.FunctionType(("i32",)),
    abi.Import(abi.WASI, "clock_time_get"): abi.FunctionType(("i32", "i64", "i32"), ("i32",)),
    abi.Import(abi.WASI, "args_sizes_get"): abi.FunctionType(("i32",) * 2, ("i32",)),
    abi.Import(abi.WASI, "args_get"): abi.FunctionType(("i32",) * 2, ("i32",)),
    abi.Import(abi.WASI, "environ_sizes_get"): abi.FunctionType(("i32",) * 2, ("i32",)),
}
SIGNATURES = {str(function): signature for function, signature in {**abi.IMPORTS, **_WASI}.items()}

TEXT = 1024
"""Where the text of `texts` begins in a guest's memory."""


def binary(text: str) -> bytes:
    """A module's bytes from its text."""
    return bytes(wasmtime.wat2wasm(text))


def types(signature: abi.FunctionType) -> str:
    return f"(param {' '.join(signature.params)}) (result {' '.join(signature.results)})"


def imports(*functions: str) -> str:
    """Imports by `module/name`; inside the guest each is called `$module/name`."""
    lines = []
    for function in functions:
        module, _, name = function.rpartition("/")
        lines.append(f'(import "{module}" "{name}" (func ${function} {types(SIGNATURES[function])}))')
    return "\n".join(lines)


def module(*fields: str, uses: Iterable[str] = (), pages: str = "1", text: str = "") -> str:
    """A guest with a memory, which has `text` at TEXT."""
    escaped = "".join(f"\\{byte:02x}" for byte in text.encode())
    return "\n".join(
        [
            "(module $guest",
            imports(*uses),
            f'(memory (export "memory") {pages})',
            f'(data (i32.const {TEXT}) "{escaped}")',
            *fields,
            ")",
        ]
    )


def export(name: str, *body: str, local: str = "") -> str:
    """A function with the signature that the ABI gives to the export of that name."""
    results = " ".join(abi.EXPORTS[name].signature.results)
    return f'(func ${name} (export "{name}") (result {results}) {local} {" ".join(body)})'


def call(function: str, *arguments: int | str) -> str:
    """A call; numbers become constants, texts are expressions."""
    given = " ".join(f"(i32.const {each})" if isinstance(each, int) else each for each in arguments)
    return f"(call ${function} {given})"


def result(name: str, code: int, value: int = 0) -> str:
    """The result of an export: nothing, a code, or a code with a value in the other half."""
    if not abi.EXPORTS[name].signature.results:
        return ""
    if abi.EXPORTS[name].signature.results == ("i32",):
        return f"(i32.const {code})"
    low, high = (value, code) if name == "permit" else (code, value)
    return f"(i64.const {(high << 32) | (low & 0xFFFF_FFFF)})"


def answers(name: str, code: int, reason: str | None = None, value: int = 0) -> str:
    """A guest whose export gives that code and reason. Whatever else is needed to reach it succeeds."""
    body = [] if reason is None else [call(REASON, TEXT, len(reason.encode()))]
    needed = {"prescore": "score", "normalizescore": "score"}.get(name)
    return module(
        export(name, *body, result(name, code, value)),
        export(needed, result(needed, 0)) if needed else "",
        uses=[REASON],
        text=reason or "",
    )


def asks(function: str, *arguments: int | str, shown: int = 16, text: str = "", at: str = "prefilter") -> str:
    """A guest that returns what a host function returned, with the buffer at 4096 as its reason.

    The buffer is full of `*` before. The function is called with those arguments.
    """
    answered = "(local.set $answer" if SIGNATURES[function].results else "("
    asked = call(function, *arguments)
    return module(
        export(
            at,
            "(memory.fill (i32.const 4096) (i32.const 42) (i32.const 16))",
            f"{answered} {asked})" if SIGNATURES[function].results else asked,
            call(REASON, 4096, shown),
            "(local.get $answer)",
            local="(local $answer i32)",
        ),
        uses={function, REASON},
        text=text,
    )


SPIN = "(loop $forever (br $forever))"
