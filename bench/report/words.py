"""Figures as people read them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from bench.run import QUIET, Case, Unit, Variant
from bench.statistics import Estimate

SHOWN: Final[dict[Unit, tuple[float, str]]] = {
    "us": (1e-3, "ms"),
    "ms": (1.0, "ms"),
    "1/s": (1.0, "pods/s"),
    "MB": (1.0, "MB"),
    "%": (1.0, "%"),
}
"""The factor and the unit in which figures of a unit are shown; all times are shown in one unit."""


def figure(value: float, digits: int = 3) -> str:
    """A figure with so many significant digits."""
    if not math.isfinite(value):
        return "?"
    rounded = float(f"{value:.{digits - 1}e}") if abs(value) < 1000 else value
    behind = digits - 1 - math.floor(math.log10(abs(rounded))) if rounded else 0
    return f"{rounded:,.{max(0, behind)}f}"


def rough(value: float) -> str:
    """A figure for a sentence: two significant digits, or all digits before the point."""
    return figure(value, 2 if abs(value) < 99.5 else 3)


def factor(value: float) -> str:
    """A ratio: two digits after the point, fewer from 10 on, more below 0.1."""
    if not math.isfinite(value):
        return "?"
    digits = next((digits for limit, digits in ((0.0995, 3), (9.995, 2), (99.95, 1)) if value < limit), 0)
    return f"{value:,.{digits}f}"


def bounds(ratio: Estimate) -> str:
    """The interval of a ratio; empty where rounds were too few for one."""
    return f"{factor(ratio.low)} to {factor(ratio.high)}" if math.isfinite(ratio.low + ratio.high) else ""


def times(ratio: Estimate) -> str:
    """A ratio in words, as `4.12 times (3.98 to 4.31)`."""
    interval = bounds(ratio)
    return f"{factor(ratio.value)} times" + (f" ({interval})" if interval else "")


def listed(items: Sequence[str]) -> str:
    """A list in words, as `a, b and c`."""
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def count(number: int, noun: str) -> str:
    """A number of things in words, as `1 case` and `1,000 cases`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


STARTS: Final[Mapping[str, str]] = {"first": "nothing cached", "first cached": "compiled code cached"}
"""Metrics of cold starts, and what is cached in each."""

UNDIVIDED: Final = "undivided"
"""The name of the only part, in variants that cannot tell parts apart."""

MEASURED: Final[Mapping[str, str]] = {
    "pod": "time until a pod is bound",
    "gang": "time from the creation of a gang's last member until all are bound",
    "gang from first": "time from the creation of a gang's first member until all are bound",
    **{metric: f"cold start, {cached}" for metric, cached in STARTS.items()},
    "cpu": "processor time a pod",
    "memory": "peak memory",
    "attempt": "scheduling attempt",
    "algorithm": "choice of a node",
    "extender": "time that the extender spends on a pod",
    "batched": "pods placed by what was found for the one before",
}
"""Metrics, or their first words, for people; others have plain names."""


def measured(metric: str) -> str:
    """What a metric is, for people."""
    if metric.endswith(QUIET):
        return f"{measured(metric.removesuffix(QUIET))} without what goes on in the case"
    first, _, rest = metric.partition(" ")
    return MEASURED.get(metric) or ", ".join(filter(None, (MEASURED.get(first, first), rest)))


def capital(text: str) -> str:
    """The text with a capital at the beginning, and else as it was."""
    return text[:1].upper() + text[1:]


SETTINGS: Final[Mapping[str, str]] = {
    "plugins": "{} plugins",
    "nodeBytes": "nodes of {} bytes",
    "updatesPerSecond": "{} node updates a second",
    "swapsPerMinute": "{} swaps a minute",
    "members": "{} members",
    "pods": "{} pods",
    "podsPerSecond": "{} pods a second",
    "load": "a {} load",
    "alike": "pods that are alike",
}


def difference(before: Case, after: Case) -> str:
    """How the second of two cases differs, as in `3 plugins`."""
    keys = [key for key, value in after.settings.items() if before.settings.get(key) != value]
    changes = [SETTINGS.get(key, f"{key} {{}}").format(_value(after.settings[key])) for key in keys]
    return listed(changes) if changes else after.title


def _value(setting: int | float | str | bool) -> str:
    if isinstance(setting, bool):
        return "on" if setting else "off"
    return setting if isinstance(setting, str) else f"{setting:,.9g}"


BEST: Final = "kwx-top1"
"""The variant whose filter answers the best node alone."""
EXTENDERS: Final[Mapping[str, str]] = {
    "kwx": "our extender",
    BEST: "our extender with topNodes: 1",
    "kwx-top5": "our extender with topNodes: 5",
    "gang-kwx": "our extender with the policy gang",
    "gang-kwx-native": "our extender with native gang scheduling on",
}
"""What sentences call variants, by name."""


def quoted(variant: Variant) -> str:
    """A variant's title, as sentences have it."""
    return f"“{variant.title}”"


def known(variant: Variant) -> str:
    """What sentences call a variant."""
    return EXTENDERS.get(variant.name) or quoted(variant)


def explained(variant: Variant) -> str:
    """What the first sentence calls a variant."""
    name = EXTENDERS.get(variant.name)
    return f"{name} ({quoted(variant)})" if name else quoted(variant)


def label(variant: Variant) -> str:
    """What plots and tables call a variant."""
    return f"{variant.title} (ours)" if variant.ours else variant.title
