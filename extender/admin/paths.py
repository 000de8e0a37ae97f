"""The paths of the admin address that several know."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "/api/v1"
"""The part of the paths that needs a token."""

DASHBOARD: Final = "/ui"
"""The part of the paths that are pages for people: what needs a session, if there are tokens."""

SIGN_IN: Final = f"{DASHBOARD}/sign-in"
OPEN_PAGES: Final = (SIGN_IN, f"{DASHBOARD}/sign-out", f"{DASHBOARD}/static/")
"""How the paths below it begin that are open to all."""

MODULE: Final = "/module"
"""The end of the paths that take modules."""

JUDGE: Final = f"{PREFIX}/judge"
"""The path that takes a pod, and perhaps nodes and a module."""
