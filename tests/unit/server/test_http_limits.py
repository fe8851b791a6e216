"""Requests as they come over the wire: too long, too slow, or no HTTP at all."""

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

SMALL = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


class Impatient(LimitedHttpProtocol):
    max_head_bytes = 8 << 10
    request_timeout = 0.3
    min_bytes_per_second = 1000


async def echo(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    app = Starlette(routes=[Route("/", echo, methods=["GET", "POST"])])
    server = uvicorn.Server(uvicorn.Config(app, http=Impatient, ws="none", log_config=None, lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join()


@pytest.fixture
def wire(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as opened:
        yield opened


def answer(wire: socket.socket) -> tuple[int, str]:
    """Status and sentence of an answer after which the connection is closed."""
    came = b""
    while piece := wire.recv(1 << 16):
        came += piece
    head, _, body = came.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["message"]


def test_requests_follow_each_other_on_one_connection(wire: socket.socket) -> None:
    for body in (b"", b"x" * 100, b"y" * 100_000):
        wire.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        came = wire.recv(1 << 16)
        assert came.startswith(b"HTTP/1.1 200")
        assert came.endswith(b"\r\n\r\n%d" % len(body))


@pytest.mark.parametrize(
    "head",
    [
        SMALL[:-2] + b"".join(b"h%d: %s\r\n" % (number, b"x" * 1000) for number in range(9)) + b"\r\n",
        SMALL[:-2] + b"h: " + b"x" * 9000,
        b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 5\r\nh: " + b"x" * 9000 + b"\r\n\r\nhello",
    ],
    ids=["many headers", "one that does not end", "a long address", "with a body"],
)
def test_a_long_head_is_refused(head: bytes, wire: socket.socket) -> None:
    wire.sendall(head)
    assert answer(wire) == (431, "The headers are larger than 8 KB.")


def test_what_is_no_http_is_refused(wire: socket.socket) -> None:
    wire.sendall(b"hello\r\n\r\n")
    assert answer(wire) == (400, "Invalid HTTP request received.")


@pytest.mark.parametrize(
    "begun",
    [b"", b"GET / HT", SMALL[:-2], b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nhel"],
    ids=["nothing", "a line", "a head", "a body"],
)
def test_who_sends_too_slowly_is_not_waited_for(begun: bytes, wire: socket.socket) -> None:
    wire.sendall(begun)
    status, message = answer(wire)
    assert (status, message.startswith("The request did not arrive within")) == (408, True)


def test_one_byte_now_and_then_is_too_slow(wire: socket.socket) -> None:
    wire.sendall(b"POST / HTTP/1.1\r\ncontent-length: 1000\r\n\r\n")
    wire.settimeout(0.05)
    came = b""
    for _ in range(200):
        try:
            came = wire.recv(1 << 16)
            break
        except TimeoutError:
            wire.sendall(b"x")
    assert came.startswith(b"HTTP/1.1 408")


def test_who_goes_on_sending_is_waited_for(wire: socket.socket) -> None:
    wire.sendall(b"POST / HTTP/1.1\r\ncontent-length: 4000\r\n\r\n")
    pause = threading.Event()
    for _ in range(8):
        pause.wait(0.1)
        wire.sendall(b"x" * 500)
    assert wire.recv(1 << 16).endswith(b"\r\n\r\n4000")
