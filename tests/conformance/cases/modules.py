"""Modules that cannot be guests, and what is said of them before anything of them runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.conformance.calls import ENGINES_WORDS, Refused, calls
from tests.conformance.case import Case
from tests.conformance.cases.status import DONE
from tests.conformance.guests import NEEDS, export, guest, only, resident
from tests.wasm_runtime.guest_modules import binary, types
from wasm_runtime import abi
from wasm_runtime.abi import FunctionType
from wasm_runtime.module import wasi
from wasm_runtime.module.validate import MAX_IMPORTS_TOLD

MEMORY: Final = '(memory (export "memory") 1)'
NOOP: Final = export("filter")
FINE: Final = DONE["filter"]

NO_MEMORY: Final = "exports no memory named 'memory': the host hands everything to a guest through it"
NO_POINT: Final = f"exports no extension point; it needs at least one of {', '.join(abi.EXPORTS)}"


def _refused(name: str, module: str | bytes, *problems: str) -> Case:
    return Case(name, module, lambda plugin: plugin.exports, Refused(list(problems)))


def _exported(name: str, shape: FunctionType) -> str:
    return f'(func (export "{name}") {types(shape)} unreachable)'


KINDS: Final = {
    "global": '(global (export "{name}") i32 (i32.const 0))',
    "table": '(table (export "{name}") 1 funcref)',
    "memory": '(export "{name}" (memory 0))',
}
"""What an export may be that is no function."""


def _wrong(signature: FunctionType) -> list[FunctionType]:
    """Signatures beside the right one."""
    results = [(), ("i32",), ("i64",), ("f32",), ("i32", "i32"), ("i64", "i32"), ("v128",), ("externref",)]
    shapes = [FunctionType((), result) for result in results]
    shapes += [signature._replace(params=(*signature.params, extra)) for extra in ("i32", "i64", "f64")]
    shapes += [signature._replace(params=signature.params[1:])] if signature.params else []
    return [shape for shape in shapes if shape != signature]


def _exports() -> Iterator[Case]:
    signatures = {
        **dict.fromkeys(abi.START, FunctionType()),
        **{name: each.signature for name, each in abi.EXPORTS.items()},
    }
    for name, signature in signatures.items():
        companion = export(NEEDS[name]) if name in NEEDS else NOOP if name in abi.START else ""
        for shape in _wrong(signature):
            yield _refused(
                f"{name} is {shape}",
                guest(companion, _exported(name, shape)),
                f"exports {name} as {shape}, the ABI has {signature}",
            )
        for kind, field in KINDS.items():
            yield _refused(
                f"{name} is a {kind}",
                guest(companion, field.format(name=name)),
                f"exports {name} as {kind}, the ABI has {signature}",
            )
    for name, signature in abi.RESIDENT.items():
        others = [text for each, text in RESIDENTS.items() if each != name]
        exported = {str(shape): _exported(name, shape) for shape in _wrong(signature)}
        exported |= {kind: field.format(name=name) for kind, field in KINDS.items()}
        for what, text in exported.items():
            yield _refused(
                f"{name} is {'a ' if what in KINDS else ''}{what}",
                guest(*others, text),
                f"exports {name} as {what}, the ABI has {signature}",
            )
    for name in abi.EXPORTS:
        there = {name, NEEDS.get(name, name)}
        runs = [each for each in abi.EXPORTS if each in there]
        yield Case(f"{name} is all there is", guest(only(name)), lambda plugin: plugin.exports, runs)
    yield Case(
        "filter is a function of the host",
        guest('(export "filter" (func $k8s.io/klog/severity))', uses=["k8s.io/klog/severity"]),
        calls("filter"),
        FINE,
    )


RESIDENTS: Final = {
    **{name: resident(name) for name in abi.RESIDENT},
    **{name: export(name) for name in abi.LISTS},
}
"""All exports of a guest that keeps nodes and pods, and judges lists of nodes."""

PARTS: Final[dict[str, list[str]]] = {
    "nodechanged filter": ["exports nodechanged without noderemoved"],
    "noderemoved filter": ["exports noderemoved without nodechanged"],
    "filternodes filter nodebuffer": ["exports filternodes without nodechanged"],
    "scorenodes score nodebuffer": ["exports scorenodes without nodechanged"],
    "nodechanged noderemoved filternodes filter": ["exports filternodes without nodebuffer"],
    "nodechanged noderemoved nodebuffer filternodes score": ["exports filternodes without filter"],
    "nodechanged noderemoved nodebuffer scorenodes filter": ["exports scorenodes without score"],
    "scorenodes enqueue": ["exports scorenodes without nodechanged, nodebuffer, score"],
    "nodechanged filternodes filter nodebuffer": ["exports nodechanged without noderemoved"],
    "noderemoved filternodes scorenodes enqueue": [
        "exports noderemoved without nodechanged",
        "exports filternodes without nodechanged, nodebuffer, filter",
        "exports scorenodes without nodechanged, nodebuffer, score",
    ],
    "nodechanged noderemoved nodebuffer filternodes scorenodes collectgarbage": [
        "exports filternodes without filter",
        "exports scorenodes without score",
        NO_POINT,
    ],
    "nodebuffer collectgarbage": [NO_POINT],
    "podschanged podbuffer filter": ["exports podschanged without nodechanged"],
    "podschanged nodechanged noderemoved filter": ["exports podschanged without podbuffer"],
    "podschanged pendingpodschanged filter": [
        "exports podschanged without nodechanged, podbuffer",
        "exports pendingpodschanged without podbuffer",
    ],
    "podschanged pendingpodschanged podbuffer nodechanged noderemoved": [NO_POINT],
}
"""Some of them, and what is missing."""

WHOLES: Final = (
    "filter collectgarbage",
    "filter nodebuffer",
    "filter nodechanged noderemoved",
    "filter nodechanged noderemoved nodebuffer filternodes",
    "filter score nodechanged noderemoved nodebuffer scorenodes",
    "prefilter nodechanged noderemoved collectgarbage",
    "filter podbuffer",
    "filter podbuffer pendingpodschanged",
    "filter nodechanged noderemoved podbuffer podschanged",
    "score nodechanged noderemoved podbuffer podschanged pendingpodschanged",
)
"""Some of them with which nothing is wrong."""


def _keeping() -> Iterator[Case]:
    def some(names: str) -> str:
        return guest(*(RESIDENTS.get(each) or export(each) for each in names.split()))

    for names, problems in PARTS.items():
        yield _refused(f"of a guest that keeps nodes, {names}", some(names), *problems)
    for names in WHOLES:
        called = [each for each in names.split() if each in abi.EXPORTS]
        yield Case(f"of a guest that keeps nodes, {names}", some(names), lambda plugin: plugin.exports, called)


def _without() -> Iterator[Case]:
    late = "exports {} without score, so it would never be called"
    for name in ("prescore", "normalizescore"):
        yield _refused(f"{name} without score", guest(export(name)), late.format(name))
    yield _refused(
        "prescore and normalizescore without score",
        guest(export("normalizescore"), export("prescore")),
        late.format("prescore"),
        late.format("normalizescore"),
    )
    yield _refused("nothing but a memory", guest(), NO_POINT)
    yield _refused("a start, and nothing that can be run", guest('(func (export "_start"))'), NO_POINT)
    yield _refused(
        "other exports than those of the ABI", guest('(func (export "Filter") (result i32) (i32.const 0))'), NO_POINT
    )
    yield _refused("nothing at all", "(module)", NO_MEMORY, NO_POINT)


def _memories() -> Iterator[Case]:
    for what, fields in {
        "no memory": "",
        "a memory that is not exported": "(memory 1)",
        "a memory of another name": '(memory (export "mem") 1)',
        "a memory in upper case": '(memory (export "MEMORY") 1)',
        "a function named memory": '(func (export "memory"))',
        "a global named memory": '(global (export "memory") i32 (i32.const 0))',
        "a table named memory": '(table (export "memory") 1 funcref)',
    }.items():
        yield _refused(what, f"(module {fields} {NOOP})", NO_MEMORY)
    for what, fields in {
        "a memory of no pages": '(memory (export "memory") 0)',
        "a memory that cannot grow": '(memory (export "memory") 1 1)',
        "a memory of two names": '(memory (export "memory") (export "mem") 1)',
    }.items():
        yield Case(what, f"(module {fields} {NOOP})", calls("filter"), FINE)
    for what, fields in {
        "a memory of 64 bits": '(memory (export "memory") i64 1)',
        "two memories": f"{MEMORY} (memory 1)",
        "two memories, the second exported": '(memory 1) (memory (export "memory") 1)',
    }.items():
        yield _refused(what, f"(module {fields} {NOOP})", ENGINES_WORDS)
    yield _refused(
        "an imported memory",
        f'(module (import "env" "memory" (memory 1)) (export "memory" (memory 0)) {NOOP})',
        "imports env/memory, which the host does not have",
    )


IMPORTED: Final = {
    "global": "(global i32)",
    "table": "(table 1 funcref)",
}
"""What an import may be that is no function. A memory would be the guest's second one."""


