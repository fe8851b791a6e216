"""Tests of `clew pipeline stream` as a process."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

RUN = "01930a00-0000-7000-8000-000000000001"


def test_captured_events_are_indexed_while_the_stream_runs(tmp_path: Path) -> None:
    session = tmp_path / "streams" / "6ac33987"
    session.mkdir(parents=True)
    command = [sys.executable, "-m", "clew", "pipeline", "stream", "--home", str(tmp_path), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as stream:
        for state in ("RUNNING", "COMPLETED"):
            event = {"eventType": "START" if state == "RUNNING" else "COMPLETE", "eventTime": "2026-01-01T10:00:00Z"}
            with (session / "marimo_lineage_events.jsonl").open("a") as file:
                file.write(json.dumps({**event, "run": {"runId": RUN}, "job": {"namespace": "n", "name": "j"}}) + "\n")
            wait_for_state(tmp_path / "index.sqlite", state, stream)
        stream.send_signal(signal.SIGTERM)
        stdout, stderr = stream.communicate(timeout=120)
    assert stream.returncode == 0, stderr
    assert json.loads(stdout)["events"] == 2
    # Derived tables are not refreshed at the stop.
    assert list((tmp_path / "lake" / "lineage_events").glob("*.parquet"))


def wait_for_state(index: Path, state: str, stream: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and stream.poll() is None:
        if index.exists() and read_state(index) == state:
            return
        time.sleep(0.05)
    raise AssertionError(f"the run was never {state}")


def read_state(index: Path) -> str | None:
    try:
        row = sqlite3.connect(f"{index.as_uri()}?mode=ro", uri=True).execute("select state from runs").fetchone()
    except sqlite3.OperationalError:
        return None
    return None if row is None else row[0]
