"""The JSON schema of run.json, with what run.py says of each key."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import msgspec

from bench import run


def schema() -> bytes:
    """The schema, as formatted JSON."""
    document = msgspec.json.schema(run.Run)
    for name, definition in document["$defs"].items():
        _describe(definition, getattr(run, name))
    return msgspec.json.format(msgspec.json.encode(document))


def _describe(definition: dict[str, Any], kind: type[msgspec.Struct]) -> None:
    """Adds the docstrings of a record's attributes."""
    said = _docstrings(kind)
    for field in msgspec.structs.fields(kind):
        if field.name in said:
            definition["properties"][field.encode_name]["description"] = said[field.name]


def _docstrings(kind: type) -> dict[str, str]:
    """The docstring below each attribute in the source of a class."""
    (found,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(found, ast.ClassDef)
    return {
        attribute.target.id: inspect.cleandoc(text.value.value)
        for attribute, text in zip(found.body, found.body[1:], strict=False)
        if isinstance(attribute, ast.AnnAssign)
        and isinstance(attribute.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