def _imports() -> Iterator[Case]:
    field = f'(module (import "{{0.module}}" "{{0.name}}" {{1}}) {MEMORY} {NOOP})'
    for function, signature in {**abi.IMPORTS, **wasi.FUNCTIONS}.items():
        right = f"(func {types(signature)})"
        yield Case(f"{function} is imported", field.format(function, right), calls("filter"), FINE)
    for function, signature in {**abi.IMPORTS, **abi.WASI_HERE}.items():
        for shape in _wrong(signature):
            yield _refused(
                f"{function} is imported as {shape}",
                field.format(function, f"(func {types(shape)})"),
                f"imports {function} as {shape}, the host has {signature}",
            )
        for kind, text in IMPORTED.items():
            yield _refused(
                f"{function} is imported as a {kind}",
                field.format(function, text),
                f"imports {function} as {kind}, the host has {signature}",
            )
        yield _unknown(f"{function}_", str(function))
        yield _unknown(f"env/{function.name}", str(function))
    for unknown, nearest in UNKNOWN.items():
        yield _unknown(unknown, nearest)
    mend = "AssemblyScript's compiler leaves it out by --use abort=, and a failure is a trap then"
    yield _missing("env/abort", f"; {mend}")


UNKNOWN: Final = {
    "k8s.io/api/currentPod": "k8s.io/scheduler/currentPod",
    "k8s.io/scheduler/current_pod": "k8s.io/scheduler/currentPod",
    "k8s.io/scheduler/CurrentPod": "k8s.io/scheduler/currentPod",
    "scheduler/currentPod": "k8s.io/scheduler/currentPod",
    "k8s.io/api/nodes": "k8s.io/api/node",
    "k8s.io/scheduler/result.reason": "k8s.io/scheduler/result.status_reason",
    "k8s.io/scheduler/getConfig": "k8s.io/scheduler/get_config",
    "wasi_unstable/fd_write": "wasi_snapshot_preview1/fd_write",
    "wasi_snapshot_preview2/clock_time_get": "wasi_snapshot_preview1/clock_time_get",
    "a/b": "",
    "größe/☃": "",
    "/": "",
}
"""Imports that nobody has, and the one that is nearest."""


