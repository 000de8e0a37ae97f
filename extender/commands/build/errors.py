"""What goes wrong in building guests."""

from __future__ import annotations


class BuildError(Exception):
    """A plugin cannot be built or tested. `str()` says what the author has to mend."""
