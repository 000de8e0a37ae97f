"""What differs between the answers of a case and what its file expects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from extender.commands.test.cases import ANSWERS, Step
from extender.commands.test.play import PASSES, Answer

NOTHING: Final = "nothing"


class Difference(NamedTuple):
    """One part of an answer that is not as it should be."""

    step: int
    """From 1 on."""
    key: str
    """One of ANSWERS."""
    where: str
    """A node, a pod, an item of a list; empty for the whole answer."""
    expected: str
    answered: str


def differences(steps: Sequence[Step], answers: Sequence[Answer]) -> list[Difference]:
    """All that differs, in the order of the file. Keys that a step does not have are not looked at, but for errors.

    Where a step has none at all, it is to have `expect`.
    """
    return [
        Difference(at, key, where, expected, answered)
        for at, (step, answer) in enumerate(zip(steps, answers, strict=False), 1)
        for key, where, expected, answered in _of_step(step, answer)
    ]


def differing(step: Step, answer: Answer) -> set[str]:
    """Those of ANSWERS that are not as they should be."""
    return {key for key, *_ in _of_step(step, answer)}


def _of_step(step: Step, answer: Answer) -> Iterator[tuple[str, str, str, str]]:
    if "error" in answer and "error" not in step.expected:
        yield "error", "", NOTHING, str(answer["error"])
        return
    expected = step.expected or ({"expect": {}} if step.pod else {})
    for key in ANSWERS:
        if key in expected:
            for where, wanted, found in _COMPARISONS[key](expected[key], answer.get(key)):
                yield key, where, wanted, found


def _by_name(expected: Any, answered: Any) -> Iterator[tuple[str, str, str]]:
    """Two mappings, key by key."""
    answered = answered or {}
    for name in [*answered, *(name for name in expected if name not in answered)]:
        wanted, found = expected.get(name), answered.get(name)
        if wanted != found and not (wanted == PASSES and isinstance(found, int)):
            yield name, words(wanted), words(found)


def _in_order(expected: Any, answered: Any) -> Iterator[tuple[str, str, str]]:
    """Two lists, item by item."""
    for at, (wanted, found) in enumerate(zip_longest(expected, answered or [])):
        if wanted != found:
            yield f"[{at}]", words(wanted), words(found)


def _part_of(expected: Any, answered: Any) -> Iterator[tuple[str, str, str]]:
    """A text that is to be within another one."""
    if answered is None or expected not in answered:
        yield "", words(expected), words(answered)


def _bind(expected: Any, answered: Any) -> Iterator[tuple[str, str, str]]:
    """What a bind answers. Of its error a part suffices."""
    wanted, found = dict(expected), dict(answered or {})
    for each in _part_of(wanted.pop("error"), found.pop("error", None)) if "error" in wanted else ():
        yield ("error", *each[1:])
    annotations = wanted.pop("annotations", {}), found.pop("annotations", {})
    yield from _by_name({"waits": False, **wanted}, {"waits": False, **found})
    yield from _by_name(*annotations)


def _stays(expected: Any, answered: Any) -> Iterator[tuple[str, str, str]]:
    yield from _in_order(expected.get("stays", []), (answered or {}).get("stays"))


def _waited(expected: Any, answered: Any) -> Iterator[tuple[str, str, str]]:
    """As by name; of an error a part suffices."""
    for name, wanted, found in _by_name(expected, answered):
        wish, was = expected.get(name), (answered or {}).get(name)
        if not (isinstance(wish, Mapping) and isinstance(was, Mapping) and wish["error"] in was["error"]):
            yield name, wanted, found


_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Iterator[tuple[str, str, str]]]]] = {
    "expect": _by_name,
    "preempt": _stays,
    "bind": _bind,
    "waited": _waited,
    "events": _in_order,
    "logs": _in_order,
    "error": _part_of,
}


def words(value: Any) -> str:
    """A part of an answer on a line."""
    if value is None:
        return NOTHING
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {words(each)}" for key, each in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)
