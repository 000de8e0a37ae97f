"""Bodies of requests that may be large, and modules that came in them."""

from __future__ import annotations

from typing import Annotated, Final

import anyio
from fastapi import Header, HTTPException, Request

from extender.rollouts.swap_command import FromUpload
from extender.sources.signing import detached
from wasm_runtime.blob import Blob

UPLOAD_TIMEOUT_S: Final = 60.0
"""Seconds in which a body has to be received."""

SignatureHeader = Annotated[
    str | None, Header(description="What `cosign sign-blob` writes of the module: its signature, or a bundle.")
]


async def read_upload(request: Request, what: str) -> bytes:
    """The body of a request, which messages call `what`. Raises HTTPException with status 408 if it is too slow."""
    body = bytearray()
    try:
        with anyio.fail_after(UPLOAD_TIMEOUT_S):
            async for part in request.stream():
                body += part
    except TimeoutError:
        raise HTTPException(408, f"{what} did not come in within {UPLOAD_TIMEOUT_S:g} s") from None
    return bytes(body)


def uploaded(module: bytes, signature: str | None) -> FromUpload:
    """An uploaded module with its signature, if it has one: what `cosign sign-blob` writes, a signature or a bundle.

    Raises SourceError for a signature that cannot be read.
    """
    return FromUpload(Blob(module), detached(module, signature.encode()) if signature else None)
