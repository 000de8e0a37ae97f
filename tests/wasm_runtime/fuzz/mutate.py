"""Modules that were good once."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

PREAMBLE = b"\0asm\1\0\0\0"
CODE, DATA = 10, 11

ALIKE = (
    range(0x2C, 0x30),
    range(0x3A, 0x3C),
    range(0x46, 0x50),
    range(0x51, 0x5B),
    range(0x6A, 0x79),
    range(0x7C, 0x8B),
)
"""Instructions that take and give the same types as their neighbours: loads, stores, comparisons, arithmetic."""
CONSTANT = 0x41

EDGES = (0x00, 0x01, 0x0B, 0x40, 0x60, 0x7F, 0x80, 0xFC, 0xFF)
"""Bytes that mean something in many places of a module, or nothing anywhere."""


class Section(NamedTuple):
    id: int
    content: bytes


def mutate(dice: Random, wasm: bytes, other: bytes) -> bytes:
    """A module with a few changes; `other` is one that parts may come from. Some half of them are still valid."""
    kind = dice.random()
    if kind < 0.05:
        return wasm[: dice.randrange(len(wasm))]
    if kind < 0.15:
        return _spoil(dice, wasm)
    sections = split(wasm)
    for _ in range(dice.randint(1, 20)):
        _tweak(dice, sections)
    if kind < 0.4:
        dice.choice((_shuffle, _drop, _repeat, _exchange, _edit, _edit))(dice, sections, other)
    return join(sections)


def split(wasm: bytes) -> list[Section]:
    """The sections of a module."""
    at, sections = len(PREAMBLE), []
    while at < len(wasm):
        kind, length, start = wasm[at], *_number(wasm, at + 1)
        sections.append(Section(kind, wasm[start : start + length]))
        at = start + length
    return sections


def join(sections: list[Section]) -> bytes:
    """A module of sections, each with the length that it has."""
    return PREAMBLE + b"".join(bytes([each.id]) + _leb(len(each.content)) + each.content for each in sections)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """The LEB128 at a place, and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def _leb(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _leb(rest) if rest else bytes([low])


def _shuffle(dice: Random, sections: list[Section], _: bytes) -> None:
    dice.shuffle(sections)


def _drop(dice: Random, sections: list[Section], _: bytes) -> None:
    if sections:
        sections.pop(dice.randrange(len(sections)))


def _repeat(dice: Random, sections: list[Section], _: bytes) -> None:
    if sections:
        sections.insert(dice.randrange(len(sections)), dice.choice(sections))


def _exchange(dice: Random, sections: list[Section], other: bytes) -> None:
    """Puts another module's section in the place of one of the same kind."""
    theirs = dice.choice(split(other))
    for at, section in enumerate(sections):
        if section.id == theirs.id:
            sections[at] = theirs


def _tweak(dice: Random, sections: list[Section]) -> None:
    """Changes an instruction or a constant to another one, or a byte of data."""
    places = [at for at, section in enumerate(sections) if section.id in {CODE, DATA} and section.content]
    if not places:
        return
    place = dice.choice(places)
    data = bytearray(sections[place].content)
    at = dice.randrange(len(data))
    if sections[place].id == DATA:
        data[at] = dice.randrange(256)
    elif data[at] == CONSTANT and data[at + 1 : at + 2] < b"\x80":
        data[at + 1 : at + 2] = bytes([dice.randrange(0x80)])
    else:
        alike = next((each for each in ALIKE if data[at] in each), (data[at],))
        data[at] = dice.choice(alike)
    sections[place] = Section(sections[place].id, bytes(data))


def _edit(dice: Random, sections: list[Section], _: bytes) -> None:
    """Changes the content of a section."""
    if sections:
        at = dice.randrange(len(sections))
        sections[at] = Section(sections[at].id, _spoil(dice, sections[at].content))


def _spoil(dice: Random, content: bytes) -> bytes:
    data = bytearray(content)
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(data) + 1)
        length = dice.randint(1, 8)
        change = dice.randrange(6)
        if change == 0 and at < len(data):
            data[at] ^= 1 << dice.randrange(8)
        elif change == 1 and at < len(data):
            data[at] = dice.choice(EDGES)
        elif change == 2:
            data[at:at] = dice.randbytes(length)
        elif change == 3:
            del data[at : at + length]
        elif change == 4:
            data[at:at] = data[dice.randrange(len(data) + 1) :][:length]
        else:
            data[at : at + 1] = _leb(dice.randrange(1 << dice.randint(1, 33)))
    return bytes(data)
