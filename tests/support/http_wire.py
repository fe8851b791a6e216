"""Servers on real ports and raw HTTP connections to them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from clew.server.fast_path import FastPath, FastPathProtocol

Response = tuple[int, dict[str, str], bytes]


class RawConnection:
    """One TCP connection with a receive buffer."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._buffer = b""

    def send(self, *requests: bytes) -> list[Response]:
        """Send pipelined requests; return status, headers and body of each response."""
        self.socket.sendall(b"".join(requests))
        return [self.read_response() for _ in requests]

    def read_response(self) -> Response:
        """Return status, headers and body of the next response."""
        status, headers, _ = self.read_head()
        size = int(headers["content-length"])
        while len(self._buffer) < size:
            self._receive()
        body, self._buffer = self._buffer[:size], self._buffer[size:]
        return status, headers, body

    def read_head(self) -> Response:
        """Return status and headers of a response without a body."""
        while b"\r\n\r\n" not in self._buffer:
            self._receive()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        return int(status.split()[1]), dict(line.split(": ", 1) for line in lines), b""

    def is_closed(self) -> bool:
        """Return whether the peer has closed the connection."""
        return not self._buffer and self.socket.recv(1) == b""

    def _receive(self) -> None:
        chunk = self.socket.recv(1 << 16)
        assert chunk, "the connection was closed"
        self._buffer += chunk


@contextmanager
def run_server(app: ASGIApp, fast_path: FastPath) -> Iterator[tuple[int, uvicorn.Server]]:
    """Serve an application on a free port; yield the port and the server."""
    config = uvicorn.Config(
        app, http=FastPathProtocol.with_handlers(fast_path), ws="none", log_config=None, server_header=False
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1], server
        finally:
            server.should_exit = True
            thread.join()
