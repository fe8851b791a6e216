"""Small requests on a real port, where they do not go through ASGI: the answers are the same."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response
from starlette.testclient import TestClient
from tests.support.disks import HeldDisk
from tests.support.http_wire import Wire, serving

from clew.collector import group_commit
from clew.collector.app import Collector, RequestLimits, create_collector
from clew.errors import ClewError
from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges
from clew.eventlog.writer import LogWriter
from clew.server.auth import ANONYMOUS, Authenticator, KeyFile, Scope
from clew.server.fast_path import FastPath, FastPathProtocol

LINEAGE = "/api/v1/lineage"


def event(name: str = "r", **more: Any) -> bytes:
    job = {"namespace": "n", "name": "j"}
    return json.dumps({"eventTime": "2026-01-01T10:00:00Z", "run": {"runId": name}, "job": job, **more}).encode()


def post(body: bytes, *headers: str, path: str = LINEAGE, version: str = "1.1") -> bytes:
    lines = [f"POST {path} HTTP/{version}", "host: x", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogWriter]:
    with LogWriter(tmp_path / "log") as opened:
        yield opened


@pytest.fixture
def app(log: LogWriter, tmp_path: Path) -> Collector:
    return create_collector(log, RequestLimits(), tmp_path / "streams")


@pytest.fixture
def wire(app: Collector) -> Iterator[Wire]:
    with (
        serving(app, FastPath(app.fast_path_handlers)) as (port, _),
        socket.create_connection(("127.0.0.1", port), timeout=20) as opened,
    ):
        yield Wire(opened)


def runs(log: LogWriter) -> list[str]:
    parts = split_ranges(log.folder, 0, end_position(log.folder), 1 << 30)
    return [json.loads(decode_record(text).body)["run"]["runId"] for part in parts for _, text in read_lines(part)]


def test_one_connection_carries_many(wire: Wire, log: LogWriter) -> None:
    for number in range(5):
        ((status, headers, body),) = wire.ask(post(event(f"{number}"), "user-agent: producer/1"))
        assert (status, headers["content-length"], body) == (201, "0", b"")
        assert "date" in headers
    assert runs(log) == ["0", "1", "2", "3", "4"]


CASES = {
    "stored": event(),
    "dead letter": b'{"job": {"namespace": "n", "name": "j"}}',
    "no json": b"{",
    "bad text": event().replace(b'"r"', b'"\xe9"'),
    "deep": b'{"x": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "nothing": b"",
    "several": b"[%s, %s]" % (event("a"), event("b")),
    "some": b"[%s, 7]" % event("a"),
    "lines": event("a") + b"\n" + event("b"),
}


@pytest.mark.parametrize("body", CASES.values(), ids=CASES)
def test_answers_are_those_of_the_long_way(body: bytes, wire: Wire, tmp_path: Path) -> None:
    ((status, headers, answered),) = wire.ask(post(body))
    with (
        LogWriter(tmp_path / "other") as other,
        TestClient(create_collector(other, RequestLimits(), tmp_path)) as client,
    ):
        long_way = client.post(LINEAGE, content=body)
    assert (status, answered) == (long_way.status_code, long_way.content)
    assert headers.get("clew-dead-letter") == long_way.headers.get("clew-dead-letter")


def test_what_is_not_plain_goes_the_long_way_on_the_same_connection(wire: Wire, log: LogWriter) -> None:
    chunked = b"POST /api/v1/lineage HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
    body = event("chunked")
    large = event("large", producer="x" * 100_000)
    for request in (post(event("a")), chunked % (len(body), body), post(large), post(event("b"))):
        assert wire.ask(request)[0][0] == 201
    assert wire.ask(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")[0][0] == 200
    assert wire.ask(post(event("c"), path=f"{LINEAGE}/batch"))[0][0] == 200
    assert runs(log) == ["a", "chunked", "large", "b", "c"]


def test_requests_that_do_not_wait_are_answered_in_order(wire: Wire, log: LogWriter) -> None:
    requests = [post(event(f"{number}") if number % 3 else b"{") for number in range(9)]
    assert [status for status, _, _ in wire.ask(*requests)] == [400, 201, 201] * 3
    assert runs(log) == [f"{number}" for number in range(9) if number % 3]


@pytest.mark.parametrize("size", [1, 13, 200, 3000])
def test_it_does_not_matter_how_requests_are_cut(size: int, wire: Wire, log: LogWriter) -> None:
    requests = [
        post(event("a")),
        post(b"{"),
        post(event("b", producer="x" * 300)),
        b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n",
        post(event("c"), "content-encoding: identity"),
        post(event("d")),
    ]
    whole = b"".join(requests)
    wire.opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for start in range(0, len(whole), size):
        wire.opened.sendall(whole[start : start + size])
    assert [wire.answer()[0] for _ in requests] == [201, 400, 201, 200, 201, 201]
    assert runs(log) == ["a", "b", "c", "d"]


def sent_apart(wire: Wire, *pieces: bytes) -> None:
    """Send pieces so that each is read by itself."""
    wire.opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for piece in pieces:
        wire.opened.sendall(piece)
        threading.Event().wait(0.05)


def test_a_body_may_come_after_its_head_and_with_the_next_request(wire: Wire, log: LogWriter) -> None:
    requests = [post(event(name)) for name in "abcd"]
    heads = [request.index(b"{") for request in requests]
    first, second = requests[0], requests[1]
    sent_apart(wire, first[: heads[0]], first[heads[0] :])
    assert wire.answer()[0] == 201
    sent_apart(wire, second[: heads[1]], second[heads[1] : -5], second[-5:] + requests[2], requests[3])
    assert [wire.answer()[0] for _ in range(3)] == [201] * 3
    assert runs(log) == ["a", "b", "c", "d"]


def test_a_body_that_does_not_come_is_not_waited_for(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wire.ask(post(event("a")))[0][0] == 201
    monkeypatch.setattr(FastPathProtocol, "request_timeout", 0.2)
    sent_apart(wire, post(event("b"))[:-10], b" ")
    status, _, body = wire.answer()
    assert (status, b"did not arrive within" in body, wire.is_closed()) == (408, True, True)


@pytest.mark.parametrize("request_", [post(event(), "connection: close"), post(event(), version="1.0")])
def test_a_connection_is_closed_when_that_is_asked_for(request_: bytes, wire: Wire) -> None:
    ((status, headers, _),) = wire.ask(request_)
    assert (status, headers["connection"], wire.is_closed()) == (201, "close", True)


def test_a_connection_is_closed_when_nothing_comes(app: Collector) -> None:
    with serving(app, FastPath(app.fast_path_handlers)) as (port, server):
        server.config.timeout_keep_alive = 1
        with socket.create_connection(("127.0.0.1", port), timeout=20) as opened:
            wire = Wire(opened)
            # One timer for both: it starts with the first and counts from the second.
            assert wire.ask(post(event("a")))[0][0] == 201
            threading.Event().wait(0.6)
            assert wire.ask(post(event("b")))[0][0] == 201
            began = time.monotonic()
            assert wire.is_closed()
            assert time.monotonic() - began > 0.9


def test_keys_are_asked_for(log: LogWriter, tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    key = keys.add("airflow", [Scope.WRITE], ["n"])
    app = create_collector(log, RequestLimits(), tmp_path, Authenticator(keys))
    with (
        serving(app, FastPath(app.fast_path_handlers)) as (port, _),
        socket.create_connection(("127.0.0.1", port), timeout=20) as opened,
    ):
        wire = Wire(opened)
        bearer = f"authorization: Bearer {key}"
        answers = wire.ask(post(event()), post(event(), bearer), post(event(job={"namespace": "x"}), bearer))
    assert [status for status, _, _ in answers] == [401, 201, 403]
    assert answers[0][1]["www-authenticate"] == "Bearer"


def test_behind_a_proxy_each_address_has_a_rate_of_its_own(log: LogWriter, tmp_path: Path) -> None:
    app = create_collector(log, RequestLimits(requests_per_second=0.01), tmp_path)
    with (
        serving(app, FastPath(app.fast_path_handlers)) as (port, _),
        socket.create_connection(("127.0.0.1", port), timeout=20) as opened,
    ):
        senders = [f"x-forwarded-for: 10.0.0.{number}" for number in (1, 2, 1)]
        answers = Wire(opened).ask(*(post(event(f"{place}"), sender) for place, sender in enumerate(senders)))
    assert [status for status, _, _ in answers] == [201, 201, 503]
    assert b"10.0.0.1 sent more than" in answers[2][2]


def test_tokens_may_have_to_wait_and_go_the_long_way(log: LogWriter, tmp_path: Path) -> None:
    assert (
        create_collector(log, RequestLimits(), tmp_path, Authenticator(None, lambda _: ANONYMOUS)).fast_path_handlers
        == {}
    )


@pytest.mark.parametrize("fault", [ClewError("No space left on device."), RuntimeError("a fault of ours")])
def test_whoever_waits_hears_of_a_fault(
    fault: Exception, wire: Wire, log: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> int:
        raise fault

    with monkeypatch.context() as changed:
        changed.setattr(log, "write", fail)
        ((status, headers, body),) = wire.ask(post(event()))
    assert (status, headers["retry-after"], str(fault) in body.decode()) == (503, "1", True)
    assert wire.ask(post(event()))[0][0] == 201


def test_a_slow_disk_is_told_in_time(wire: Wire, log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as changed:
        disk = HeldDisk(changed)
        changed.setattr(group_commit, "ACK_TIMEOUT_SECONDS", 0.1)
        for name in ("slow", "waits for it"):
            ((status, _, body),) = wire.ask(post(event(name)))
            assert (status, b"Timed out waiting for the log" in body) == (503, True)
        disk.let_go()
    assert wire.ask(post(event("next")))[0][0] == 201
    assert runs(log) == ["slow", "waits for it", "next"]


def test_whoever_is_waiting_when_it_stops_is_answered(
    app: Collector, log: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = HeldDisk(monkeypatch)
    with (
        serving(app, FastPath(app.fast_path_handlers)) as (port, server),
        socket.create_connection(("127.0.0.1", port), timeout=20) as opened,
    ):
        opened.sendall(post(event()))
        assert disk.is_asked.wait(20)
        server.should_exit = True
        threading.Timer(0.3, disk.let_go).start()
        status, headers, _ = Wire(opened).answer()
        assert (status, headers["connection"]) == (201, "close")
    assert runs(log) == ["r"]


def test_whoever_has_gone_is_no_harm(app: Collector, log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = HeldDisk(monkeypatch)
    with serving(app, FastPath(app.fast_path_handlers)) as (port, _):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as opened:
            opened.sendall(post(event()))
            assert disk.is_asked.wait(20)
        disk.let_go()
        with socket.create_connection(("127.0.0.1", port), timeout=20) as opened:
            assert Wire(opened).ask(post(event("next")))[0][0] == 201
    assert runs(log) == ["r", "next"]


def test_a_bug_is_answered_too(app: Collector, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Response:
        raise KeyError("a bug")

    with monkeypatch.context() as changed:
        changed.setattr("clew.collector.app.check_event", broken)
        ((status, headers, _),) = wire.ask(post(event()))
    assert (status, headers["retry-after"]) == (503, "1")
    assert wire.ask(post(event()))[0][0] == 201
    assert app.fast_path_handlers
