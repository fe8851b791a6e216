"""Tests of the collector's HTTP endpoints."""

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
from tests.support.disks import BlockedDisk
from tests.support.documented_events import DOCUMENTED_EVENTS

from clew.collector import app, group_commit
from clew.collector.app import RequestLimits, create_collector
from clew.errors import ClewError
from clew.eventlog.segments import LogRecord, decode_record, end_position, read_lines, split_ranges
from clew.eventlog.writer import LogWriter

EVENT = {"eventTime": "2026-01-01T10:00:00Z", "run": {"runId": "r"}, "job": {"namespace": "n", "name": "j"}}
LINEAGE = "/api/v1/lineage"


def make_event(**fields: Any) -> bytes:
    return json.dumps({**EVENT, **fields}).encode()


def make_large_event(megabytes: int, **fields: Any) -> bytes:
    return make_event(run={"runId": "r", "facets": {"plan": {"text": "x" * (megabytes << 20)}}}, **fields)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogWriter]:
    with LogWriter(tmp_path / "log") as writer:
        yield writer


@pytest.fixture
def client(log: LogWriter) -> Iterator[TestClient]:
    with TestClient(
        create_collector(log, RequestLimits(body_bytes=8 << 20), log.folder.parent / "streams")
    ) as test_client:
        yield test_client


def read_records(log: LogWriter) -> list[LogRecord]:
    ranges = split_ranges(log.folder, 0, end_position(log.folder), 1 << 30)
    return [decode_record(text) for range_ in ranges for _, text in read_lines(range_)]


def read_bodies(log: LogWriter) -> list[bytes]:
    return [record.body for record in read_records(log)]


def test_stores_an_event_before_the_response(client: TestClient, log: LogWriter) -> None:
    response = client.post(LINEAGE, content=make_event(), headers={"user-agent": "producer/1"})
    assert (response.status_code, response.content, response.headers["content-length"]) == (201, b"", "0")
    (record,) = read_records(log)
    assert (record.body, record.stream, record.source) == (make_event(), "openlineage", "producer/1")


def test_acknowledges_duplicate_bytes_without_storing_them_again(client: TestClient, log: LogWriter) -> None:
    assert [client.post(LINEAGE, content=make_event()).status_code for _ in range(3)] == [201, 201, 201]
    assert read_bodies(log) == [make_event()]


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
    assert [record.stream for record in read_records(log)] == [stream]


@pytest.mark.parametrize(("stream", "event"), DOCUMENTED_EVENTS.items())
def test_stores_documented_events(stream: str, event: dict[str, Any], client: TestClient, log: LogWriter) -> None:
    path = LINEAGE if stream == "openlineage" else f"/api/v1/events/{stream}"
    assert client.post(path, json=event).status_code == 201
    assert [(record.stream, json.loads(record.body)) for record in read_records(log)] == [(stream, event)]


def test_stores_documented_events_of_all_streams_by_one_endpoint(client: TestClient, log: LogWriter) -> None:
    for event in DOCUMENTED_EVENTS.values():
        assert client.post(LINEAGE, json=event).status_code == 201
    late = [{**event, "session_id": "later"} for event in DOCUMENTED_EVENTS.values()]
    assert client.post(f"{LINEAGE}/batch", json=late).json()["status"] == "success"
    large = {**DOCUMENTED_EVENTS["dataframe"], "operation_code": "x" * (3 << 20)}
    assert client.post(LINEAGE, json=large).status_code == 201
    assert [record.stream for record in read_records(log)] == [*DOCUMENTED_EVENTS, *DOCUMENTED_EVENTS, "dataframe"]


def test_the_reason_of_an_invalid_notebook_event_is_that_of_its_stream(client: TestClient) -> None:
    response = client.post(LINEAGE, json={"event_type": "dataframe_lineage", "session_id": "s"})
    assert (response.status_code, response.json()["reason"]) == (422, "no_identity")
    assert "execution_id" in response.json()["detail"]


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [
        ("gzip", gzip.compress),
        ("GZIP", gzip.compress),
        ("deflate", zlib.compress),
        ("zstd", zstandard.compress),
        ("identity", bytes),
        # Several gzip members and zstd frames.
        ("gzip", lambda body: gzip.compress(body[:30]) + gzip.compress(body[30:])),
        ("zstd", lambda body: zstandard.compress(body[:30]) + zstandard.compress(body[30:])),
    ],
)
@pytest.mark.parametrize("body", [make_event(), make_large_event(2)], ids=["small", "large"])
def test_accepts_compressed_bodies(encoding: str, encode: Any, body: bytes, client: TestClient, log: LogWriter) -> None:
    response = client.post(LINEAGE, content=encode(body), headers={"content-encoding": encoding})
    assert response.status_code == 201
    assert read_bodies(log) == [body]


