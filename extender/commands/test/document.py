"""Reads YAML that people write, key by key. Errors name the file, the line and the key."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import yaml

from extender.config.loader import key
from extender.config.yaml_loader import BoundedLoader

T = TypeVar("T")

Reader = Callable[[yaml.Node], T]
"""Makes a value of a node of the document. Raises DocumentError."""


class DocumentError(Exception):
    """A document is not as it must be. `str()` says why, with the file, the line and the key."""

    def __init__(self, problem: str, line: int = 0) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line
        """The line, counted from 1; 0 for a problem of the whole file."""
        self.path: tuple[str | int, ...] = ()
        """The keys and indices that lead to the problem."""
        self.file: Path | None = None

    def __str__(self) -> str:
        place = ":".join(str(each) for each in (self.file, self.line) if each)
        return ": ".join(filter(None, (place, key(self.path), self.problem)))


def load(text: str) -> yaml.Node:
    """The tree of a document. Raises DocumentError."""
    try:
        node = yaml.compose(text, BoundedLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = f"is no YAML: {getattr(error, 'problem', None) or error}"
        raise DocumentError(problem, mark.line + 1 if mark else 0) from error
    if node is None:
        raise DocumentError("there is nothing in it")
    return node


def refuse(node: yaml.Node, problem: str) -> NoReturn:
    """Raises DocumentError, with the line of a node."""
    raise DocumentError(problem, line(node))


def line(node: yaml.Node) -> int:
    """The line in which a node begins, counted from 1."""
    return int(node.start_mark.line) + 1


def as_is(node: yaml.Node) -> yaml.Node:
    """The node itself, to be read later."""
    return node


def text(node: yaml.Node) -> str:
    """A scalar as it is written: `1` and `true` are texts as well."""
    if not isinstance(node, yaml.ScalarNode) or is_null(node):
        refuse(node, f"expected a text, found {kind(node)}")
    return str(node.value)


def number(node: yaml.Node) -> int:
    """A whole number."""
    if not isinstance(node, yaml.ScalarNode) or node.tag != "tag:yaml.org,2002:int":
        refuse(node, f"expected a whole number, found {kind(node)}")
    return int(plain(node))


def boolean(node: yaml.Node) -> bool:
    """Either true or false."""
    if not isinstance(node, yaml.ScalarNode) or node.tag != "tag:yaml.org,2002:bool":
        refuse(node, f"expected true or false, found {kind(node)}")
    return bool(plain(node))


def plain(node: yaml.Node) -> Any:
    """What YAML makes of a node."""
    constructor = yaml.SafeLoader("")
    try:
        return constructor.construct_document(node)
    except (yaml.YAMLError, ValueError) as error:
        refuse(node, f"cannot be read: {getattr(error, 'problem', None) or error}")


def pairs(node: yaml.Node) -> Sequence[tuple[yaml.ScalarNode, yaml.Node]]:
    """Keys and values of a mapping, with those merged by `<<`. Raises DocumentError for a key that comes twice."""
    if not isinstance(node, yaml.MappingNode):
        refuse(node, f"expected a mapping, found {kind(node)}")
    merged: dict[str, tuple[yaml.ScalarNode, yaml.Node]] = {}
    own: dict[str, tuple[yaml.ScalarNode, yaml.Node]] = {}
    for name, value in node.value:
        if name.tag == "tag:yaml.org,2002:merge":
            for each in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                merged = {**{each_name.value: (each_name, item) for each_name, item in pairs(each)}, **merged}
            continue
        if text(name) in own:
            refuse(name, f"key {name.value} comes twice")
        own[name.value] = (name, value)
    return list({**merged, **own}.values())


def keys(node: yaml.Node, readers: Mapping[str, Reader[Any]], required: Sequence[str] = ()) -> dict[str, Any]:
    """The values of a mapping, each read by the reader of its key. Other keys are refused; null counts as absent."""
    found: dict[str, Any] = {}
    for name, value in pairs(node):
        if name.value not in readers:
            refuse(name, unknown(name.value, list(readers)))
        if not is_null(value):
            found[name.value] = under(name.value, readers[name.value], value)
    for each in required:
        if each not in found:
            refuse(node, f"{each} is required")
    return found


def unknown(name: str, known: Sequence[str]) -> str:
    """The message for an unknown key, with a similar one if there is one."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"unknown key {name}{f'; did you mean {near[0]}?' if near else f', expected {_listed(known)}'}"


def under(step: str | int, reader: Reader[T], node: yaml.Node) -> T:
    """What a reader makes of a node. An error names `step`, the key or the index of the node."""
    try:
        return reader(node)
    except DocumentError as error:
        if error.file is None:
            error.path = (step, *error.path)
        raise


def items(reader: Reader[T]) -> Reader[list[T]]:
    """Reads each item of a list."""

    def read(node: yaml.Node) -> list[T]:
        if not isinstance(node, yaml.SequenceNode):
            refuse(node, f"expected a list, found {kind(node)}")
        return [under(at, reader, each) for at, each in enumerate(node.value)]

    return read


def by_name(reader: Reader[T]) -> Reader[dict[str, T]]:
    """Reads each value of a mapping whose keys are names."""

    def read(node: yaml.Node) -> dict[str, T]:
        return {name.value: under(name.value, reader, value) for name, value in pairs(node)}

    return read


def kind(node: yaml.Node) -> str:
    """The kind of a node, for messages."""
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return "nothing" if is_null(node) else repr(node.value)[:80]


def contents(file: Path) -> str:
    """The text of a file, with line feeds at the ends of lines. Raises DocumentError, which names the file."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise unreadable(file, error) from error


def read_file(file: Path, reader: Reader[T]) -> T:
    """What a reader makes of the document in a file. Raises DocumentError, which names the file."""
    try:
        return reader(load(contents(file)))
    except DocumentError as error:
        error.file = error.file or file
        raise


def unreadable(file: Path, error: Exception) -> DocumentError:
    """The error for a file that cannot be read."""
    found = DocumentError(f"cannot be read: {getattr(error, 'strerror', None) or error}")
    found.file = file
    return found


def is_null(node: yaml.Node) -> bool:
    """Whether a node is null, as a key without a value has it."""
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _listed(known: Sequence[str]) -> str:
    return known[0] if len(known) == 1 else f"{', '.join(known[:-1])} or {known[-1]}"
