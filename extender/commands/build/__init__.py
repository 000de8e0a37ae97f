"""Building plugins of their sources, by the compiler of their language."""

from extender.commands.build.errors import BuildError
from extender.commands.build.languages import LANGUAGES, describe, find
from extender.commands.build.sdk import SDK

__all__ = ["LANGUAGES", "SDK", "BuildError", "describe", "find"]
