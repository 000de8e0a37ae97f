"""The JSON Schema by which a module says what its guestConfig may be.

A schema is of a module's author, and is looked at outside the sandbox. So it is bounded in size; it has no `$ref`, as
those of Kubernetes' CustomResourceDefinitions have none, which bounds what a check takes; and its patterns are matched
in linear time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NoReturn

MAX_SCHEMA_BYTES: Final = 64 * 1024
MAX_PROBLEMS: Final = 20
"""Problems of a guestConfig that are listed."""
MAX_PROBLEM_CHARS: Final = 500

_REFERENCES: Final = {"$ref", "$dynamicRef", "$recursiveRef"}
_REGEX_BYTES: Final = 1 << 20
"""Bytes of memory that a compiled pattern may use."""

Schema = dict[str, Any]


class SchemaError(ValueError):
    """The schema cannot be used. `str()` says why."""


def read(text: bytes) -> Schema:
    """Reads a JSON Schema, of draft 2020-12 where it names no other. Raises SchemaError."""
    if len(text) > MAX_SCHEMA_BYTES:
        raise SchemaError(f"has {len(text)} bytes, the limit is {MAX_SCHEMA_BYTES}")
    try:
        schema = json.loads(text)
        if not isinstance(schema, dict):
            raise SchemaError("expected a JSON Schema, which is an object")
        used = sorted(_REFERENCES.intersection(_keys(schema)))
        if used:
            raise SchemaError(
                f"has {used[0]}, which no schema of a guestConfig may have: write in its place what is meant"
            )
        _validator(schema)
    except SchemaError:
        raise
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"expected a JSON Schema: {_first_line(error)}") from error
    return schema


def problems(schema: Schema, guest_config: str) -> list[str]:
    """What in a guestConfig the schema does not allow. An empty one is judged as `{}`.

    Each problem begins with the path of its key.
    """
    try:
        value = json.loads(guest_config or "{}")
    except (ValueError, RecursionError) as error:
        return [f"expected JSON: {error}"]
    found = [_problem(error) for error in _validator(schema).iter_errors(value)]
    more = [f"and {len(found) - MAX_PROBLEMS} more"] if len(found) > MAX_PROBLEMS else []
    return [*found[:MAX_PROBLEMS], *more]


def _problem(error: Any) -> str:
    path = ".".join(map(str, error.instance_path))
    return f"{path}: {error.message}"[:MAX_PROBLEM_CHARS] if path else str(error.message)[:MAX_PROBLEM_CHARS]


def _validator(schema: Schema) -> Any:
    """A validator of jsonschema_rs for a schema. Raises ValueError for one that is no JSON Schema."""
    import jsonschema_rs  # noqa: PLC0415 - most modules have no schema

    options = jsonschema_rs.RegexOptions(size_limit=_REGEX_BYTES, dfa_size_limit=_REGEX_BYTES)
    return jsonschema_rs.validator_for(schema, pattern_options=options, retriever=_retrieve)


def _retrieve(uri: str) -> NoReturn:
    """Refuses to fetch a schema that another one refers to."""
    raise ValueError(f"{uri} is not fetched")


def _keys(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _keys(each)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or "it is nested too deeply"
