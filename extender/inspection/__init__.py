"""Looking into a module: what it is, what it serves, what it asks for, and what is wrong with it."""

from extender.inspection.inspection import InspectionError, inspect
from extender.inspection.report import Report
from extender.inspection.table import lines

__all__ = ["InspectionError", "Report", "inspect", "lines"]
