"""`python -m tests.storm.idle PORT`: a server that only answers, to tell what the machine alone makes wait."""

from __future__ import annotations

import asyncio
import sys

from bench.controlplane.ports import LOOPBACK

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def serve(port: int) -> None:
    """Serves until cancelled."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            while (await reader.readline()).strip():
                pass
            writer.write(ANSWER)
        writer.close()

    async with await asyncio.start_server(answer, LOOPBACK, port) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
