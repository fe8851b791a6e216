"""HTTP limits: request timeout and maximum size of the head; the host of the request."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol


class _HeadTooLongError(Exception):
    """Stops the parser."""


class LimitedHttpProtocol(HttpToolsProtocol):
    """Rejects a head that is too long with 431, and a request that arrives too slowly with 408.

    uvicorn itself buffers without a limit or a timeout.
    """

    max_head_bytes: ClassVar = 64 << 10
    # Seconds for a request to arrive; extended by its size at the minimum rate.
    request_timeout: ClassVar = 30.0
    min_bytes_per_second: ClassVar = 16 << 10

    # True while no byte of the next request has arrived.
    is_idle = True

    _started_at = 0.0
    _bytes_received = 0
    _is_in_head = True
    _is_complete = False
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout of the first request."""
        super().connection_made(transport)
        self._start_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timeout."""
        self.cancel_timeout()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count bytes; start a timeout only if the request is incomplete."""
        self._bytes_received += len(data)
        super().data_received(data)
        if self._is_in_head and self._bytes_received > self.max_head_bytes:
            self._reject_head()
        elif self._is_complete:
            self.cancel_timeout()
        elif self._timer is None:
            self._start_timeout()

    def on_message_begin(self) -> None:
        """Start a head."""
        self._is_in_head, self._is_complete, self.is_idle = True, False, False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Check the size of the head, and set the host."""
        self.finish_head()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Reset for the next request."""
        self.finish_message()
        super().on_message_complete()

    def finish_head(self) -> None:
        """Reject a head that is too long; use the host of the target."""
        self._is_in_head = False
        if b"://" in self.url and not self.url.startswith(b"/"):
            # The host of a target in absolute form replaces the header (RFC 9112, 3.2.2).
            host = self.url.partition(b"://")[2].partition(b"/")[0].partition(b"?")[0]
            self.headers[:] = [(b"host", host), *((name, value) for name, value in self.headers if name != b"host")]
        if sum(len(name) + len(value) for name, value in self.headers) + len(self.url) > self.max_head_bytes:
            self._reject_head()
            raise _HeadTooLongError

    def finish_message(self) -> None:
        """Mark the request as complete."""
        self._is_complete, self.is_idle, self._bytes_received = True, True, 0

    def count_bytes(self, size: int) -> None:
        """Count bytes of a request that bypasses the parser."""
        self.is_idle, self._is_in_head = False, False
        self._bytes_received += size
        if self._timer is None:
            self._start_timeout()

    def send_400_response(self, msg: str) -> None:
        """Respond to invalid HTTP."""
        self._send_error(400, msg)

    def cancel_timeout(self) -> None:
        """Cancel the request timeout."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start_timeout(self) -> None:
        self._started_at = self.loop.time()
        self._timer = self.loop.call_later(self.request_timeout, self._check_deadline)

    def _check_deadline(self) -> None:
        """Reject a slow request with 408, unless reading is paused on our side."""
        now = self.loop.time()
        due = self._started_at + self.request_timeout + self._bytes_received / self.min_bytes_per_second
        if now < due or self.flow.read_paused:
            self._timer = self.loop.call_later(max(0.1, due - now), self._check_deadline)
            return
        self._timer = None
        self._send_error(408, f"The request did not arrive within {now - self._started_at:.0f} seconds.")

    def _reject_head(self) -> None:
        self._send_error(431, f"The headers are larger than {self.max_head_bytes >> 10} KB.")

    def _send_error(self, status: int, message: str) -> None:
        if self.transport.is_closing():
            return
        body = b'{"code":%d,"message":"%s"}' % (status, message.encode())
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()