@pytest.mark.parametrize(
    "payload",
    [
        b"[%s, %s]" % (make_event(producer="a"), make_event(producer="b")),
        b"%s\n%s\n" % (make_event(producer="a"), make_event(producer="b")),
        b"%s\r\n\r\n%s" % (make_event(producer="a"), make_event(producer="b")),
    ],
)
def test_accepts_several_events_in_one_request(payload: bytes, client: TestClient, log: LogWriter) -> None:
    assert client.post(LINEAGE, content=payload).status_code == 201
    assert read_bodies(log) == [make_event(producer="a"), make_event(producer="b")]


def test_accepts_several_large_events_in_one_request(client: TestClient, log: LogWriter) -> None:
    events = [make_large_event(1, producer=name) for name in "abc"]
    assert client.post(LINEAGE, content=b"\n".join(events)).status_code == 201
    assert (
        client.post(
            LINEAGE, content=b"[%s]" % b",".join(make_large_event(1, producer=name) for name in "de")
        ).status_code
        == 201
    )
    assert read_bodies(log) == [make_large_event(1, producer=name) for name in "abcde"]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("whitespace", [b"", b"\r\n \t"])
def test_stores_a_large_event_like_a_small_one(
    indent: int | None, whitespace: bytes, client: TestClient, log: LogWriter
) -> None:
    facets = {"plan": {"text": "é" * (1 << 20)}}
    body = json.dumps({**EVENT, "run": {"runId": "r", "facets": facets}}, indent=indent, ensure_ascii=False).encode()
    assert client.post(LINEAGE, content=whitespace + body + whitespace).status_code == 201
    assert client.post(LINEAGE, content=body).status_code == 201
    assert read_bodies(log) == [body.replace(b"\n", b" ")]
    assert list((log.folder / "spool").iterdir()) == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"job": {"namespace": "n", "name": "j"}}', "no_time"),
        (b'{"eventTime": "2026-01-01T10:00:00Z"}', "no_identity"),
        (make_event(schemaURL="https://openlineage.io/spec/9-0-0/OpenLineage.json"), "unknown_schema"),
        (b'{"x": "%s"}' % (b"y" * (1 << 20)), "no_time"),
        (b"{}", "no_time"),
        (make_event(run=None, eventType="START"), "no_identity"),
        (make_event(job=None), "no_identity"),
        (make_event(job={"namespace": "", "name": "j"}), "invalid_name"),
        (make_event(job={"namespace": "n", "name": ""}), "invalid_name"),
        (make_event(inputs=[{"namespace": "n", "name": ""}]), "invalid_name"),
        (make_event(eventTime=None), "no_time"),
        (make_event(eventTime="noon"), "no_time"),
    ],
)
def test_responds_422_to_an_invalid_event_and_stores_it_as_a_dead_letter(
    body: bytes, reason: str, client: TestClient, log: LogWriter
) -> None:
    response = client.post(LINEAGE, content=body)
    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")
    problem = response.json()
    assert (problem["status"], problem["reason"]) == (422, reason)
    assert problem["detail"].startswith(f"Invalid event: {reason}: ")
    assert read_bodies(log) == [body]


def test_can_accept_invalid_events(log: LogWriter) -> None:
    collector = create_collector(log, RequestLimits(accepts_invalid=True), log.folder.parent / "streams")
    with TestClient(collector) as client:
        response = client.post(LINEAGE, content=b'{"x": 1}')
        batch = client.post(f"{LINEAGE}/batch", content=b'[{"x": 2}, 7]').json()
    assert (response.status_code, response.headers["clew-dead-letter"]) == (201, "no_time")
    assert [failed["index"] for failed in batch["failed_events"]] == [1]
    assert read_bodies(log) == [b'{"x": 1}', b'{"x": 2}']


