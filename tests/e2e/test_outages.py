"""What a machine can do to a pipeline: no room left, or another pipeline there already. Nothing is lost or doubled."""

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
# The log, 4 MB, has room; the files of a batch, which hold it twice, have not.
DISK = "9m"
ONE_ROW_PER_EVENT = ("lineage_events", "run_facets", "dataset_facets", "runs", "datasets")
FULL_DISK = r"""
set -e
mount -t tmpfs -o size=$DISK tmpfs "$PLACE"
run() {
    code=0
    "$PYTHON" -m clew pipeline run --home "$PLACE/home" --from "$EVENTS_FILE" || code=$?
    echo "ended with $code" >&2
}
run
mount -o remount,size=90m "$PLACE"
run
cp -r "$PLACE/home" "$RESCUED"
"""


def event(number: int, chance: Random) -> bytes:
    noise = {"noise": {"text": chance.randbytes(EVENT_BYTES // 2).hex()}}
    return json.dumps(
        {
            "eventType": "COMPLETE",
            "eventTime": "2026-01-01T10:00:00Z",
            "run": {"runId": f"run {number}", "facets": noise},
            "job": {"namespace": "n", "name": "j"},
            "outputs": [{"namespace": "n", "name": f"d{number}", "facets": noise}],
        }
    ).encode()


def test_a_full_disk_in_the_middle_of_a_batch(namespace: list[str], tmp_path: Path) -> None:
    chance = Random(1)
    file, place, rescued = tmp_path / "events.ndjson", tmp_path / "disk", tmp_path / "rescued"
    file.write_bytes(b"\n".join(event(number, chance) for number in range(EVENTS)) + b"\n")
    place.mkdir()
    settings = {"DISK": DISK, "PLACE": place, "PYTHON": sys.executable, "EVENTS_FILE": file, "RESCUED": rescued}
    environment = {**os.environ, **{name: str(value) for name, value in settings.items()}}
    ended = subprocess.run(
        [*namespace, "bash", "-c", FULL_DISK], env=environment, capture_output=True, text=True, check=False
    )
    assert re.findall(r"ended with (\d+)", ended.stderr) == ["1", "0"], ended.stderr
    first, _ = ended.stderr.split("ended with 1")
    assert "No space left on device" in first
    assert "No data was lost" in first
    assert "Traceback" not in first
    lake = Lake(rescued / "lake")
    rows = lake.row_counts()
    assert {rows[name] for name in ONE_ROW_PER_EVENT} == {EVENTS}, rows


def test_a_second_pipeline_is_told_who_holds_the_lake(tmp_path: Path, clew: Callable[..., Any]) -> None:
    with acquire_lock(tmp_path / "lake" / ".lock"):
        ended = clew("pipeline", "run", "--home", tmp_path)
    assert ended.returncode == 1
    assert f"Another pipeline is running on {tmp_path / 'lake'} (process {os.getpid()}, since " in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not list((tmp_path / "lake").glob("*/_delta_log"))
