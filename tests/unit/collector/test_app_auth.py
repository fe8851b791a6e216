"""Tests of authentication, authorization and rate limits of the collector."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from clew.collector.app import RequestLimits, create_collector
from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges
from clew.eventlog.writer import LogWriter
from clew.server.auth import Authenticator, KeyFile, Scope

LINEAGE = "/api/v1/lineage"
MakeHeaders = Callable[..., dict[str, str]]


def make_event(namespace: str | None = "prod", size: int = 0, **fields: Any) -> bytes:
    job = {} if namespace is None else {"job": {"namespace": namespace, "name": "j"}}
    run = {"runId": "r", "facets": {"plan": {"text": "x" * size}}}
    return json.dumps({"eventTime": "2026-01-01T10:00:00Z", "run": run, **job, **fields}).encode()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogWriter]:
    with LogWriter(tmp_path / "log") as writer:
        yield writer


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


@pytest.fixture
def client(log: LogWriter, keys: KeyFile) -> Iterator[TestClient]:
    app = create_collector(log, RequestLimits(), log.folder.parent / "streams", Authenticator(keys))
    with TestClient(app) as test_client:
        yield test_client


@pytest.fixture
def make_headers(keys: KeyFile) -> MakeHeaders:
    def add_key(*namespaces: str, scope: Scope = Scope.WRITE) -> dict[str, str]:
        key = keys.add(f"{scope} {namespaces}", [scope], namespaces)
        return {"authorization": f"Bearer {key}"}

    return add_key


def read_bodies(log: LogWriter) -> list[bytes]:
    ranges = split_ranges(log.folder, 0, end_position(log.folder), 1 << 30)
    return [decode_record(text).body for range_ in ranges for _, text in read_lines(range_)]


def test_accepts_a_valid_key(client: TestClient, make_headers: MakeHeaders, log: LogWriter) -> None:
    assert client.post(LINEAGE, content=make_event(), headers=make_headers()).status_code == 201
    assert client.post(LINEAGE, content=make_event("x"), headers=make_headers(scope=Scope.ADMIN)).status_code == 201
    assert read_bodies(log) == [make_event(), make_event("x")]


@pytest.mark.parametrize("path", [LINEAGE, f"{LINEAGE}/batch", "/api/v1/events/runtime", "/api/v1/events/dataframe"])
def test_rejects_a_missing_or_unknown_key(path: str, client: TestClient, log: LogWriter) -> None:
    for headers in ({}, {"authorization": "Bearer clew_1_2"}):
        response = client.post(path, content=make_event(), headers=headers)
        assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
        assert "key" in response.json()["message"]
    assert read_bodies(log) == []


def test_rejects_a_key_without_the_write_scope(client: TestClient, make_headers: MakeHeaders, log: LogWriter) -> None:
    response = client.post(LINEAGE, content=make_event(), headers=make_headers(scope=Scope.READ))
    assert (response.status_code, "lacks the scope 'write'" in response.json()["message"]) == (403, True)
    assert read_bodies(log) == []


def test_rejects_a_revoked_key(client: TestClient, keys: KeyFile) -> None:
    headers = {"authorization": f"Bearer {keys.add('airflow', [Scope.WRITE])}"}
    assert client.post(LINEAGE, content=make_event(), headers=headers).status_code == 201
    keys.revoke("airflow")
    assert client.post(LINEAGE, content=make_event(), headers=headers).status_code == 401


NAMESPACE_CASES: dict[str, tuple[bytes, bool]] = {
    "own namespace": (make_event("prod"), True),
    "namespace with the prefix": (make_event("prod.eu"), True),
    "other namespace": (make_event("test"), False),
    "no namespace": (make_event(None), False),
    "last of two equal keys": (make_event("prod")[:-1] + b', "job": {"namespace": "test", "name": "j"}}', False),
    "own dataset": (make_event(None, run=None, dataset={"namespace": "prod", "name": "d"}), True),
    "other dataset": (make_event(None, run=None, dataset={"namespace": "test", "name": "d"}), False),
    "inputs are not checked": (make_event("prod", inputs=[{"namespace": "test", "name": "d"}]), True),
    "job is not an object": (make_event(None, job=7), False),
    "dead letter": (b'{"job": {"namespace": "prod", "name": "j"}}', True),
    "other dead letter": (b'{"job": {"namespace": "test", "name": "j"}}', False),
    "large": (make_event("prod", 1 << 20), True),
    "large, other namespace": (make_event("test", 1 << 20), False),
}


@pytest.mark.parametrize(("body", "is_allowed"), NAMESPACE_CASES.values(), ids=NAMESPACE_CASES)
def test_limits_a_key_to_namespaces(
    body: bytes, is_allowed: bool, client: TestClient, make_headers: MakeHeaders, log: LogWriter
) -> None:
    response = client.post(LINEAGE, content=body, headers=make_headers("prod"))
    assert response.status_code in ({201, 422} if is_allowed else {403})
    assert read_bodies(log) == ([body] if is_allowed else [])
    assert is_allowed or "limited to namespaces that begin with 'prod'" in response.json()["message"]


def test_stores_only_events_of_allowed_namespaces(
    client: TestClient, make_headers: MakeHeaders, log: LogWriter
) -> None:
    headers, payload = make_headers("prod"), b"[%s, %s, 7]" % (make_event("prod"), make_event("test"))
    response = client.post(LINEAGE, content=payload, headers=headers)
    assert (response.status_code, response.json()["message"][:27]) == (403, "event 1 and 1 more of 3: Th")
    failed = client.post(f"{LINEAGE}/batch", content=payload, headers=headers).json()["failed_events"]
    assert [error["index"] for error in failed] == [1, 2]
    assert "may not send the namespace 'test'" in failed[0]["reason"]
    assert read_bodies(log) == [make_event("prod")]


def test_rejects_notebook_events_for_keys_with_namespaces(client: TestClient, make_headers: MakeHeaders) -> None:
    body = b'{"event_type": "x", "session_id": "s", "execution_id": "e", "timestamp": "2026-01-01T10:00:00Z"}'
    assert client.post("/api/v1/events/runtime", content=body, headers=make_headers("prod")).status_code == 403
    assert client.post("/api/v1/events/runtime", content=body, headers=make_headers()).status_code == 201


def test_health_is_public_and_metrics_need_the_read_scope(client: TestClient, make_headers: MakeHeaders) -> None:
    assert [client.get(path).status_code for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 401]
    assert client.get("/metrics", headers=make_headers()).status_code == 403
    assert client.get("/metrics", headers=make_headers(scope=Scope.READ)).status_code == 200


def test_rate_limit_per_key(log: LogWriter, keys: KeyFile, make_headers: MakeHeaders) -> None:
    app = create_collector(
        log, RequestLimits(requests_per_second=0.5), log.folder.parent / "streams", Authenticator(keys)
    )
    first, second = make_headers(), make_headers("prod")
    with TestClient(app) as client:
        assert client.post(LINEAGE, content=make_event("prod.1"), headers=first).status_code == 201
        rejected = client.post(LINEAGE, content=make_event("prod.2"), headers=first)
        assert (rejected.status_code, rejected.headers["retry-after"]) == (503, "2")
        assert "sent more than 0.5 requests per second" in rejected.json()["message"]
        assert client.post(LINEAGE, content=make_event("prod.2"), headers=second).status_code == 201


def test_rate_limit_per_address_without_keys(log: LogWriter) -> None:
    with TestClient(
        create_collector(log, RequestLimits(requests_per_second=1), log.folder.parent / "streams")
    ) as client:
        responses = [client.post(LINEAGE, content=make_event(f"n{number}")) for number in range(3)]
        assert [response.status_code for response in responses].count(503) >= 1
        assert "testclient sent more than 1 requests per second" in responses[-1].json()["message"]
