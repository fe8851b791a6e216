"""What a collector tells those who watch over it: metrics, readiness, lines in its log."""

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
    with LogWriter(tmp_path / "log") as opened:
        yield opened


@pytest.fixture
def client(log: LogWriter) -> Iterator[TestClient]:
    with TestClient(create_collector(log, RequestLimits(), log.folder.parent / "streams")) as opened:
        yield opened


def figures(client: TestClient) -> dict[str, float]:
    """Each value by its name and labels."""
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        " ".join((sample.name, *(value for _, value in sorted(sample.labels.items())))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_what_came_and_what_became_of_it_is_counted(client: TestClient) -> None:
    body = json.dumps(EVENT)
    client.post(LINEAGE, content=body)
    client.post(LINEAGE, content=b'{"job": {"namespace": "secret", "name": "hidden"}}')
    client.post(LINEAGE, content=b"no json")
    client.post(f"{LINEAGE}/batch", content=f"[{body.replace('hidden', 'other')}, 7]")
    large = json.dumps({**EVENT, "producer": "x" * (1 << 20)})
    client.post(LINEAGE, content=large)
    found = figures(client)
    assert found["clew_collector_events_total stored openlineage"] == 3
    assert found["clew_collector_events_total dead_letter openlineage"] == 1
    assert found["clew_collector_events_total failed openlineage"] == 2
    assert found[f"clew_collector_responses_total {LINEAGE} 201"] == 3
    assert found[f"clew_collector_responses_total {LINEAGE} 400"] == 1
    assert found[f"clew_collector_responses_total {LINEAGE}/batch 200"] == 1
    assert found["clew_collector_sync_seconds_count"] == 4
    assert found["clew_collector_commit_events_sum"] == 4
    assert found["clew_collector_response_seconds_count"] >= 5
    assert found["clew_collector_event_bytes_total"] > len(large)
    assert found["clew_collector_pending_bytes"] == 0
    assert found["clew_collector_free_bytes"] > 0


def test_every_figure_is_documented(client: TestClient) -> None:
    families = text_string_to_metric_families(client.get("/metrics").text)
    told = {
        f"{one.name}_total" if one.type == "counter" else one.name
        for one in families
        if not one.name.endswith("_created")
    }
    page = (DOCS / "send-events.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(clew_\w+)` \|", page, re.MULTILINE)) == told


def test_no_name_that_a_sender_chose_is_a_label(client: TestClient) -> None:
    client.post(LINEAGE, content=json.dumps(EVENT), headers={"user-agent": "hidden"})
    client.post("/api/v1/hidden", content=b"")
    text = client.get("/metrics").text
    assert "hidden" not in text
    assert "secret" not in text


def test_it_is_ready_until_the_disk_is_full(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.get("/readyz").status_code == 200
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 30, 1 << 30, 5 << 20))
    answer = client.get("/readyz")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "Only 5 MB are free" in answer.json()["message"]
    assert client.get("/healthz").status_code == 200


def test_it_is_not_ready_when_it_has_stopped(log: LogWriter) -> None:
    with TestClient(create_collector(log, RequestLimits(), log.folder.parent / "streams")) as client:
        assert client.get("/readyz").status_code == 200
    assert client.get("/readyz").status_code == 503


def test_refusals_are_told_with_their_sender_but_not_each(
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

    def full(_: object) -> int:
        raise ClewError("No space left on device.")

    monkeypatch.setattr(log, "write", full)
    client.post(LINEAGE, content=json.dumps(EVENT))
    assert caplog.records[-1].levelno == logging.ERROR
    assert figures(client)["clew_collector_sync_errors_total"] == 1
