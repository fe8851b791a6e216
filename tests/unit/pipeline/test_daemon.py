"""The process that workers are forked from: it has what they need, and no more."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys
from clew.pipeline.daemon import prepare
prepare({worker!r})
import pyarrow as pa
assert pa.array(["text"]).to_pylist() == ["text"]
print("clew.pipeline.worker" in sys.modules, "pandas" in sys.modules)
print(hasattr(getattr(sys.modules.get("pyspark.worker"), "main", None), "__wrapped__"))
"""


@pytest.mark.parametrize(("worker", "is_loaded"), [("pyspark.worker", True), ("pyspark.sql.worker.other", False)])
def test_workers_find_what_they_need_and_never_load_pandas(worker: str, is_loaded: bool) -> None:
    found = subprocess.run(
        [sys.executable, "-c", CODE.format(worker=worker)], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == [str(is_loaded), "False", str(is_loaded)], "and such a worker gives memory back"
