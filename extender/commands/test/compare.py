"""The differences between the answers in a case and those that its file expects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from extender.commands.test.cases import ANSWERS, Step
from extender.commands.test.play import PASSES, Answer

NOTHING: Final = "nothing"


class Difference(NamedTuple):
    """A part of an answer that differs from what is expected."""

    step: int
    """The number of the step, counted from 1."""
    key: str
    """One of ANSWERS."""
    where: str
    """The part of the answer: the name of a node or pod, or an item of a list; empty for the whole answer."""
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
    """The keys of ANSWERS whose answers differ from what is expected."""
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
    """A text that must contain the expected one."""
    if answered is None or expected not in answered:
        yield "", words(expected), words(answered)


def _bind(expected: Any, answered: Any) -> Iterator[tuple[str, str, str]]:
    """The answer of a bind. Of its error a part suffices."""
    wanted, found = dict(expected), dict(answered or {})
    for each in _part_of(wanted.pop("error"), found.pop("error", None)) if "error" in wanted else ():
        yield ("error", *each[1:])
    annotations = wanted.pop("annotations", {}), found.pop("annotations", {})
    yield from _by_name({"waits": False, **wanted}, {"waits": False, **found})
    yield from _by_name(*annotations)


def _stays(expected: Any, answered: Any) -> Iterator[tuple[str, str, str]]:
    yield from _in_order(expected.get("stays", []), (answered or {}).get("stays"))


def _waited(expected: Any, answered: Any) -> Iterator[tuple[str, str, str]]:
    """Two mappings of waits, key by key. Of an error a part suffices."""
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
