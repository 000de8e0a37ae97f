"""`kwx serve`."""

from __future__ import annotations

from extender.commands.option_group import ConfigFile
from extender.commands.output import fail
from extender.config import ConfigError
from extender.telemetry import logs
from wasm_runtime.supervision import ThreadError


def serve(config: ConfigFile) -> None:
    """Serve the webhook until SIGTERM."""
    logs.configure()
    from extender.serve import process  # noqa: PLC0415 - what libraries warn of at their import is in the log

    try:
        process.serve(config)
    except (ConfigError, ThreadError) as error:
        fail(str(error))