REJECTED_BODIES = {
    "empty": (b"", "not_json"),
    "truncated": (make_event()[:-5], "not_json"),
    "plain text": (b"hello", "not_json"),
    "trailing text": (make_event() + b"}", "not_json"),
    "invalid UTF-8": (make_event().replace(b'"r"', b'"\xe9"'), "not_utf8"),
    "number": (b"7", "not_an_object"),
    "deeply nested": (b'{"x": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "too_deep"),
    "large, truncated": (make_large_event(1)[:-5], "not_json"),
    "large, invalid UTF-8": (make_large_event(1).replace(b'"r"', b'"\xe9"'), "not_utf8"),
    "large, deeply nested": (b'{"x": "%s", "y": %s}' % (b"x" * (1 << 20), b"[" * 10_000 + b"]" * 10_000), "too_deep"),
}


@pytest.mark.parametrize(("body", "reason"), REJECTED_BODIES.values(), ids=REJECTED_BODIES)
def test_rejects_bodies_that_are_not_json_objects(body: bytes, reason: str, client: TestClient, log: LogWriter) -> None:
    response = client.post(LINEAGE, content=body)
    assert response.status_code == 400
    assert reason in response.json()["message"]
    assert read_bodies(log) == []
    assert client.post(LINEAGE, content=make_event()).status_code == 201


ANNOTATION = {"namespace": "clew", "name": "notes", "facets": {'clew_annotation["hidden","job","n","j"]': {}}}
PLANTED = {
    "dataset event": json.dumps({"eventTime": EVENT["eventTime"], "dataset": ANNOTATION}).encode(),
    "input": make_event(inputs=[{"namespace": "n", "name": "i"}, ANNOTATION]),
    "output": make_event(outputs=[ANNOTATION]),
    "escaped": make_event(outputs=[ANNOTATION]).replace(b"notes", b"n\\u006ftes"),
    "duplicate keys": make_event(outputs=[ANNOTATION]).replace(b'"outputs"', b'"outputs": [], "outputs"'),
    "other shape": make_event(eventType=7, outputs=[ANNOTATION]),
    "invalid": make_event(eventTime="noon", outputs=[ANNOTATION]),
    "future schema": make_event(schemaURL="https://openlineage.io/spec/9-0-0/OpenLineage.json", inputs=[ANNOTATION]),
    "large": make_large_event(1, outputs=[ANNOTATION]),
    "large, invalid": make_large_event(1, eventTime="noon", outputs=[ANNOTATION]),
}


@pytest.mark.parametrize("body", PLANTED.values(), ids=PLANTED)
@pytest.mark.parametrize("form", [b"%s", b"[%s]", b"%s\n%s"])
@pytest.mark.parametrize("accepts_invalid", [False, True])
def test_never_stores_an_event_with_annotations(
    body: bytes,
    form: bytes,
    accepts_invalid: bool,
    log: LogWriter,
) -> None:
    payload = form % ((body,) * form.count(b"%s"))
    limits = RequestLimits(accepts_invalid=accepts_invalid)
    with TestClient(create_collector(log, limits, log.folder.parent / "streams")) as client:
        response = client.post(LINEAGE, content=payload)
        assert (response.status_code, "reserved_name" in response.text) == (400, True)
        if form != b"%s":
            assert client.post(f"{LINEAGE}/batch", content=payload).json()["summary"]["successful"] == 0
    assert read_bodies(log) == []


def test_stores_the_valid_events_of_a_request(client: TestClient, log: LogWriter) -> None:
    response = client.post(LINEAGE, content=b"[%s, 7, 8]" % make_event())
    assert response.status_code == 400
    assert "event 1 and 1 more of 3" in response.json()["message"]
    assert read_bodies(log) == [make_event()]


def test_lists_the_invalid_events_of_a_request(client: TestClient, log: LogWriter) -> None:
    response = client.post(LINEAGE, content=b'[%s, {"x": 1}, {"x": 2}]' % make_event())
    assert response.status_code == 422
    assert [failed["index"] for failed in response.json()["failed_events"]] == [1, 2]
    assert "event 1 and 1 more of 3" in response.json()["detail"]
    assert read_bodies(log) == [make_event(), b'{"x": 1}', b'{"x": 2}']


def test_stores_duplicate_keys_unchanged(client: TestClient, log: LogWriter) -> None:
    body = make_event()[:-1] + b', "producer": "a", "producer": "b"}'
    assert client.post(LINEAGE, content=body).status_code == 201
    assert read_bodies(log) == [body]


def test_batch_response_has_a_result_per_event(client: TestClient, log: LogWriter) -> None:
    response = client.post(f"{LINEAGE}/batch", content=b'[%s, 7, {"x": 1}]' % make_event())
    assert response.status_code == 200
    result = response.json()
    assert result["status"] == "partial_success"
    assert result["summary"] == {"received": 3, "successful": 1, "failed": 2, "retriable": 0, "non_retriable": 2}
    assert [(failed["index"], failed["retriable"]) for failed in result["failed_events"]] == [(1, False), (2, False)]
    assert "no_time" in result["failed_events"][1]["reason"]
    assert read_bodies(log) == [make_event(), b'{"x": 1}']
    assert client.post(f"{LINEAGE}/batch", content=b"[%s]" % make_event()).json()["status"] == "success"


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({}, make_large_event(9), 413),
        ({"content-encoding": "gzip"}, gzip.compress(make_large_event(9)), 413),
        ({"content-encoding": "zstd"}, zstandard.compress(b"0" * (1 << 30)), 413),
        # 200 KB that decompress to 200 MB.
        ({"content-encoding": "gzip"}, gzip.compress(b"0" * 1_000_000) * 200, 413),
        ({"content-encoding": "gzip"}, make_event(), 400),
        ({"content-encoding": "zstd"}, make_event(), 400),
        pytest.param({"content-encoding": "gzip"}, gzip.compress(make_event())[:-12], 400, id="truncated gzip"),
        ({"content-encoding": "zstd"}, zstandard.compress(make_event())[:-3], 400),
        ({"content-encoding": "br"}, make_event(), 415),
    ],
)
def test_rejects_oversized_and_badly_encoded_bodies(
    headers: dict[str, str], body: bytes, status: int, client: TestClient, log: LogWriter
) -> None:
    response = client.post(LINEAGE, content=body, headers=headers)
    assert response.status_code == status
    assert response.json()["message"]
    assert read_bodies(log) == []


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("application/json", make_event(), 201),
        ("application/json; charset=utf-16", make_event(), 201),
        ("application/x-ndjson", make_event(), 201),
        ("text/plain", make_event(), 201),
        ("image/png", make_event(), 201),
        ("application/json", "é".encode("utf-16"), 400),
        ("application/x-www-form-urlencoded", b"event=%7B%7D", 400),
        ("multipart/form-data; boundary=b", b'--b\r\ncontent-disposition: form-data; name="e"\r\n\r\n{}\r\n--b--', 400),
        ("application/xml", b"<event/>", 400),
    ],
)
def test_ignores_the_content_type(
    content_type: str, body: bytes, status: int, client: TestClient, log: LogWriter
) -> None:
    response = client.post(LINEAGE, content=body, headers={"content-type": content_type})
    assert response.status_code == status
    assert read_bodies(log) == ([body] if status == 201 else [])
    assert status == 201 or "Invalid event: " in response.json()["message"]


