"""Test of backup and restore: copies of a running `clew up` under writes, restored elsewhere, lack nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import pytest
import requests
from deltalake import DeltaTable

from clew.index.backends.sqlite import MissingIndexError
from clew.index.queries.reader import IndexReader

pytestmark = pytest.mark.spark

CLEW = [sys.executable, "-m", "clew"]
FACET_TABLES = ("run_facets", "job_facets", "dataset_facets")
_TIMEOUT_SECONDS = 300


class Sender:
    """Sends runs with facets until stopped, and records those that were acknowledged."""

    def __init__(self, url: str) -> None:
        self.acknowledged: list[str] = []
        self._url = f"{url}/api/v1/lineage"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _send(self) -> None:
        session = requests.Session()
        while not self._stop.wait(0.01):
            run_id = str(uuid4())
            if session.post(self._url, json=make_event(run_id), timeout=30).status_code == 201:
                self.acknowledged.append(run_id)


def make_event(run_id: str) -> dict[str, Any]:
    schema = {"fields": [{"name": "id", "type": "int"}]}
    return {
        "eventType": "COMPLETE",
        "eventTime": "2026-01-01T10:00:00Z",
        "run": {"runId": run_id, "facets": {"nominalTime": {"nominalStartTime": "2026-01-01T10:00:00Z"}}},
        "job": {"namespace": "shop", "name": "load", "facets": {"sql": {"query": "select 1"}}},
        "outputs": [{"namespace": "db", "name": "orders", "facets": {"schema": schema}}],
    }


@contextmanager
def run_service(home: Path) -> Iterator[str]:
    command = [*CLEW, "up", "--port", "0", "--home", str(home)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        url = next(match[0] for line in lines if (match := re.search(r"http://[^ ]+(?=/ )", line)))
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            yield url
        finally:
            process.terminate()
            process.wait(60)


def clew(*arguments: str | Path) -> Any:
    command = [*CLEW, *map(str, arguments), "--json"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def indexed_runs(home: Path) -> set[str]:
    try:
        with IndexReader(home / "index.sqlite") as index:
            return {row[0] for row in index.query("select run_uuid from runs")}
    except MissingIndexError:
        return set()


def counts(home: Path, table: str) -> Counter[str]:
    """Return the number of rows of each run in a table."""
    rows = DeltaTable(home / "lake" / table).to_pyarrow_table(columns=["run_uuid"])
    return Counter(rows["run_uuid"].to_pylist())


def test_restored_copies_have_everything_once(tmp_path: Path) -> None:
    home, backups = tmp_path / "home", []
    with run_service(home) as url, Sender(url) as sender:
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while not indexed_runs(home):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        # While batches are committed.
        for number in range(6):
            before = list(sender.acknowledged)
            manifest = clew("backup", tmp_path / f"backup {number}", "--home", home)
            backups.append((tmp_path / f"backup {number}", before, manifest))
    assert len(backups[-1][1]) > len(backups[0][1])
    assert backups[-1][2]["last_batch"] > backups[0][2]["last_batch"]
    # The second one was made while the index was behind the lake, or nearly so; the last one has the most batches.
    for backup, before, _ in (backups[1], backups[-1]):
        restored = tmp_path / f"restored {backup.name}"
        clew("restore", backup, "--home", restored)
        clew("pipeline", "run", "--home", restored)
        runs = indexed_runs(restored)
        assert set(before) <= runs
        events = counts(restored, "lineage_events")
        assert events == dict.fromkeys(runs, 1)
        for table in FACET_TABLES:
            assert counts(restored, table) == events, table
        assert clew("doctor", "--home", restored)
