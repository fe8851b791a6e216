"""Tests of the daemon that forks Python workers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from clew.pipeline.spark.worker_daemon import EVENT_WORKER_ENV

CODE = """
import sys
from clew.pipeline.spark.worker_daemon import preload
from clew.pipeline.spark.worker_memory import trims_heap_after
preload({worker!r})
import pyarrow as pa
assert pa.array(["text"]).to_pylist() == ["text"]
print("clew.pipeline.workers" in sys.modules, "pandas" in sys.modules)
main = getattr(sys.modules.get("pyspark.worker"), "main", preload)
print(main.__globals__["__name__"] == trims_heap_after.__module__)
"""


@pytest.mark.parametrize(
    ("worker", "environment", "is_loaded"),
    [
        pytest.param("pyspark.worker", {EVENT_WORKER_ENV: "1"}, True, id="events"),
        pytest.param("pyspark.worker", {}, False, id="ranges"),
        pytest.param("pyspark.sql.worker.other", {EVENT_WORKER_ENV: "1"}, False, id="other worker"),
    ],
)
def test_preloads_event_workers_without_pandas(worker: str, environment: dict[str, str], is_loaded: bool) -> None:
    process = subprocess.run(
        [sys.executable, "-c", CODE.format(worker=worker)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    assert process.stdout.split() == [str(is_loaded), "False", str(is_loaded)], "event workers also trim the heap"
