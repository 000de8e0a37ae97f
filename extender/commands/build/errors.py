"""What goes wrong in building guests."""

from __future__ import annotations


class BuildError(Exception):
    """What the person who builds has to mend."""
