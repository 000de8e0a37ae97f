"""Parts of pods and nodes in YAML, by the schema of the API: texts and quantities need no quotes."""

from __future__ import annotations

from functools import partial
from typing import Any

import yaml

from extender.commands.test import document
from extender.commands.test.document import Reader
from wasm_runtime.protobuf.schema import INLINE, MESSAGES, Field, Kind


def read_field(row: Field, is_printed: bool, node: yaml.Node) -> Any:
    """The value of a field, as JSON has it. Of what `is_printed` by kubectl, unknown keys are skipped."""
    _, shape, kind, message = row
    read: Reader[Any] = partial(_message, message, is_printed) if message else partial(_scalar, kind)
    if shape == "list":
        return document.items(read)(node)
    return document.by_name(read)(node) if shape == "map" else read(node)


def _message(name: str, is_printed: bool, node: yaml.Node) -> dict[str, Any]:
    fields = _fields(name)
    found = {}
    for key, value in document.pairs(node):
        if row := fields.get(key.value):
            if not document.is_null(value):
                found[key.value] = document.under(key.value, partial(read_field, row, is_printed), value)
        elif not is_printed:
            document.refuse(key, document.unknown(key.value, list(fields)))
    return found


def _fields(name: str) -> dict[str, Field]:
    """The fields of a message, with those of what it is made of."""
    fields = dict(MESSAGES[name])
    for child in INLINE.get(name, {}):
        fields.update(_fields(child))
    return fields


def _scalar(kind: Kind, node: yaml.Node) -> Any:
    if kind in {"string", "quantity", "time"}:
        return document.text(node)
    return document.plain(node)
