"""Asking a server over HTTP: one after the other for how long an answer takes, many at once for how many there are."""

from __future__ import annotations

import asyncio
import http.client
import re
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import quantiles

import uvloop
from bench.costs import TICKS
from bench.processes import family

_REST_SECONDS = 1.0
_OK = b"HTTP/1.1 200 "
_SIZE = b"\r\ncontent-length: "


@dataclass(frozen=True)
class Server:
    """A server that was started here."""

    process: int
    port: int
    seconds_to_start: float

    def cpu_seconds(self) -> float:
        """What it has taken so far."""
        return sum(one.ticks for one in family(self.process)) / TICKS

    def until_it_rests(self) -> float:
        """Wait until the server has done what it does by itself; gives the seconds that it took."""
        began = rested = time.perf_counter()
        spent = self.cpu_seconds()
        while time.perf_counter() - rested < _REST_SECONDS:
            time.sleep(0.1)
            if self.cpu_seconds() > spent + 0.02:
                rested, spent = time.perf_counter(), self.cpu_seconds()
        return rested - began


@contextmanager
def serving(home: Path) -> Iterator[Server]:
    """`clew serve` as a user starts it; it counts as started with its first answer."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "clew", "serve", "--port", "0", "--home", str(home)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        found = re.search(r":(\d+)/", process.stderr.readline() if process.stderr else "")
        if found is None:
            message = "The server did not start."
            raise RuntimeError(message)
        port = int(found[1])
        answer_times(port, ["/api/v1/namespaces"], 1)
        try:
            yield Server(process.pid, port, time.perf_counter() - began)
        finally:
            process.terminate()


def answer_times(port: int, paths: Sequence[str], count: int) -> list[float]:
    """Milliseconds until the whole answer is there, one request after the other on one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    found = []
    for _, path in zip(range(count), cycle(paths), strict=False):
        began = time.perf_counter()
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        found.append(1000 * (time.perf_counter() - began))
        if answer.status != http.HTTPStatus.OK:
            message = f"{path}: {answer.status}"
            raise RuntimeError(message)
    connection.close()
    return found


def p95(times: Sequence[float]) -> float:
    """The 95th percentile."""
    return quantiles(times, n=100, method="inclusive")[94]


def ask_all(port: int, paths: Sequence[str], clients: int) -> float:
    """Ask for all paths, by so many clients at once; gives the seconds that it took.

    The clients share the machine with the server, so they do little: requests are made before the clock starts.
    """
    requests = deque(f"GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n".encode() for path in paths)
    began = time.perf_counter()
    uvloop.run(_ask_all(port, requests, clients))
    return time.perf_counter() - began


async def _ask_all(port: int, requests: deque[bytes], clients: int) -> None:
    loop = asyncio.get_running_loop()
    ended = [loop.create_future() for _ in range(clients)]
    for one in ended:
        await loop.create_connection(lambda one=one: _Client(requests, one), "127.0.0.1", port)  # type: ignore[misc]
    await asyncio.gather(*ended)


class _Client(asyncio.Protocol):
    """Sends the next request when the answer to the one before is there; all that a load needs of HTTP."""

    def __init__(self, requests: deque[bytes], ended: asyncio.Future[None]) -> None:
        self._requests = requests
        self._ended = ended
        self._held = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        """Take an answer, or a part of one."""
        self._held = data = self._held + data
        body = data.find(b"\r\n\r\n") + 4
        if body < 4:
            return
        size = data.find(_SIZE, 0, body)
        if size < 0 or not data.startswith(_OK):
            self._transport.close()
            self._ended.set_exception(RuntimeError(data[:body].decode()))
        elif len(data) - body == int(data[size + len(_SIZE) : data.find(b"\r", size + 2)]):
            self._ask()

    def _ask(self) -> None:
        self._held = b""
        if self._requests:
            self._transport.write(self._requests.popleft())
        else:
            self._transport.close()
            self._ended.set_result(None)
