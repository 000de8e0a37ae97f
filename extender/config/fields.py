"""The base of the sections of the configuration file, and types of their keys."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """A section of the configuration file. Its keys are in camelCase; unknown keys are refused."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, arbitrary_types_allowed=True)


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: object) -> Address:
    """Reads HOST:PORT. Raises ValueError."""
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:]+)\]|([\w.-]+)):(\d{1,5})", text) if isinstance(text, str) else None
    if not match or int(match[3]) > 65_535:
        raise ValueError(f"expected an address such as 127.0.0.1:8888, found {text!r}")
    return Address(match[1] or match[2], int(match[3]))


def expand(path: Path) -> Path:
    """A path with its `~` resolved. Raises ValueError."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path}: {error}") from None
