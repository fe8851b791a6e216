"""Tests of the collector's metrics, readiness endpoint and log lines."""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from tests.support.paths import DOCS

from clew.collector.app import RequestLimits, create_collector
from clew.errors import ClewError
from clew.eventlog.writer import LogWriter

LINEAGE = "/api/v1/lineage"
EVENT = {"eventTime": "2026-01-01T10:00:00Z", "run": {"runId": "r"}, "job": {"namespace": "secret", "name": "hidden"}}
Usage = namedtuple("Usage", "total used free")  # noqa: PYI024


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogWriter]:
    with LogWriter(tmp_path / "log") as writer:
        yield writer


@pytest.fixture
def client(log: LogWriter) -> Iterator[TestClient]:
    with TestClient(create_collector(log, RequestLimits(), log.folder.parent / "streams")) as test_client:
        yield test_client


def read_metrics(client: TestClient) -> dict[str, float]:
    """Value of each sample, by name and labels."""
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    return {
        " ".join((sample.name, *(value for _, value in sorted(sample.labels.items())))): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def test_counts_events_by_outcome(client: TestClient) -> None:
    body = json.dumps(EVENT)
    client.post(LINEAGE, content=body)
    client.post(LINEAGE, content=b'{"job": {"namespace": "secret", "name": "hidden"}}')
    client.post(LINEAGE, content=b"no json")
    client.post(f"{LINEAGE}/batch", content=f"[{body.replace('hidden', 'other')}, 7]")
    large = json.dumps({**EVENT, "producer": "x" * (1 << 20)})
    client.post(LINEAGE, content=large)
    metrics = read_metrics(client)
    assert metrics["clew_collector_events_total stored openlineage"] == 3
    assert metrics["clew_collector_events_total dead_letter openlineage"] == 1
    assert metrics["clew_collector_events_total failed openlineage"] == 2
    assert metrics[f"clew_collector_responses_total {LINEAGE} 201"] == 2
    assert metrics[f"clew_collector_responses_total {LINEAGE} 422"] == 1
    assert metrics[f"clew_collector_responses_total {LINEAGE} 400"] == 1
    assert metrics[f"clew_collector_responses_total {LINEAGE}/batch 200"] == 1
    assert metrics["clew_collector_sync_seconds_count"] == 4
    assert metrics["clew_collector_commit_events_sum"] == 4
    assert metrics["clew_collector_response_seconds_count"] >= 5
    assert metrics["clew_collector_event_bytes_total"] > len(large)
    assert metrics["clew_collector_pending_bytes"] == 0
    assert metrics["clew_collector_free_bytes"] > 0


def test_every_metric_is_documented(client: TestClient) -> None:
    families = text_string_to_metric_families(client.get("/metrics").text)
    names = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in families
        if not family.name.endswith("_created")
    }
    page = (DOCS / "send-events.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(clew_\w+)` \|", page, re.MULTILINE)) == names


def test_labels_contain_no_names_from_clients(client: TestClient) -> None:
    client.post(LINEAGE, content=json.dumps(EVENT), headers={"user-agent": "hidden"})
    client.post("/api/v1/hidden", content=b"")
    text = client.get("/metrics").text
    assert "hidden" not in text
    assert "secret" not in text


def test_is_ready_until_the_disk_is_full(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.get("/readyz").status_code == 200
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 30, 1 << 30, 5 << 20))
    response = client.get("/readyz")
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert "Only 5 MB are free" in response.json()["message"]
    assert client.get("/healthz").status_code == 200


def test_is_not_ready_after_shutdown(log: LogWriter) -> None:
    with TestClient(create_collector(log, RequestLimits(), log.folder.parent / "streams")) as client:
        assert client.get("/readyz").status_code == 200
    assert client.get("/readyz").status_code == 503


def test_logs_rejections_with_the_client_once(
    client: TestClient, log: LogWriter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        client.post(LINEAGE, content=b"no json", headers={"user-agent": "a producer"})
    (record,) = caplog.records
    assert (record.levelno, "Invalid event: not_json" in record.getMessage()) == (logging.WARNING, True)
    assert getattr(record, "fields", {}) == {
        "path": LINEAGE,
        "status": 400,
        "address": "testclient",
        "user_agent": "a producer",
        "suppressed": 0,
    }

    def raise_disk_full(_: object) -> int:
        raise ClewError("No space left on device.")

    monkeypatch.setattr(log, "write", raise_disk_full)
    client.post(LINEAGE, content=json.dumps(EVENT))
    assert caplog.records[-1].levelno == logging.ERROR
    assert read_metrics(client)["clew_collector_sync_errors_total"] == 1