def _unknown(function: str, nearest: str) -> Case:
    return _missing(function, f"; the nearest that it has is {nearest}" if nearest else "")


def _missing(function: str, hint: str) -> Case:
    module, _, name = function.rpartition("/")
    return _refused(
        f"{function} is imported, which is not known",
        f'(module (import "{module}" "{name}" (func)) {MEMORY} {NOOP})',
        f"imports {function}, which the host does not have{hint}",
    )


def _all_at_once() -> Iterator[Case]:
    yield _refused(
        "everything is wrong",
        """(module
          (import "k8s.io/api" "nodes" (func))
          (import "k8s.io/klog" "log" (func))
          (import "wasi_snapshot_preview1" "fd_writ" (func))
          (import "wasi_snapshot_preview1" "fd_read" (func))
          (memory 1)
          (func (export "filter") (result i64) (i64.const 0))
          (func (export "prescore") (param i32))
          (func (export "_start") (param i32)))""",
        NO_MEMORY,
        "exports _start as (i32) -> (), the ABI has () -> ()",
        "exports filter as () -> (i64), the ABI has () -> (i32)",
        "exports prescore as (i32) -> (), the ABI has () -> (i32)",
        "exports prescore without score, so it would never be called",
        "imports k8s.io/api/nodes, which the host does not have; the nearest that it has is k8s.io/api/node",
        "imports k8s.io/klog/log as () -> (), the host has (i32, i32, i32) -> ()",
        "imports wasi_snapshot_preview1/fd_writ, which the host does not have;"
        " the nearest that it has is wasi_snapshot_preview1/fd_write",
        "imports wasi_snapshot_preview1/fd_read as () -> (), the host has (i32, i32, i32, i32) -> (i32)",
    )
    yield _refused(
        "every export is wrong",
        guest(*(_exported(name, FunctionType(("f32",))) for name in abi.EXPORTS)),
        *(f"exports {name} as (f32) -> (), the ABI has {each.signature}" for name, each in abi.EXPORTS.items()),
    )
    functions = [*abi.IMPORTS.items(), *wasi.FUNCTIONS.items()]
    for at in range(0, len(functions), MAX_IMPORTS_TOLD):
        told = functions[at : at + MAX_IMPORTS_TOLD]
        fields = " ".join(f'(import "{each.module}" "{each.name}" (func (param f32)))' for each, _ in told)
        yield _refused(
            f"every import from the {at + 1}th on is wrong",
            f"(module {fields} {MEMORY} {NOOP})",
            *(f"imports {each} as (f32) -> (), the host has {signature}" for each, signature in told),
        )


