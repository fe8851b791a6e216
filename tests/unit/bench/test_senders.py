"""Tests of the collector benchmark's clients."""

from __future__ import annotations

import asyncio
from collections import Counter

from bench.senders import make_request, send

EVENTS = [b'{"number": %d}' % number for number in range(50)]


def test_sends_each_event_once_and_counts_responses() -> None:
    assert asyncio.run(send_to_server()) == ({"201": 45, "503": 5}, Counter(EVENTS))


async def send_to_server() -> tuple[dict[str, int], Counter[bytes]]:
    """Send events to a server that rejects every tenth, and return the status counts and the received events."""
    received: Counter[bytes] = Counter()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.read(len(make_request(b"x" * 14)) - 14):
            assert head == make_request(b"x" * int(head.split(b"Content-Length: ")[1]))[: len(head)]
            received[await reader.readuntil(b"}")] += 1
            status = b"503 Busy" if received.total() % 10 == 0 else b"201 Created"
            writer.write(b"HTTP/1.1 %s\r\ncontent-length: 0\r\n\r\n" % status)
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        result = await send(port, 8, [make_request(event) for event in EVENTS])
    assert result.seconds > 0
    return result.status_counts, received
