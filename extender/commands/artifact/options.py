"""What the commands about artifacts share: options, and how they fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from extender.commands.option_group import check_duration, with_options
from extender.commands.output import fail
from extender.config.urls import check_url
from extender.sources import SourceError

_OPTIONS: Final = {"source.caFile": "--ca-file", "source.timeout": "--timeout"}
"""Options of the command line by the keys of the configuration that errors of sources name."""


def checked_url(url: str) -> str:
    """The URL of a source; a path becomes a `file://` URL. Raises BadParameter for a URL that names no source."""
    try:
        url = url if "://" in url else f"file://{url}"
        check_url(url)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return url


CaFile = Annotated[
    Path | None,
    typer.Option("--ca-file", metavar="FILE", help="CA of the server in PEM, instead of the system's."),
]
Timeout = Annotated[
    str, typer.Option(metavar="DURATION", callback=check_duration, help="Time for all of it, as in 90s.")
]


class Transfer(NamedTuple):
    """How a module is fetched or pushed. Its fields are options of each command that `transfers`."""

    ca_file: CaFile = None
    timeout: Timeout = "5m"


TRANSFER: Final = Transfer()


def transfers(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of a transfer, in the place of its parameter `transfer`."""
    return with_options(command, "transfer", Transfer)


@contextmanager
def failing() -> Iterator[None]:
    """Ends the command with status 1 and a message when a source or a file of the block cannot be used."""
    try:
        yield
    except SourceError as error:
        message = str(error)
        for key, option in _OPTIONS.items():
            message = message.replace(key, option)
        fail(message)
    except OSError as error:
        fail(f"{error.filename} cannot be written: {error.strerror}")
