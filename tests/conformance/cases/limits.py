"""Results at the limits of their integers, and scores around the range that the framework allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.conformance.calls import NODE, Failed, calls, failed
from tests.conformance.case import Case
from tests.conformance.guests import BUFFER, TEXT, export, guest, only, size, tells, told
from tests.wasm_runtime.guest_modules import call
from tests.wasm_runtime.world import world
from wasm_runtime import Fault
from wasm_runtime.abi import Code
from wasm_runtime.guests.guest import Nomination, Permission, Status

SCORES: Final = "k8s.io/scheduler/nodeScoreList"
NORMALIZED: Final = "k8s.io/scheduler/result.normalized_score_list"

LEAST: Final = -(2**31)
MOST: Final = 2**31 - 1
SIGNED: Final = (LEAST, LEAST + 1, -1, 0, 1, 99, 100, 101, MOST - 1, MOST)


def _in_range(score: int) -> bool:
    return 0 <= score <= 100


def _outside(export: str, score: int) -> Failed:
    return failed(Fault.RESULT, f"{export} of node {NODE}: score {score} is outside 0..100")


def _scores() -> Iterator[Case]:
    for score in SIGNED:
        yield Case(
            f"score returns {score}",
            guest(export("score", value=score)),
            calls("score"),
            [score] if _in_range(score) else _outside("score", score),
        )
        yield Case(
            f"score returns {score}, which normalizescore leaves as it is",
            guest(export("score", value=score), export("normalizescore")),
            calls("score"),
            [score] if _in_range(score) else _outside("normalizescore", score),
        )
        given = f'{{"{NODE}":{score}}}'
        yield Case(
            f"score returns {score}, which normalizescore sees and makes 50",
            guest(
                export("score", value=score),
                export("normalizescore", tells(SCORES, BUFFER, 32, shown=32), call(NORMALIZED, TEXT, 13)),
                uses=[SCORES, NORMALIZED],
                data={TEXT: f'{{"{NODE}":50}}'},
            ),
            calls("score"),
            [50],
            [told(len(given), given.ljust(32, "*"))],
        )
    yield Case(
        "score returns -7 and an error: the score means nothing",
        guest(export("score", code=1, value=-7)),
        calls("score"),
        failed(Fault.STATUS, f"score of node {NODE}: Error without a reason"),
    )


NO_OBJECT: Final = "normalizescore: the normalized scores are no JSON object of node names and integers: "

HANDED_OVER: Final[dict[str | bytes, object]] = {
    "": [7, 7],
    "null": [7, 7],
    "{}": [7, 7],
    '{"node-a":0,"node-b":100}': [0, 100],
    '{"node-b":2,"node-a":1}': [1, 2],
    ' { "node-a" : 1 , "node-b" : 2 }\r\n\t': [1, 2],
    '{"node-a":1,"node-b":2,"node-c":1000}': [1, 2],
    '{"node-a":9,"node-b":2,"node-a":1}': [1, 2],
    '{"node\\u002da":1,"node-b":2}': [1, 2],
    '{"node-a":-0,"node-b":2}': [0, 2],
    '{"node-a":1}': failed(Fault.RESULT, "normalizescore: the normalized scores have none for node node-b"),
    '{"NODE-A":1,"node-b":2}': failed(Fault.RESULT, "normalizescore: the normalized scores have none for node node-a"),
    '{"node-a":-1,"node-b":2}': _outside("normalizescore", -1),
    '{"node-a":101,"node-b":2}': _outside("normalizescore", 101),
    f'{{"node-a":{2**31},"node-b":2}}': _outside("normalizescore", 2**31),
    f'{{"node-a":{-(2**63)},"node-b":2}}': _outside("normalizescore", -(2**63)),
    f'{{"node-a":{2**63 - 1},"node-b":2}}': _outside("normalizescore", 2**63 - 1),
    '{"node-a":1.5,"node-b":2}': failed(Fault.RESULT, f"{NO_OBJECT}Expected `int`, got `float` - at `$[...]`"),
    '{"node-a":"1","node-b":2}': failed(Fault.RESULT, f"{NO_OBJECT}Expected `int`, got `str` - at `$[...]`"),
    '{"node-a":true,"node-b":2}': failed(Fault.RESULT, f"{NO_OBJECT}Expected `int`, got `bool` - at `$[...]`"),
    '{"node-a":null,"node-b":2}': failed(Fault.RESULT, f"{NO_OBJECT}Expected `int`, got `null` - at `$[...]`"),
    "[1,2]": failed(Fault.RESULT, f"{NO_OBJECT}Expected `object | null`, got `array`"),
    "100": failed(Fault.RESULT, f"{NO_OBJECT}Expected `object | null`, got `int`"),
    '{"node-a":1,"node-b":2': failed(Fault.RESULT, f"{NO_OBJECT}Input data was truncated"),
    '{"node-a":1,"node-b":2}{}': failed(Fault.RESULT, f"{NO_OBJECT}JSON is malformed: trailing characters (byte 24)"),
    '\ufeff{"node-a":1,"node-b":2}': failed(Fault.RESULT, f"{NO_OBJECT}JSON is malformed: invalid character (byte 0)"),
    b'{"node-\xff":1,"node-b":2}': failed(
        Fault.RESULT, f"{NO_OBJECT}'utf-8' codec can't decode byte 0xff in position 5: invalid start byte"
    ),
    '{"node-a":1e1,"node-b":2}': failed(Fault.RESULT, f"{NO_OBJECT}Expected `int`, got `float` - at `$[...]`"),
    '{"node-a":1.0,"node-b":2}': failed(Fault.RESULT, f"{NO_OBJECT}Expected `int`, got `float` - at `$[...]`"),
    f'{{"node-a":{2**63},"node-b":2}}': _outside("normalizescore", 2**63),
    f'{{"node-a":{10**30},"node-b":2}}': _outside("normalizescore", 10**30),
}
"""What normalizescore hands over for two nodes of score 7, and what comes of it."""


def _normalized() -> Iterator[Case]:
    for given, value in HANDED_OVER.items():
        yield Case(
            f"normalizescore hands over {given!r}",
            guest(
                export("score", value=7),
                export("normalizescore", call(NORMALIZED, TEXT, size(given))),
                uses=[NORMALIZED],
                data={TEXT: given},
            ),
            calls("score", at=world({"node-a": b"A", "node-b": b"B"})),
            value,
        )


def _modes() -> Iterator[Case]:
    for mode in SIGNED:
        yield Case(
            f"postfilter returns the nominating mode {mode}",
            guest(export("postfilter", value=mode)),
            calls("postfilter"),
            Nomination(Status(Code.SUCCESS), mode, ""),
        )


def _timeouts() -> Iterator[Case]:
    for milliseconds in (0, 1, 999, 1000, MOST, MOST + 1, 2**32 - 1):
        yield Case(
            f"permit waits {milliseconds} ms",
            guest(export("permit", code=4, value=milliseconds)),
            calls("permit"),
            Permission(Status(Code.WAIT), milliseconds / 1000),
        )
    yield Case(
        "permit returns its code in the low half, where the timeout is",
        guest(only("permit", value=2)),
        calls("permit"),
        Permission(Status(Code.SUCCESS), 0.002),
    )


CASES = [*_scores(), *_normalized(), *_modes(), *_timeouts()]
