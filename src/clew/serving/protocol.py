"""HTTP as it comes in: a request must come within reasonable time, and what stands before its body must be short."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol


class _HeadTooLongError(Exception):
    """Ends the parsing."""


class CarefulProtocol(HttpToolsProtocol):
    """Refuses a head that is too long with 431, and a request that comes too slowly with 408.

    uvicorn's own waits, and holds what came, for as long as a client likes.
    """

    head_bytes: ClassVar = 64 << 10
    # How long a request may take to come, and how much longer for what it has brought.
    patience_seconds: ClassVar = 30.0
    slowest_bytes_per_second: ClassVar = 16 << 10

    # Whether nothing has come of the next request.
    is_between = True

    _begun_at = 0.0
    _came = 0
    _is_in_head = True
    _is_whole = False
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """From here on the first request is waited for."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is waited for."""
        self.stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes; only what does not come at once is timed."""
        self._came += len(data)
        super().data_received(data)
        if self._is_in_head and self._came > self.head_bytes:
            self._refuse_head()
        elif self._is_whole:
            self.stop_waiting()
        elif self._timer is None:
            self._wait()

    def on_message_begin(self) -> None:
        """A head begins."""
        self._is_in_head, self._is_whole, self.is_between = True, False, False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A head has ended."""
        self.end_head()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """A request has come whole."""
        self.end_message()
        super().on_message_complete()

    def end_head(self) -> None:
        """Refuse one that is too long."""
        self._is_in_head = False
        if sum(len(name) + len(value) for name, value in self.headers) + len(self.url) > self.head_bytes:
            self._refuse_head()
            raise _HeadTooLongError

    def end_message(self) -> None:
        """What comes next is another request."""
        self._is_whole, self.is_between, self._came = True, True, 0

    def add_piece(self, size: int) -> None:
        """Count what has come of a request that is not left to the parser."""
        self.is_between, self._is_in_head = False, False
        self._came += size
        if self._timer is None:
            self._wait()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP, or was refused already."""
        self._refuse(400, msg)

    def stop_waiting(self) -> None:
        """What was waited for has come, or nobody is there to send it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        self._begun_at = self.loop.time()
        self._timer = self.loop.call_later(self.patience_seconds, self._look)

    def _look(self) -> None:
        """Go on waiting for who is not too slow, or is made to wait by us."""
        now = self.loop.time()
        due = self._begun_at + self.patience_seconds + self._came / self.slowest_bytes_per_second
        if now < due or self.flow.read_paused:
            self._timer = self.loop.call_later(max(0.1, due - now), self._look)
            return
        self._timer = None
        self._refuse(408, f"The request did not come within {now - self._begun_at:.0f} seconds.")

    def _refuse_head(self) -> None:
        self._refuse(431, f"The headers are larger than {self.head_bytes >> 10} KB.")

    def _refuse(self, status: int, message: str) -> None:
        if self.transport.is_closing():
            return
        body = b'{"code":%d,"message":"%s"}' % (status, message.encode())
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()
