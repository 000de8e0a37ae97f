"""What a module exports and imports, read off its bytes.

wasmtime's C API ends the process when it is asked for the type of a function that has a vector or a typed
reference in it, so types are read here, of modules that the engine has already found valid.
Source: https://webassembly.github.io/spec/core/binary/modules.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeVar

import msgspec

from wasm_runtime.abi import FunctionType, Import
from wasm_runtime.errors import ModuleError

T = TypeVar("T")

MAGIC: Final = b"\0asm"

EMPTY: Final = MAGIC + b"\x01\0\0\0"
"""The module that has nothing in it; every other one begins with it."""

PREAMBLE: Final = len(EMPTY)

COMPONENT: Final = b"\1\0"
"""What a component has in the last two bytes of its preamble, its layer, where a module has zeros.

Source: https://github.com/WebAssembly/component-model/blob/main/design/mvp/Binary.md
"""
_TYPES, _IMPORTS, _FUNCTIONS, _EXPORTS = 1, 2, 3, 7
_SECTION_LIMITS: Final = {_TYPES: ("types", 1 << 20), _IMPORTS: ("imports", 1 << 16), _EXPORTS: ("exports", 1 << 20)}
"""Bytes that a section may have: what is made of it is kept as long as the module. Standard Go makes 2 KiB of all."""
_KINDS: Final = ("function", "table", "memory", "global", "tag")

_HEAP: Final = (
    "contref exnref arrayref structref i31ref eqref anyref externref funcref"
    " nullref nullexternref nullfuncref nullexnref nullcontref"
)
_NAMES: Final = {
    **dict(enumerate(_HEAP.split(), 0x68)),
    **dict(enumerate(("i16", "i8"), 0x77)),
    **dict(enumerate(("v128", "f64", "f32", "i64", "i32"), 0x7B)),
}
"""Types of one byte."""
_REFERENCES: Final = {0x64: "ref", 0x63: "ref null"}
"""Types that a heap type follows."""
_FUNCTION, _STRUCT, _ARRAY = 0x60, 0x5F, 0x5E
_GROUP: Final = 0x4E
_SUBTYPES: Final = (0x50, 0x4F)


class Interface(NamedTuple):
    """Everything that a module exports and imports: the signature of a function, the kind of anything else."""

    exports: dict[str, FunctionType | str]
    imports: dict[Import, FunctionType | str]

    def to_json(self) -> bytes:
        """The interface on one line. A signature is written once, however many functions have it."""
        types = list(dict.fromkeys([*self.exports.values(), *self.imports.values()]))
        places = {each: at for at, each in enumerate(types)}
        exports = {name: places[each] for name, each in self.exports.items()}
        imports = [(name, places[each]) for name, each in self.imports.items()]
        return msgspec.json.encode(_InterfaceJson(types, exports, imports))

    @classmethod
    def from_json(cls, text: bytes) -> Interface:
        """Reads what `to_json` has written."""
        types, exports, imports = msgspec.json.decode(text, type=_InterfaceJson)
        return cls({name: types[at] for name, at in exports.items()}, {name: types[at] for name, at in imports})


class _InterfaceJson(NamedTuple):
    """An interface as JSON: exports and imports refer to their types by place."""

    types: list[FunctionType | str]
    exports: dict[str, int]
    imports: list[tuple[Import, int]]


def check_preamble(wasm: bytes) -> None:
    """Raises ModuleError for what is no module at all, before an engine has its own words for it."""
    if not wasm.startswith(MAGIC):
        raise ModuleError([f"is no valid WebAssembly module: begins with {wasm[:4]!r}, not with {MAGIC!r}"])
    if wasm[PREAMBLE - len(COMPONENT) : PREAMBLE] == COMPONENT:
        raise ModuleError(
            [
                "is a WebAssembly component, not a core module: build it for wasm32-wasip1 or wasm32-unknown-unknown,"
                " not for wasip2, and leave out `wasm-tools component new`"
            ]
        )


def interface(wasm: bytes) -> Interface:
    """The interface of a valid binary module. Raises ModuleError for an encoding that is not known, or too much."""
    try:
        return _read(wasm)
    except ValueError as error:
        raise ModuleError([f"uses what is not known here: {error}"]) from error


def _read(wasm: bytes) -> Interface:
    reader = BinaryReader(wasm, PREAMBLE)
    types: list[FunctionType] = []
    imports: dict[Import, FunctionType | str] = {}
    functions: list[int] = []
    exports: dict[str, FunctionType | str] = {}
    for section, length in reader.sections():
        name, limit = _SECTION_LIMITS.get(section, ("", length))
        if length > limit:
            raise ModuleError([f"has {length} bytes of {name}, the limit is {limit}"])
        if section == _TYPES:
            types = [each for group in reader.vector(reader.types) for each in group]
        elif section == _IMPORTS:
            for imported, kind, index in reader.vector(reader.imported):
                if kind == "function":
                    functions.append(index)
                imports[imported] = types[index] if kind == "function" else kind
        elif section == _FUNCTIONS:
            functions += reader.vector(reader.number)
        elif section == _EXPORTS:
            for text, kind, index in reader.vector(reader.exported):
                exports[text] = types[functions[index]] if kind == "function" else kind
    return Interface(exports, imports)


def leb128(number: int) -> bytes:
    """An unsigned number as the binary format writes it."""
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


class BinaryReader:
    """The encodings of the binary format, one after the other."""

    def __init__(self, wasm: bytes, at: int) -> None:
        self._wasm = wasm
        self.at = at

    def sections(self) -> Iterator[tuple[int, int]]:
        """Each section's number and length. The caller may read any part of its content, which comes next."""
        while self.at < len(self._wasm):
            section, length = self.byte(), self.number()
            end = self.at + length
            yield section, length
            self.at = end

    def byte(self) -> int:
        """The next byte."""
        self.at += 1
        return self._wasm[self.at - 1]

    def number(self) -> int:
        """LEB128. The sign is left out: nothing here depends on it."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def text(self) -> str:
        """A name, UTF-8 with its length before it."""
        length = self.number()
        self.at += length
        return self._wasm[self.at - length : self.at].decode()

    def vector(self, item: Callable[[], T]) -> list[T]:
        """As many items as the number before them says."""
        return [item() for _ in range(self.number())]

    def imported(self) -> tuple[Import, str, int]:
        """An import: its name, its kind, and the index of its type if it is a function."""
        name, kind = Import(self.text(), self.text()), self._kind()
        if kind in {"function", "tag"}:
            self.at += kind == "tag"
            return name, kind, self.number()
        if kind in {"table", "global"}:
            self._type()
        if kind == "global":
            self.byte()
        else:
            self._limits()
        return name, kind, 0

    def exported(self) -> tuple[str, str, int]:
        """An export: its name, its kind and its index."""
        return self.text(), self._kind(), self.number()

    def types(self) -> list[FunctionType]:
        """One type, or those of a group. One that is no function's is empty: no function refers to it."""
        if self._wasm[self.at] != _GROUP:
            return [self._defined()]
        self.byte()
        return self.vector(self._defined)

    def _defined(self) -> FunctionType:
        form = self.byte()
        if form in _SUBTYPES:
            self.vector(self.number)
            form = self.byte()
        if form == _FUNCTION:
            return FunctionType(tuple(self.vector(self._type)), tuple(self.vector(self._type)))
        if form == _STRUCT:
            self.vector(self._field)
        elif form == _ARRAY:
            self._field()
        else:
            raise ValueError(f"type form {form:#x} is not known")
        return FunctionType()

    def _field(self) -> None:
        self._type()
        self.byte()

    def _type(self) -> str:
        byte = self.byte()
        if byte in _REFERENCES:
            heap = self._wasm[self.at]
            number = self.number()
            return f"({_REFERENCES[byte]} {_NAMES.get(heap, str(number)).removesuffix('ref')})"
        try:
            return _NAMES[byte]
        except KeyError:
            raise ValueError(f"type {byte:#x} is not known") from None

    def _limits(self) -> None:
        flags = self.byte()
        self.number()
        if flags & 1:
            self.number()
        if flags & 8:
            self.number()

    def _kind(self) -> str:
        kind = self.byte()
        if kind >= len(_KINDS):
            raise ValueError(f"kind {kind:#x} of an import or export is not known")
        return _KINDS[kind]
