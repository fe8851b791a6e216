"""The collector over HTTP: what it answers, and what is then in the log."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from starlette.testclient import TestClient
from tests.support.disks import HeldDisk

from clew.collector import app, group_commit
from clew.collector.app import RequestLimits, create_collector
from clew.errors import ClewError
from clew.eventlog.segments import LogRecord, decode_record, end_position, read_lines, split_ranges
from clew.eventlog.writer import LogWriter

EVENT = {"eventTime": "2026-01-01T10:00:00Z", "run": {"runId": "r"}, "job": {"namespace": "n", "name": "j"}}
LINEAGE = "/api/v1/lineage"


def event(**more: Any) -> bytes:
    return json.dumps({**EVENT, **more}).encode()


def large(megabytes: int, **more: Any) -> bytes:
    return event(run={"runId": "r", "facets": {"plan": {"text": "x" * (megabytes << 20)}}}, **more)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogWriter]:
    with LogWriter(tmp_path / "log") as opened:
        yield opened


@pytest.fixture
def client(log: LogWriter) -> Iterator[TestClient]:
    with TestClient(create_collector(log, RequestLimits(body_bytes=8 << 20), log.folder.parent / "streams")) as opened:
        yield opened


def lines(log: LogWriter) -> list[LogRecord]:
    parts = split_ranges(log.folder, 0, end_position(log.folder), 1 << 30)
    return [decode_record(text) for part in parts for _, text in read_lines(part)]


def bodies(log: LogWriter) -> list[bytes]:
    return [line.body for line in lines(log)]


def test_an_event_is_in_the_log_when_it_is_answered(client: TestClient, log: LogWriter) -> None:
    answer = client.post(LINEAGE, content=event(), headers={"user-agent": "producer/1"})
    assert (answer.status_code, answer.content, answer.headers["content-length"]) == (201, b"", "0")
    (line,) = lines(log)
    assert (line.body, line.stream, line.source) == (event(), "openlineage", "producer/1")


def test_bytes_that_come_again_are_answered_and_not_stored_twice(client: TestClient, log: LogWriter) -> None:
    assert [client.post(LINEAGE, content=event()).status_code for _ in range(3)] == [201, 201, 201]
    assert bodies(log) == [event()]


@pytest.mark.parametrize(
    ("path", "stream"),
    [
        (LINEAGE, "openlineage"),
        ("/api/v1/events/runtime", "runtime"),
        ("/api/v1/events/dataframe", "dataframe"),
    ],
)
def test_each_stream_has_its_own_endpoint(path: str, stream: str, client: TestClient, log: LogWriter) -> None:
    body = json.dumps(
        {"event_type": "x", "session_id": "s", "execution_id": "e", "timestamp": EVENT["eventTime"], **EVENT}
    )
    assert client.post(path, content=body).status_code == 201
    assert [line.stream for line in lines(log)] == [stream]


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [
        ("gzip", gzip.compress),
        ("GZIP", gzip.compress),
        ("deflate", zlib.compress),
        ("zstd", zstandard.compress),
        ("identity", bytes),
        # Members and frames may follow each other.
        ("gzip", lambda body: gzip.compress(body[:30]) + gzip.compress(body[30:])),
        ("zstd", lambda body: zstandard.compress(body[:30]) + zstandard.compress(body[30:])),
    ],
)
@pytest.mark.parametrize("body", [event(), large(2)], ids=["small", "large"])
def test_bodies_may_be_compressed(encoding: str, encode: Any, body: bytes, client: TestClient, log: LogWriter) -> None:
    answer = client.post(LINEAGE, content=encode(body), headers={"content-encoding": encoding})
    assert answer.status_code == 201
    assert bodies(log) == [body]


@pytest.mark.parametrize(
    "payload",
    [
        b"[%s, %s]" % (event(producer="a"), event(producer="b")),
        b"%s\n%s\n" % (event(producer="a"), event(producer="b")),
        b"%s\r\n\r\n%s" % (event(producer="a"), event(producer="b")),
    ],
)
def test_several_events_may_come_at_once(payload: bytes, client: TestClient, log: LogWriter) -> None:
    assert client.post(LINEAGE, content=payload).status_code == 201
    assert bodies(log) == [event(producer="a"), event(producer="b")]


def test_several_large_events_may_come_at_once(client: TestClient, log: LogWriter) -> None:
    sent = [large(1, producer=name) for name in "abc"]
    assert client.post(LINEAGE, content=b"\n".join(sent)).status_code == 201
    assert (
        client.post(LINEAGE, content=b"[%s]" % b",".join(large(1, producer=name) for name in "de")).status_code == 201
    )
    assert bodies(log) == [large(1, producer=name) for name in "abcde"]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("around", [b"", b"\r\n \t"])
def test_a_large_event_is_kept_as_a_small_one_would_be(
    indent: int | None, around: bytes, client: TestClient, log: LogWriter
) -> None:
    facets = {"plan": {"text": "é" * (1 << 20)}}
    body = json.dumps({**EVENT, "run": {"runId": "r", "facets": facets}}, indent=indent, ensure_ascii=False).encode()
    assert client.post(LINEAGE, content=around + body + around).status_code == 201
    assert client.post(LINEAGE, content=body).status_code == 201
    assert bodies(log) == [body.replace(b"\n", b" ")]
    assert list((log.folder / "spool").iterdir()) == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"job": {"namespace": "n", "name": "j"}}', "no_time"),
        (b'{"eventTime": "2026-01-01T10:00:00Z"}', "no_identity"),
        (event(schemaURL="https://openlineage.io/spec/9-0-0/OpenLineage.json"), "unknown_schema"),
        (b'{"x": "%s"}' % (b"y" * (1 << 20)), "no_time"),
    ],
)
def test_what_a_mend_could_read_is_kept_as_a_dead_letter(
    body: bytes, reason: str, client: TestClient, log: LogWriter
) -> None:
    answer = client.post(LINEAGE, content=body)
    assert (answer.status_code, answer.headers["clew-dead-letter"]) == (201, reason)
    assert bodies(log) == [body]


NEVER = {
    "nothing": (b"", "not_json"),
    "truncated": (event()[:-5], "not_json"),
    "words": (b"hello", "not_json"),
    "text behind": (event() + b"}", "not_json"),
    "bad text": (event().replace(b'"r"', b'"\xe9"'), "not_utf8"),
    "a number": (b"7", "not_an_object"),
    "deep": (b'{"x": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "too_deep"),
    "large and truncated": (large(1)[:-5], "not_json"),
    "large and bad text": (large(1).replace(b'"r"', b'"\xe9"'), "not_utf8"),
    "large and deep": (b'{"x": "%s", "y": %s}' % (b"x" * (1 << 20), b"[" * 10_000 + b"]" * 10_000), "too_deep"),
}


@pytest.mark.parametrize(("body", "reason"), NEVER.values(), ids=NEVER)
def test_what_can_never_be_an_event_is_refused(body: bytes, reason: str, client: TestClient, log: LogWriter) -> None:
    answer = client.post(LINEAGE, content=body)
    assert answer.status_code == 400
    assert reason in answer.json()["message"]
    assert bodies(log) == []
    assert client.post(LINEAGE, content=event()).status_code == 201


def test_of_several_events_the_sound_ones_are_stored(client: TestClient, log: LogWriter) -> None:
    answer = client.post(LINEAGE, content=b"[%s, 7, 8]" % event())
    assert answer.status_code == 400
    assert "event 1 and 1 more of 3" in answer.json()["message"]
    assert bodies(log) == [event()]


def test_duplicate_keys_are_kept_as_they_came(client: TestClient, log: LogWriter) -> None:
    body = event()[:-1] + b', "producer": "a", "producer": "b"}'
    assert client.post(LINEAGE, content=body).status_code == 201
    assert bodies(log) == [body]


def test_a_batch_is_answered_event_by_event(client: TestClient, log: LogWriter) -> None:
    answer = client.post(f"{LINEAGE}/batch", content=b'[%s, 7, {"x": 1}]' % event())
    assert answer.status_code == 200
    found = answer.json()
    assert found["status"] == "partial_success"
    assert found["summary"] == {"received": 3, "successful": 2, "failed": 1, "retriable": 0, "non_retriable": 1}
    assert [(one["index"], one["retriable"]) for one in found["failed_events"]] == [(1, False)]
    assert bodies(log) == [event(), b'{"x": 1}']
    assert client.post(f"{LINEAGE}/batch", content=b"[%s]" % event()).json()["status"] == "success"


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({}, large(9), 413),
        ({"content-encoding": "gzip"}, gzip.compress(large(9)), 413),
        ({"content-encoding": "zstd"}, zstandard.compress(b"0" * (1 << 30)), 413),
        # 200 KB that would be 200 MB.
        ({"content-encoding": "gzip"}, gzip.compress(b"0" * 1_000_000) * 200, 413),
        ({"content-encoding": "gzip"}, event(), 400),
        ({"content-encoding": "zstd"}, event(), 400),
        pytest.param({"content-encoding": "gzip"}, gzip.compress(event())[:-12], 400, id="a cut gzip"),
        ({"content-encoding": "zstd"}, zstandard.compress(event())[:-3], 400),
        ({"content-encoding": "br"}, event(), 415),
    ],
)
def test_a_body_that_is_too_much_or_not_what_it_says_is_refused(
    headers: dict[str, str], body: bytes, status: int, client: TestClient, log: LogWriter
) -> None:
    answer = client.post(LINEAGE, content=body, headers=headers)
    assert answer.status_code == status
    assert answer.json()["message"]
    assert bodies(log) == []


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", event(), 201),
        ("application/json; charset=utf-16", event(), 201),
        ("application/x-ndjson", event(), 201),
        ("text/plain", event(), 201),
        ("image/png", event(), 201),
        ("application/json", "é".encode("utf-16"), 400),
        ("application/x-www-form-urlencoded", b"event=%7B%7D", 400),
        ("multipart/form-data; boundary=b", b'--b\r\ncontent-disposition: form-data; name="e"\r\n\r\n{}\r\n--b--', 400),
        ("application/xml", b"<event/>", 400),
    ],
)
def test_what_a_body_is_counts_and_not_what_it_is_called(
    kind: str, body: bytes, status: int, client: TestClient, log: LogWriter
) -> None:
    answer = client.post(LINEAGE, content=body, headers={"content-type": kind})
    assert answer.status_code == status
    assert bodies(log) == ([body] if status == 201 else [])
    assert status == 201 or "Invalid event: " in answer.json()["message"]


def test_a_full_disk_is_told_and_the_log_stays_readable(
    client: TestClient, log: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> int:
        raise ClewError("The log cannot be written: No space left on device.")

    client.post(LINEAGE, content=event(producer="before"))
    with monkeypatch.context() as changed:
        changed.setattr(log, "write", full)
        answer = client.post(LINEAGE, content=event())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "No space left" in answer.json()["message"]
    assert client.post(LINEAGE, content=event()).status_code == 201
    assert bodies(log) == [event(producer="before"), event()]


def test_a_slow_disk_is_answered_in_time(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = HeldDisk(monkeypatch)
    monkeypatch.setattr(group_commit, "ACK_TIMEOUT_SECONDS", 0.1)
    answer = client.post(LINEAGE, content=event())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    disk.let_go()


def test_lists_of_events_have_a_limit_of_their_own(
    client: TestClient, log: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_MAX_IN_MEMORY_BYTES", 2 << 20)
    payload = b"[%s, %s]" % (large(1, producer="a"), large(1, producer="b"))
    assert client.post(LINEAGE, content=payload).status_code == 400
    assert client.post(f"{LINEAGE}/batch", content=payload).status_code == 413
    assert client.post(LINEAGE, content=large(3)).status_code == 201
    assert bodies(log) == [large(3)]


@pytest.mark.usefixtures("client")
def test_what_notebooks_write_is_taken_beside_it(log: LogWriter) -> None:
    session = log.folder.parent / "streams" / "session"
    session.mkdir(parents=True)
    (session / "marimo_lineage_events.jsonl").write_bytes(event() + b"\n" + event(producer="cut off")[:20])
    deadline = time.monotonic() + 20
    while not bodies(log) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [(line.body, line.source) for line in lines(log)] == [(event(), "session/marimo_lineage_events.jsonl")]


def test_it_says_that_it_is_alive(client: TestClient) -> None:
    assert client.get("/healthz").status_code == 200
    assert client.get(LINEAGE).status_code == 405
