"""Fast path: answer small requests without ASGI."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, NamedTuple, Protocol, TypeAlias

import httptools
from starlette.datastructures import Address
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from clew.server.http_limits import LimitedHttpProtocol

# Bounds the cache of heads to a few megabytes; longer heads take the ASGI path.
_MAX_HEAD_BYTES = 4 << 10
_MAX_CACHED_HEADS = 512
_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,6})[ \t]*\r\n", re.IGNORECASE)
_MAX_SIZE_DIGITS = 6
# Requests with these headers take the ASGI path: their body needs decoding, or uvicorn resolves the client address.
_UNSUPPORTED_HEADERS = frozenset({"transfer-encoding", "content-encoding", "expect", "upgrade", "x-forwarded-for"})


class RequestInfo(Protocol):
    """Headers and client address of a request; Starlette's Request implements it."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by lower-case name."""

    @property
    def client(self) -> Address | None:
        """Address of the client."""


class FastPathRequestInfo:
    """Headers and client address of a request on the fast path."""

    __slots__ = ("_address", "headers")

    def __init__(self, headers: Mapping[str, str], address: tuple[str, int] | None) -> None:
        self.headers = headers
        self._address = address

    @property
    def client(self) -> Address | None:
        """Address of the client."""
        return None if self._address is None else Address(*self._address)


class RequestHead(NamedTuple):
    """Request head without the request line and Content-Length."""

    headers: Mapping[str, str]
    keep_alive: bool


class HeadTemplate(NamedTuple):
    """Request head with the Content-Length value cut out."""

    before: bytes
    after: bytes

    def match_body(self, data: bytes) -> bytes | None:
        """Return the body if `data` is one complete request with this head."""
        before, after = self
        start = len(before)
        end = data.find(after, start, start + _MAX_SIZE_DIGITS + len(after)) if data.startswith(before) else -1
        if end < 0 or not (digits := data[start:end]).isdigit():
            return None
        body_start = end + len(after)
        return data[body_start:] if len(data) == body_start + int(digits) else None


class ParsedRequest(NamedTuple):
    """Parsed request; `missing` bytes of the body have not arrived. No template without Content-Length."""

    request_line: bytes
    head: RequestHead
    template: HeadTemplate | None
    body: bytes
    missing: int


def parse_request(data: bytes) -> ParsedRequest | None:
    """Parse `data` as the start of one request; None if it needs the ASGI path."""
    end = data.find(b"\r\n\r\n", 0, _MAX_HEAD_BYTES)
    if end < 0:
        return None
    headers_start = data.find(b"\r\n") + 2
    length_match = _CONTENT_LENGTH.search(data, headers_start - 2, end + 2)
    if length_match is None:
        size, template, lines = 0, None, data[headers_start : end + 4]
    else:
        # Clients repeat their heads; only this number changes.
        size, template = (
            int(length_match[1]),
            HeadTemplate(data[: length_match.start(1)], data[length_match.end(1) : end + 4]),
        )
        lines = b"%s0%s" % (template.before[headers_start:], template.after)
    missing = end + 4 + size - len(data)
    if missing < 0:
        return None
    head = _parse_head(lines)
    if head is None or (template is None) == ("content-length" in head.headers):
        return None
    return ParsedRequest(data[: headers_start - 2], head, template, data[end + 4 :], missing)


def parse_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str] | None:
    """Return headers by name; None if one is repeated or unsupported."""
    result: dict[str, str] = {}
    for raw, value in headers:
        name = raw.decode("latin-1").lower()
        if name in result or name in _UNSUPPORTED_HEADERS:
            return None
        result[name] = value.decode("latin-1")
    return result


@lru_cache(_MAX_CACHED_HEADS)
def _parse_head(lines: bytes) -> RequestHead | None:
    """Parse a request head; None if it is invalid or has unsupported headers."""
    parser = _HeadParser()
    try:
        parser.parser.feed_data(b"GET / HTTP/1.1\r\n" + lines)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        return None
    headers = parse_headers(parser.headers) if parser.is_complete else None
    return None if headers is None else RequestHead(headers, parser.keep_alive)


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


_MAX_BODY_BYTES = 64 << 10
_GET_LINE = re.compile(rb"(GET|HEAD) (/[\w/.~:@!$&'()*+,;=?%-]*) HTTP/1\.1")
# uvicorn sets it on disconnect to wake readers of the body; on the fast path the body is already complete.
_UNUSED_EVENT = asyncio.Event()


