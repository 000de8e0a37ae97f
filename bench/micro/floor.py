"""The peer of `bench.micro.webhook`: a bare ASGI application that decodes filter, keeps all and encodes.

What it takes is what no extender in Python can go below with this server and this JSON library.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec


class Args(msgspec.Struct):
    """ExtenderArgs with names."""

    Pod: msgspec.Raw
    NodeNames: list[str]


class Result(msgspec.Struct):
    """ExtenderFilterResult with names."""

    NodeNames: list[str]
    Nodes: None = None
    FailedNodes: dict[str, str] = {}
    FailedAndUnresolvableNodes: dict[str, str] = {}
    Error: str = ""


async def app(
    _: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
) -> None:
    """Answers every request as a filter that keeps all nodes."""
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            break
    args = msgspec.json.decode(b"".join(parts), type=Args)
    body = msgspec.json.encode(Result(args.NodeNames))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
