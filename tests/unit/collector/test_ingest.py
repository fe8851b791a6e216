"""Events that real producers wrote, sent over HTTP: all are stored, or kept as dead letters for a true reason."""

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


def is_true(reason: str, body: bytes) -> bool:
    """Whether what is said of a dead letter can be seen without clew's own reader."""
    event = json.loads(body)
    if reason == "no_time":
        return "eventTime" not in event
    return reason == "no_identity" and not {"run", "job", "dataset"} & event.keys()


def test_all_events_of_the_corpus(shared: Path, tmp_path: Path) -> None:
    files = sorted((shared / "corpus").rglob("*.jsonl"))
    bodies = [line for file in files for line in file.read_bytes().splitlines() if line.strip()]
    assert len(bodies) > 100
    dead = {}
    with LogWriter(tmp_path / "log") as log, TestClient(create_collector(log, RequestLimits(), tmp_path)) as client:
        for place, body in enumerate(bodies):
            encoding = list(ENCODINGS)[place % len(ENCODINGS)]
            headers = {"content-encoding": encoding}
            answer = client.post(LINEAGE, content=ENCODINGS[encoding](body), headers=headers)
            assert answer.status_code == 201, body
            if "clew-dead-letter" in answer.headers:
                dead[body] = answer.headers["clew-dead-letter"]
        again = client.post(f"{LINEAGE}/batch", content=b"[%s]" % b",".join(bodies)).json()
    assert again["summary"]["successful"] == len(bodies)
    assert [body for body, reason in dead.items() if not is_true(reason, body)] == []
    parts = split_ranges(log.folder, 0, end_position(log.folder), 1 << 30)
    found = [decode_record(text).body for part in parts for _, text in read_lines(part)]
    assert found == list(dict.fromkeys(body.strip() for body in bodies))
