"""Servers on real ports, and what goes over the wire to them and back."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from clew.server.fast_path import FastPath, FastPathProtocol

Answer = tuple[int, dict[str, str], bytes]


class Wire:
    """One connection, and what comes back on it."""

    def __init__(self, opened: socket.socket) -> None:
        self.opened = opened
        self._came = b""

    def ask(self, *requests: bytes) -> list[Answer]:
        """Send requests in one go, and give status, headers and body of each answer."""
        self.opened.sendall(b"".join(requests))
        return [self.answer() for _ in requests]

    def answer(self) -> Answer:
        """Status, headers and body of the next answer."""
        status, headers, _ = self.head()
        size = int(headers["content-length"])
        while len(self._came) < size:
            self._receive()
        body, self._came = self._came[:size], self._came[size:]
        return status, headers, body

    def head(self) -> Answer:
        """The same of an answer that has no body, whatever its size."""
        while b"\r\n\r\n" not in self._came:
            self._receive()
        head, _, self._came = self._came.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        return int(status.split()[1]), dict(line.split(": ", 1) for line in lines), b""

    def is_closed(self) -> bool:
        """Whether the other side has closed it."""
        return not self._came and self.opened.recv(1) == b""

    def _receive(self) -> None:
        piece = self.opened.recv(1 << 16)
        assert piece, "the connection was closed"
        self._came += piece


@contextmanager
def serving(app: ASGIApp, quick: FastPath) -> Iterator[tuple[int, uvicorn.Server]]:
    """An application on a port of its own; gives the port and the server."""
    config = uvicorn.Config(
        app, http=FastPathProtocol.with_handlers(quick), ws="none", log_config=None, server_header=False
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