def test_reports_a_full_disk_and_recovers(client: TestClient, log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_disk_full(_: object) -> int:
        raise ClewError("The log cannot be written: No space left on device.")

    client.post(LINEAGE, content=make_event(producer="before"))
    with monkeypatch.context() as patch:
        patch.setattr(log, "write", raise_disk_full)
        response = client.post(LINEAGE, content=make_event())
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert "No space left" in response.json()["message"]
    assert client.post(LINEAGE, content=make_event()).status_code == 201
    assert read_bodies(log) == [make_event(producer="before"), make_event()]


def test_responds_503_on_an_unexpected_exception(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def raise_key_error(*_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(app, "check_event", raise_key_error)
    response = client.post(LINEAGE, content=make_event())
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert "raise_key_error" in caplog.text


def test_responds_503_when_the_disk_is_slow(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = BlockedDisk(monkeypatch)
    monkeypatch.setattr(group_commit, "ACK_TIMEOUT_SECONDS", 0.1)
    response = client.post(LINEAGE, content=make_event())
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    disk.release()


def test_lists_of_events_have_a_separate_size_limit(
    client: TestClient, log: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_MAX_IN_MEMORY_BYTES", 2 << 20)
    payload = b"[%s, %s]" % (make_large_event(1, producer="a"), make_large_event(1, producer="b"))
    assert client.post(LINEAGE, content=payload).status_code == 400
    assert client.post(f"{LINEAGE}/batch", content=payload).status_code == 413
    assert client.post(LINEAGE, content=make_large_event(3)).status_code == 201
    assert read_bodies(log) == [make_large_event(3)]


@pytest.mark.usefixtures("client")
def test_imports_notebook_streams_in_the_background(log: LogWriter) -> None:
    session = log.folder.parent / "streams" / "session"
    session.mkdir(parents=True)
    (session / "marimo_lineage_events.jsonl").write_bytes(make_event() + b"\n" + make_event(producer="cut off")[:20])
    deadline = time.monotonic() + 20
    while not read_bodies(log) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [(record.body, record.source) for record in read_records(log)] == [
        (make_event(), "session/marimo_lineage_events.jsonl")
    ]


def test_healthz(client: TestClient) -> None:
    assert client.get("/healthz").status_code == 200
    assert client.get(LINEAGE).status_code == 405