WHOLE: Final = binary(guest(NOOP))

NOT_A_MODULE: Final = {
    "nothing": b"",
    "half of the magic": WHOLE[:2],
    "a program": b"\x7fELF" + bytes(60),
    "a compressed module": b"\x1f\x8b\x08\0" + bytes(60),
    "text": guest(NOOP).encode(),
    "bytes before the magic": b"\0" + WHOLE,
}
"""Bytes that do not begin as a module does."""

BROKEN: Final[dict[str, str | bytes]] = {
    "the magic alone": WHOLE[:4],
    "another version": WHOLE[:4] + b"\2" + WHOLE[5:],
    "a module without its end": WHOLE[:-1],
    "a module with more behind it": WHOLE + b"\xff",
    "a function that returns nothing": '(module (func (export "filter") (result i32)))',
}
"""Modules that are not valid, which each engine says in its own words."""


COMPONENT: Final = (
    "is a WebAssembly component, not a core module: build it for wasm32-wasip1 or wasm32-unknown-unknown,"
    " not for wasip2, and leave out `wasm-tools component new`"
)


def _bytes() -> Iterator[Case]:
    yield _refused("a component", b"\0asm\x0d\0\1\0", COMPONENT)
    for name, data in NOT_A_MODULE.items():
        said = f"is no valid WebAssembly module: begins with {data[:4]!r}, not with b'\\x00asm'"
        yield _refused(name, data, said)
    for name, module in BROKEN.items():
        yield _refused(name, module, ENGINES_WORDS)


CASES = [*_exports(), *_keeping(), *_without(), *_memories(), *_imports(), *_all_at_once(), *_bytes()]
