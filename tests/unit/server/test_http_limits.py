"""Tests of limits on headers, timeouts and invalid HTTP."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from clew.server.http_limits import LimitedHttpProtocol

REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


class StrictProtocol(LimitedHttpProtocol):
    max_head_bytes = 8 << 10
    request_timeout = 0.3
    min_bytes_per_second = 1000


async def echo(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    app = Starlette(routes=[Route("/", echo, methods=["GET", "POST"])])
    server = uvicorn.Server(uvicorn.Config(app, http=StrictProtocol, ws="none", log_config=None, lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join()


@pytest.fixture
def connection(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
        yield sock


def read_response(connection: socket.socket) -> tuple[int, str]:
    """Read until the server closes the connection, and return status and message."""
    response = b""
    while chunk := connection.recv(1 << 16):
        response += chunk
    head, _, body = response.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["message"]


def test_serves_many_requests_on_one_connection(connection: socket.socket) -> None:
    for body in (b"", b"x" * 100, b"y" * 100_000):
        connection.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        response = connection.recv(1 << 16)
        assert response.startswith(b"HTTP/1.1 200")
        assert response.endswith(b"\r\n\r\n%d" % len(body))


@pytest.mark.parametrize(
    "head",
    [
        REQUEST[:-2] + b"".join(b"h%d: %s\r\n" % (number, b"x" * 1000) for number in range(9)) + b"\r\n",
        REQUEST[:-2] + b"h: " + b"x" * 9000,
        b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 5\r\nh: " + b"x" * 9000 + b"\r\n\r\nhello",
    ],
    ids=["many headers", "unterminated header", "long path", "with a body"],
)
def test_rejects_a_long_head(head: bytes, connection: socket.socket) -> None:
    connection.sendall(head)
    assert read_response(connection) == (431, "The headers are larger than 8 KB.")


def test_rejects_invalid_http(connection: socket.socket) -> None:
    connection.sendall(b"hello\r\n\r\n")
    assert read_response(connection) == (400, "Invalid HTTP request received.")


@pytest.mark.parametrize(
    "data",
    [b"", b"GET / HT", REQUEST[:-2], b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nhel"],
    ids=["nothing", "request line", "head", "body"],
)
def test_times_out_on_an_incomplete_request(data: bytes, connection: socket.socket) -> None:
    connection.sendall(data)
    status, message = read_response(connection)
    assert (status, message.startswith("The request did not arrive within")) == (408, True)


def test_times_out_below_the_minimum_rate(connection: socket.socket) -> None:
    connection.sendall(b"POST / HTTP/1.1\r\ncontent-length: 1000\r\n\r\n")
    connection.settimeout(0.05)
    response = b""
    for _ in range(200):
        try:
            response = connection.recv(1 << 16)
            break
        except TimeoutError:
            connection.sendall(b"x")
    assert response.startswith(b"HTTP/1.1 408")


def test_waits_for_a_client_above_the_minimum_rate(connection: socket.socket) -> None:
    connection.sendall(b"POST / HTTP/1.1\r\ncontent-length: 4000\r\n\r\n")
    pause = threading.Event()
    for _ in range(8):
        pause.wait(0.1)
        connection.sendall(b"x" * 500)
    assert connection.recv(1 << 16).endswith(b"\r\n\r\n4000")
