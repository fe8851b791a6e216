"""Concurrent clients of a collector in one process; requests are encoded before the measurement starts.

python -m bench.senders PORT CLIENTS FILE     send each line of a file as an event, and print the result as JSON
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter, deque
from pathlib import Path

import msgspec
import uvloop
from msgspec import Struct

_HEAD = (
    b"POST /api/v1/lineage HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n"
)


class SendResult(Struct):
    """Seconds until all responses, CPU of the clients, and number of responses by status."""

    seconds: float
    cpu_seconds: float
    status_counts: dict[str, int]


class Client(asyncio.Protocol):
    """Client that sends the next request after each response."""

    def __init__(self, pending: deque[bytes], status_counts: Counter[str], closed: asyncio.Event) -> None:
        self._pending = pending
        self._status_counts = status_counts
        self._closed = closed
        self._buffer = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Send the first request."""
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        """Receive a response; its body is empty, or arrives together with its head."""
        self._buffer += data
        if b"\r\n\r\n" in self._buffer:
            self._status_counts[self._buffer[9:12].decode()] += 1
            self._buffer = b""
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report that the connection is closed."""
        del exc
        self._closed.set()

    def _send(self) -> None:
        if self._pending:
            self._transport.write(self._pending.popleft())
        else:
            self._transport.close()


def make_request(body: bytes) -> bytes:
    """Encode the request of an event."""
    return _HEAD % len(body) + body


async def send(port: int, clients: int, requests: list[bytes]) -> SendResult:
    """Send requests with concurrent clients."""
    pending, status_counts = deque(requests), Counter[str]()
    loop = asyncio.get_running_loop()
    closed_events = [asyncio.Event() for _ in range(clients)]
    start, cpu = time.perf_counter(), time.process_time()
    for closed in closed_events:
        await loop.create_connection(lambda closed=closed: Client(pending, status_counts, closed), "127.0.0.1", port)  # type: ignore[misc]
    for closed in closed_events:
        await closed.wait()
    return SendResult(time.perf_counter() - start, time.process_time() - cpu, dict(status_counts))


def main() -> None:
    """Send the events of a file, and print the result."""
    port, clients, path = sys.argv[1:]
    requests = [make_request(line) for line in Path(path).read_bytes().splitlines()]
    result = uvloop.run(send(int(port), int(clients), requests))
    print(msgspec.json.encode(result).decode())


if __name__ == "__main__":
    main()
