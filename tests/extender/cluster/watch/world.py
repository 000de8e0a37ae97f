"""An API server's truth about one resource, served on loopback by a server that fails as it is told."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from bench.peers.protobuf import enveloped, event, framed, status, text
from tests.extender.cluster.scripted import read_request

HEAD: Final = b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
KEPT: Final = 2_000
"""Events from which a watch can go on."""

Make = Callable[[int, str], bytes]
"""The bare object of a key at a version."""


class World:
    """The objects of a resource, and what happened to them of late."""

    def __init__(self, make: Make, chance: random.Random) -> None:
        self.objects: dict[str, bytes] = {}
        self.version = 1
        self.events = 0
        self._make = make
        self._chance = chance
        self._log: list[bytes] = []
        """The frames of all changes that are remembered; the last one is of `version`."""
        self._changed = asyncio.Event()

    @property
    def oldest(self) -> int:
        """The version from which all changes are still known."""
        return self.version - len(self._log)

    def change(self, key: str) -> None:
        """Adds an object, changes it, or removes it."""
        self.version += 1
        self.events += 1
        made = self._make(self.version, key)
        if key not in self.objects:
            kind = "ADDED"
            self.objects[key] = made
        elif self._chance.random() < 0.3:
            kind = "DELETED"
            del self.objects[key]
        else:
            kind = "MODIFIED"
            self.objects[key] = made
        self._log.append(framed(event(kind, made)))
        del self._log[:-KEPT]
        self._changed.set()
        self._changed = asyncio.Event()

    def compact(self) -> None:
        """Forgets what happened."""
        self._log.clear()

    def since(self, version: int) -> list[bytes]:
        """The frames of what happened after a version."""
        return self._log[len(self._log) - (self.version - version) :] if version < self.version else []

    async def changes(self) -> None:
        """Waits for the next change."""
        await self._changed.wait()

    def bookmark(self) -> bytes:
        """A frame with the version alone."""
        return framed(event("BOOKMARK", text(1, text(6, str(self.version)))))


class Deck:
    """Deals numbers by chance, all of them before one comes again."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._left: list[int] = []
        self.rounds = 0
        """How often all numbers have been dealt."""

    def deal(self, count: int) -> int:
        """One of `count` numbers."""
        if not self._left:
            self._left = self._chance.sample(range(count), count)
        number = self._left.pop()
        self.rounds += not self._left
        return number


