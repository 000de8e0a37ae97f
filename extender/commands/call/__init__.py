"""Calling one verb with one module, in this process and without a server."""

from extender.commands.call.call import Outcome, Verb, call
from extender.commands.call.options import OptionError, configure
from extender.commands.call.request import CallError, read
from extender.commands.call.table import journal, table

__all__ = ["CallError", "OptionError", "Outcome", "Verb", "call", "configure", "journal", "read", "table"]
