"""HTTP clients of a server: sequential for latency, concurrent for throughput."""

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
from bench.costs import TICKS_PER_SECOND
from bench.processes import list_process_tree

_IDLE_SECONDS = 1.0
_OK = b"HTTP/1.1 200 "
_CONTENT_LENGTH = b"\r\ncontent-length: "


@dataclass(frozen=True)
class Server:
    """Server process."""

    pid: int
    port: int
    seconds_to_start: float

    def cpu_seconds(self) -> float:
        """CPU time until now."""
        return sum(process.ticks for process in list_process_tree(self.pid)) / TICKS_PER_SECOND

    def wait_until_idle(self) -> float:
        """Wait until background work has ended, and return the seconds."""
        start = idle_since = time.perf_counter()
        cpu = self.cpu_seconds()
        while time.perf_counter() - idle_since < _IDLE_SECONDS:
            time.sleep(0.1)
            if self.cpu_seconds() > cpu + 0.02:
                idle_since, cpu = time.perf_counter(), self.cpu_seconds()
        return idle_since - start


@contextmanager
def run_server(home: Path, *options: str) -> Iterator[Server]:
    """Run `clew serve`; it counts as started with its first response."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "clew", "serve", "--port", "0", "--home", str(home), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        match = re.search(r":(\d+)/", process.stderr.readline() if process.stderr else "")
        if match is None:
            message = "The server did not start."
            raise RuntimeError(message)
        port = int(match[1])
        measure_latencies(port, ["/api/v1/namespaces"], 1)
        try:
            yield Server(process.pid, port, time.perf_counter() - start)
        finally:
            process.terminate()


def measure_latencies(port: int, paths: Sequence[str], count: int) -> list[float]:
    """Measure the milliseconds of sequential requests on one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    latencies = []
    for _, path in zip(range(count), cycle(paths), strict=False):
        start = time.perf_counter()
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        latencies.append(1000 * (time.perf_counter() - start))
        if response.status != http.HTTPStatus.OK:
            message = f"{path}: {response.status}"
            raise RuntimeError(message)
    connection.close()
    return latencies


def measure_own_writes(port: int, bodies: Sequence[bytes], paths: Sequence[Sequence[str]]) -> list[float]:
    """Post events, and measure the milliseconds of reading the paths of each event after its acknowledgement."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    latencies = []
    for body, own_paths in zip(bodies, paths, strict=True):
        connection.request("POST", "/api/v1/lineage", body, {"content-type": "application/json"})
        response = connection.getresponse()
        response.read()
        if response.status != http.HTTPStatus.CREATED:
            message = f"POST: {response.status}"
            raise RuntimeError(message)
        latencies += measure_latencies(port, own_paths, len(own_paths))
    connection.close()
    return latencies


def p95(times: Sequence[float]) -> float:
    """95th percentile."""
    return quantiles(times, n=100, method="inclusive")[94]


def send_all(port: int, paths: Sequence[str], clients: int) -> float:
    """Send requests with concurrent clients, and return the seconds.

    The clients share the machine with the server, so requests are encoded before the measurement starts.
    """
    requests = deque(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode() for path in paths)
    start = time.perf_counter()
    uvloop.run(_send_all(port, requests, clients))
    return time.perf_counter() - start


async def _send_all(port: int, requests: deque[bytes], clients: int) -> None:
    loop = asyncio.get_running_loop()
    futures = [loop.create_future() for _ in range(clients)]
    for future in futures:
        await loop.create_connection(lambda future=future: _Client(requests, future), "127.0.0.1", port)  # type: ignore[misc]
    await asyncio.gather(*futures)


class _Client(asyncio.Protocol):
    """Minimal HTTP client that sends the next request after each response."""

    def __init__(self, requests: deque[bytes], done: asyncio.Future[None]) -> None:
        self._requests = requests
        self._done = done
        self._buffer = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Send the first request."""
        self._transport = transport
        self._send_next()

    def data_received(self, data: bytes) -> None:
        """Receive a response, or a part of it."""
        self._buffer = data = self._buffer + data
        body_start = data.find(b"\r\n\r\n") + 4
        if body_start < 4:
            return
        length_start = data.find(_CONTENT_LENGTH, 0, body_start)
        if length_start < 0 or not data.startswith(_OK):
            self._transport.close()
            self._done.set_exception(RuntimeError(data[:body_start].decode()))
        elif len(data) - body_start == int(
            data[length_start + len(_CONTENT_LENGTH) : data.find(b"\r", length_start + 2)]
        ):
            self._send_next()

    def _send_next(self) -> None:
        self._buffer = b""
        if self._requests:
            self._transport.write(self._requests.popleft())
        else:
            self._transport.close()
            self._done.set_result(None)
