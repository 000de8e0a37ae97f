"""What a guest gives as annotations of its pod, and what of it is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tests.conformance.calls import NODE, calls, failed, one_by_one
from tests.conformance.case import Case
from tests.conformance.guests import PAGE, TEXT, WRITE, export, guest, only, size
from wasm_runtime import Fault

EXPORT: Final = "bindingannotations"
MOST: Final = 65_536
"""Bytes that are taken."""


def _refused(cause: str) -> object:
    return failed(Fault.RESULT, f"{EXPORT} of node {NODE}: {cause}")


def _gives(name: str, data: bytes, value: object) -> Case:
    """A guest that gives bytes."""
    body = guest(only(EXPORT, value=TEXT, code=len(data)), data={TEXT: data})
    return Case(name, body, calls(EXPORT), value)


GIVEN: Final[Mapping[str, dict[str, str]]] = {
    "one annotation": {"example.com/gpus": "0,3"},
    "two annotations": {"b": "1", "a": "2"},
    "an empty value": {"a": ""},
    "a value with signs of any kind": {"a": '{"größe": "☃\\n\t"}\n'},
    "the longest name": {"n" * 63: "v"},
    "the longest domain": {f"{'d' * 249}.com/name": "v"},
    "keys with all signs that they may have": {"Example-1.com/A_b-c.D9": "1", "A_b-c.D9": "2", "0": "3"},
    "64 annotations": {f"key-{at}": str(at) for at in range(64)},
}


def _written(annotations: Mapping[str, str]) -> bytes:
    return "".join(f"{key}\0{value}\0" for key, value in annotations.items()).encode()


def _key(quoted: str) -> str:
    return (
        f"{quoted} is no key of an annotation, which is a name of at most 63 letters, digits, '-', '_' and '.',"
        " with a domain and '/' before it or not"
    )


REFUSED: Final[Mapping[bytes, str]] = {
    b"a\0one": "the last text does not end with NUL",
    b"a\0one\0b": "the last text does not end with NUL",
    b"a": "the last text does not end with NUL",
    b"a\0": "1 texts are no pairs of a key and a value",
    b"a\0one\0b\0": "3 texts are no pairs of a key and a value",
    b"\0one\0": _key("''"),
    b"\xff\0one\0": "the text b'\\xff' is no UTF-8",
    b"a\0\xe2\x98\0": "the text b'\\xe2\\x98' is no UTF-8",
    b"a\0one\0a\0two\0": "the key 'a' is there twice",
    b"a\0one\0a\0one\0": "the key 'a' is there twice",
    b"a b\0one\0": _key("'a b'"),
    b"a\n\0one\0": _key("'a\\n'"),
    b"-a\0one\0": _key("'-a'"),
    b"a.\0one\0": _key("'a.'"),
    b"/a\0one\0": _key("'/a'"),
    b"example.com/\0one\0": _key("'example.com/'"),
    b"example.com/a/b\0one\0": _key("'example.com/a/b'"),
    b"example_.com/a\0one\0": _key("'example_.com/a'"),
    b"example..com/a\0one\0": _key("'example..com/a'"),
    "größe\0one\0".encode(): _key("'größe'"),
    "\u212a\0one\0".encode(): _key("'\u212a'"),
    b"n" * 64 + b"\0one\0": _key(f"'{'n' * 64}'"),
    b"d" * 254 + b"/a\0one\0": _key(f"'{'d' * 47} … {'d' * 45}/a'"),
    b"".join(b"k%d\0\0" % at for at in range(65)): "65 annotations were handed over, at most 64 are taken",
}
"""Bytes, and why they are no annotations."""


def _texts() -> Iterator[Case]:
    for what, given in GIVEN.items():
        yield _gives(what, _written(given), given)
    for data, cause in REFUSED.items():
        yield _gives(f"{data[:24]!r}, {len(data)} bytes", data, _refused(cause))


def _placed(name: str, at: int, length: int, value: object, *body: str) -> Case:
    """A guest that gives so many bytes from an address on, with an annotation at the end of its memory."""
    made = guest(only(EXPORT, *body, value=at, code=length), data={PAGE - 4: "a\0b\0"})
    return Case(name, made, calls(EXPORT), value)


def _places() -> Iterator[Case]:
    yield _placed("bytes at the end of memory", PAGE - 4, 4, {"a": "b"})
    for at in (0, 1, TEXT, PAGE, PAGE + 1, 2**31, 2**32 - 1):
        yield _placed(f"no bytes at {at}", at, 0, {})
    for at, length in (
        (PAGE - 3, 4),
        (PAGE, 1),
        (PAGE + 1, 1),
        (2**31, 4),
        (2**32 - 4, 4),
        (2**32 - 1, MOST),
        (1, MOST),
    ):
        yield _placed(
            f"{length} bytes at {at}, out of memory",
            at,
            length,
            _refused(f"{length} bytes at {at} are not in the memory"),
        )
    for length in (MOST + 1, 2**31, 2**32 - 1):
        cause = f"{length} bytes were handed over, at most {MOST} are taken"
        yield _placed(f"{length} bytes", 0, length, _refused(cause))
    grows = f"(drop (memory.grow (i32.const 2))) (i32.store (i32.const {2 * PAGE}) (i32.const {0x0062_0061}))"
    yield _placed("bytes of a memory that has grown meanwhile", 2 * PAGE, 4, {"a": "b"}, grows)
    fills = f"(memory.fill (i32.const {TEXT}) (i32.const {ord('v')}) (i32.const {MOST - 3}))"
    longest = guest(only(EXPORT, fills, value=TEXT - 2, code=MOST), data={TEXT - 2: "k\0"}, pages=2)
    yield Case("as many bytes as there may be", longest, calls(EXPORT), {"k": "v" * (MOST - 3)})


SAID: Final = "no GPU"


def _goes_on() -> Iterator[Case]:
    """The instance is kept, and what it printed is quoted."""
    prints = f"(drop (call ${WRITE} (i32.const 1) (i32.const 16) (i32.const 1) (i32.const 32)))"
    counts = "(global $calls (mut i32) (i32.const 0))"
    again = "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))"
    length = "(i64.extend_i32_u (i32.add (i32.const 2) (i32.shl (global.get $calls) (i32.const 1))))"
    yield Case(
        "what is wrong is refused, and the instance goes on",
        guest(
            counts,
            f'(func (export "{EXPORT}") (result i64) {prints} {again}'
            f" (i64.or (i64.shl (i64.const {TEXT}) (i64.const 32)) {length}))",
            export("reserve"),
            uses=[WRITE],
            data={TEXT: "a\0b\0c\0d\0", 16: _vector(TEXT + 64, size(SAID)), TEXT + 64: SAID},
        ),
        one_by_one([calls("reserve", EXPORT)] * 3),
        [
            {"a": "b"},
            _refused(f"3 texts are no pairs of a key and a value; the guest printed: {SAID}"),
            {"a": "b", "c": "d"},
        ],
    )


def _vector(at: int, length: int) -> bytes:
    return at.to_bytes(4, "little") + length.to_bytes(4, "little")


CASES = [*_texts(), *_places(), *_goes_on()]
