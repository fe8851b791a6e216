"""Plain requests: their heads come in one piece, and nothing in them asks for more than an answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, Protocol

import httptools
from starlette.datastructures import Address

# Longer heads are not looked at here, so that those that are remembered take a few megabytes at most.
_MOST_HEAD_BYTES = 4 << 10
_MOST_HEADS = 512
_SIZE = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,6})[ \t]*\r\n", re.IGNORECASE)
_MOST_DIGITS = 6
# What says that a request is more than a body of so many bytes, or that it is someone else's: uvicorn knows whose.
_NOT_PLAIN = frozenset({"transfer-encoding", "content-encoding", "expect", "upgrade", "x-forwarded-for"})


class Caller(Protocol):
    """Who sent a request, as far as quick answers and guards look: one of Starlette's is such, too."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, their names in small letters."""

    @property
    def client(self) -> Address | None:
        """The address that it came from."""


class PlainCaller:
    """The sender of a plain request."""

    __slots__ = ("_address", "headers")

    def __init__(self, headers: Mapping[str, str], address: tuple[str, int] | None) -> None:
        self.headers = headers
        self._address = address

    @property
    def client(self) -> Address | None:
        """The address that it came from."""
        return None if self._address is None else Address(*self._address)


class Head(NamedTuple):
    """What stands before a body, but for the first line and the size of the body."""

    headers: Mapping[str, str]
    keep_alive: bool


class Alike(NamedTuple):
    """What stands before and after the size in the heads of requests that are alike."""

    before: bytes
    after: bytes

    def body_of(self, data: bytes) -> bytes | None:
        """The body of the one request that some bytes are, if it is one of these."""
        before, after = self
        begin = len(before)
        end = data.find(after, begin, begin + _MOST_DIGITS + len(after)) if data.startswith(before) else -1
        if end < 0 or not (digits := data[begin:end]).isdigit():
            return None
        body = end + len(after)
        return data[body:] if len(data) == body + int(digits) else None


class Plain(NamedTuple):
    """A plain request, of whose body some may be missing yet; if it names no size, there are none like it."""

    line: bytes
    head: Head
    alike: Alike | None
    body: bytes
    missing: int


def plain_request(data: bytes) -> Plain | None:
    """The one request that some bytes are, or begin, if it is plain."""
    end = data.find(b"\r\n\r\n", 0, _MOST_HEAD_BYTES)
    if end < 0:
        return None
    begin = data.find(b"\r\n") + 2
    sized = _SIZE.search(data, begin - 2, end + 2)
    if sized is None:
        size, alike, lines = 0, None, data[begin : end + 4]
    else:
        # Senders repeat their heads, but for this number.
        size, alike = int(sized[1]), Alike(data[: sized.start(1)], data[sized.end(1) : end + 4])
        lines = b"%s0%s" % (alike.before[begin:], alike.after)
    missing = end + 4 + size - len(data)
    if missing < 0:
        return None
    head = _head(lines)
    if head is None or (alike is None) == ("content-length" in head.headers):
        return None
    return Plain(data[: begin - 2], head, alike, data[end + 4 :], missing)


def plain_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str] | None:
    """Headers by name; None if one is there twice, or asks for more."""
    found: dict[str, str] = {}
    for raw, value in headers:
        name = raw.decode("latin-1").lower()
        if name in found or name in _NOT_PLAIN:
            return None
        found[name] = value.decode("latin-1")
    return found


@lru_cache(_MOST_HEADS)
def _head(lines: bytes) -> Head | None:
    """The head of a request without a body; None of one that the parser does not take, or that asks for more."""
    read = _Reading()
    try:
        read.parser.feed_data(b"GET / HTTP/1.1\r\n" + lines)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        return None
    headers = plain_headers(read.headers) if read.is_whole else None
    return None if headers is None else Head(headers, read.keep_alive)


class _Reading:
    """What a parser has read."""

    def __init__(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        self.headers: list[tuple[bytes, bytes]] = []
        self.keep_alive = False
        self.is_whole = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_message_complete(self) -> None:
        self.keep_alive = self.parser.should_keep_alive()
        self.is_whole = True
