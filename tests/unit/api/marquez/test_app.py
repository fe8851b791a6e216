"""Tests of the fast path without ASGI: its responses equal those of the ASGI application."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.http_wire import RawConnection, Response, run_server
from tests.unit.api.marquez.conftest import Shop, dataset, event, run_id

from clew.api.middleware import AuthMiddleware, authenticated_read
from clew.cli.serving import build_app
from clew.server.auth import ANONYMOUS, Authenticator, KeyFile, Scope
from clew.server.fast_path import FastPath, RawResponse, RequestInfo

RUN = f"/api/v1/jobs/runs/{run_id('sum-1')}"
NAMESPACE = "/api/v1/namespaces/postgres%3A%2F%2Fdb%3A5432"


class ServerPair:
    """One data directory behind two servers, one of them with the fast path."""

    def __init__(self, shop: Shop, authenticator: Authenticator, stack: ExitStack) -> None:
        app, read = build_app(shop.home)
        authenticated = authenticated_read(read, authenticator)
        self.fast_count = 0

        def count_response(request_info: RequestInfo, url: bytes) -> RawResponse | None:
            response = None if authenticated is None else authenticated(request_info, url)
            self.fast_count += response is not None
            return response

        ports = (
            stack.enter_context(run_server(AuthMiddleware(app, authenticator), fast_path))[0]
            for fast_path in (FastPath(get_handler=count_response), FastPath())
        )
        self.fast, self.asgi = (
            RawConnection(stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20)))
            for port in ports
        )

    def send(self, request: bytes) -> tuple[Response, bool]:
        """Return the response of both servers, which must be equal, and whether the fast path sent it."""
        before = self.fast_count
        response, expected = self.fast.send(request)[0], self.asgi.send(request)[0]
        for _, headers, _ in (response, expected):
            assert headers.pop("date")
        assert response == expected
        # The order of the headers as well.
        assert list(response[1]) == list(expected[1])
        return response, self.fast_count > before


@pytest.fixture(scope="module")
def servers(shared_shop: Shop) -> Iterator[ServerPair]:
    with ExitStack() as stack:
        yield ServerPair(shared_shop, Authenticator(), stack)


def get(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "host: x", *headers, "", ""]).encode()


FAST_REQUESTS = {
    "run": (get(RUN), 200),
    "dataset": (get(f"{NAMESPACE}/datasets/public.totals"), 200),
    "job": (get("/api/v1/namespaces/shop/jobs/daily.load"), 200),
    "facets": (get(f"{RUN}/facets?type=run"), 200),
    "trailing slash": (get(f"{RUN}/"), 200),
    "gzip": (get(RUN, "accept-encoding: gzip, br"), 200),
    "no gzip": (get(RUN, "accept-encoding: br"), 200),
    "more headers": (get(RUN, "accept: */*", "user-agent: me", "if-none-match: x", "range: bytes=0-9"), 200),
    "no such run": (get("/api/v1/jobs/runs/none"), 404),
    "no such dataset": (get(f"{NAMESPACE}/datasets/%C3%A9%2F"), 404),
    "invalid parameter": (get(f"{RUN}/facets?type=x&type=%FF"), 400),
    "missing parameter": (get(f"{RUN}/facets"), 400),
}


@pytest.mark.parametrize(("request_", "status"), FAST_REQUESTS.values(), ids=FAST_REQUESTS)
def test_fast_path_serves_documents(request_: bytes, status: int, servers: ServerPair) -> None:
    (actual, _, body), is_fast = servers.send(request_)
    assert (actual, bool(body), is_fast) == (status, True, True)


ASGI_REQUESTS = {
    "list": (get(f"{NAMESPACE}/datasets"), 200),
    "traversal": (get("/api/v1/lineage?nodeId=job:shop:daily.load"), 200),
    "other path": (get("/healthz"), 200),
    "no such path": (get("/api/v1/namespaces/a/b/c/d/e"), 404),
    "another method": (get(RUN, "content-length: 0", method="POST"), 405),
    "empty body": (get(RUN, "content-length: 0"), 200),
    "body": (get(RUN, "content-length: 1") + b"x", 200),
    "forwarded": (get(RUN, "x-forwarded-for: 10.0.0.1"), 200),
    "duplicate header": (get(RUN, "accept-encoding: br", "accept-encoding: gzip"), 200),
    "unusual characters": (get(RUN + "?a=[b]"), 200),
}


@pytest.mark.parametrize(("request_", "status"), ASGI_REQUESTS.values(), ids=ASGI_REQUESTS)
def test_asgi_serves_other_requests(request_: bytes, status: int, servers: ServerPair) -> None:
    (actual, _, _), is_fast = servers.send(request_)
    assert (actual, is_fast) == (status, False)


def test_head_response_has_no_body(servers: ServerPair) -> None:
    before = servers.fast_count
    for connection in (servers.fast, servers.asgi):
        connection.socket.sendall(get(RUN, method="HEAD"))
        # Content-Length is that of a GET, but no body is sent: the next response follows.
        status, headers, _ = connection.read_head()
        assert (status, int(headers["content-length"]) > 100) == (200, True)
        assert connection.send(get(RUN))[0][0] == 200
    assert servers.fast_count == before + 2


def test_closes_the_connection_on_request(shared_shop: Shop) -> None:
    with ExitStack() as stack:
        servers = ServerPair(shared_shop, Authenticator(), stack)
        (_, headers, _), is_fast = servers.send(get(RUN, "connection: close"))
        assert (headers["connection"], is_fast) == ("close", True)
        assert servers.fast.is_closed()
        assert servers.asgi.is_closed()


def test_new_events_are_visible_at_once(shop: Shop) -> None:
    with ExitStack() as stack:
        servers = ServerPair(shop, Authenticator(), stack)
        path = f"{NAMESPACE}/datasets/public.new"
        assert servers.send(get(path))[0][0] == 404
        shop.send([event("COMPLETE", 20, "new-1", outputs=[dataset("public.new", "a b")])])
        (status, _, before), is_fast = servers.send(get(path))
        assert (status, is_fast) == (200, True)
        shop.send([event("COMPLETE", 21, "new-2", outputs=[dataset("public.new", "a b c")])])
        assert servers.send(get(path))[0][2] != before
        shop.rebuild()
        assert servers.send(get(path))[0][0] == 200


def test_requires_a_key_with_the_read_scope(shared_shop: Shop, tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    with ExitStack() as stack:
        secrets = [
            keys.add("reader", [Scope.READ]),
            keys.add("writer", [Scope.WRITE]),
            keys.add("one team", [Scope.READ], ["shop"]),
        ]
        servers = ServerPair(shared_shop, Authenticator(keys), stack)
        results = [servers.send(get(RUN, f"authorization: Bearer {secret}")) for secret in (*secrets, "nobody")]
        keys.revoke("reader")
        results += [servers.send(get(RUN, f"authorization: Bearer {secrets[0]}")), servers.send(get(RUN))]
    assert [(response[0], is_fast) for response, is_fast in results] == [
        (200, True),
        (403, False),
        (403, False),
        (401, False),
        (401, False),
        (401, False),
    ]


def test_tokens_are_not_checked_on_the_fast_path() -> None:
    assert authenticated_read(lambda *_: None, Authenticator(None, lambda _: ANONYMOUS)) is None


def test_asgi_reports_an_unexpected_error(shared_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> RawResponse:
        raise KeyError("a bug")

    monkeypatch.setattr("clew.api.marquez.app.MarquezApi._call", fail)
    with ExitStack() as stack:
        (status, headers, _), is_fast = ServerPair(shared_shop, Authenticator(), stack).send(get(RUN))
    assert (status, headers["content-type"], is_fast) == (500, "application/problem+json", False)
