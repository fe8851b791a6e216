"""Requests that are taken off the wire whole: only what a parser takes for the same, and never what asks for more."""

from __future__ import annotations

import pytest

from clew.server.fast_path import parse_request


def request(*lines: str, body: str = "") -> bytes:
    return "\r\n".join(["POST /x HTTP/1.1", *lines, "", body]).encode("latin-1")


def test_a_plain_request_is_read() -> None:
    found = parse_request(request("Host: x", "Content-Length: 5", "User-Agent:  a b", "X: é", body="hello"))
    assert found is not None
    assert (found.request_line, found.body, found.head.keep_alive) == (b"POST /x HTTP/1.1", b"hello", True)
    assert found.head.headers == {"host": "x", "content-length": "0", "user-agent": "a b", "x": "é"}


def test_one_without_a_body_names_no_size() -> None:
    found = parse_request(request("Host: x", "Connection: close"))
    assert found is not None
    assert (found.template, found.body, found.head.keep_alive) == (None, b"", False)


def test_a_size_is_not_remembered_with_the_head() -> None:
    sizes = [parse_request(request(f"content-length:{len(body)}", body=body)) for body in ("", "a", "b" * 100)]
    assert [found and len(found.body) for found in sizes] == [0, 1, 100]


@pytest.mark.parametrize("body", ["", "hell", "hello"])
def test_some_of_a_body_may_be_missing(body: str) -> None:
    found = parse_request(request("Content-Length: 5", body=body))
    assert found is not None
    assert (found.body, found.missing) == (body.encode(), 5 - len(body))


@pytest.mark.parametrize("last", [True, False])
def test_requests_that_are_alike_differ_only_in_size_and_body(last: bool) -> None:
    def sized(size: object, body: str, host: str = "x") -> bytes:
        lines = [f"Host: {host}", f"Content-Length: {size}"]
        return request(*(lines if last else lines[::-1]), body=body)

    found = parse_request(sized(5, "hello"))
    assert found is not None
    assert found.template is not None
    for body in ("", "a", "b" * 100, "\r\n\r\n", "c" * 999_999):
        assert found.template.match_body(sized(len(body), body)) == body.encode()
    others = [
        b"",
        sized(5, "hello")[:-1],
        sized(5, "hello") + b"x",
        sized(5, "hello") * 2,
        sized(5, "hello", host="y"),
        sized("", ""),
        sized("+5", "hello"),
        sized("5 ", "hello"),
        sized("5\r\nX: y", "hello"),
        sized(1_000_000, "d" * 1_000_000),
        sized(5, "hello")[: -len("\r\n\r\nhello")],
    ]
    assert [found.template.match_body(other) for other in others] == [None] * len(others)


@pytest.mark.parametrize(
    "other",
    [
        b"",
        b"POST /x HTTP/1.1\r\nHost: x\r\n",
        request("Content-Length: 5", body="hello, too long"),
        request("Content-Length: 5", body="hello") * 2,
        request("Host: x", body="a body without a size"),
        request("Content-Length: 5", "Content-Length: 5", body="hello"),
        request("Content-Length: 5", "content-length: 2", body="hello"),
        request("Content-Length : 5", body="hello"),
        request("Content-Length: +5", body="hello"),
        request("Content-Length: 5, 5", body="hello"),
        request("Content-Length: 0x5", body="hello"),
        request("Content-Length:", body=""),
        request("Transfer-Encoding: chunked", body="0\r\n\r\n"),
        request("Content-Length: 5", "Transfer-Encoding: chunked", body="hello"),
        request("Content-Length: 5", "Content-Encoding: gzip", body="hello"),
        request("Content-Length: 5", "Expect: 100-continue", body="hello"),
        request("Connection: Upgrade", "Upgrade: websocket"),
        request("X-Forwarded-For: 10.0.0.1"),
        request("Accept-Encoding: br", "accept-encoding: gzip"),
        request("no header"),
        request(" folded: x"),
        request("a: b", " folded"),
        request("bad name: x"),
        request("a: b\nc: d"),
        request("a: \x00"),
        request("a: " + "x" * 5000),
    ],
)
def test_all_else_is_left_to_the_parser(other: bytes) -> None:
    assert parse_request(other) is None
