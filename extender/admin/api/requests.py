"""The bodies, names and preconditions of operators' requests."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Final

from fastapi import HTTPException
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, model_validator
from pydantic.alias_generators import to_camel

from extender.admin.auth.tokens import User
from extender.rollouts.slot import Slot
from extender.rollouts.swap_command import FromRevision, FromSource, FromUrl, SwapCommand

MAX_REASON_CHARACTERS: Final = 1000

Reason = Annotated[str, Field(max_length=MAX_REASON_CHARACTERS)]
"""Why an operator does something, for the history."""

_NAME: Final = r"^(sha256:)?[0-9a-f]{8,64}$"


def _check_name(text: str) -> str:
    if not re.fullmatch(_NAME, text):
        raise ValueError(f"expected the id of a revision, or at least 8 digits of it, found {text[:100]!r}")
    return text


RevisionName = Annotated[str, AfterValidator(_check_name), Field(json_schema_extra={"pattern": _NAME})]
"""A revision's id, or a beginning of the id that is unique; `sha256:` may be left out."""

_TAG: Final = re.compile(r'"(sha256:[0-9a-f]{64})"')
"""An ETag of the admin API: a revision's id in quotes."""


class _RequestBody(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", use_attribute_docstrings=True)

    expected_revision: RevisionName | None = None
    """The revision that must be active; otherwise nothing is done."""
    reason: Reason = ""
    """Why, for the history."""


class SwapRequest(_RequestBody):
    """What is to go live. With neither url nor revision: what the configured source gives now."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {},
                {"url": "oci://registry.example/policies/spread:v2", "reason": "spread the batch jobs"},
                {"settings": {"guestConfig": '{"reverse": true}', "weight": 2}, "dryRun": True},
                {"revision": "9c56cc51", "expectedRevision": "1b4f0e98"},
            ]
        }
    )

    url: str | None = None
    """URL of http, https or oci from which the module is fetched once."""
    revision: RevisionName | None = None
    """A revision that has served before."""
    settings: dict[str, JsonValue] = {}
    """Keys of the plugin in the configuration file that get other values: guestConfig, args, weight, timeout …"""
    dry_run: bool = False
    """Whether the rollout ends once the candidate has judged recorded requests: its report tells what would change."""

    @model_validator(mode="after")
    def _check(self) -> SwapRequest:
        if self.url is not None and self.revision is not None:
            raise ValueError("url and revision exclude each other")
        return self

    def command(self, slot: Slot, user: User, tag: str | None) -> SwapCommand:
        """The command of a user for a slot. `tag` is the header If-Match.

        Raises HTTPException with status 400 for a malformed `tag`.
        """
        what = (
            FromUrl(self.url)
            if self.url is not None
            else FromRevision(self.revision)
            if self.revision
            else FromSource()
        )
        expected = expectation(slot, self.expected_revision, tag)
        return SwapCommand(what, user.name, self.reason, self.settings, self.dry_run, expected)


class RollbackRequest(_RequestBody):
    """To which revision a plugin goes back."""

    revision: RevisionName | None = None
    """A revision that has served before; without it the last good one before the active revision."""


def with_algorithm(revision: str) -> str:
    """A RevisionName with `sha256:` at its beginning."""
    return revision if revision.startswith("sha256:") else f"sha256:{revision}"


def expectation(slot: Slot, revision: str | None, tag: str | None) -> str | None:
    """The id of the revision that must be active; None if any may be.

    `tag` is the header If-Match, which counts first (`*` is as none); `revision` is a RevisionName. A name that the
    active revision does not have is returned as it is, so no id equals it. Raises HTTPException with status 400 for a
    malformed `tag`.
    """
    if tag is not None and tag != "*":
        match = _TAG.fullmatch(tag)
        if not match:
            raise HTTPException(
                400, f'If-Match: expected "sha256:…", the id of a revision in quotes, found {tag[:100]!r}'
            )
        return match[1]
    if revision is None:
        return None
    whole = with_algorithm(revision)
    active = slot.live.revision.id if slot.live else ""
    return active if active.startswith(whole) else whole


def decode_settings(text: str) -> dict[str, Any]:
    """The settings of an upload: a JSON object. Raises HTTPException with status 422 for anything else."""
    try:
        settings = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HTTPException(422, f"settings: expected JSON: {error}") from error
    if not isinstance(settings, dict):
        raise HTTPException(422, 'settings: expected a JSON object such as {"weight": 2}')
    return settings
