"""Tests of the checks of Host, Origin and Content-Type, by policy and on a real port."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from tests.support.http_wire import RawConnection, run_server

from clew.server.fast_path import FastPath, FastRequest, RawResponse, RequestInfo
from clew.server.origin_check import OriginMiddleware, OriginPolicy

LOCAL = OriginPolicy.of("127.0.0.1")


def status_of(policy: OriginPolicy, method: str = "GET", **headers: str) -> int:
    rejection = policy.find_rejection(method, {name.replace("_", "-"): value for name, value in headers.items()})
    return 200 if rejection is None else rejection.status


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:5000", 200),
        ("LocalHost:5000", 200),
        ("localhost.", 200),
        ("[::1]:5000", 200),
        ("[::1]", 200),
        ("::1", 200),
        ("", 400),
        ("evil.example@127.0.0.1", 421),
        ("127.0.0.1, evil.example", 421),
        ("[2001:db8::1]", 421),
        ("evil.example:80:127.0.0.1", 421),
        ("evil.example", 421),
        ("evil.example:5000", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example:5000", 421),
        ("localhost:evil", 421),
        ("192.168.0.1", 421),
    ],
)
def test_loopback_servers_answer_to_loopback_names_only(method: str, host: str, status: int) -> None:
    assert status_of(LOCAL, method, host=host) == status


@pytest.mark.parametrize(
    ("bind_host", "extra", "host", "status"),
    [
        ("127.0.0.1", ["lineage.example"], "lineage.example:443", 200),
        ("127.0.0.1", ["Lineage.Example"], "lineage.example", 200),
        ("127.0.0.1", ["lineage.example"], "evil.example", 421),
        ("127.0.0.1", ["*"], "evil.example", 200),
        ("0.0.0.0", [], "lineage.example", 200),
        ("0.0.0.0", ["lineage.example"], "evil.example", 421),
        ("0.0.0.0", ["lineage.example"], "localhost", 200),
    ],
)
def test_allowed_hosts(bind_host: str, extra: list[str], host: str, status: int) -> None:
    assert status_of(OriginPolicy.of(bind_host, extra), host=host) == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"content_type": "application/json"}, 200),
        ({"content_type": "application/x-ndjson"}, 200),
        ({"origin": "http://localhost:5000"}, 200),
        ({"sec_fetch_site": "same-origin", "origin": "http://localhost:3000"}, 200),
        ({"sec_fetch_site": "none"}, 200),
        ({"sec_fetch_site": "none", "origin": "http://evil.example"}, 403),
        ({"sec_fetch_site": "Cross-Site"}, 403),
        ({"sec_fetch_site": ""}, 403),
        ({"origin": ""}, 403),
        ({"origin": "http://localhost:5000.evil.example"}, 403),
        ({"origin": "http://localhost:5000", "content_length": "2"}, 415),
        ({"origin": "http://localhost:5000", "content_length": "0"}, 200),
        ({"origin": "http://localhost:5000", "transfer_encoding": "chunked"}, 415),
        ({"origin": "http://localhost:5000", "content_length": "2", "content_type": "application/json"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://localhost:3000"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://["}, 403),
        ({"origin": "http://a]"}, 403),
        ({"origin": "http://\u2100"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site", "origin": "http://localhost:3000"}, 403),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "Text/Plain; charset=utf-8"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
        ({"content_type": "multipart/form-data; boundary=x"}, 415),
    ],
)
def test_writes(headers: dict[str, str], status: int) -> None:
    assert status_of(LOCAL, "POST", host="localhost:5000", **headers) == status
    assert status_of(LOCAL, "DELETE", host="localhost:5000", **headers) == status
    assert status_of(LOCAL, "GET", host="localhost:5000", **headers) == 200


async def respond(_: Request) -> Response:
    return PlainTextResponse("ASGI")


def handle_post(_: FastRequest, send: Callable[[RawResponse], None]) -> None:
    send(RawResponse(201, [(b"content-length", b"0")], b""))


def handle_get(_request: RequestInfo, _url: bytes) -> RawResponse:
    return RawResponse(200, [(b"content-length", b"4")], b"fast")


@pytest.fixture(scope="module")
def connect() -> Iterator[Callable[[], socket.socket]]:
    app = OriginMiddleware(Starlette(routes=[Route("/{path:path}", respond, methods=["GET", "POST", "PUT"])]), LOCAL)
    with run_server(app, FastPath({b"/x": handle_post}, handle_get, LOCAL)) as (port, _):
        yield partial(socket.create_connection, ("127.0.0.1", port), timeout=20)


@pytest.mark.parametrize(
    ("method", "headers", "status", "body"),
    [
        ("GET", ["host: localhost"], 200, b"fast"),
        ("GET", ["host: evil.example"], 421, None),
        ("POST", ["host: localhost", "content-length: 0"], 201, b""),
        ("POST", ["host: evil.example", "content-length: 0"], 421, None),
        ("POST", ["host: localhost", "content-length: 0", "origin: http://evil.example"], 403, None),
        ("POST", ["host: localhost", "content-length: 0", "origin: http://["], 403, None),
        ("PUT", ["host: localhost", "content-length: 0", "origin: http://["], 403, None),
        ("POST", ["host: localhost", "content-length: 2", "content-type: text/plain"], 415, None),
        ("PUT", ["host: evil.example", "content-length: 0"], 421, None),
        ("GET", ["host: localhost", "host: evil.example"], 400, None),
        ("GET", ["host: evil.example", "host: localhost"], 400, None),
        ("POST", ["host: localhost", "host: evil.example", "content-length: 0"], 400, None),
        ("POST", ["host: localhost", "content-type: a/b", "content-type: text/plain", "content-length: 2"], 400, None),
        ("POST", ["host: localhost", "origin: http://localhost", "content-length: 2"], 415, None),
        ("GET", [], 400, None),
        ("POST", ["content-length: 0"], 400, None),
        ("GET /x HTTP/1.0", [], 200, b"ASGI"),
        ("GET /x HTTP/1.0", ["host: evil.example"], 421, None),
        ("GET http://evil.example/x HTTP/1.1", ["host: localhost"], 421, None),
        ("POST http://evil.example/x HTTP/1.1", ["host: localhost", "content-length: 0"], 421, None),
        ("GET http://localhost/x HTTP/1.1", ["host: evil.example"], 200, b"ASGI"),
        ("GET HTTP://evil.example/x HTTP/1.1", ["host: localhost"], 421, None),
        ("GET", ["host: evil.example", "x-forwarded-host: localhost"], 421, None),
    ],
)
def test_checks_both_paths(
    method: str, headers: list[str], status: int, body: bytes | None, connect: Callable[[], socket.socket]
) -> None:
    content = "{}" if "content-length: 2" in headers else ""
    line = method if " " in method else f"{method} /x HTTP/1.1"
    request = "\r\n".join([line, *headers, "", content]).encode()
    with connect() as sock:
        ((actual, response_headers, actual_body),) = RawConnection(sock).send(request)
    assert actual == status
    if body is None:
        assert response_headers["content-type"] == "application/json"
        assert f'"code":{status}'.encode() in actual_body
    else:
        assert actual_body == body
