"""Who may send what to a collector, and how often."""

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
Bearer = Callable[..., dict[str, str]]


def event(namespace: str | None = "prod", size: int = 0, **more: Any) -> bytes:
    job = {} if namespace is None else {"job": {"namespace": namespace, "name": "j"}}
    run = {"runId": "r", "facets": {"plan": {"text": "x" * size}}}
    return json.dumps({"eventTime": "2026-01-01T10:00:00Z", "run": run, **job, **more}).encode()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogWriter]:
    with LogWriter(tmp_path / "log") as opened:
        yield opened


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


@pytest.fixture
def client(log: LogWriter, keys: KeyFile) -> Iterator[TestClient]:
    app = create_collector(log, RequestLimits(), log.folder.parent / "streams", Authenticator(keys))
    with TestClient(app) as opened:
        yield opened


@pytest.fixture
def bearer(keys: KeyFile) -> Bearer:
    def headers(*namespaces: str, scope: Scope = Scope.WRITE) -> dict[str, str]:
        key = keys.add(f"{scope} {namespaces}", [scope], namespaces)
        return {"authorization": f"Bearer {key}"}

    return headers


def bodies(log: LogWriter) -> list[bytes]:
    parts = split_ranges(log.folder, 0, end_position(log.folder), 1 << 30)
    return [decode_record(text).body for part in parts for _, text in read_lines(part)]


def test_who_has_a_key_may_send(client: TestClient, bearer: Bearer, log: LogWriter) -> None:
    assert client.post(LINEAGE, content=event(), headers=bearer()).status_code == 201
    assert client.post(LINEAGE, content=event("x"), headers=bearer(scope=Scope.ADMIN)).status_code == 201
    assert bodies(log) == [event(), event("x")]


@pytest.mark.parametrize("path", [LINEAGE, f"{LINEAGE}/batch", "/api/v1/events/runtime", "/api/v1/events/dataframe"])
def test_who_has_none_may_not(path: str, client: TestClient, log: LogWriter) -> None:
    for headers in ({}, {"authorization": "Bearer clew_1_2"}):
        answer = client.post(path, content=event(), headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert "key" in answer.json()["message"]
    assert bodies(log) == []


def test_a_key_without_the_scope_may_not(client: TestClient, bearer: Bearer, log: LogWriter) -> None:
    answer = client.post(LINEAGE, content=event(), headers=bearer(scope=Scope.READ))
    assert (answer.status_code, "lacks the scope 'write'" in answer.json()["message"]) == (403, True)
    assert bodies(log) == []


def test_a_revoked_key_lets_in_no_more(client: TestClient, keys: KeyFile) -> None:
    headers = {"authorization": f"Bearer {keys.add('airflow', [Scope.WRITE])}"}
    assert client.post(LINEAGE, content=event(), headers=headers).status_code == 201
    keys.revoke("airflow")
    assert client.post(LINEAGE, content=event(), headers=headers).status_code == 401


REACHED: dict[str, tuple[bytes, bool]] = {
    "its own": (event("prod"), True),
    "below it": (event("prod.eu"), True),
    "another": (event("test"), False),
    "none": (event(None), False),
    "the later of two keys counts": (event("prod")[:-1] + b', "job": {"namespace": "test", "name": "j"}}', False),
    "a dataset's own": (event(None, run=None, dataset={"namespace": "prod", "name": "d"}), True),
    "another dataset's": (event(None, run=None, dataset={"namespace": "test", "name": "d"}), False),
    "inputs are not its own": (event("prod", inputs=[{"namespace": "test", "name": "d"}]), True),
    "a job that is no object": (event(None, job=7), False),
    "a dead letter": (b'{"job": {"namespace": "prod", "name": "j"}}', True),
    "another's dead letter": (b'{"job": {"namespace": "test", "name": "j"}}', False),
    "large": (event("prod", 1 << 20), True),
    "large, another": (event("test", 1 << 20), False),
}


@pytest.mark.parametrize(("body", "is_reached"), REACHED.values(), ids=REACHED)
def test_a_key_may_end_at_namespaces(
    body: bytes, is_reached: bool, client: TestClient, bearer: Bearer, log: LogWriter
) -> None:
    answer = client.post(LINEAGE, content=body, headers=bearer("prod"))
    assert answer.status_code == (201 if is_reached else 403)
    assert bodies(log) == ([body] if is_reached else [])
    assert is_reached or "limited to namespaces that begin with 'prod'" in answer.json()["message"]


def test_of_several_events_those_within_reach_are_stored(client: TestClient, bearer: Bearer, log: LogWriter) -> None:
    headers, payload = bearer("prod"), b"[%s, %s, 7]" % (event("prod"), event("test"))
    answer = client.post(LINEAGE, content=payload, headers=headers)
    assert (answer.status_code, answer.json()["message"][:27]) == (403, "event 1 and 1 more of 3: Th")
    failed = client.post(f"{LINEAGE}/batch", content=payload, headers=headers).json()["failed_events"]
    assert [one["index"] for one in failed] == [1, 2]
    assert "may not send the namespace 'test'" in failed[0]["reason"]
    assert bodies(log) == [event("prod")]


def test_notebooks_name_no_namespace(client: TestClient, bearer: Bearer) -> None:
    body = b'{"event_type": "x", "session_id": "s", "execution_id": "e", "timestamp": "2026-01-01T10:00:00Z"}'
    assert client.post("/api/v1/events/runtime", content=body, headers=bearer("prod")).status_code == 403
    assert client.post("/api/v1/events/runtime", content=body, headers=bearer()).status_code == 201


def test_whether_it_lives_may_be_asked_by_everyone_and_figures_by_readers(client: TestClient, bearer: Bearer) -> None:
    assert [client.get(path).status_code for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 401]
    assert client.get("/metrics", headers=bearer()).status_code == 403
    assert client.get("/metrics", headers=bearer(scope=Scope.READ)).status_code == 200


def test_each_key_has_a_rate_of_its_own(log: LogWriter, keys: KeyFile, bearer: Bearer) -> None:
    app = create_collector(
        log, RequestLimits(requests_per_second=0.5), log.folder.parent / "streams", Authenticator(keys)
    )
    one, other = bearer(), bearer("prod")
    with TestClient(app) as client:
        assert client.post(LINEAGE, content=event("prod.1"), headers=one).status_code == 201
        refused = client.post(LINEAGE, content=event("prod.2"), headers=one)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
        assert "sent more than 0.5 requests per second" in refused.json()["message"]
        assert client.post(LINEAGE, content=event("prod.2"), headers=other).status_code == 201


def test_without_keys_each_address_has_a_rate(log: LogWriter) -> None:
    with TestClient(
        create_collector(log, RequestLimits(requests_per_second=1), log.folder.parent / "streams")
    ) as client:
        answers = [client.post(LINEAGE, content=event(f"n{number}")) for number in range(3)]
        assert [answer.status_code for answer in answers].count(503) >= 1
        assert "testclient sent more than 1 requests per second" in answers[-1].json()["message"]
