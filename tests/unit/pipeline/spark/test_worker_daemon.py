"""Tests of the daemon that forks Python workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clew.pipeline.spark.worker_daemon import trim_heap

STATM = Path("/proc/self/statm")
CODE = """
import sys
from clew.pipeline.spark.worker_daemon import preload
preload({worker!r})
import pyarrow as pa
assert pa.array(["text"]).to_pylist() == ["text"]
names = "clew.pipeline.workers", "clew.pipeline.sources.log_source", "pandas"
print(*(name in sys.modules for name in names))
"""


@pytest.mark.parametrize(("worker", "is_loaded"), [("pyspark.worker", True), ("pyspark.sql.worker.other", False)])
def test_preloads_workers_without_pandas(worker: str, is_loaded: bool) -> None:
    process = subprocess.run(
        [sys.executable, "-c", CODE.format(worker=worker)], capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == [str(is_loaded), str(is_loaded), "False"]


@pytest.mark.skipif(not STATM.exists(), reason="needs /proc")
def test_trim_heap_returns_free_memory() -> None:
    # Below the size that malloc maps separately; the last block keeps the heap from shrinking by itself.
    blocks = [bytes(100_000) for _ in range(2_000)]
    last = blocks.pop()
    before = resident_bytes()
    del blocks
    trim_heap()
    assert resident_bytes() < before - (100 << 20)
    assert last


def resident_bytes() -> int:
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
