"""The module and the configuration that an operator's command leads to."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from extender.config import PluginConfig, describe
from extender.config.urls import public
from extender.rollouts.pipeline import Fetch, FetchedRevision, Pipeline
from extender.rollouts.revision import REVISED, Revision, configure
from extender.rollouts.slot import Slot
from extender.rollouts.swap_command import (
    ConflictError,
    FromRevision,
    FromSource,
    FromUpload,
    FromUrl,
    ReplicatedError,
    SwapCommand,
    SwapRefusedError,
)
from extender.sources import Fetched

MIN_PREFIX_DIGITS: Final = 8
"""Hexadecimal digits by which a revision may be named."""


class SwapPlan(NamedTuple):
    """The module and the configuration that are to become live in a slot."""

    config: PluginConfig
    fetch: Fetch
    revision: str | None = None
    """Its id, where it is known before the module is fetched."""
    verified: Revision | None = None
    """An earlier revision of the same module."""
    offers: bool = False
    """Whether it is what the configuration wants."""


def understand(command: SwapCommand, slot: Slot, pipeline: Pipeline) -> SwapPlan:
    """The plan of a command, as things are now. Raises SwapRefusedError."""
    what = command.what
    if isinstance(what, FromRevision):
        revision = earlier(slot, what.revision)
        return _again(revision, _set(revision.configure(slot.config), command.settings), pipeline)
    if isinstance(what, FromSource) and command.settings:
        if slot.live is None:
            raise SwapRefusedError(f"plugin {slot.name} has no module yet whose settings could be changed")
        return _again(slot.live.revision, _set(_serving(slot), command.settings), pipeline)
    if isinstance(what, FromSource):
        return SwapPlan(slot.config, partial(pipeline.fetch, slot.config), offers=True)
    config = _set(_serving(slot), command.settings)
    if isinstance(what, FromUrl):
        return SwapPlan(config, partial(pipeline.fetch, _elsewhere(config, what.url)))
    return _uploaded(what, config, command.by)


def require_source(command: SwapCommand, slot: Slot) -> None:
    """Raises ReplicatedError for what other replicas would not get: all but dry runs and what the source gives now."""
    if not (command.dry_run or (isinstance(command.what, FromSource) and not command.settings)):
        raise replicated(
            slot, f"put the module at {public(slot.config.guest_url)}, or its settings into the configuration"
        )


def replicated(slot: Slot, mend: str) -> ReplicatedError:
    """Why a command is refused where others serve as well."""
    return ReplicatedError(
        f"plugin {slot.name} is served by other replicas too (server.replicas), and this would change one of them;"
        f" {mend}, where all of them read it"
    )


def expect(slot: Slot, expected: str | None) -> None:
    """Raises ConflictError unless the active revision is the expected one."""
    active = slot.live.revision.id if slot.live else "none"
    if expected is not None and expected != active:
        raise ConflictError(f"revision {active} of plugin {slot.name} is active, not {expected}; look at it again")


def earlier(slot: Slot, name: str) -> Revision:
    """The revision of an id, or of the beginning of one. Raises SwapRefusedError."""
    digits = name.removeprefix("sha256:")
    found = [each for each in slot.revisions if each.id.startswith(f"sha256:{digits}")]
    if len(digits) >= MIN_PREFIX_DIGITS and len(found) == 1:
        return found[0]
    known = ", ".join(each.id for each in slot.revisions) or "none"
    raise SwapRefusedError(
        f"plugin {slot.name} has no revision, or more than one, by {name!r} (an id, or at least {MIN_PREFIX_DIGITS}"
        f" digits); there are: {known}"
    )


def before(slot: Slot) -> Revision:
    """The revision to go back to: the last that has proven good, else the one before. Raises SwapRefusedError."""
    if slot.standby:
        return slot.standby.revision
    ids = [each.id for each in slot.revisions]
    at = ids.index(slot.live.revision.id) + 1 if slot.live and slot.live.revision.id in ids else 0
    if at == len(ids):
        raise SwapRefusedError(f"plugin {slot.name} has no earlier revision to go back to")
    return slot.revisions[at]


def _again(revision: Revision, config: PluginConfig, pipeline: Pipeline) -> SwapPlan:
    """A module that has served, perhaps with other settings."""
    wanted = revision.under(config)
    return SwapPlan(config, partial(pipeline.kept, wanted), wanted.id, revision)


def _uploaded(upload: FromUpload, config: PluginConfig, by: str) -> SwapPlan:
    signatures = (upload.signature,) if upload.signature else ()
    candidate = FetchedRevision.of(Fetched(upload.module, f"upload by {by}", "", signatures), config)
    return SwapPlan(config, lambda: candidate, candidate.revision.id)


def _serving(slot: Slot) -> PluginConfig:
    """The plugin's configuration with the settings of what serves."""
    return slot.live.revision.configure(slot.config) if slot.live else slot.config


_KEYS: Final = [str(PluginConfig.model_fields[name].alias) for name in REVISED]


def _set(config: PluginConfig, settings: Mapping[str, Any]) -> PluginConfig:
    """Raises SwapRefusedError."""
    unknown = sorted(settings.keys() - set(_KEYS))
    if unknown:
        raise SwapRefusedError(f"{', '.join(unknown)}: cannot be set; expected some of {', '.join(_KEYS)}")
    return _validated(config, settings)


def _elsewhere(config: PluginConfig, url: str) -> PluginConfig:
    """Raises SwapRefusedError."""
    if url.startswith("file:"):
        raise SwapRefusedError(
            "expected a URL of http, https or oci; a file is uploaded (kwx plugin swap NAME --file FILE)"
        )
    return _validated(config, {"guestURL": url})


def _validated(config: PluginConfig, settings: Mapping[str, Any]) -> PluginConfig:
    try:
        return configure(config, settings)
    except ValidationError as error:
        raise SwapRefusedError("; ".join(map(describe, error.errors()))) from error
