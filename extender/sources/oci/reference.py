"""Names of artifacts in OCI registries."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_FOLDER: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATTERN: Final = re.compile(
    r"oci://(?P<registry>(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::\d{1,5})?)"
    rf"/(?P<repository>{_FOLDER}(?:/{_FOLDER})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)
"""Names and tags as the OCI distribution specification has them."""


class Reference(NamedTuple):
    """An artifact: its registry, its repository, and a tag or the digest of its manifest."""

    registry: str
    repository: str
    tag: str
    """Followed; `latest` where none is given. Not looked at where there is a digest."""
    digest: str | None
    """Of the manifest."""

    @classmethod
    def parse(cls, url: str) -> Reference:
        """Reads `oci://REGISTRY/REPOSITORY[:TAG][@DIGEST]`. Raises ValueError."""
        match = _PATTERN.fullmatch(url)
        if not match:
            raise ValueError(
                "expected oci://REGISTRY/REPOSITORY with :TAG or @sha256:DIGEST, such as"
                f" oci://registry.example/policies/spread:v2, found {url.partition('?')[0]!r}"
            )
        return cls(match["registry"], match["repository"], match["tag"] or "latest", match["digest"])
