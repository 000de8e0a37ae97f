"""Looking into a module: what it is, what it serves, what it asks for, and what is wrong with it."""

from extender.commands.inspect.inspection import InspectionError, inspect
from extender.commands.inspect.report import InspectionReport
from extender.commands.inspect.table import lines

__all__ = ["InspectionError", "InspectionReport", "inspect", "lines"]
