"""Tests of the collector's fast path on a real port: responses equal those of the ASGI path."""

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
from tests.support.disks import BlockedDisk
from tests.support.http_wire import RawConnection, run_server

from clew.collector import group_commit
from clew.collector.app import Collector, RequestLimits, create_collector
from clew.errors import ClewError
from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges
from clew.eventlog.writer import LogWriter
from clew.server.auth import ANONYMOUS, Authenticator, KeyFile, Scope
from clew.server.fast_path import FastPath, FastPathProtocol

LINEAGE = "/api/v1/lineage"


def make_event(name: str = "r", **fields: Any) -> bytes:
    job = {"namespace": "n", "name": "j"}
    return json.dumps({"eventTime": "2026-01-01T10:00:00Z", "run": {"runId": name}, "job": job, **fields}).encode()


def make_post(body: bytes, *headers: str, path: str = LINEAGE, version: str = "1.1") -> bytes:
    lines = [f"POST {path} HTTP/{version}", "host: x", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogWriter]:
    with LogWriter(tmp_path / "log") as writer:
        yield writer


@pytest.fixture
def app(log: LogWriter, tmp_path: Path) -> Collector:
    return create_collector(log, RequestLimits(), tmp_path / "streams")


@pytest.fixture
def connection(app: Collector) -> Iterator[RawConnection]:
    with (
        run_server(app, FastPath(app.fast_path_handlers)) as (port, _),
        socket.create_connection(("127.0.0.1", port), timeout=20) as sock,
    ):
        yield RawConnection(sock)


def read_run_ids(log: LogWriter) -> list[str]:
    ranges = split_ranges(log.folder, 0, end_position(log.folder), 1 << 30)
    return [json.loads(decode_record(text).body)["run"]["runId"] for range_ in ranges for _, text in read_lines(range_)]


def test_serves_many_requests_on_one_connection(connection: RawConnection, log: LogWriter) -> None:
    for number in range(5):
        ((status, headers, body),) = connection.send(make_post(make_event(f"{number}"), "user-agent: producer/1"))
        assert (status, headers["content-length"], body) == (201, "0", b"")
        assert "date" in headers
    assert read_run_ids(log) == ["0", "1", "2", "3", "4"]


CASES = {
    "stored": make_event(),
    "dead letter": b'{"job": {"namespace": "n", "name": "j"}}',
    "not json": b"{",
    "invalid UTF-8": make_event().replace(b'"r"', b'"\xe9"'),
    "deeply nested": b'{"x": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "empty": b"",
    "list": b"[%s, %s]" % (make_event("a"), make_event("b")),
    "list with an invalid event": b"[%s, 7]" % make_event("a"),
    "lines": make_event("a") + b"\n" + make_event("b"),
}


@pytest.mark.parametrize("body", CASES.values(), ids=CASES)
def test_responses_equal_those_of_the_asgi_path(body: bytes, connection: RawConnection, tmp_path: Path) -> None:
    ((status, headers, response_body),) = connection.send(make_post(body))
    with (
        LogWriter(tmp_path / "other") as other,
        TestClient(create_collector(other, RequestLimits(), tmp_path)) as client,
    ):
        expected = client.post(LINEAGE, content=body)
    assert (status, response_body) == (expected.status_code, expected.content)
    assert headers.get("clew-dead-letter") == expected.headers.get("clew-dead-letter")


def test_complex_requests_use_the_asgi_path_on_the_same_connection(connection: RawConnection, log: LogWriter) -> None:
    chunked = b"POST /api/v1/lineage HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
    body = make_event("chunked")
    large = make_event("large", producer="x" * 100_000)
    for request in (
        make_post(make_event("a")),
        chunked % (len(body), body),
        make_post(large),
        make_post(make_event("b")),
    ):
        assert connection.send(request)[0][0] == 201
    assert connection.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")[0][0] == 200
    assert connection.send(make_post(make_event("c"), path=f"{LINEAGE}/batch"))[0][0] == 200
    assert read_run_ids(log) == ["a", "chunked", "large", "b", "c"]


