"""Tests of ingesting the corpus of real events over HTTP."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import zstandard
from starlette.testclient import TestClient

from clew.collector.app import RequestLimits, create_collector
from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges
from clew.eventlog.writer import LogWriter

LINEAGE = "/api/v1/lineage"
ENCODINGS: dict[str, Callable[[bytes], bytes]] = {"identity": bytes, "gzip": gzip.compress, "zstd": zstandard.compress}


def is_correct_reason(reason: str, body: bytes) -> bool:
    """Whether the reason of a dead letter is correct, checked without clew's parser."""
    event = json.loads(body)
    if reason == "no_time":
        return "eventTime" not in event
    return reason == "no_identity" and not (event.get("run", {}).get("runId") and event.get("job"))


def test_accepts_all_events_of_the_corpus(shared: Path, tmp_path: Path) -> None:
    files = sorted((shared / "corpus").rglob("*.jsonl"))
    bodies = [line for file in files for line in file.read_bytes().splitlines() if line.strip()]
    assert len(bodies) > 100
    dead_letters = {}
    with LogWriter(tmp_path / "log") as log, TestClient(create_collector(log, RequestLimits(), tmp_path)) as client:
        for number, body in enumerate(bodies):
            encoding = list(ENCODINGS)[number % len(ENCODINGS)]
            headers = {"content-encoding": encoding}
            response = client.post(LINEAGE, content=ENCODINGS[encoding](body), headers=headers)
            assert response.status_code in {201, 422}, body
            if response.status_code == 422:
                dead_letters[body] = response.json()["reason"]
        batch = client.post(f"{LINEAGE}/batch", content=b"[%s]" % b",".join(bodies)).json()
    assert batch["summary"]["failed"] == len(dead_letters) < 3
    assert [body for body, reason in dead_letters.items() if not is_correct_reason(reason, body)] == []
    ranges = split_ranges(log.folder, 0, end_position(log.folder), 1 << 30)
    stored = [decode_record(text).body for range_ in ranges for _, text in read_lines(range_)]
    assert stored == list(dict.fromkeys(body.strip() for body in bodies))
