"""Fast path: answer small requests without ASGI, which would cost as much as storing an event or reading a document."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol, Self, TypeAlias

from starlette.datastructures import Address, Headers
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

_MAX_BODY_BYTES = 64 << 10
# Requests with these headers take the ASGI path: their body needs decoding, or uvicorn resolves the client address.
_UNSUPPORTED_HEADERS = frozenset({b"transfer-encoding", b"content-encoding", b"expect", b"upgrade", b"x-forwarded-for"})
_PLAIN_URL = re.compile(rb"/[\w/.~:@!$&'()*+,;=?%-]*")
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

    __slots__ = ("_address", "body", "headers", "url")

    def __init__(self, url: bytes, headers: Headers, address: tuple[str, int] | None) -> None:
        # Path and query.
        self.url = url
        self.headers = headers
        self.body = b""
        self._address = address

    @property
    def client(self) -> Address | None:
        """Address of the client."""
        return None if self._address is None else Address(*self._address)


class RawResponse(NamedTuple):
    """Encoded HTTP response."""

    status: int
    headers: Iterable[tuple[bytes, bytes]]
    body: bytes


PostHandler: TypeAlias = Callable[[FastRequest], Awaitable[RawResponse]]
# Returns None to use the ASGI path.
GetHandler: TypeAlias = Callable[[RequestInfo, bytes], RawResponse | None]


@dataclass(frozen=True)
class FastPath:
    """Handlers of the fast path: POST by path, and one for GET with path and query."""

    post_handlers: Mapping[bytes, PostHandler] = field(default_factory=dict)
    get_handler: GetHandler | None = None


class _RequestCycle:
    """Stand-in for uvicorn's RequestResponseCycle, with the attributes that uvicorn reads."""

    __slots__ = ("disconnected", "keep_alive", "message_event", "response_complete")

    def __init__(self, *, keep_alive: bool) -> None:
        self.keep_alive = keep_alive
        self.response_complete = False
        self.disconnected = False
        self.message_event = _UNUSED_EVENT


class FastPathProtocol(HttpToolsProtocol):
    """Passes small requests to the handlers of the fast path, and all others to uvicorn."""

    fast_path: ClassVar = FastPath()

    # Request that is being received for the fast path.
    _request: FastRequest | None = None
    _body: list[bytes]
    # Response of a GET, which is sent when the request is complete.
    _response: RawResponse | None

    @classmethod
    def with_handlers(cls, fast_path: FastPath) -> type[Self]:
        """Create a protocol class with the given handlers."""
        return type(cls.__name__, (cls,), {"fast_path": fast_path})

    def on_headers_complete(self) -> None:
        """Choose the path of the request."""
        self._request = self._accept_request()
        if self._request is None:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Collect a chunk of the body."""
        if self._request is None:
            super().on_body(body)
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """Respond to a request on the fast path."""
        request, self._request = self._request, None
        if request is None:
            super().on_message_complete()
            return
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        # uvicorn queues pipelined requests until this cycle is complete.
        self.cycle = cycle = _RequestCycle(keep_alive=keep_alive)  # type: ignore[assignment]
        if self._response is not None:
            self._send(self._response, cycle)
            return
        request.body = b"".join(self._body)
        task = self.loop.create_task(self._handle_post(request, cycle))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _accept_request(self) -> FastRequest | None:
        """Return the current request if the fast path handles it."""
        # `cycle` is None before the first request, despite its type.
        if self.flow.write_paused or not getattr(self.cycle, "response_complete", True):
            return None
        headers = dict(self.headers)
        if len(headers) != len(self.headers) or not _UNSUPPORTED_HEADERS.isdisjoint(headers):
            return None
        request = FastRequest(self.url, Headers(raw=self.headers), self.client)
        self._body, self._response = [], None
        method, size = self.parser.get_method(), headers.get(b"content-length")
        if method == b"POST":
            is_small = size is not None and int(size) <= _MAX_BODY_BYTES
            return request if is_small and self.url in self.fast_path.post_handlers else None
        if method in {b"GET", b"HEAD"} and size is None and _PLAIN_URL.fullmatch(self.url):
            self._response = self._get_response(request)
        return None if self._response is None else request

    def _get_response(self, request: FastRequest) -> RawResponse | None:
        try:
            response = self.fast_path.get_handler(request, request.url) if self.fast_path.get_handler else None
        except Exception:  # noqa: BLE001  # the ASGI path repeats the request and reports the error
            return None
        is_head = self.parser.get_method() == b"HEAD"
        return response._replace(body=b"") if response is not None and is_head else response

    async def _handle_post(self, request: FastRequest, cycle: _RequestCycle) -> None:
        self._send(await self.fast_path.post_handlers[request.url](request), cycle)

    def _send(self, response: RawResponse, cycle: _RequestCycle) -> None:
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
