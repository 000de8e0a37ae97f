"""The paths of the admin address, which the application, its middleware and its clients share."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "/api/v1"
"""The beginning of the paths of the admin API, which need a token."""

DASHBOARD: Final = "/ui"
"""The beginning of the dashboard's paths, which need a session where there are tokens."""

SIGN_IN: Final = f"{DASHBOARD}/sign-in"
OPEN_PAGES: Final = (SIGN_IN, f"{DASHBOARD}/sign-out", f"{DASHBOARD}/static/")
"""The beginnings of the dashboard's paths that need no session."""

MODULE: Final = "/module"
"""The end of the paths that take modules."""

JUDGE: Final = f"{PREFIX}/judge"
"""The path of what-ifs, which takes a pod, and perhaps nodes and a module."""
