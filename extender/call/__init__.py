"""Calling one verb with one module, in this process and without a server."""

from extender.call.call import Outcome, Verb, call
from extender.call.options import OptionError, configure
from extender.call.request import CallError, read
from extender.call.table import journal, table

__all__ = ["CallError", "OptionError", "Outcome", "Verb", "call", "configure", "journal", "read", "table"]
