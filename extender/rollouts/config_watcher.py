"""Watches the configuration file."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from extender import config
from extender.config import ConfigError, ExtenderConfiguration, ProfileConfig
from extender.rollouts.config_rollout import NotConfiguredError
from extender.rollouts.controller import RolloutController
from extender.rollouts.polling import RetryTrigger
from extender.scheduling.top_nodes import notices
from extender.sources import SourceError
from extender.sources.download import Limit
from extender.sources.file import FileSource
from wasm_runtime.engine import MEBIBYTE
from wasm_runtime.supervision import SupervisedThread

logger = logging.getLogger(__name__)

MAX_CONFIG_BYTES: Final = 16 * MEBIBYTE
_NONE: Final = ""
"""The version of a file of which none is known."""

_SECTIONS: Final = ("server", "runtime", "cluster")
"""What is read at the start alone."""


class ConfigWatcher:
    """A thread that makes the profiles of the configuration file live when the file changes.

    A file that cannot be used changes nothing; it is told once, and `problem` says so as long as it is there.
    """

    def __init__(self, file: Path, configuration: ExtenderConfiguration, rollouts: RolloutController) -> None:
        """`configuration` is what the file held when it was read."""
        self._file = file
        self._began_with = configuration
        self._profiles: Sequence[ProfileConfig] = configuration.profiles
        self._rollouts = rollouts
        self._source = FileSource(file, Limit(MAX_CONFIG_BYTES, "the size of a configuration"))
        self._version = _NONE  # The file may have changed since it was read.
        self._retry: RetryTrigger | None = None
        """When a refused file is tried again."""
        self._is_asked = False
        self._thread = SupervisedThread("configuration", self._turn)
        self.problem = ""
        """What is wrong with the file now, or has to wait for a restart."""

    def start(self) -> None:
        """Begins."""
        self._thread.start(self._source.interval)

    def stop(self, seconds: float = 5.0) -> None:
        """Ends; what is being rolled out is waited for no longer than so many seconds."""
        self._thread.stop()
        self._thread.join(seconds)

    def reload(self) -> None:
        """Has the file read soon, even if it has not changed, and logs what came of it.

        Takes no lock, so that a signal handler may call it.
        """
        self._is_asked = True

    def _turn(self) -> float:
        is_asked, self._is_asked = self._is_asked, False
        before = self._profiles
        if is_asked:
            self._version = _NONE
        is_read = self._look()
        if is_asked and not is_read:
            self._is_asked = True  # It is being written.
        elif is_asked:
            outcome = "its profiles went live" if self._profiles is not before else "its profiles are live already"
            extra = {"path": str(self._file), "outcome": self.problem or outcome}
            logger.info("the configuration was read again, as SIGHUP asks", extra=extra)
        return self._source.interval

    def _look(self) -> bool:
        """Reads the file if it is due. Returns whether the file was read, or could not be."""
        try:
            fetched = self._source.fetch(self._version)
            if fetched:
                self._version = fetched.version
            elif self._retry is None or not self._retry.has_fired():
                return False
            self._apply(config.read(self._file))
        except SourceError as error:
            self._version = _NONE
            self._refuse([str(error)])
        except ConfigError as error:
            self._refuse(error.problems)
        return True

    def _apply(self, configuration: ExtenderConfiguration) -> None:
        self._rollouts.admission.enforce(configuration.profiles)
        if configuration.profiles != self._profiles and not self._configure(configuration.profiles):
            return
        self._retry = None
        changed = [name for name in _SECTIONS if getattr(configuration, name) != getattr(self._began_with, name)]
        self._complain(
            f"{', '.join(changed)} of the configuration changed; restart the extender to apply that" if changed else ""
        )

    def _configure(self, profiles: Sequence[ProfileConfig]) -> bool:
        """Makes other profiles live. What is refused is so while the sources of their plugins give the same."""
        try:
            self._rollouts.configuration.apply(profiles, asks=self._retry is not None)
        except NotConfiguredError as error:
            retry = self._rollouts.configuration.retry_trigger(profiles, error.given)
            later = "it is tried again when what their sources give, its signature or its key is another"
            self._refuse([*error.problems, f"{later}; they are looked at every {retry.interval:g} s"])
            self._retry = retry
            return False
        before, self._profiles = self._profiles, profiles
        logger.info("configuration is live", extra={"path": str(self._file)})
        for notice in notices(profiles, before):
            logger.info("%s", notice)
        return True

    def _refuse(self, problems: Sequence[str]) -> None:
        self._retry = None
        self._complain(f"the configuration is refused, what serves stays live: {'; '.join(problems)}")

    def _complain(self, problem: str) -> None:
        """Keeps what is wrong, or that nothing is, and tells it once."""
        if problem and problem != self.problem:
            logger.error("%s", problem, extra={"path": str(self._file)})
        self.problem = problem
