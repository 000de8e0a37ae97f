"""The names of plugins, for a shell that completes them."""

from __future__ import annotations

from contextlib import nullcontext, redirect_stderr, suppress
from io import StringIO
from threading import Thread
from typing import Final

import typer

from extender.admin.api.views import PluginView
from extender.commands.plugin.remote import Remote, connect
from extender.telemetry.printable import printable

ASKING_TIMEOUT_S: Final = 1.0
"""Seconds that somebody who has pressed TAB waits for an extender."""


def complete_plugins(ctx: typer.Context) -> list[str]:
    """The plugins of the extender that the options lead to; none if it cannot be asked at once, and not a word of that.

    `ctx.obj` returns the options by which the program finds an extender and how that is reached, as `reached_by` takes
    them; `kwx` has none.
    """
    kind, reach = ctx.obj() if ctx.obj else (Remote, nullcontext)
    found: list[str] = []

    def ask() -> None:
        with suppress(Exception), redirect_stderr(StringIO()):
            chosen = kind(**{name: ctx.params[name] for name in kind._fields})
            with reach(chosen) as remote, connect(remote) as client:
                found.extend(printable(each.name) for each in client.get("/plugins", list[PluginView]))

    asking = Thread(target=ask, name="completion", daemon=True)
    asking.start()
    asking.join(ASKING_TIMEOUT_S)
    return list(dict.fromkeys(found))
