"""Asking a server over HTTP: one after the other for how long an answer takes, many at once for how many there are."""

from __future__ import annotations

import asyncio
import http.client
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import quantiles

from bench.costs import TICKS
from bench.processes import family

_REST_SECONDS = 1.0


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
    """Ask for all paths, by so many clients at once; gives the seconds that it took."""
    began = time.perf_counter()
    asyncio.run(_ask_all(port, paths, clients))
    return time.perf_counter() - began


async def _ask_all(port: int, paths: Sequence[str], clients: int) -> None:
    loop = asyncio.get_running_loop()
    left = iter(paths)
    ended = [loop.create_future() for _ in range(clients)]
    for one in ended:
        await loop.create_connection(lambda one=one: _Client(left, one), "127.0.0.1", port)  # type: ignore[misc]
    await asyncio.gather(*ended)


class _Client(asyncio.Protocol):
    """Asks for the next path when the answer to the one before is there; all that a load needs of HTTP."""

    def __init__(self, paths: Iterator[str], ended: asyncio.Future[None]) -> None:
        self._paths = paths
        self._ended = ended
        self._held = b""
        self._left = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  # for the type checker
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        """Take a part of an answer."""
        if self._left < 0:
            self._held += data
            head, mark, body = self._held.partition(b"\r\n\r\n")
            if not mark:
                return
            found = re.search(rb"content-length: (\d+)", head)
            if found is None or not head.startswith(b"HTTP/1.1 200"):
                self._transport.close()
                self._ended.set_exception(RuntimeError(head.decode()))
                return
            self._left = int(found[1]) - len(body)
        else:
            self._left -= len(data)
        if self._left == 0:
            self._ask()

    def _ask(self) -> None:
        path = next(self._paths, None)
        if path is None:
            self._transport.close()
            self._ended.set_result(None)
            return
        self._held, self._left = b"", -1
        self._transport.write(f"GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n".encode())
