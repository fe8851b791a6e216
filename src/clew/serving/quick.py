"""Small requests answered without ASGI: what that costs is more than what is done for them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import ClassVar, NamedTuple, TypeAlias

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from clew.serving.plain import Caller, PlainCaller, plain_headers, plain_request
from clew.serving.protocol import CarefulProtocol

_MOST_BYTES = 64 << 10
_READ = re.compile(rb"(GET|HEAD) (/[\w/.~:@!$&'()*+,;=?%-]*) HTTP/1\.1")
# uvicorn sets it when a client has gone, for whoever reads a body; here, that has come.
_NOBODY_WAITS = asyncio.Event()


class Reply(NamedTuple):
    """An answer as it goes over the wire: `lines` are its headers."""

    status: int
    lines: bytes
    body: bytes

    @classmethod
    def of(cls, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> Reply:
        """An answer with these headers."""
        return cls(status, b"".join([b"%s: %s\r\n" % header for header in headers]), body)


# Whoever takes a request, with its body, calls the third, once, on the loop.
Take: TypeAlias = Callable[[Caller, bytes, Callable[[Reply], None]], None]
# Gives what stands at an address, at once; None if that is not for it to say.
Read: TypeAlias = Callable[[Caller, bytes], Reply | None]


@dataclass(frozen=True)
class Quick:
    """Who answers quickly: what is sent to some paths, and what is asked for."""

    takes: Mapping[bytes, Take] = field(default_factory=dict)
    read: Read | None = None


class _Asked:
    """A request that is being answered, as far as uvicorn looks at one."""

    __slots__ = ("disconnected", "keep_alive", "message_event", "response_complete")

    def __init__(self, *, keep_alive: bool) -> None:
        self.keep_alive = keep_alive
        self.response_complete = False
        self.disconnected = False
        self.message_event = _NOBODY_WAITS


class QuickProtocol(CarefulProtocol):
    """Takes plain requests off the wire itself, and leaves all others to uvicorn.

    What comes in one piece is not even parsed line by line.
    """

    quick: ClassVar = Quick()
    # By the first line of a request.
    _takes: ClassVar[Mapping[bytes, Take]] = {}

    _body: bytearray | None = None
    _caller: PlainCaller
    _answered_at = 0.0

    @classmethod
    def of(cls, quick: Quick) -> type[QuickProtocol]:
        """The protocol with those who answer so."""
        takes = {b"POST %s HTTP/1.1" % path: take for path, take in quick.takes.items()}
        return type("QuickProtocol", (cls,), {"quick": quick, "_takes": takes})

    def data_received(self, data: bytes) -> None:
        """Answer what is a whole request and plain; leave the rest to the parser."""
        is_free = self.is_between and self._is_free() and not self.flow.write_paused
        if not (is_free and self._is_taken(data)):
            super().data_received(data)

    def on_headers_complete(self) -> None:
        """Keep a request that comes in pieces to ourselves, or leave it to uvicorn."""
        headers = self._plain_headers()
        if headers is None:
            super().on_headers_complete()
        else:
            self.end_head()
            self._caller, self._body = PlainCaller(headers, self.client), bytearray()

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
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        self._take(self.quick.takes[self.url], self._caller, body, keep_alive=keep_alive)

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that is idle; one that was not, all the time, is looked at again."""
        since = self._answered_at if self._is_free() else self.loop.time()
        left = since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._look_later(left)
        else:
            super().timeout_keep_alive_handler()

    def _is_free(self) -> bool:
        # None before the first request, whatever its type says.
        return getattr(self.cycle, "response_complete", True)

    def _plain_headers(self) -> dict[str, str] | None:
        """The headers of a request that is for us."""
        if self.url not in self.quick.takes or self.parser.get_method() != b"POST" or not self._is_free():
            return None
        headers = plain_headers(self.headers)
        if headers is None or int(headers.get("content-length", _MOST_BYTES + 1)) > _MOST_BYTES:
            return None
        return headers

    def _is_taken(self, data: bytes) -> bool:
        request = plain_request(data)
        if request is None:
            return False
        take = self._takes.get(request.line)
        caller = PlainCaller(request.head.headers, self.client)
        if take is not None and request.size is not None and request.size <= _MOST_BYTES:
            self.stop_waiting()
            self._take(take, caller, request.body, keep_alive=request.head.keep_alive)
            return True
        if request.size is not None or (reply := self._read(caller, request.line)) is None:
            return False
        self.stop_waiting()
        self._send(reply, keep_alive=request.head.keep_alive)
        return True

    def _take(self, take: Take, caller: Caller, body: bytes, *, keep_alive: bool) -> None:
        asked = _Asked(keep_alive=keep_alive)
        # Requests that are sent before this one is answered wait for it there.
        self.cycle = asked  # type: ignore[assignment]
        take(caller, body, partial(self._answer, asked))

    def _read(self, caller: Caller, line: bytes) -> Reply | None:
        found = None if self.quick.read is None else _READ.fullmatch(line)
        if self.quick.read is None or found is None:
            return None
        try:
            reply = self.quick.read(caller, found[2])
        except Exception:  # noqa: BLE001  # the long way has words for it, or finds that it has passed
            return None
        return reply._replace(body=b"") if reply is not None and found[1] == b"HEAD" else reply

    def _answer(self, asked: _Asked, reply: Reply) -> None:
        asked.response_complete = True
        if not self.transport.is_closing():
            self._send(reply, keep_alive=asked.keep_alive)

    def _send(self, reply: Reply, *, keep_alive: bool) -> None:
        status, lines, body = reply
        standard = _lines(tuple(self.server_state.default_headers))
        if not keep_alive:
            self.transport.write(b"%s%s%sconnection: close\r\n\r\n%s" % (STATUS_LINE[status], standard, lines, body))
            self.transport.close()
            self.on_response_complete()
            return
        self.transport.write(b"%s%s%s\r\n%s" % (STATUS_LINE[status], standard, lines, body))
        if self.pipeline or self.flow.read_paused:
            self.on_response_complete()
            return
        # As uvicorn does it, but for a timer that is set once and not for every answer.
        self.server_state.total_requests += 1
        self._answered_at = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._look_later(self.timeout_keep_alive)

    def _look_later(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)


@lru_cache(maxsize=4)
def reply_of(response: Response) -> Reply:
    """An answer of Starlette's. Most are the same one."""
    return Reply.of(response.status_code, response.raw_headers, bytes(response.body))


@lru_cache(maxsize=4)
def _lines(headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """Headers that every answer has, within a second even the same date."""
    return b"".join([b"%s: %s\r\n" % header for header in headers])
