"""Clients of a collector, many in one process, which cost it little: requests are made before the clock starts.

python -m bench.senders PORT CLIENTS FILE     sends each line of a file as an event, and prints what came of it
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


class Sent(Struct):
    """How long it took until all were answered, what that took of the CPU, and how often each status was."""

    seconds: float
    cpu_seconds: float
    answers: dict[str, int]


class Client(asyncio.Protocol):
    """Sends the next request when the last one was answered."""

    def __init__(self, waiting: deque[bytes], answers: Counter[str], ended: asyncio.Event) -> None:
        self._waiting = waiting
        self._answers = answers
        self._ended = ended
        self._answer = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        """An answer has no body, or a small one: what ends in the same piece as its head."""
        self._answer += data
        if b"\r\n\r\n" in self._answer:
            self._answers[self._answer[9:12].decode()] += 1
            self._answer = b""
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        """No more will be sent here."""
        del exc
        self._ended.set()

    def _send(self) -> None:
        if self._waiting:
            self._transport.write(self._waiting.popleft())
        else:
            self._transport.close()


def request(body: bytes) -> bytes:
    """An event as it goes over the wire."""
    return _HEAD % len(body) + body


async def send(port: int, clients: int, requests: list[bytes]) -> Sent:
    """Send all of them, by so many clients at once."""
    waiting, answers = deque(requests), Counter[str]()
    loop = asyncio.get_running_loop()
    ends = [asyncio.Event() for _ in range(clients)]
    start, cpu = time.perf_counter(), time.process_time()
    for end in ends:
        await loop.create_connection(lambda end=end: Client(waiting, answers, end), "127.0.0.1", port)  # type: ignore[misc]
    for end in ends:
        await end.wait()
    return Sent(time.perf_counter() - start, time.process_time() - cpu, dict(answers))


def main() -> None:
    """Send, and tell."""
    port, clients, path = sys.argv[1:]
    requests = [request(line) for line in Path(path).read_bytes().splitlines()]
    sent = uvloop.run(send(int(port), int(clients), requests))
    print(msgspec.json.encode(sent).decode())


if __name__ == "__main__":
    main()