def test_responds_to_pipelined_requests_in_order(connection: RawConnection, log: LogWriter) -> None:
    requests = [make_post(make_event(f"{number}") if number % 3 else b"{") for number in range(9)]
    assert [status for status, _, _ in connection.send(*requests)] == [400, 201, 201] * 3
    assert read_run_ids(log) == [f"{number}" for number in range(9) if number % 3]


@pytest.mark.parametrize("size", [1, 13, 200, 3000])
def test_accepts_requests_split_at_any_byte(size: int, connection: RawConnection, log: LogWriter) -> None:
    requests = [
        make_post(make_event("a")),
        make_post(b"{"),
        make_post(make_event("b", producer="x" * 300)),
        b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n",
        make_post(make_event("c"), "content-encoding: identity"),
        make_post(make_event("d")),
    ]
    data = b"".join(requests)
    connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for start in range(0, len(data), size):
        connection.socket.sendall(data[start : start + size])
    assert [connection.read_response()[0] for _ in requests] == [201, 400, 201, 200, 201, 201]
    assert read_run_ids(log) == ["a", "b", "c", "d"]


def send_separately(connection: RawConnection, *chunks: bytes) -> None:
    """Send chunks so that the server reads each one separately."""
    connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for chunk in chunks:
        connection.socket.sendall(chunk)
        threading.Event().wait(0.05)


def test_accepts_a_body_split_from_its_head(connection: RawConnection, log: LogWriter) -> None:
    requests = [make_post(make_event(name)) for name in "abcd"]
    heads = [request.index(b"{") for request in requests]
    first, second = requests[0], requests[1]
    send_separately(connection, first[: heads[0]], first[heads[0] :])
    assert connection.read_response()[0] == 201
    send_separately(connection, second[: heads[1]], second[heads[1] : -5], second[-5:] + requests[2], requests[3])
    assert [connection.read_response()[0] for _ in range(3)] == [201] * 3
    assert read_run_ids(log) == ["a", "b", "c", "d"]


