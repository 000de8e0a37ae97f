"""Valid guests whose code does anything: calls the host with any numbers, hands over any bytes, returns any codes."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from random import Random

import wasmtime

from tests.wasm_runtime.guest_modules import types
from wasm_runtime import abi, driver
from wasm_runtime.module import wasi

FUNCTIONS = {**wasi.FUNCTIONS, **driver.HOST_FUNCTIONS}
OFTEN = tuple(driver.HOST_FUNCTIONS)
"""The functions that are the host's own; those of the engine are called now and then."""

DATA = 1024
"""Where the bytes begin that guests hand over, each `ROOM` after the one before."""
ROOM = 512
PIECES = 12

EDGES = (0, 1, 2, 7, 8, DATA, 4096, 65_535, 65_536, 1 << 20, 2**31 - 1, 2**31, 2**32 - 8, 2**32 - 1)
ENDINGS = (
    "unreachable",
    "(loop $forever (br $forever))",
    "(drop (i32.div_u (i32.const 1) (i32.const 0)))",
)
DEEPEST = 2
"""How deep blocks nest."""
NUMBERS = 32_768
"""Where most guests have the buffer for numbers of nodes, and that for records."""
ANSWERS = (0, 0, 2, 3, 1, 100, 255)
"""Bytes of the answers in it: codes, parts of a reason's number, and of scores."""
CODES = (0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 9, -1, 31, 32, 2**31 - 1)
NAMES = ("node-a", "node-b", "größe", "gone", "x" * 253, "nobody", "")
"""Of nodes, and of pods that wait, of which some exist."""


def invent(dice: Random) -> bytes:
    """A guest as a binary module. Most can be made and run for a while."""
    return bytes(wasmtime.wat2wasm(_Guest(dice).text()))


def bytes_to_hand_over(dice: Random) -> bytes:
    """What a guest may hand over, good or nearly so."""
    names = [dice.choice(NAMES) for _ in range(dice.randrange(6))]
    scores: dict[str, object] = {name: dice.choice((0, 7, 100, 101, -1, 2**63, 1.5, None, "1", [])) for name in names}
    made = dice.choice(
        (
            "".join(f"{name}\0" for name in names).encode(),
            json.dumps(dict.fromkeys(NAMES[:2], dice.randint(-1, 101))).encode(),
            json.dumps(scores).encode(),
            b"[" * dice.randrange(ROOM),
            json.dumps({"regarding": dice.choice(NAMES), "reason": "r", "note": "%s", "args": names}).encode(),
            b"".join(struct.pack("<II", dice.randrange(14), dice.getrandbits(32)) for _ in names),
            dice.choice(NAMES).encode(),
            dice.randbytes(dice.randrange(ROOM)),
        )
    )
    if dice.random() < 0.3 and made:
        spoilt = bytearray(made)
        spoilt[dice.randrange(len(made))] = dice.randrange(256)
        made = bytes(spoilt)
    return made[:ROOM]