class RawResponse(NamedTuple):
    """Encoded HTTP response."""

    status: int
    header_lines: bytes
    body: bytes

    @classmethod
    def build(cls, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> RawResponse:
        """Create a response from a list of headers."""
        return cls(status, _format_headers(headers), body)


# (request, body, send): calls `send` once, on the event loop.
PostHandler: TypeAlias = Callable[[RequestInfo, bytes, Callable[[RawResponse], None]], None]
# (request, path and query): returns None to use the ASGI path.
GetHandler: TypeAlias = Callable[[RequestInfo, bytes], RawResponse | None]


@dataclass(frozen=True)
class FastPath:
    """Handlers of the fast path: POST by path, and one for GET."""

    post_handlers: Mapping[bytes, PostHandler] = field(default_factory=dict)
    get_handler: GetHandler | None = None


class _RequestCycle:
    """Stand-in for uvicorn's RequestResponseCycle, with the attributes that uvicorn reads."""

    __slots__ = ("disconnected", "keep_alive", "message_event", "response_complete")

    def __init__(self) -> None:
        self.keep_alive = True
        self.response_complete = True
        self.disconnected = False
        self.message_event = _UNUSED_EVENT


class _CachedHead(NamedTuple):
    """Head of the connection's previous request, with its handler."""

    template: HeadTemplate
    handler: PostHandler
    request: RequestInfo
    keep_alive: bool


class FastPathProtocol(LimitedHttpProtocol):
    """Handles simple requests itself and passes all others to uvicorn.

    A request in one chunk with the same head as the previous one is not parsed.
    """

    fast_path: ClassVar = FastPath()
    # By request line.
    _handlers_by_line: ClassVar[Mapping[bytes, PostHandler]] = {}

    _fast_cycle: _RequestCycle
    _body: bytearray | None = None
    _request: FastPathRequestInfo
    # Buffered start of a fast-path request, of which `_missing` bytes have not arrived.
    _chunks: list[bytes] | None = None
    _missing = 0
    _cached_head: _CachedHead | None = None
    _responded_at = 0.0

    @classmethod
    def with_handlers(cls, fast_path: FastPath) -> type[FastPathProtocol]:
        """Create a protocol class with the given handlers."""
        handlers = {b"POST %s HTTP/1.1" % path: handler for path, handler in fast_path.post_handlers.items()}
        return type("FastPathProtocol", (cls,), {"fast_path": fast_path, "_handlers_by_line": handlers})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Create the request cycle of the connection."""
        super().connection_made(transport)
        self._fast_cycle = _RequestCycle()

    def data_received(self, data: bytes) -> None:
        """Try the fast path; pass everything else to the parser."""
        if self._chunks is not None:
            self._buffer(self._chunks, data)
            return
        is_ready = self.is_idle and self._is_response_complete() and not self.flow.write_paused
        if not (is_ready and (self._match_cached_head(data) or self._try_fast_path(data))):
            super().data_received(data)

    def on_headers_complete(self) -> None:
        """Use the fast path for a request in several chunks, or pass it to uvicorn."""
        headers = self._fast_path_headers()
        if headers is None:
            super().on_headers_complete()
        else:
            self.finish_head()
            self._request, self._body = FastPathRequestInfo(headers, self.client), bytearray()

    def on_body(self, body: bytes) -> None:
        """Collect a chunk of the body."""
        if self._body is None:
            super().on_body(body)
        else:
            self._body += body

    def on_message_complete(self) -> None:
        """Handle the request when its body is complete."""
        if self._body is None:
            super().on_message_complete()
            return
        self.finish_message()
        body, self._body = bytes(self._body), None
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        self._handle_post(self.fast_path.post_handlers[self.url], self._request, body, keep_alive=keep_alive)

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; otherwise check again later."""
        idle_since = self._responded_at if self.is_idle and self._is_response_complete() else self.loop.time()
        remaining = idle_since + self.timeout_keep_alive - self.loop.time()
        if remaining > 0:
            self._schedule_keep_alive(remaining)
        else:
            super().timeout_keep_alive_handler()

    def _is_response_complete(self) -> bool:
        # `cycle` is None before the first request, despite its type.
        return getattr(self.cycle, "response_complete", True)

    def _fast_path_headers(self) -> dict[str, str] | None:
        """Return the headers if the current request can use the fast path."""
        if (
            self.url not in self.fast_path.post_handlers
            or self.parser.get_method() != b"POST"
            or not self._is_response_complete()
        ):
            return None
        headers = parse_headers(self.headers)
        if headers is None or int(headers.get("content-length", _MAX_BODY_BYTES + 1)) > _MAX_BODY_BYTES:
            return None
        return headers

    def _match_cached_head(self, data: bytes) -> bool:
        """Handle a request with the same head as the previous one, without parsing."""
        cached = self._cached_head
        body = None if cached is None else cached.template.match_body(data)
        if cached is None or body is None or len(body) > _MAX_BODY_BYTES:
            return False
        self._handle_post(cached.handler, cached.request, body, keep_alive=cached.keep_alive)
        return True

    def _try_fast_path(self, data: bytes) -> bool:
        parsed = parse_request(data)
        if parsed is None:
            return False
        handler = self._handlers_by_line.get(parsed.request_line)
        request, keep_alive = FastPathRequestInfo(parsed.head.headers, self.client), parsed.head.keep_alive
        if handler is not None and parsed.template is not None and len(parsed.body) + parsed.missing <= _MAX_BODY_BYTES:
            if parsed.missing:
                self._wait_for_rest(data, parsed.missing)
                return True
            self._cached_head = _CachedHead(parsed.template, handler, request, keep_alive)
            self._handle_post(handler, request, parsed.body, keep_alive=keep_alive)
            return True
        if parsed.template is not None or (response := self._handle_get(request, parsed.request_line)) is None:
            return False
        self.cancel_timeout()
        self._send(response, keep_alive=keep_alive)
        return True

    def _wait_for_rest(self, data: bytes, missing: int) -> None:
        """Buffer the start of a fast-path request."""
        self._chunks, self._missing = [data], missing
        self.count_bytes(len(data))

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

    def _handle_post(self, handler: PostHandler, request: RequestInfo, body: bytes, *, keep_alive: bool) -> None:
        self.cancel_timeout()
        cycle = self._fast_cycle
        cycle.keep_alive, cycle.response_complete = keep_alive, False
        # uvicorn queues pipelined requests until this cycle is complete.
        self.cycle = cycle  # type: ignore[assignment]
        handler(request, body, self._respond)

    def _handle_get(self, request: RequestInfo, request_line: bytes) -> RawResponse | None:
        match = None if self.fast_path.get_handler is None else _GET_LINE.fullmatch(request_line)
        if self.fast_path.get_handler is None or match is None:
            return None
        try:
            response = self.fast_path.get_handler(request, match[2])
        except Exception:  # noqa: BLE001  # the ASGI path repeats the request and reports the error
            return None
        return response._replace(body=b"") if response is not None and match[1] == b"HEAD" else response

    def _respond(self, response: RawResponse) -> None:
        self._fast_cycle.response_complete = True
        if not self.transport.is_closing():
            self._send(response, keep_alive=self._fast_cycle.keep_alive)

    def _send(self, response: RawResponse, *, keep_alive: bool) -> None:
        status, header_lines, body = response
        head = _format_head(status, header_lines, tuple(self.server_state.default_headers), keep_alive)
        self.transport.write(head + body if body else head)
        if not keep_alive:
            self.transport.close()
        if not keep_alive or self.pipeline or self.flow.read_paused:
            self.on_response_complete()
            return
        # Like uvicorn, but with one keep-alive timer instead of one per response.
        self.server_state.total_requests += 1
        self._responded_at = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._schedule_keep_alive(self.timeout_keep_alive)

    def _schedule_keep_alive(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)


@lru_cache(maxsize=4)
def raw_response(response: Response) -> RawResponse:
    """Encode a Starlette response. Cached: most responses are the same object."""
    return RawResponse.build(response.status_code, response.raw_headers, bytes(response.body))


@lru_cache(maxsize=16)
def _format_head(
    status: int,
    header_lines: bytes,
    default_headers: tuple[tuple[bytes, bytes], ...],
    keep_alive: bool,  # noqa: FBT001  # lru_cache
) -> bytes:
    """Format a response head. Cached: within a second most are equal."""
    closing = () if keep_alive else ((b"connection", b"close"),)
    return b"%s%s%s%s\r\n" % (
        STATUS_LINE[status],
        _format_headers(default_headers),
        header_lines,
        _format_headers(closing),
    )


def _format_headers(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join([b"%s: %s\r\n" % header for header in headers])
