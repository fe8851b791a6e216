"""Tests of parsing whole requests for the fast path."""

from __future__ import annotations

import pytest

from clew.server.fast_path import parse_request


def make_request(*lines: str, body: str = "") -> bytes:
    return "\r\n".join(["POST /x HTTP/1.1", *lines, "", body]).encode("latin-1")


def test_parses_a_plain_request() -> None:
    parsed = parse_request(make_request("Host: x", "Content-Length: 5", "User-Agent:  a b", "X: é", body="hello"))
    assert parsed is not None
    assert (parsed.request_line, parsed.body, parsed.head.keep_alive) == (b"POST /x HTTP/1.1", b"hello", True)
    assert parsed.head.headers == {"host": "x", "content-length": "0", "user-agent": "a b", "x": "é"}


def test_parses_a_request_without_a_body() -> None:
    parsed = parse_request(make_request("Host: x", "Connection: close"))
    assert parsed is not None
    assert (parsed.template, parsed.body, parsed.head.keep_alive) == (None, b"", False)


def test_does_not_cache_the_content_length() -> None:
    requests = [parse_request(make_request(f"content-length:{len(body)}", body=body)) for body in ("", "a", "b" * 100)]
    assert [parsed and len(parsed.body) for parsed in requests] == [0, 1, 100]


@pytest.mark.parametrize("body", ["", "hell", "hello"])
def test_parses_an_incomplete_body(body: str) -> None:
    parsed = parse_request(make_request("Content-Length: 5", body=body))
    assert parsed is not None
    assert (parsed.body, parsed.missing) == (body.encode(), 5 - len(body))


@pytest.mark.parametrize("is_length_last", [True, False])
def test_template_matches_requests_that_differ_only_in_the_body(is_length_last: bool) -> None:
    def make_sized_request(size: object, body: str, host: str = "x") -> bytes:
        lines = [f"Host: {host}", f"Content-Length: {size}"]
        return make_request(*(lines if is_length_last else lines[::-1]), body=body)

    parsed = parse_request(make_sized_request(5, "hello"))
    assert parsed is not None
    assert parsed.template is not None
    for body in ("", "a", "b" * 100, "\r\n\r\n", "c" * 999_999):
        assert parsed.template.match_body(make_sized_request(len(body), body)) == body.encode()
    mismatches = [
        b"",
        make_sized_request(5, "hello")[:-1],
        make_sized_request(5, "hello") + b"x",
        make_sized_request(5, "hello") * 2,
        make_sized_request(5, "hello", host="y"),
        make_sized_request("", ""),
        make_sized_request("+5", "hello"),
        make_sized_request("5 ", "hello"),
        make_sized_request("5\r\nX: y", "hello"),
        make_sized_request(1_000_000, "d" * 1_000_000),
        make_sized_request(5, "hello")[: -len("\r\n\r\nhello")],
    ]
    assert [parsed.template.match_body(mismatch) for mismatch in mismatches] == [None] * len(mismatches)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"POST /x HTTP/1.1\r\nHost: x\r\n",
        make_request("Content-Length: 5", body="hello, too long"),
        make_request("Content-Length: 5", body="hello") * 2,
        make_request("Host: x", body="a body without a size"),
        make_request("Content-Length: 5", "Content-Length: 5", body="hello"),
        make_request("Content-Length: 5", "content-length: 2", body="hello"),
        make_request("Content-Length : 5", body="hello"),
        make_request("Content-Length: +5", body="hello"),
        make_request("Content-Length: 5, 5", body="hello"),
        make_request("Content-Length: 0x5", body="hello"),
        make_request("Content-Length:", body=""),
        make_request("Transfer-Encoding: chunked", body="0\r\n\r\n"),
        make_request("Content-Length: 5", "Transfer-Encoding: chunked", body="hello"),
        make_request("Content-Length: 5", "Content-Encoding: gzip", body="hello"),
        make_request("Content-Length: 5", "Expect: 100-continue", body="hello"),
        make_request("Connection: Upgrade", "Upgrade: websocket"),
        make_request("X-Forwarded-For: 10.0.0.1"),
        make_request("Accept-Encoding: br", "accept-encoding: gzip"),
        make_request("no header"),
        make_request(" folded: x"),
        make_request("a: b", " folded"),
        make_request("bad name: x"),
        make_request("a: b\nc: d"),
        make_request("a: \x00"),
        make_request("a: " + "x" * 5000),
    ],
)
def test_leaves_other_requests_to_the_full_parser(data: bytes) -> None:
    assert parse_request(data) is None