class _Guest:
    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._data = [bytes_to_hand_over(dice) for _ in range(PIECES)]
        self._used: set[abi.Import] = set()

    def text(self) -> str:
        dice = self._dice
        names = [name for name in abi.EXPORTS if dice.random() < 0.5] or ["filter"]
        if {"prescore", "normalizescore"} & set(names) and dice.random() < 0.95:
            names = [*{*names, "score"}]
        functions = [self._export(name) for name in sorted(names)]
        functions += [self._resident(name) for name in self._keeping(names)]
        if dice.random() < 0.2:
            functions.append(f'(func (export "{dice.choice(abi.START)}") {self._locals()} {self._body()})')
        if dice.random() < 0.05:
            functions.append(f"(func $early {self._locals()} {self._body()}) (start $early)")
        data = [
            f'(data (i32.const {DATA + ROOM * at}) "{"".join(f"{chr(92)}{byte:02x}" for byte in piece)}")'
            for at, piece in enumerate(self._data)
        ]
        return "\n".join(["(module $guest", *self._imports(), self._memory(), *data, *functions, ")"])

    def _memory(self) -> str:
        least = self._dice.choice((1, 1, 1, 2, 16))
        most = self._dice.choice(("", "", f"{least}", f"{least + 3}", "65536"))
        return f'(memory (export "memory") {least} {most}) (table $table {self._dice.choice((0, 1, 100))} funcref)'

    def _imports(self) -> list[str]:
        return [
            f'(import "{each.module}" "{each.name}" (func ${each} {types(FUNCTIONS[each])}))'
            for each in sorted(self._used)
        ]

    def _export(self, name: str) -> str:
        results = abi.EXPORTS[name].signature.results
        code = self._code()
        answer = {
            (): "",
            ("i32",): code,
            ("i64",): f"(i64.or (i64.extend_i32_u {code}) (i64.shl (i64.extend_i32_u {self._code()}) (i64.const 32)))",
        }[results]
        if name == "bindingannotations" and self._dice.random() < 0.8:
            at = self._dice.randrange(PIECES)
            answer = f"(i64.const {(DATA + ROOM * at) << 32 | len(self._data[at])})"
        return f'(func ${name} (export "{name}") (result {" ".join(results)}) {self._locals()} {self._body()} {answer})'

    def _keeping(self, names: Sequence[str]) -> list[str]:
        """What a guest exports to keep nodes, pods and groups: nothing, or most often what goes together."""
        dice = self._dice
        if dice.random() < 0.5:
            return []
        if dice.random() < 0.05:
            return dice.sample(list(abi.RESIDENT), dice.randint(1, len(abi.RESIDENT)))
        lists = [listed for name, listed in abi.LISTS.items() if name in names and dice.random() < 0.8]
        others = [name for name in ("collectgarbage", "nodebuffer") if name in lists or dice.random() < 0.5]
        streams = [each for each in abi.RECORD_STREAMS if dice.random() < 0.6]
        if "groupschanged" not in streams and "memberschanged" in streams:
            streams.remove("memberschanged")
        buffers = [*(["nodebuffer"] if lists else []), *(["podbuffer"] if streams else [])]
        return sorted({"nodechanged", "noderemoved", *lists, *others, *streams, *buffers})

    def _resident(self, name: str) -> str:
        """An export that gets a number, of a node, of nodes or of bytes, where it gets anything."""
        dice, signature = self._dice, abi.RESIDENT[name]
        given = "(param $given i32)" if signature.params else ""
        begin = "(local.set $a (local.get $given))" if signature.params else ""
        answer = self._code() if signature.results else ""
        if name in {"nodebuffer", "podbuffer"} and dice.random() < 0.9:
            answer = f"(i32.const {NUMBERS})"
        if name in abi.LISTS.values() and dice.random() < 0.7:
            size = "(i32.shl (local.get $given) (i32.const 2))"
            answer = f"(memory.fill (i32.const {NUMBERS}) (i32.const {dice.choice(ANSWERS)}) {size}) {answer}"
        head = f'(func ${name} (export "{name}") {given} (result {" ".join(signature.results)})'
        return f"{head} {self._locals()} {begin} {self._body()} {answer})"

    def _code(self) -> str:
        return f"(i32.const {self._dice.choice(CODES)})" if self._dice.random() < 0.9 else self._value()

    def _locals(self) -> str:
        return "(local $a i32) (local $b i32) (local $n i32)"

    def _body(self, depth: int = 0) -> str:
        return " ".join(self._statement(depth) for _ in range(self._dice.randrange(8 - 2 * depth)))

    def _statement(self, depth: int) -> str:
        dice, place, value = self._dice, self._place(), self._value()
        choices = (
            (60, self._call),
            (8, lambda: f"(local.set {self._local()} {value})"),
            (5, lambda: f"({dice.choice(('i32.store', 'i32.store8'))} {place} {value})"),
            (3, lambda: f"(memory.fill {place} {value} (i32.const {dice.randrange(5_000)}))"),
            (3, lambda: f"(drop (memory.grow (i32.const {dice.choice((0, 1, 5, 300, 65_536))})))"),
            (1, lambda: f"(drop (table.grow $table (ref.null func) (i32.const {dice.choice((1, 1000, 1 << 30))})))"),
            (1, lambda: dice.choice(ENDINGS)),
            (5 * (depth < DEEPEST), lambda: f"(if (i32.and (i32.const 1) {value}) (then {self._body(depth + 1)}))"),
            (5 * (depth < DEEPEST), lambda: self._loop(depth)),
        )
        ((_, make),) = dice.choices(choices, [weight for weight, _ in choices])
        return make()

    def _loop(self, depth: int) -> str:
        """Over and over, for a while or, where loops are in loops, until the deadline."""
        times, label = self._dice.choice((1, 3, 100, 5_000)), f"$l{depth}"
        again = f"(br_if {label} (local.tee $n (i32.sub (local.get $n) (i32.const 1))))"
        return f"(local.set $n (i32.const {times})) (loop {label} {self._body(depth + 1)} {again})"

    def _call(self) -> str:
        function = self._dice.choice(OFTEN if self._dice.random() < 0.9 else [*FUNCTIONS])
        signature = FUNCTIONS[function]
        self._used.add(function)
        call = f"(call ${function} {' '.join(self._arguments(signature.params))})"
        return f"(local.set {self._local()} {call})" if signature.results else call

    def _local(self) -> str:
        return self._dice.choice(("$a", "$b"))

    def _arguments(self, kinds: Sequence[str]) -> list[str]:
        """Any numbers, or a pointer and a length of something that is there, once or twice."""
        dice, arguments = self._dice, list[str]()
        if "i64" not in kinds and dice.random() < 0.75:
            arguments = ["(i32.const 1)"] if len(kinds) % 2 else []
            while len(arguments) < len(kinds):
                at = dice.randrange(PIECES)
                length = len(self._data[at]) if dice.random() < 0.7 else dice.choice((0, 16, 64, ROOM, 4_096))
                arguments += [f"(i32.const {DATA + ROOM * at})", f"(i32.const {length})"]
            return arguments
        return [self._value() if kind == "i32" else f"(i64.const {dice.getrandbits(64)})" for kind in kinds]

    def _place(self) -> str:
        """An address, inside of the memory mostly."""
        return f"(i32.and (i32.const {0xFFFF if self._dice.random() < 0.95 else -1}) {self._value()})"

    def _value(self) -> str:
        dice = self._dice
        return dice.choice(
            (
                f"(i32.const {dice.choice(EDGES)})",
                f"(i32.const {dice.getrandbits(32)})",
                f"(i32.const {dice.randrange(8192)})",
                "(local.get $a)",
                "(local.get $b)",
                f"(i32.load (i32.const {dice.randrange(DATA + ROOM * PIECES)}))",
                "(i32.shl (memory.size) (i32.const 16))",
            )
        )
