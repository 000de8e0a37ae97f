"""The plugin that a call is made with: a module and the options of the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from extender.config import PluginConfig
from extender.config.urls import FILE_SCHEME

_NO_NAME: Final = re.compile(r"[^A-Za-z0-9._-]")


class OptionError(Exception):
    """An option has a value that a plugin cannot have. `str()` says what was expected."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(problem)
        self.option = option


def configure(module: Path, given: Mapping[str, object]) -> PluginConfig:
    """A plugin with the keys that are given, as a configuration file has them, but for None. Raises OptionError."""
    keys = {key: value for key, value in given.items() if value is not None}
    fixed = {
        "name": _name(module),
        "guestURL": f"{FILE_SCHEME}{module}",
        "allowUnlimited": keys.get("engine") == "wasmer",
    }
    try:
        return PluginConfig.model_validate({**keys, **fixed})
    except ValidationError as error:
        first = error.errors()[0]
        raise OptionError(_option(str(first["loc"][0])), first["msg"].removeprefix("Value error, ")) from error


def _name(module: Path) -> str:
    """The name of the file, as far as it may be a plugin's."""
    return _NO_NAME.sub("", module.stem)[:63].strip("._-") or "plugin"


def _option(key: str) -> str:
    return f"--{re.sub('([A-Z])', lambda capital: f'-{capital[0].lower()}', key)}"
