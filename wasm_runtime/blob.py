"""Bytes that are known by their digest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field


def digest(content: bytes) -> str:
    """The digest of some bytes, as OCI writes it: `sha256:` and 64 hexadecimal digits."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass(frozen=True)
class Blob:
    """Bytes and their digest, which takes some tenths of a second for the largest modules.

    A Blob makes its digest itself, so the digest is always that of these very bytes. A module travels as one Blob from
    its source to the compiler: it is hashed once, and the name of its compiled code can be trusted.
    """

    content: bytes
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", digest(self.content))

    @classmethod
    def of(cls, content: bytes | Blob) -> Blob:
        """A Blob as it is, or the Blob of some bytes."""
        return content if isinstance(content, Blob) else cls(content)
