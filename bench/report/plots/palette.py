"""The looks of variants and of parts of the time, the same in every plot.

The hues are those of Okabe and Ito (Color Universal Design, 2008), which colour-blind people tell apart, in shades with
a contrast of at least 3:1 to white and to near-black, as WCAG 2.1 (1.4.11) asks of graphics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from bench.run import Variant


class Look(NamedTuple):
    """How a variant is drawn."""

    colour: str
    dashes: str = "-"
    marker: str = "o"


BLUE, VERMILION, GREEN, PURPLE = "#2176c7", "#d1570a", "#0b8f6a", "#b35c9e"
CYAN, OLIVE, GREY = "#1a97b0", "#8f7a00", "#7b838c"

LOOKS: Final[Mapping[str, Look]] = {
    "stock": Look(GREY, marker="D"),
    "stock-unbatched": Look(GREY, "--", "d"),
    "native": Look(GREEN, marker="^"),
    "native-noscores": Look(GREEN, "--", ">"),
    "wasmtime": Look(CYAN, marker="v"),
    "wasmer": Look(CYAN, "--", "<"),
    "upstream": Look(PURPLE, marker="P"),
    "kwx-top1": Look(BLUE, "-.", "*"),
    "kwx-top5": Look(BLUE, "-.", "p"),
    "kwx": Look(BLUE),
    "kwx-whole": Look(BLUE, "--", "s"),
    "gang-native": Look(GREY, marker="D"),
    "gang-coscheduling": Look(VERMILION),
    "gang-kwx": Look(BLUE),
    "gang-kwx-native": Look(BLUE, "--", "s"),
    "goextender-top1": Look(VERMILION, "-.", "*"),
    "goextender": Look(VERMILION),
    "goextender-whole": Look(VERMILION, "--", "s"),
}
"""Ours are blue and cyan, Go's extender is vermilion; dashes and squares are whole nodes, stars the best node alone."""

UNKNOWN: Final = Look(OLIVE, ":", "X")

PART_COLOURS: Final[Mapping[str, str]] = {
    "clientEncode": "#c98a00",
    "transport": "#7b838c",
    "decode": "#d1570a",
    "map": "#0b8f6a",
    "guest": "#2176c7",
    "encode": "#e07b39",
    "clientDecode": "#a37000",
}
"""JSON is in warm colours, transport grey, what an extender is there for green and blue."""

NEUTRAL: Final = "#806f63"
"""The colour of a time that is not divided into parts."""

PROCESS_COLOURS: Final[Mapping[str, str]] = {
    "kube-scheduler": GREY,
    "extender": BLUE,
    "kube-apiserver": GREEN,
    "etcd": PURPLE,
    "kwok": OLIVE,
}


def look(variant: Variant) -> Look:
    """How a variant is drawn."""
    return LOOKS.get(variant.name, UNKNOWN)
