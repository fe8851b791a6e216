"""Fast path: answer small requests without ASGI, which would cost as much as storing an event or reading a document."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import ClassVar, NamedTuple, Protocol, TypeAlias

import httptools
from starlette.datastructures import Address
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from clew.server.http_limits import LimitedHttpProtocol
from clew.server.origin_check import OriginPolicy

# Bounds the cache of heads to a few megabytes; longer heads take the ASGI path.
_MAX_HEAD_BYTES = 4 << 10
_MAX_CACHED_HEADS = 512
_MAX_BODY_BYTES = 64 << 10
_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,6})[ \t]*\r\n", re.IGNORECASE)
_GET_LINE = re.compile(rb"(GET|HEAD) (/[\w/.~:@!$&'()*+,;=?%-]*) HTTP/1\.1")
# Requests with these headers take the ASGI path: their body needs decoding, or uvicorn resolves the client address.
_UNSUPPORTED_HEADERS = frozenset({"transfer-encoding", "content-encoding", "expect", "upgrade", "x-forwarded-for"})
_BROWSER_HEADERS = frozenset({"origin", "sec-fetch-site"})
# uvicorn sets it on disconnect to wake readers of the body; on the fast path the body is already complete.
_UNUSED_EVENT = asyncio.Event()


class RequestInfo(Protocol):
    """Headers and client address of a request; Starlette's Request implements it."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by lower-case name."""

    @property
    def client(self) -> Address | None:
        """Address of the client."""


class FastRequest:
    """Request on the fast path, with its complete body."""

    __slots__ = ("_address", "body", "headers")

    def __init__(self, headers: Mapping[str, str], body: bytes, address: tuple[str, int] | None) -> None:
        self.headers = headers
        self.body = body
        self._address = address

    @property
    def client(self) -> Address | None:
        """Address of the client."""
        return None if self._address is None else Address(*self._address)


class RequestHead(NamedTuple):
    """Headers without the value of Content-Length."""

    headers: Mapping[str, str]
    keep_alive: bool


class ParsedRequest(NamedTuple):
    """Start of one request; `missing` bytes of its body have not arrived."""

    request_line: bytes
    head: RequestHead
    has_length: bool
    body: bytes
    missing: int


def parse_request(data: bytes) -> ParsedRequest | None:
    """Parse `data` as the start of one request; None if it needs the ASGI path."""
    end = data.find(b"\r\n\r\n", 0, _MAX_HEAD_BYTES)
    if end < 0:
        return None
    headers_start = data.find(b"\r\n") + 2
    length = _CONTENT_LENGTH.search(data, headers_start - 2, end + 2)
    if length is None:
        size, lines = 0, data[headers_start : end + 4]
    else:
        # Clients repeat their heads; only this number changes.
        size = int(length[1])
        lines = b"%s0%s" % (data[headers_start : length.start(1)], data[length.end(1) : end + 4])
    missing = end + 4 + size - len(data)
    head = _parse_head(lines) if missing >= 0 else None
    if head is None or (length is None) == ("content-length" in head.headers):
        return None
    return ParsedRequest(data[: headers_start - 2], head, length is not None, data[end + 4 :], missing)


@lru_cache(_MAX_CACHED_HEADS)
def _parse_head(lines: bytes) -> RequestHead | None:
    """Parse a request head; None if it is invalid, or has repeated or unsupported headers."""
    result = _HeadParser()
    try:
        result.parser.feed_data(b"GET / HTTP/1.1\r\n" + lines)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        return None
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in result.headers}
    if not result.is_complete or len(headers) < len(result.headers) or not _UNSUPPORTED_HEADERS.isdisjoint(headers):
        return None
    return RequestHead(headers, result.keep_alive)


