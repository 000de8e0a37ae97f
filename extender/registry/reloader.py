"""Follows the configuration file."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Final

from extender import config
from extender.config import ConfigError, ExtenderConfiguration
from extender.registry.pipeline import RolloutFailedError
from extender.registry.rollouts import Rollouts
from extender.sources import SourceError
from extender.sources.download import Limit
from extender.sources.file import FileSource
from wasm_runtime.engine import MEBIBYTE

logger = logging.getLogger(__name__)

LARGEST: Final = 16 * MEBIBYTE
AGAIN: Final = 30.0
"""Seconds after which a file is tried again whose plugins could not be had."""

_SECTIONS: Final = ("server", "runtime", "cluster")
"""What is read at the start alone."""


class Reloader:
    """A thread that makes the profiles of the configuration file live when the file changes.

    A file that cannot be used changes nothing; it is told once, and `problem` says so as long as it is there.
    """

    def __init__(self, file: Path, configuration: ExtenderConfiguration, rollouts: Rollouts) -> None:
        """`configuration` is what the file held when it was read."""
        self._file = file
        self._began_with = configuration
        self._profiles = configuration.profiles
        self._rollouts = rollouts
        self._source = FileSource(file, Limit(LARGEST, "the size of a configuration"))
        self._version = ""  # Not known: the file may have changed since it was read.
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="configuration", daemon=True)
        self.problem = ""
        """What is wrong with the file as it is now, or has to wait for a restart."""

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        """Ends; what is being rolled out is waited for no longer than so many seconds."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stopped.wait(self._source.interval):
            try:
                self._look()
            except Exception:
                logger.exception("following the configuration file failed")

    def _look(self) -> None:
        try:
            fetched = self._source.fetch(self._version)
            if fetched is None:
                return
            self._version = fetched.version
            self._apply(config.read(self._file))
        except (ConfigError, SourceError) as error:
            self._complain(f"the configuration is refused, what serves stays live: {error}")
        except RolloutFailedError as error:
            self._complain(
                f"the configuration is refused, what serves stays live, and it is tried again in {AGAIN:g} s: {error}"
            )
            self._version = ""
            self._stopped.wait(AGAIN)

    def _apply(self, configuration: ExtenderConfiguration) -> None:
        """Raises RolloutFailedError."""
        if configuration.profiles != self._profiles:
            self._rollouts.configure(configuration.profiles)
            self._profiles = configuration.profiles
            logger.info("configuration is live", extra={"path": str(self._file)})
        changed = [name for name in _SECTIONS if getattr(configuration, name) != getattr(self._began_with, name)]
        self.problem = ""
        if changed:
            self._complain(f"{', '.join(changed)} of the configuration changed; restart the extender to apply that")

    def _complain(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            logger.error("%s", problem, extra={"path": str(self._file)})
