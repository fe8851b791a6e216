"""Small requests answered without ASGI: what that costs is more than what is done for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, ClassVar, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from clew.serving.protocol import CarefulProtocol

# Whoever answers a request, with its body, calls the third, once, on the loop.
Quick: TypeAlias = Callable[[Request, bytes, Callable[[Response], None]], None]
_MOST_BYTES = 64 << 10
# What says that a request is more than a body of so many bytes, or that it is someone else's: uvicorn knows whose.
_NOT_PLAIN = frozenset({b"transfer-encoding", b"content-encoding", b"expect", b"upgrade", b"x-forwarded-for"})
# uvicorn sets it when a client has gone, for whoever reads a body; here, that has come.
_NOBODY_WAITS = asyncio.Event()


class _Asked:
    """A request that is being answered, as far as uvicorn looks at one."""

    def __init__(self, *, keep_alive: bool) -> None:
        self.keep_alive = keep_alive
        self.response_complete = False
        self.disconnected = False
        self.message_event = _NOBODY_WAITS


class QuickProtocol(CarefulProtocol):
    """Takes plain POST requests to some paths off the wire itself, and leaves all others to uvicorn."""

    quick: ClassVar[Mapping[bytes, Quick]] = {}

    _body: bytearray | None = None

    @classmethod
    def of(cls, quick: Mapping[bytes, Quick]) -> type[QuickProtocol]:
        """The protocol with the paths that are answered so."""
        return type("QuickProtocol", (cls,), {"quick": quick})

    def on_headers_complete(self) -> None:
        """Keep a request to ourselves, or leave it to uvicorn."""
        if self._is_plain():
            self.end_head()
            self._body = bytearray()
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._body is None:
            super().on_body(body)
        else:
            self._body += body

    def on_message_complete(self) -> None:
        """All of the body is there."""
        if self._body is None:
            super().on_message_complete()
            return
        self.end_message()
        body, self._body = bytes(self._body), None
        asked = _Asked(keep_alive=self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive())
        # Requests that are sent before this one is answered wait for it there.
        self.cycle = asked  # type: ignore[assignment]
        scope: dict[str, Any] = {**self.scope, "method": "POST", "path": self.url.decode("ascii")}
        self.quick[self.url](Request(scope), body, partial(self._answer, asked))

    def _is_plain(self) -> bool:
        if self.url not in self.quick or self.parser.get_method() != b"POST":
            return False
        # None before the first request, whatever its type says.
        if getattr(self.cycle, "response_complete", True) is False:
            return False
        size = None
        for name, value in self.headers:
            if name in _NOT_PLAIN:
                return False
            if name == b"content-length":
                size = int(value)
        return size is not None and size <= _MOST_BYTES

    def _answer(self, asked: _Asked, response: Response) -> None:
        asked.response_complete = True
        if self.transport.is_closing():
            return
        lines = _lines(response, tuple(self.server_state.default_headers))
        if asked.keep_alive:
            self.transport.write(b"%s\r\n%s" % (lines, response.body))
        else:
            self.transport.write(b"%sconnection: close\r\n\r\n%s" % (lines, response.body))
            self.transport.close()
        self.on_response_complete()


@lru_cache(maxsize=4)
def _lines(response: Response, standard: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """What stands before a body. Most answers are the same one, within a second even to the date."""
    headers = b"".join(b"%s: %s\r\n" % header for header in (*standard, *response.raw_headers))
    return STATUS_LINE[response.status_code] + headers
