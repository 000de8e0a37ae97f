"""The configuration of the plugin that a call is made with, from a module and the options of the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from extender.config import PluginConfig
from extender.config.urls import FILE_SCHEME

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]")


class OptionError(Exception):
    """An option has a value that a plugin cannot have. `str()` says what was expected."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(problem)
        self.option = option
        """The option as the command line has it, such as `--memory-limit`."""


def configure(module: Path, given: Mapping[str, object]) -> PluginConfig:
    """The configuration of a plugin with a module and keys of the configuration file; keys that are None are left out.

    Raises OptionError for a value that the key cannot have.
    """
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
    """The name of the file, without what the name of a plugin may not have."""
    return _NOT_IN_NAMES.sub("", module.stem)[:63].strip("._-") or "plugin"


def _option(key: str) -> str:
    """The option for a key: `--memory-limit` for `memoryLimit`."""
    return f"--{re.sub('([A-Z])', lambda capital: f'-{capital[0].lower()}', key)}"