class UnsteadyServer:
    """Lists in pages and watches; `faults` befall the requests to come, one each."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.faults = 0
        self._chance = chance
        self._bad_lists, self._bad_watches, self._bad_ends = Deck(chance), Deck(chance), Deck(chance)
        self._lists: dict[str, tuple[int, list[bytes]]] = {}
        """The version and the remaining objects of a list, by its continue token."""
        self._tasks: set[asyncio.Task[None] | None] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """The URL of the server, which serves as long as the context lasts."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        try:
            yield f"http://{host}:{port}"
        finally:
            server.close()
            for task in self._tasks:
                if task:
                    task.cancel()

    @property
    def has_done_its_worst(self) -> bool:
        """Whether each fault has befallen a request."""
        return all(deck.rounds for deck in (self._bad_lists, self._bad_watches, self._bad_ends))

    def disturb(self) -> None:
        """Ends what is under way, as a server does that crashes."""
        for task in self._tasks:
            if task:
                task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.current_task())
        try:
            request = await read_request(reader)
            await (self._watch if "watch" in request.query else self._list)(request.query, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # The client has left.
        except asyncio.CancelledError:
            _reset(writer)
        finally:
            self._tasks.discard(asyncio.current_task())
            writer.close()

    def _fault(self) -> bool:
        is_faulty = self.faults > 0
        self.faults -= is_faulty
        return is_faulty

    async def _list(self, query: Mapping[str, str], writer: asyncio.StreamWriter) -> None:
        page = self._page(query)
        if not self._fault():
            writer.write(_answer(*page))
            return
        whole = _answer(*page)
        faults = [
            _refusal(500),
            _refusal(429),
            _refusal(410),
            _refusal(401),
            _page_of_html,
            _sends(_answer(200, b"k8s\0\xff\xff")),
            _sends(whole[: self._chance.randrange(len(whole))]),
            _resets,
        ]
        await faults[self._bad_lists.deal(len(faults))](writer)

    def _page(self, query: Mapping[str, str]) -> tuple[int, bytes]:
        """All pages of a list are of one version, as etcd has it."""
        token = query.get("continue", "")
        if not token:
            version, left = self.world.version, list(self.world.objects.values())
        elif token in self._lists:
            version, left = self._lists.pop(token)
        else:
            return 410, b'{"kind":"Status","message":"The provided continue parameter is too old"}'
        items, left = left[:50], left[50:]
        token = str(self._chance.random()) if left else ""
        if left:
            self._lists[token] = version, left
        metadata = text(2, str(version)) + (text(3, token) if token else b"")
        return 200, enveloped(text(1, metadata) + b"".join(text(2, item) for item in items), "List")

    async def _watch(self, query: Mapping[str, str], writer: asyncio.StreamWriter) -> None:
        version = int(query["resourceVersion"])
        is_faulty = self._fault()
        if is_faulty and self._chance.random() < 0.3:
            faults = [_refusal(410), _refusal(429), _refusal(500), _page_of_html, _resets]
            await faults[self._bad_watches.deal(len(faults))](writer)
            return
        writer.write(HEAD)
        budget = self._chance.randrange(200) if is_faulty else None
        while budget is None or budget > 0:
            if version < self.world.oldest:
                writer.write(_chunk(framed(event("ERROR", status(410, "too old resource version")))) + b"0\r\n\r\n")
                return
            frames = self.world.since(version)[:budget]
            version += len(frames)
            if budget is not None:
                budget -= max(1, len(frames))
            if frames and self._chance.random() < 0.2 and version == self.world.version:
                frames.append(self.world.bookmark())
            await self._send(b"".join(frames), writer)
            if version == self.world.version and budget != 0:
                await self.world.changes()
        await self._end(writer, b"".join(self.world.since(version)[:1]) or self.world.bookmark())

    async def _send(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        """Sends bytes in chunks that begin and end anywhere."""
        size = self._chance.choice([7, 100, 5_000, 1_000_000])
        for at in range(0, len(data), max(size, len(data) // 20)):
            writer.write(_chunk(data[at : at + max(size, len(data) // 20)]))
            await writer.drain()

    async def _end(self, writer: asyncio.StreamWriter, frame: bytes) -> None:
        """Ends a watch badly, or in time; `frame` is what would come next."""
        cut = self._chance.randrange(1, len(frame))
        ends = [
            _sends(b"0\r\n\r\n"),
            _sends(b""),
            _resets,
            _sends(_chunk(frame[:cut])),
            _sends(_chunk(frame[:cut]) + b"0\r\n\r\n"),
            _sends(_chunk(frame)[:cut]),
            _drips(frame[:-1]),
            _sends(_chunk(framed(event("ERROR", status(410, "too old")))) + b"0\r\n\r\n"),
            _sends(_chunk(framed(event("ERROR", status(500, "etcd is away")))) + b"0\r\n\r\n"),
            _sends(_chunk(framed(event("ERROR", status(429, "too many requests")))) + b"0\r\n\r\n"),
            _sends(_chunk(b"<html>Sign in to the network</html>")),
            _sends(_chunk(framed(b"nonsense"))),
            _sends(_chunk(b"\xff" * 8)),
        ]
        await ends[self._bad_ends.deal(len(ends))](writer)


Send = Callable[[asyncio.StreamWriter], Awaitable[None]]


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data) if data else b""


def _answer(code: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d Scripted\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (code, len(body), body)


def _sends(data: bytes) -> Send:
    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return send


def _refusal(code: int) -> Send:
    return _sends(_answer(code, b'{"kind":"Status","message":"as told"}'))


_page_of_html = _sends(_answer(200, b"<html>Sign in to the network</html>"))


def _drips(data: bytes) -> Send:
    """Sends bytes little by little, and never all of them."""

    async def send(writer: asyncio.StreamWriter) -> None:
        for byte in data:
            writer.write(_chunk(bytes([byte])))
            await writer.drain()
            await asyncio.sleep(0.02)
        await asyncio.sleep(60)

    return send


async def _resets(writer: asyncio.StreamWriter) -> None:
    _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    if connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
