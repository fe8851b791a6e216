"""Tests of pipeline outages: a full disk and a concurrent pipeline, without loss or duplicates."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from clew.lake.lake import Lake
from clew.pipeline.locks import acquire_lock

pytestmark = pytest.mark.spark

EVENTS = 40
EVENT_BYTES = 100_000
# The log (4 MB) fits; the files of a batch, which contain it twice, do not.
DISK = "9m"
ONE_ROW_PER_EVENT = ("lineage_events", "run_facets", "dataset_facets", "runs", "datasets")
FULL_DISK = r"""
set -e
mount -t tmpfs -o size=$DISK tmpfs "$MOUNT"
run() {
    code=0
    "$PYTHON" -m clew pipeline run --home "$MOUNT/home" --from "$EVENTS_FILE" || code=$?
    echo "ended with $code" >&2
}
run
mount -o remount,size=90m "$MOUNT"
run
cp -r "$MOUNT/home" "$RESCUED"
"""


def event(number: int, rng: Random) -> bytes:
    noise = {"noise": {"text": rng.randbytes(EVENT_BYTES // 2).hex()}}
    return json.dumps(
        {
            "eventType": "COMPLETE",
            "eventTime": "2026-01-01T10:00:00Z",
            "run": {"runId": f"run {number}", "facets": noise},
            "job": {"namespace": "n", "name": "j"},
            "outputs": [{"namespace": "n", "name": f"d{number}", "facets": noise}],
        }
    ).encode()


def test_recovers_from_a_full_disk_during_a_batch(mount_namespace: list[str], tmp_path: Path) -> None:
    rng = Random(1)
    file, mount, rescued_home = tmp_path / "events.ndjson", tmp_path / "disk", tmp_path / "rescued"
    file.write_bytes(b"\n".join(event(number, rng) for number in range(EVENTS)) + b"\n")
    mount.mkdir()
    settings = {"DISK": DISK, "MOUNT": mount, "PYTHON": sys.executable, "EVENTS_FILE": file, "RESCUED": rescued_home}
    environment = {**os.environ, **{name: str(value) for name, value in settings.items()}}
    result = subprocess.run(
        [*mount_namespace, "bash", "-c", FULL_DISK], env=environment, capture_output=True, text=True, check=False
    )
    assert re.findall(r"ended with (\d+)", result.stderr) == ["1", "0"], result.stderr
    first, _ = result.stderr.split("ended with 1")
    assert "No space left on device" in first
    assert "No data was lost" in first
    assert "Traceback" not in first
    lake = Lake(rescued_home / "lake")
    rows = lake.row_counts()
    assert {rows[name] for name in ONE_ROW_PER_EVENT} == {EVENTS}, rows


def test_second_pipeline_reports_the_lock_holder(tmp_path: Path, clew: Callable[..., Any]) -> None:
    with acquire_lock(tmp_path / "lake" / ".lock"):
        result = clew("pipeline", "run", "--home", tmp_path)
    assert result.returncode == 1
    assert f"Another pipeline is running on {tmp_path / 'lake'} (process {os.getpid()}, since " in result.stderr
    assert "Traceback" not in result.stderr
    assert not list((tmp_path / "lake").glob("*/_delta_log"))
