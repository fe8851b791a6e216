"""Soak: `clew up` under mixed reads and writes; memory, file descriptors and files stay bounded.

`make test-faults SOAK_SECONDS=600` runs it. The first part of the time is a warm-up: caches fill, the JVM compiles,
files are compacted and derived tables are refreshed for the first time.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Self

import pytest
import requests
from bench.generate import generate_events
from bench.processes import list_process_tree
from tests.faults.service import kind_of, run_service

SECONDS = float(os.environ.get("SOAK_SECONDS", "600"))
WARM_UP = 0.6
# Files are compacted after 64 batches.
MIN_WARM_UP_BATCHES = 80
SAMPLE_SECONDS = 5.0
EVENTS_PER_REQUEST, REQUESTS_PER_SECOND = 20, 2.0
READS = (
    "/api/v1/jobs?limit=50",
    "/api/v1/namespaces",
    "/api/v1/events/lineage?limit=20",
    "/api/v1/search?q=a",
    "/api/v2/jobs?limit=50",
    "/api/v2/datasets?limit=50",
    "/api/v2/search?q=order",
    "/api/v2/pages/activity",
    "/api/v2/pages/runs",
    "/api/v2/pages/health",
    "/api/v2/pages/events",
    "/metrics",
)
MIB = 1 << 20
# Growth from the highest value of the warm-up to the highest value after it.
MAX_GROWTH = {"rss": 1.3, "descriptors": 1.2}
GROWTH_ALLOWANCE = {"rss": 96 * MIB, "descriptors": 24}
# Sizes that do not depend on the time.
MAX_WAL_BYTES = 64 * MIB
MAX_REPORT_FILES = 100
MAX_CHECKPOINT_FILES = 500
MAX_INDEXED_BATCHES = 1_000
# Delta keeps its log for an hour: one commit per batch, and those of maintenance.
MAX_LOG_FILES_PER_BATCH, LOG_FILES_ALLOWANCE = 2, 60

Sample = dict[str, float]


class Load:
    """Threads that write and read at a fixed rate, until stopped; they count the responses by status."""

    def __init__(self, url: str) -> None:
        self.statuses: Counter[str] = Counter()
        self._url = url
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(step,)) for step in (self._writes(), self._reads())]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, requests_to_send: Iterator[tuple[str, Callable[[], requests.Response]]]) -> None:
        for kind, send in requests_to_send:
            try:
                self.statuses[f"{kind} {send().status_code}"] += 1
            except requests.RequestException as error:
                self.statuses[f"{kind} {type(error).__name__}"] += 1
            if self._stop.wait(1 / REQUESTS_PER_SECOND):
                return

    def _writes(self) -> Iterator[tuple[str, Callable[[], requests.Response]]]:
        events = generate_events(10_000_000, 11)
        with requests.Session() as session:
            while True:
                body = b"[%s]" % b",".join(next(events) for _ in range(EVENTS_PER_REQUEST))
                headers = {"content-type": "application/json"}
                yield "write", lambda: session.post(f"{self._url}/api/v1/lineage", body, headers=headers, timeout=30)  # noqa: B023

    def _reads(self) -> Iterator[tuple[str, Callable[[], requests.Response]]]:
        with requests.Session() as session:
            for path in cycle(READS):
                yield "read", lambda: session.get(f"{self._url}{path}", timeout=60)  # noqa: B023


def sample_processes(pid: int) -> Sample:
    """Measure memory and descriptors of all processes by kind; of several of a kind, the sum."""
    totals: defaultdict[str, float] = defaultdict(float)
    for process in list_process_tree(pid):
        folder = Path(f"/proc/{process.id}")
        with suppress(OSError):
            kind = kind_of((folder / "cmdline").read_text())
            status = (folder / "status").read_text()
            # A process that has just ended has no memory.
            totals[f"rss of {kind}"] += 1024 * sum(map(int, re.findall(r"VmRSS:\s+(\d+)", status)))
            totals[f"descriptors of {kind}"] += sum(1 for _ in (folder / "fd").iterdir())
    return dict(totals)


def sample_files(home: Path) -> Sample:
    """Measure the files that grow if nobody cleans up."""
    wal = home / "index.sqlite-wal"
    logs = (sum(1 for _ in folder.iterdir()) for folder in home.glob("lake/*/_delta_log"))
    return {
        "wal bytes": wal.stat().st_size if wal.exists() else 0,
        "report files": count_files(home / "lake" / "_worker_reports"),
        "checkpoint files": count_files(home / "checkpoint"),
        "delta log files": max(logs, default=0),
        "indexed batches": query_index(home, "select count(*) from batches"),
        "last batch": query_index(home, "select max(number) from batches"),
    }


def count_files(folder: Path) -> int:
    return sum(1 for path in folder.rglob("*") if path.is_file())


def query_index(home: Path, query: str) -> int:
    path = home / "index.sqlite"
    if not path.exists():
        return 0
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        (value,) = connection.execute(query).fetchone()
    connection.close()
    return value or 0


def collect_samples(pid: int, home: Path, seconds: float, min_batches: int = 0) -> list[Sample]:
    samples: list[Sample] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end or samples[-1]["last batch"] < min_batches:
        time.sleep(SAMPLE_SECONDS)
        samples.append({**sample_processes(pid), **sample_files(home)})
    return samples


def highest(samples: list[Sample]) -> Sample:
    return {
        name: max(sample.get(name, 0) for sample in samples) for name in {name for item in samples for name in item}
    }


def find_growth(before: Sample, after: Sample) -> dict[str, tuple[float, float, float]]:
    """Return what has grown more than allowed: value of the warm-up, value after it, and limit."""
    limits = {
        name: value * MAX_GROWTH[kind] + GROWTH_ALLOWANCE[kind]
        for name, value in before.items()
        if (kind := name.partition(" ")[0]) in MAX_GROWTH
    }
    return {name: (before[name], after[name], limit) for name, limit in limits.items() if after[name] > limit}


@pytest.mark.timeout(SECONDS + 600)
def test_resources_stay_bounded(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with run_service(home) as (pid, url), Load(url) as load:
        while not query_index(home, "select count(*) from sqlite_master where name = 'batches'"):
            time.sleep(1)
        warm_up = collect_samples(pid, home, SECONDS * WARM_UP, MIN_WARM_UP_BATCHES)
        samples = collect_samples(pid, home, SECONDS * (1 - WARM_UP))
    before, after = highest(warm_up), highest(samples)
    report = {name: [before.get(name), after.get(name)] for name in sorted(after)}
    print(json.dumps({"statuses": load.statuses, "warm-up and rest": report}, indent=1))  # noqa: T201
    assert find_growth(before, after) == {}
    assert after["wal bytes"] <= MAX_WAL_BYTES
    assert after["report files"] <= MAX_REPORT_FILES
    assert after["checkpoint files"] <= MAX_CHECKPOINT_FILES
    assert after["indexed batches"] <= MAX_INDEXED_BATCHES
    assert after["delta log files"] <= MAX_LOG_FILES_PER_BATCH * after["last batch"] + LOG_FILES_ALLOWANCE
    assert after["last batch"] > before["last batch"] > 0
    assert set(load.statuses) <= {"write 201", "read 200", "read 503"}, load.statuses
    # Until the first batch is indexed, reads are answered with 503.
    assert load.statuses["read 200"] > load.statuses["read 503"]
