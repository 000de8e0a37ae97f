"""Why a request has no answer of the plugins, and who is told."""

from __future__ import annotations

import logging
from typing import Any, Final

from extender.scheduling.evictions import RoomAwaitedError
from extender.scheduling.node_source import NotSyncedError
from extender.scheduling.planning import OvertakenError
from extender.scheduling.pod_source import PodNotKnownError
from extender.scheduling.profile import PluginFailedError, Profile
from extender.webhook.workers import NoThreadError

logger = logging.getLogger(__name__)


class NotLoadedError(Exception):
    """A plugin of the profile is not there yet. `str()` names it and why."""


REASONS: Final[dict[type[Exception], str]] = {
    PluginFailedError: "PluginFailed",
    NotSyncedError: "NotSynced",
    PodNotKnownError: "PodNotKnown",
    NotLoadedError: "NotLoaded",
    NoThreadError: "NoThread",
    OvertakenError: "Overtaken",
    RoomAwaitedError: "RoomAwaited",
}
"""What the Event about a pod gives as its reason."""

UNANSWERABLE: Final[tuple[type[Exception], ...]] = tuple(REASONS)
"""Failures that are no fault of the request, but leave it without an answer of the plugins."""


def require_loaded(profile: Profile) -> None:
    """Raises NotLoadedError if a plugin is not there that the profile must not go without."""
    if profile.problem:
        raise NotLoadedError(profile.problem)


def log_failure(verb: str, pod: str, error: Exception, **fields: Any) -> None:
    """Logs why a verb has failed; `pod` is `namespace/name`."""
    more = error.fields if isinstance(error, PluginFailedError) else {}
    logger.error("%s failed: %s", verb, error, extra={"verb": verb, "pod": pod, **fields, **more})
