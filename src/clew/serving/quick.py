"""Small requests answered without ASGI: what that costs is more than what is done for them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, NamedTuple, TypeAlias

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from clew.serving.plain import Alike, Caller, PlainCaller, plain_headers, plain_request
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
        return cls(status, _lines(headers), body)


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
    """The request of a connection that is being answered, as far as uvicorn looks at one."""

    __slots__ = ("disconnected", "keep_alive", "message_event", "response_complete")

    def __init__(self) -> None:
        self.keep_alive = True
        self.response_complete = True
        self.disconnected = False
        self.message_event = _NOBODY_WAITS


class _Usual(NamedTuple):
    """What a connection brings again and again."""

    alike: Alike
    take: Take
    caller: Caller
    keep_alive: bool


class QuickProtocol(CarefulProtocol):
    """Takes plain requests off the wire itself, and leaves all others to uvicorn.

    What comes in one piece is not even parsed line by line.
    """

    quick: ClassVar = Quick()
    # By the first line of a request.
    _takes: ClassVar[Mapping[bytes, Take]] = {}

    _asked: _Asked
    _body: bytearray | None = None
    _caller: PlainCaller
    # What came of a request that is for us, of which so many bytes are missing.
    _pieces: list[bytes] | None = None
    _missing = 0
    _usual: _Usual | None = None
    _answered_at = 0.0

    @classmethod
    def of(cls, quick: Quick) -> type[QuickProtocol]:
        """The protocol with those who answer so."""
        takes = {b"POST %s HTTP/1.1" % path: take for path, take in quick.takes.items()}
        return type("QuickProtocol", (cls,), {"quick": quick, "_takes": takes})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Nothing is asked for yet."""
        super().connection_made(transport)
        self._asked = _Asked()

    def data_received(self, data: bytes) -> None:
        """Answer what is one request and plain; leave the rest to the parser."""
        if self._pieces is not None:
            self._gather(self._pieces, data)
            return
        is_free = self.is_between and self._is_free() and not self.flow.write_paused
        if not (is_free and (self._is_usual(data) or self._is_taken(data))):
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
        since = self._answered_at if self.is_between and self._is_free() else self.loop.time()
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

    def _is_usual(self, data: bytes) -> bool:
        """Take what is like the request before: most are, and nothing is parsed for them."""
        usual = self._usual
        body = None if usual is None else usual.alike.body_of(data)
        if usual is None or body is None or len(body) > _MOST_BYTES:
            return False
        self._take(usual.take, usual.caller, body, keep_alive=usual.keep_alive)
        return True

    def _is_taken(self, data: bytes) -> bool:
        request = plain_request(data)
        if request is None:
            return False
        take = self._takes.get(request.line)
        caller, keep_alive = PlainCaller(request.head.headers, self.client), request.head.keep_alive
        if take is not None and request.alike is not None and len(request.body) + request.missing <= _MOST_BYTES:
            if request.missing:
                self._await(data, request.missing)
                return True
            self._usual = _Usual(request.alike, take, caller, keep_alive)
            self._take(take, caller, request.body, keep_alive=keep_alive)
            return True
        if request.alike is not None or (reply := self._read(caller, request.line)) is None:
            return False
        self.stop_waiting()
        self._send(reply, keep_alive=keep_alive)
        return True

    def _await(self, data: bytes, missing: int) -> None:
        """Keep the beginning of a request that is for us: the parser need not see it."""
        self._pieces, self._missing = [data], missing
        self.add_piece(len(data))

    def _gather(self, pieces: list[bytes], data: bytes) -> None:
        """Go on as if all had come in one piece, when it has."""
        pieces.append(data)
        self._missing -= len(data)
        if self._missing > 0:
            self.add_piece(len(data))
            return
        self._pieces = None
        self.end_message()
        self.data_received(b"".join(pieces))

    def _take(self, take: Take, caller: Caller, body: bytes, *, keep_alive: bool) -> None:
        self.stop_waiting()
        asked = self._asked
        asked.keep_alive, asked.response_complete = keep_alive, False
        # Requests that are sent before this one is answered wait for it there.
        self.cycle = asked  # type: ignore[assignment]
        take(caller, body, self._answer)

    def _read(self, caller: Caller, line: bytes) -> Reply | None:
        found = None if self.quick.read is None else _READ.fullmatch(line)
        if self.quick.read is None or found is None:
            return None
        try:
            reply = self.quick.read(caller, found[2])
        except Exception:  # noqa: BLE001  # the long way has words for it, or finds that it has passed
            return None
        return reply._replace(body=b"") if reply is not None and found[1] == b"HEAD" else reply

    def _answer(self, reply: Reply) -> None:
        self._asked.response_complete = True
        if not self.transport.is_closing():
            self._send(reply, keep_alive=self._asked.keep_alive)

    def _send(self, reply: Reply, *, keep_alive: bool) -> None:
        status, lines, body = reply
        head = _head(status, lines, tuple(self.server_state.default_headers), keep_alive)
        self.transport.write(head + body if body else head)
        if not keep_alive:
            self.transport.close()
        if not keep_alive or self.pipeline or self.flow.read_paused:
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


@lru_cache(maxsize=16)
def _head(status: int, lines: bytes, standard: tuple[tuple[bytes, bytes], ...], keep_alive: bool) -> bytes:  # noqa: FBT001
    """What stands before the body of an answer: within a second, most have the same."""
    closing = () if keep_alive else ((b"connection", b"close"),)
    return b"%s%s%s%s\r\n" % (STATUS_LINE[status], _lines(standard), lines, _lines(closing))


def _lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join([b"%s: %s\r\n" % header for header in headers])