class _HeadParser:
    """Callbacks and result of httptools' parser."""

    def __init__(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        self.headers: list[tuple[bytes, bytes]] = []
        self.keep_alive = False
        self.is_complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_message_complete(self) -> None:
        self.keep_alive = self.parser.should_keep_alive()
        self.is_complete = True


class RawResponse(NamedTuple):
    """Encoded HTTP response."""

    status: int
    headers: Iterable[tuple[bytes, bytes]]
    body: bytes


# Calls the function with the response once, on the event loop.
PostHandler: TypeAlias = Callable[[FastRequest, Callable[[RawResponse], None]], None]
# Returns None to use the ASGI path.
GetHandler: TypeAlias = Callable[[RequestInfo, bytes], RawResponse | None]


@dataclass(frozen=True)
class FastPath:
    """Handlers of the fast path: POST by path, and one for GET with path and query.

    Requests that `policy` rejects take the ASGI path, which returns the error.
    """

    post_handlers: Mapping[bytes, PostHandler] = field(default_factory=dict)
    get_handler: GetHandler | None = None
    policy: OriginPolicy = field(default_factory=OriginPolicy)


class _RequestCycle:
    """Stand-in for uvicorn's RequestResponseCycle, with the attributes that uvicorn reads."""

    __slots__ = ("disconnected", "keep_alive", "message_event", "response_complete")

    def __init__(self, *, keep_alive: bool) -> None:
        self.keep_alive = keep_alive
        self.response_complete = False
        self.disconnected = False
        self.message_event = _UNUSED_EVENT


class FastPathProtocol(LimitedHttpProtocol):
    """Passes small requests to the handlers of the fast path, and all others to uvicorn."""

    fast_path: ClassVar = FastPath()
    # By request line.
    _handlers_by_line: ClassVar[Mapping[bytes, PostHandler]] = {}

    # Buffered start of a fast-path request, of which `_missing` bytes have not arrived.
    _chunks: list[bytes] | None = None
    _missing = 0

    @classmethod
    def with_handlers(cls, fast_path: FastPath) -> type[FastPathProtocol]:
        """Create a protocol class with the given handlers."""
        handlers = {b"POST %s HTTP/1.1" % path: handler for path, handler in fast_path.post_handlers.items()}
        return type("FastPathProtocol", (cls,), {"fast_path": fast_path, "_handlers_by_line": handlers})

    def data_received(self, data: bytes) -> None:
        """Try the fast path; pass everything else to the parser."""
        if self._chunks is not None:
            self._buffer(self._chunks, data)
            return
        # `cycle` is None before the first request, despite its type.
        is_ready = self.is_idle and getattr(self.cycle, "response_complete", True) and not self.flow.write_paused
        if not (is_ready and self._try_fast_path(data)):
            super().data_received(data)

    def _try_fast_path(self, data: bytes) -> bool:
        """Handle a request, or start to buffer it; False if it needs the ASGI path."""
        parsed = parse_request(data)
        if parsed is None or self._is_rejected(parsed):
            return False
        request = FastRequest(parsed.head.headers, parsed.body, self.client)
        if not parsed.has_length:
            response = self._get_response(request, parsed.request_line)
            if response is not None:
                self._send(self._start_cycle(parsed.head), response)
            return response is not None
        handler = self._handlers_by_line.get(parsed.request_line)
        if handler is None or len(parsed.body) + parsed.missing > _MAX_BODY_BYTES:
            return False
        if parsed.missing:
            self._chunks, self._missing = [data], parsed.missing
            self.count_bytes(len(data))
        else:
            handler(request, partial(self._send, self._start_cycle(parsed.head)))
        return True

    def _is_rejected(self, parsed: ParsedRequest) -> bool:
        method, headers = "POST" if parsed.has_length else "GET", parsed.head.headers
        # The head has no length, which decides whether a browser must send a type.
        is_untyped = parsed.has_length and "content-type" not in headers and not _BROWSER_HEADERS.isdisjoint(headers)
        return is_untyped or self.fast_path.policy.find_rejection(method, headers) is not None

    def _buffer(self, chunks: list[bytes], data: bytes) -> None:
        """Buffer a chunk; handle the request when it is complete."""
        chunks.append(data)
        self._missing -= len(data)
        if self._missing > 0:
            self.count_bytes(len(data))
            return
        self._chunks = None
        self.finish_message()
        self.data_received(b"".join(chunks))

    def _get_response(self, request: FastRequest, request_line: bytes) -> RawResponse | None:
        match = None if self.fast_path.get_handler is None else _GET_LINE.fullmatch(request_line)
        if self.fast_path.get_handler is None or match is None:
            return None
        try:
            response = self.fast_path.get_handler(request, match[2])
        except Exception:  # noqa: BLE001  # the ASGI path repeats the request and reports the error
            return None
        return response._replace(body=b"") if response is not None and match[1] == b"HEAD" else response

    def _start_cycle(self, head: RequestHead) -> _RequestCycle:
        """Start a request; uvicorn queues pipelined requests until its cycle is complete."""
        self.cancel_timeout()
        self._unset_keepalive_if_required()
        cycle = _RequestCycle(keep_alive=head.keep_alive)
        self.cycle = cycle  # type: ignore[assignment]
        return cycle

    def _send(self, cycle: _RequestCycle, response: RawResponse) -> None:
        cycle.response_complete = True
        if self.transport.is_closing():
            return
        status, headers, body = response
        closing = () if cycle.keep_alive else ((b"connection", b"close"),)
        lines = [b"%s: %s\r\n" % header for header in (*self.server_state.default_headers, *headers, *closing)]
        self.transport.write(b"".join((STATUS_LINE[status], *lines, b"\r\n", body)))
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()
