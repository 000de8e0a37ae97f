"""What a module was made with, as far as it tells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from wasm_runtime.abi import FunctionType, Import
from wasm_runtime.engine import Module
from wasm_runtime.module.sections import custom_sections, producers

UNKNOWN: Final = "unknown"

MAX_TOOLS: Final = 8
"""Tools that are named. Compilers write two or three."""
MAX_NAME_CHARS: Final = 64
"""Characters of a tool's name, and of its version."""

_LANGUAGES: Final = {
    "TinyGo": "Go",
    "Go cmd/compile": "Go",
    "rustc": "Rust",
    "zig": "Zig",
}
"""The language of those who use a tool: TinyGo and Zig say that the module is written in C, which they link."""

_LIBRARIES: Final = {"go": "Go", "rust": "Rust", "typescript": "AssemblyScript", "zig": "Zig"}
"""The language of a library, by what `kwx build` calls it."""

_MARKED_SECTIONS: Final = {"go:buildid": "Go"}
_MARKED_EXPORTS: Final = {"__rtti_base": "AssemblyScript"}
_MARKED_IMPORTS: Final = {(Import("env", "abort"), FunctionType(("i32",) * 4)): "AssemblyScript"}
"""What only one language's compiler puts into modules, for those that were stripped or never said."""

_ZIG: Final = re.compile(rb"(?:^|\0)zig (\d+\.\d+\.\d+)[^\0]*\0")
"""How Zig names itself in its debug information."""
_C: Final = re.compile(r"C\d\d")
_C_PLUS_PLUS: Final = re.compile(r"C_plus_plus_\d\d")


class Toolchain(NamedTuple):
    """Language and tools of a module."""

    language: str
    """`UNKNOWN` where nothing tells."""
    tools: tuple[str, ...]
    """Each with its version, as in `TinyGo 0.39.0`, in the module's order."""


def toolchain(wasm: bytes, module: Module, library: str = "") -> Toolchain:
    """What a module was made with, given its bytes, too, and the library that its metadata names."""
    sections = custom_sections(wasm)
    fields = producers(sections.get("producers", b""))
    tools = dict(fields.get("processed-by", {}))
    if zig := _ZIG.search(sections.get(".debug_str", b"")):
        tools["zig"] = zig[1].decode()
    languages = (
        *(language for tool, language in _LANGUAGES.items() if tool in tools),
        *_marks(sections, module),
        *_said(fields.get("language", {})),
        *_written_with(library),
    )
    named = [_name(tool, version) for tool, version in tools.items()]
    return Toolchain(next(iter(languages), UNKNOWN), tuple(named[:MAX_TOOLS]))


def _marks(sections: Mapping[str, bytes], module: Module) -> Iterator[str]:
    yield from (language for name, language in _MARKED_SECTIONS.items() if name in sections)
    yield from (language for name, language in _MARKED_EXPORTS.items() if name in module.exports)
    for (name, signature), language in _MARKED_IMPORTS.items():
        if module.imports.get(name) == signature:
            yield language


def _written_with(library: str) -> Iterator[str]:
    """The language of a library such as `typescript 0.1.0`, if that is known."""
    if language := _LIBRARIES.get(library.partition(" ")[0]):
        yield language


def _said(languages: Mapping[str, str]) -> Iterator[str]:
    """The languages of a producers section, C last: it is linked into modules of every other."""
    yield from (name[:MAX_NAME_CHARS] for name in languages if not (_C.fullmatch(name) or _C_PLUS_PLUS.fullmatch(name)))
    yield from ("C++" for name in languages if _C_PLUS_PLUS.fullmatch(name))
    yield from ("C" for name in languages if _C.fullmatch(name))


def _name(tool: str, version: str) -> str:
    """A tool with its version, without what is in parentheses behind it: where its sources were."""
    return f"{tool[:MAX_NAME_CHARS]} {version.partition(' (')[0][:MAX_NAME_CHARS]}".strip()
