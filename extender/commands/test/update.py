"""Writes the answers into a file of cases, and leaves everything else in the file as it was written."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from extender.commands.test import document
from extender.commands.test.cases import ANSWERS, Step
from extender.commands.test.compare import differing
from extender.commands.test.document import DocumentError
from extender.commands.test.play import Answer

WIDTH: Final = 120
"""Characters that a line in flow style, as `{a: 1}`, may have."""


class _Edit(NamedTuple):
    """A replacement of text; the positions are those before all edits."""

    begin: int
    end: int
    text: str


def update(file: Path, played: Iterable[tuple[Step, Answer]]) -> None:
    """Makes a file expect what was answered. Raises DocumentError where that cannot be written."""
    text = document.contents(file)
    edits = [edit for step, answer in played for edit in _edits(text, step, answer)]
    for edit in sorted(edits, reverse=True):
        text = text[: edit.begin] + edit.text + text[edit.end :]
    document.load(text)
    _write(file, text.replace("\n", "\r\n") if b"\r\n" in file.read_bytes() else text)


def _edits(text: str, step: Step, answer: Answer) -> Iterable[_Edit]:
    values = {name.value: (name, value) for name, value in step.node.value}
    for key in sorted(differing(step, answer), key=ANSWERS.index):
        if key == "error" and key in answer:
            answered: Any = str(answer["error"]).splitlines()[0]
        elif key not in answer:
            raise DocumentError(f"{key} has no answer; mend the case by hand", document.line(step.node))
        else:
            answered = _short(key, answer[key])
        if key not in values:
            yield _added(text, step.node, key, answered)
            continue
        name, value = values[key]
        if value.start_mark.index < name.start_mark.index:
            raise DocumentError(f"{key} is an alias of what others use, too; write it out", document.line(name))
        yield from _changed(text, value, answered)


def _short(key: str, answered: Any) -> Any:
    """An answer as a person would write it."""
    if key == "bind" and set(answered) == {"node"}:
        return answered["node"]
    return answered


def _changed(text: str, node: yaml.Node, answered: Any) -> Iterable[_Edit]:
    """Edits that replace a value; of a mapping whose keys stay the same, only its values that differ."""
    if isinstance(node, yaml.MappingNode) and isinstance(answered, Mapping):
        entries = {name.value: value for name, value in node.value}
        if entries.keys() == answered.keys():
            for key, value in entries.items():
                if answered[key] != document.plain(value):
                    yield from _changed(text, value, answered[key])
            return
    begin, end = node.start_mark.index, _end(text, node)
    yield _Edit(begin, end, _dumped(answered, node.start_mark.column, is_flow=_is_flow(node)))


def _added(text: str, step: yaml.CollectionNode, key: str, answered: Any) -> _Edit:
    """The edit that adds a key behind those of a step."""
    last = step.value[-1][1]
    if _is_flow(step):
        end = step.end_mark.index - 1
        return _Edit(end, end, f", {key}: {_flow(answered)}")
    column = step.start_mark.column
    end = text.find("\n", _end(text, last))
    end = len(text) if end < 0 else end
    value = f" {_flow(answered)}"
    if len(value) + column + len(key) + 1 > WIDTH and isinstance(answered, Mapping):
        value = f"\n{' ' * (column + 2)}{_dumped(answered, column + 2, is_flow=False)}"
    return _Edit(end, end, f"\n{' ' * column}{key}:{value}")


def _end(text: str, node: yaml.Node) -> int:
    """Where a value ends. A block ends for YAML where the next one begins, comments in between included."""
    begin, end = node.start_mark.index, node.end_mark.index
    if _is_flow(node):
        return int(end)
    lines = text[begin:end].splitlines(keepends=True)
    while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    return int(begin) + len("".join(lines).rstrip())


def _is_flow(node: yaml.Node) -> bool:
    if isinstance(node, yaml.ScalarNode):
        return node.style not in {"|", ">"}
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)


def _dumped(answered: Any, column: int, *, is_flow: bool) -> str:
    """A value in YAML, whose first line begins at a column."""
    if is_flow or not isinstance(answered, Mapping | Sequence) or isinstance(answered, str) or not answered:
        return _flow(answered)
    dumped = yaml.safe_dump(_copy(answered), sort_keys=False, allow_unicode=True, width=WIDTH)
    return ("\n" + " " * column).join(dumped.rstrip().splitlines())


def _flow(answered: Any) -> str:
    """A value in YAML on one line, which may stand within others of that kind."""
    dumped = yaml.safe_dump(
        [_copy(answered)], sort_keys=False, allow_unicode=True, default_flow_style=True, width=1_000_000
    )
    return dumped.strip()[1:-1]


def _copy(value: Any) -> Any:
    """A copy in which no object occurs twice, which YAML would write as an alias."""
    if isinstance(value, Mapping):
        return {key: _copy(each) for key, each in value.items()}
    return [_copy(each) for each in value] if isinstance(value, list | tuple) else value


def _write(file: Path, text: str) -> None:
    """Replaces the contents of a file at once."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="", dir=file.parent, delete=False) as stream:
        stream.write(text)
    written = Path(stream.name)
    written.chmod(file.stat().st_mode)
    written.replace(file)
