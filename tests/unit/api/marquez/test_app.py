"""Documents that are answered without ASGI: byte for byte what the long way answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.http_wire import Answer, Wire, serving
from tests.unit.api.marquez.conftest import Shop, dataset, event, run_id

from clew.api.middleware import AuthMiddleware, authenticated_read
from clew.cli.serving import build_app
from clew.server.auth import ANONYMOUS, Authenticator, KeyFile, Scope
from clew.server.fast_path import FastPath, RawResponse, RequestInfo

RUN = f"/api/v1/jobs/runs/{run_id('sum-1')}"
SPACE = "/api/v1/namespaces/postgres%3A%2F%2Fdb%3A5432"


class BothWays:
    """One home behind two servers, of which one answers at once what it can."""

    def __init__(self, shop: Shop, guard: Authenticator, opened: ExitStack) -> None:
        app, read = build_app(shop.home)
        admitted = authenticated_read(read, guard)
        self.answered = 0

        def counted(caller: RequestInfo, url: bytes) -> RawResponse | None:
            reply = None if admitted is None else admitted(caller, url)
            self.answered += reply is not None
            return reply

        ports = (
            opened.enter_context(serving(AuthMiddleware(app, guard), quick))[0]
            for quick in (FastPath(get_handler=counted), FastPath())
        )
        self.quick, self.long = (
            Wire(opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))) for port in ports
        )

    def ask(self, request: bytes) -> tuple[Answer, bool]:
        """The answer to a request, which is the same both ways, and whether it was had at once."""
        before = self.answered
        found, expected = self.quick.ask(request)[0], self.long.ask(request)[0]
        for _, headers, _ in (found, expected):
            assert headers.pop("date")
        assert found == expected
        # Their order, too.
        assert list(found[1]) == list(expected[1])
        return found, self.answered > before


@pytest.fixture(scope="module")
def both(shared_shop: Shop) -> Iterator[BothWays]:
    with ExitStack() as opened:
        yield BothWays(shared_shop, Authenticator(), opened)


def get(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "host: x", *headers, "", ""]).encode()


AT_ONCE = {
    "run": (get(RUN), 200),
    "dataset": (get(f"{SPACE}/datasets/public.totals"), 200),
    "job": (get("/api/v1/namespaces/shop/jobs/daily.load"), 200),
    "facets": (get(f"{RUN}/facets?type=run"), 200),
    "slash at the end": (get(f"{RUN}/"), 200),
    "packed": (get(RUN, "accept-encoding: gzip, br"), 200),
    "not packed": (get(RUN, "accept-encoding: br"), 200),
    "more headers": (get(RUN, "accept: */*", "user-agent: me", "if-none-match: x", "range: bytes=0-9"), 200),
    "no such run": (get("/api/v1/jobs/runs/none"), 404),
    "no such dataset": (get(f"{SPACE}/datasets/%C3%A9%2F"), 404),
    "a bad parameter": (get(f"{RUN}/facets?type=x&type=%FF"), 400),
    "no parameter": (get(f"{RUN}/facets"), 400),
}


@pytest.mark.parametrize(("request_", "status"), AT_ONCE.values(), ids=AT_ONCE)
def test_a_document_is_answered_at_once(request_: bytes, status: int, both: BothWays) -> None:
    (found, _, body), was_at_once = both.ask(request_)
    assert (found, bool(body), was_at_once) == (status, True, True)


LONG_WAY = {
    "a list": (get(f"{SPACE}/datasets"), 200),
    "a walk": (get("/api/v1/lineage?nodeId=job:shop:daily.load"), 200),
    "no document": (get("/healthz"), 200),
    "no such path": (get("/api/v1/namespaces/a/b/c/d/e"), 404),
    "another method": (get(RUN, "content-length: 0", method="POST"), 405),
    "an empty body": (get(RUN, "content-length: 0"), 200),
    "a body": (get(RUN, "content-length: 1") + b"x", 200),
    "forwarded": (get(RUN, "x-forwarded-for: 10.0.0.1"), 200),
    "twice the same header": (get(RUN, "accept-encoding: br", "accept-encoding: gzip"), 200),
    "unusual letters": (get(RUN + "?a=[b]"), 200),
}


@pytest.mark.parametrize(("request_", "status"), LONG_WAY.values(), ids=LONG_WAY)
def test_all_else_goes_the_long_way(request_: bytes, status: int, both: BothWays) -> None:
    (found, _, _), was_at_once = both.ask(request_)
    assert (found, was_at_once) == (status, False)


def test_a_head_has_no_body(both: BothWays) -> None:
    before = both.answered
    for wire in (both.quick, both.long):
        wire.opened.sendall(get(RUN, method="HEAD"))
        # It tells the size of what a GET gives, which is not sent: the next answer follows.
        status, headers, _ = wire.head()
        assert (status, int(headers["content-length"]) > 100) == (200, True)
        assert wire.ask(get(RUN))[0][0] == 200
    assert both.answered == before + 2


def test_a_connection_is_closed_when_that_is_asked_for(shared_shop: Shop) -> None:
    with ExitStack() as opened:
        both = BothWays(shared_shop, Authenticator(), opened)
        (_, headers, _), was_at_once = both.ask(get(RUN, "connection: close"))
        assert (headers["connection"], was_at_once) == ("close", True)
        assert both.quick.is_closed()
        assert both.long.is_closed()


def test_what_was_written_is_seen_at_once(shop: Shop) -> None:
    with ExitStack() as opened:
        both = BothWays(shop, Authenticator(), opened)
        path = f"{SPACE}/datasets/public.new"
        assert both.ask(get(path))[0][0] == 404
        shop.send([event("COMPLETE", 20, "new-1", outputs=[dataset("public.new", "a b")])])
        (status, _, before), was_at_once = both.ask(get(path))
        assert (status, was_at_once) == (200, True)
        shop.send([event("COMPLETE", 21, "new-2", outputs=[dataset("public.new", "a b c")])])
        assert both.ask(get(path))[0][2] != before
        shop.rebuild()
        assert both.ask(get(path))[0][0] == 200


def test_keys_are_asked_for(shared_shop: Shop, tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    with ExitStack() as opened:
        secrets = [
            keys.add("reader", [Scope.READ]),
            keys.add("writer", [Scope.WRITE]),
            keys.add("one team", [Scope.READ], ["shop"]),
        ]
        both = BothWays(shared_shop, Authenticator(keys), opened)
        asked = [both.ask(get(RUN, f"authorization: Bearer {secret}")) for secret in (*secrets, "nobody")]
        keys.revoke("reader")
        asked += [both.ask(get(RUN, f"authorization: Bearer {secrets[0]}")), both.ask(get(RUN))]
    assert [(answer[0], was_at_once) for answer, was_at_once in asked] == [
        (200, True),
        (403, False),
        (403, False),
        (401, False),
        (401, False),
        (401, False),
    ]


def test_tokens_may_have_to_wait_and_go_the_long_way() -> None:
    assert authenticated_read(lambda *_: None, Authenticator(None, lambda _: ANONYMOUS)) is None


def test_a_fault_is_told_the_long_way(shared_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> RawResponse:
        raise KeyError("a bug")

    monkeypatch.setattr("clew.api.marquez.app.MarquezApi._call", broken)
    with ExitStack() as opened:
        (status, headers, _), was_at_once = BothWays(shared_shop, Authenticator(), opened).ask(get(RUN))
    assert (status, headers["content-type"], was_at_once) == (500, "application/problem+json", False)
