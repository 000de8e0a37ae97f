"""The error of builds."""

from __future__ import annotations


class BuildError(Exception):
    """A plugin cannot be built or tested. `str()` says what the author has to mend."""
