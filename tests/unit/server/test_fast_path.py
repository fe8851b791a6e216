"""Tests of the choice between the fast path and the ASGI path."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from tests.support.http_wire import RawConnection, run_server

from clew.server.fast_path import FastPath, FastRequest, RawResponse, RequestInfo

METHODS = ["GET", "HEAD", "POST", "PUT"]


def make_request(*lines: str, method: str = "POST", url: str = "/x", version: str = "1.1", body: str = "") -> bytes:
    return "\r\n".join([f"{method} {url} HTTP/{version}", "host: x", *lines, "", body]).encode("latin-1")


async def respond(request: Request) -> Response:
    return PlainTextResponse(f"ASGI {(await request.body()).decode()}")


async def handle_post(request: FastRequest) -> RawResponse:
    address = request.client.host if request.client else None
    body = b"%s %s %s" % (request.body, (request.headers.get("X-Value") or "").encode("latin-1"), str(address).encode())
    return RawResponse(200, [(b"content-length", b"%d" % len(body))], body)


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
