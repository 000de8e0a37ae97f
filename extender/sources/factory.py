"""Which source a plugin's URL names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from extender.sources.download import Limit
from extender.sources.file import FileSource
from extender.sources.http import HttpSource
from extender.sources.oci.source import OciSource
from extender.sources.signed import SignedSource
from extender.sources.source import Source

if TYPE_CHECKING:
    from extender.config import PluginConfig  # It imports this package.


def open_source(plugin: PluginConfig, folder: Path, limit: int) -> Source:
    """The source of a plugin's module, of which nothing is fetched yet.

    `folder` is what the configuration's paths are relative to, `limit` is `runtime.moduleLimit` in bytes.
    """
    scheme, _, rest = plugin.guest_url.partition("://")
    folder = folder.absolute()
    allowed = Limit(limit, "runtime.moduleLimit")
    source = plugin.source
    signed = source.public_key is not None
    opened: Source
    if scheme in _REMOTE:
        opened = _REMOTE[scheme](
            plugin.guest_url,
            allowed,
            interval=source.interval,
            timeout=source.timeout,
            ca_file=source.ca_file and folder / source.ca_file,
            signed=signed,
        )
    else:
        path = os.path.expanduser(rest)  # noqa: PTH111 - Path's raises for an unknown user
        opened = FileSource(folder / path, allowed, signed=signed)
    return SignedSource(opened, folder / source.public_key) if source.public_key else opened


_REMOTE: Final[Mapping[str, type[HttpSource | OciSource]]] = {"http": HttpSource, "https": HttpSource, "oci": OciSource}
"""By the scheme of their URLs; the others are files."""