def test_times_out_on_an_incomplete_body(connection: RawConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    assert connection.send(make_post(make_event("a")))[0][0] == 201
    monkeypatch.setattr(FastPathProtocol, "request_timeout", 0.2)
    send_separately(connection, make_post(make_event("b"))[:-10], b" ")
    status, _, body = connection.read_response()
    assert (status, b"did not arrive within" in body, connection.is_closed()) == (408, True, True)


@pytest.mark.parametrize(
    "request_", [make_post(make_event(), "connection: close"), make_post(make_event(), version="1.0")]
)
def test_closes_the_connection_on_request(request_: bytes, connection: RawConnection) -> None:
    ((status, headers, _),) = connection.send(request_)
    assert (status, headers["connection"], connection.is_closed()) == (201, "close", True)


def test_closes_an_idle_connection(app: Collector) -> None:
    with run_server(app, FastPath(app.fast_path_handlers)) as (port, server):
        server.config.timeout_keep_alive = 1
        with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
            connection = RawConnection(sock)
            assert connection.send(make_post(make_event("a")))[0][0] == 201
            threading.Event().wait(0.6)
            assert connection.send(make_post(make_event("b")))[0][0] == 201
            start = time.monotonic()
            assert connection.is_closed()
            assert time.monotonic() - start > 0.9


def test_checks_keys(log: LogWriter, tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    key = keys.add("airflow", [Scope.WRITE], ["n"])
    app = create_collector(log, RequestLimits(), tmp_path, Authenticator(keys))
    with (
        run_server(app, FastPath(app.fast_path_handlers)) as (port, _),
        socket.create_connection(("127.0.0.1", port), timeout=20) as sock,
    ):
        connection = RawConnection(sock)
        bearer = f"authorization: Bearer {key}"
        responses = connection.send(
            make_post(make_event()),
            make_post(make_event(), bearer),
            make_post(make_event(job={"namespace": "x"}), bearer),
        )
    assert [status for status, _, _ in responses] == [401, 201, 403]
    assert responses[0][1]["www-authenticate"] == "Bearer"


def test_rate_limit_per_forwarded_address(log: LogWriter, tmp_path: Path) -> None:
    app = create_collector(log, RequestLimits(requests_per_second=0.01), tmp_path)
    with (
        run_server(app, FastPath(app.fast_path_handlers)) as (port, _),
        socket.create_connection(("127.0.0.1", port), timeout=20) as sock,
    ):
        headers = [f"x-forwarded-for: 10.0.0.{host}" for host in (1, 2, 1)]
        responses = RawConnection(sock).send(
            *(make_post(make_event(f"{number}"), header) for number, header in enumerate(headers))
        )
    assert [status for status, _, _ in responses] == [201, 201, 503]
    assert b"10.0.0.1 sent more than" in responses[2][2]


def test_tokens_disable_the_fast_path(log: LogWriter, tmp_path: Path) -> None:
    app = create_collector(log, RequestLimits(), tmp_path, Authenticator(None, lambda _: ANONYMOUS))
    assert app.fast_path_handlers == {}


@pytest.mark.parametrize("error", [ClewError("No space left on device."), RuntimeError("internal error")])
def test_reports_write_errors_to_the_client(
    error: Exception, connection: RawConnection, log: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> int:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(log, "write", fail)
        ((status, headers, body),) = connection.send(make_post(make_event()))
    assert (status, headers["retry-after"], str(error) in body.decode()) == (503, "1", True)
    assert connection.send(make_post(make_event()))[0][0] == 201


def test_times_out_on_a_slow_disk(connection: RawConnection, log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        disk = BlockedDisk(patch)
        patch.setattr(group_commit, "ACK_TIMEOUT_SECONDS", 0.1)
        for name in ("slow", "waits for it"):
            ((status, _, body),) = connection.send(make_post(make_event(name)))
            assert (status, b"Timed out waiting for the log" in body) == (503, True)
        disk.release()
    assert connection.send(make_post(make_event("next")))[0][0] == 201
    assert read_run_ids(log) == ["slow", "waits for it", "next"]


def test_responds_to_pending_requests_at_shutdown(
    app: Collector, log: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = BlockedDisk(monkeypatch)
    with (
        run_server(app, FastPath(app.fast_path_handlers)) as (port, server),
        socket.create_connection(("127.0.0.1", port), timeout=20) as sock,
    ):
        sock.sendall(make_post(make_event()))
        assert disk.fsync_requested.wait(20)
        server.should_exit = True
        threading.Timer(0.3, disk.release).start()
        status, headers, _ = RawConnection(sock).read_response()
        assert (status, headers["connection"]) == (201, "close")
    assert read_run_ids(log) == ["r"]


def test_survives_a_client_that_disconnects(app: Collector, log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = BlockedDisk(monkeypatch)
    with run_server(app, FastPath(app.fast_path_handlers)) as (port, _):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
            sock.sendall(make_post(make_event()))
            assert disk.fsync_requested.wait(20)
        disk.release()
        with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
            assert RawConnection(sock).send(make_post(make_event("next")))[0][0] == 201
    assert read_run_ids(log) == ["r", "next"]


def test_responds_503_on_an_unexpected_exception(
    app: Collector, connection: RawConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_key_error(*_: object) -> Response:
        raise KeyError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr("clew.collector.app.check_event", raise_key_error)
        ((status, headers, _),) = connection.send(make_post(make_event()))
    assert (status, headers["retry-after"]) == (503, "1")
    assert connection.send(make_post(make_event()))[0][0] == 201
    assert app.fast_path_handlers
