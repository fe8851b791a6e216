"""Tests of the fast path: parsing, and the choice between it and the ASGI path."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from tests.support.http_wire import RawConnection, run_server

from clew.server.fast_path import FastPath, FastRequest, RawResponse, RequestInfo, parse_request

METHODS = ["GET", "HEAD", "POST", "PUT"]


def make_request(*lines: str, method: str = "POST", url: str = "/x", version: str = "1.1", body: str = "") -> bytes:
    return "\r\n".join([f"{method} {url} HTTP/{version}", "host: x", *lines, "", body]).encode("latin-1")


async def respond(request: Request) -> Response:
    return PlainTextResponse(f"ASGI {(await request.body()).decode()}")


def handle_post(request: FastRequest, send: Callable[[RawResponse], None]) -> None:
    address = request.client.host if request.client else None
    body = b"%s %s %s" % (request.body, request.headers.get("x-value", "").encode("latin-1"), str(address).encode())
    send(RawResponse(200, [(b"content-length", b"%d" % len(body))], body))


def handle_get(request: RequestInfo, url: bytes) -> RawResponse | None:
    if url.startswith(b"/fail"):
        raise RuntimeError(request.headers["host"])
    return RawResponse(200, [(b"content-length", b"%d" % len(url))], url) if url.startswith(b"/x") else None


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    app = Starlette(routes=[Route("/{path:path}", respond, methods=METHODS)])
    with run_server(app, FastPath({b"/x": handle_post}, handle_get)) as (port, _):
        yield port


@pytest.fixture
def connection(port: int) -> Iterator[RawConnection]:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
        yield RawConnection(sock)


def test_handles_a_small_post(connection: RawConnection) -> None:
    ((status, headers, body),) = connection.send(make_request("Content-Length: 5", "X-Value:  a é", body="hello"))
    assert (status, body) == (200, b"hello a \xe9 127.0.0.1")
    assert "date" in headers


@pytest.mark.parametrize("url", ["/x", "/x/a%2Fb?q=1&r=a+b", "/x:~'(),;@!$*=."])
def test_handles_a_get(url: str, connection: RawConnection) -> None:
    ((status, _, body),) = connection.send(make_request(method="GET", url=url))
    assert (status, body) == (200, url.encode())


def test_responds_to_head_without_a_body(connection: RawConnection) -> None:
    connection.socket.sendall(make_request(method="HEAD"))
    assert connection.read_head()[1]["content-length"] == "2"
    assert connection.send(make_request(method="GET"))[0][2] == b"/x"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_closes_the_connection_on_request(method: str, version: str, connection: RawConnection) -> None:
    length = ["content-length: 0"] if method == "POST" else []
    ((status, headers, _),) = connection.send(
        make_request(*length, *(["connection: close"] if version == "1.1" else []), method=method, version=version)
    )
    assert (status, headers["connection"], connection.is_closed()) == (200, "close", True)


@pytest.mark.parametrize(
    "request_",
    [
        make_request("Content-Length: 5", body="hello", method="PUT"),
        make_request("Content-Length: 5", body="hello", url="/y"),
        make_request("Content-Length: 5", body="hello", url="/x?q"),
        make_request(f"Content-Length: {65 << 10}", body="x" * (65 << 10)),
        make_request("Transfer-Encoding: chunked", body="5\r\nhello\r\n0\r\n\r\n"),
        make_request("Content-Length: 5", "Content-Encoding: gzip", body="hello"),
        make_request("Content-Length: 5", "X-Forwarded-For: 10.0.0.1", body="hello"),
        make_request("Content-Length: 5", "accept: a", "Accept: b", body="hello"),
        make_request("Content-Length: 5", method="GET", body="hello"),
        make_request(method="GET", url="/y"),
        make_request(method="GET", url="/fail"),
        make_request(method="GET", url="http://x/x"),
        make_request(method="GET", url="/x#fragment"),
        make_request("X-Forwarded-For: 10.0.0.1", method="GET"),
        make_request(),
    ],
)
def test_passes_other_requests_to_asgi(request_: bytes, connection: RawConnection) -> None:
    (asgi, fast) = (
        connection.send(request_, make_request(method="GET"))[0][2],
        connection.send(make_request(method="GET")),
    )
    assert asgi.startswith(b"ASGI")
    assert fast[0][2] == b"/x"


def test_continues_a_request_that_expects_it(connection: RawConnection) -> None:
    connection.socket.sendall(make_request("Content-Length: 5", "Expect: 100-continue"))
    assert connection.read_head()[0] == 100
    assert connection.send(b"hello")[0][2] == b"ASGI hello"


@pytest.mark.parametrize(
    "request_",
    [
        make_request("Content-Length: 5", "content-length: 2", body="hello"),
        make_request("Content-Length : 5", body="hello"),
        make_request("Content-Length: +5", body="hello"),
        make_request("Content-Length: 5, 5", body="hello"),
        make_request("Content-Length: 0x5", body="hello"),
        make_request("Content-Length: 5", "Transfer-Encoding: chunked", body="hello"),
        make_request("no header"),
        make_request("bad name: x"),
        make_request("a: b\nc: d"),
        make_request("a: \x00"),
    ],
)
def test_rejects_invalid_requests(request_: bytes, connection: RawConnection) -> None:
    assert connection.send(request_)[0][0] == 400
    assert connection.is_closed()


def make_head(*lines: str, body: str = "") -> bytes:
    return "\r\n".join(["POST /x HTTP/1.1", *lines, "", body]).encode("latin-1")


def test_parses_a_plain_request() -> None:
    parsed = parse_request(make_head("Host: x", "Content-Length: 5", "User-Agent:  a b", "X: é", body="hello"))
    assert parsed is not None
    assert (parsed.request_line, parsed.body, parsed.head.keep_alive) == (b"POST /x HTTP/1.1", b"hello", True)
    assert parsed.head.headers == {"host": "x", "content-length": "0", "user-agent": "a b", "x": "é"}


def test_parses_a_request_without_a_body() -> None:
    parsed = parse_request(make_head("Host: x", "Connection: close"))
    assert parsed is not None
    assert (parsed.has_length, parsed.body, parsed.head.keep_alive) == (False, b"", False)


def test_does_not_cache_the_content_length() -> None:
    requests = [parse_request(make_head(f"content-length:{len(body)}", body=body)) for body in ("", "a", "b" * 100)]
    assert [parsed and len(parsed.body) for parsed in requests] == [0, 1, 100]


@pytest.mark.parametrize("body", ["", "hell", "hello"])
def test_parses_an_incomplete_body(body: str) -> None:
    parsed = parse_request(make_head("Content-Length: 5", body=body))
    assert parsed is not None
    assert (parsed.body, parsed.missing) == (body.encode(), 5 - len(body))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"POST /x HTTP/1.1\r\nHost: x\r\n",
        make_head("Content-Length: 5", body="hello, too long"),
        make_head("Content-Length: 5", body="hello") * 2,
        make_head("Host: x", body="a body without a size"),
        make_head("Content-Length: 5", "Content-Length: 5", body="hello"),
        make_head("Content-Length: 5", "content-length: 2", body="hello"),
        make_head("Content-Length : 5", body="hello"),
        make_head("Content-Length: +5", body="hello"),
        make_head("Content-Length: 5, 5", body="hello"),
        make_head("Content-Length: 0x5", body="hello"),
        make_head("Content-Length:", body=""),
        make_head("Transfer-Encoding: chunked", body="0\r\n\r\n"),
        make_head("Content-Length: 5", "Transfer-Encoding: chunked", body="hello"),
        make_head("Content-Length: 5", "Content-Encoding: gzip", body="hello"),
        make_head("Content-Length: 5", "Expect: 100-continue", body="hello"),
        make_head("Connection: Upgrade", "Upgrade: websocket"),
        make_head("X-Forwarded-For: 10.0.0.1"),
        make_head("Accept-Encoding: br", "accept-encoding: gzip"),
        make_head("no header"),
        make_head(" folded: x"),
        make_head("a: b", " folded"),
        make_head("bad name: x"),
        make_head("a: b\nc: d"),
        make_head("a: \x00"),
        make_head("a: " + "x" * 5000),
    ],
)
def test_leaves_other_requests_to_the_full_parser(data: bytes) -> None:
    assert parse_request(data) is None
