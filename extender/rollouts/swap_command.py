"""What an operator wants to become live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from extender.sources import Signature
from wasm_runtime.blob import Blob


class SwapRefusedError(Exception):
    """A command cannot be carried out. `str()` says why."""


class ConflictError(SwapRefusedError):
    """A command comes after another one that it does not know of. `str()` names it."""


class ReplicatedError(SwapRefusedError):
    """A command would change one of several replicas. `str()` says what changes them all."""


class FromUpload(NamedTuple):
    """A module that comes with the command."""

    module: Blob
    signature: Signature | None = None


class FromUrl(NamedTuple):
    """A module that another source than the configured one gives: http, https or oci."""

    url: str


class FromRevision(NamedTuple):
    """A revision that has served before."""

    revision: str
    """Its id, or at least eight characters of the digest by which that begins."""


class FromSource(NamedTuple):
    """What the configured source gives now."""


class SwapCommand(NamedTuple):
    """An operator's command: what is to become live in a slot, and for whom."""

    what: FromUpload | FromUrl | FromRevision | FromSource
    by: str
    why: str = ""
    settings: Mapping[str, Any] = {}
    """Keys of the plugin's configuration that are part of a revision, as the configuration file writes them."""
    dry_run: bool = False
    expected: str | None = None
    """The revision that is active, as far as the operator knows."""
