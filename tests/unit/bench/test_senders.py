"""The clients that a collector is measured with."""

from __future__ import annotations

import asyncio
from collections import Counter

from bench.senders import request, send

EVENTS = [b'{"number": %d}' % number for number in range(50)]


def test_each_event_is_sent_once_and_every_answer_is_counted() -> None:
    assert asyncio.run(sent_to_a_server()) == ({"201": 45, "503": 5}, Counter(EVENTS))


async def sent_to_a_server() -> tuple[dict[str, int], Counter[bytes]]:
    """What came of the answers of a server that refuses every tenth, and what it was sent."""
    came: Counter[bytes] = Counter()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.read(len(request(b"x" * 14)) - 14):
            assert head == request(b"x" * int(head.split(b"Content-Length: ")[1]))[: len(head)]
            came[await reader.readuntil(b"}")] += 1
            status = b"503 Busy" if came.total() % 10 == 0 else b"201 Created"
            writer.write(b"HTTP/1.1 %s\r\ncontent-length: 0\r\n\r\n" % status)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        found = await send(port, 8, [request(event) for event in EVENTS])
    assert found.seconds > 0
    return found.answers, came
