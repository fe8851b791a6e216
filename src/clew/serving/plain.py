"""Minimal HTTP request parser of the fast path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, Protocol

import httptools
from starlette.datastructures import Address

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
