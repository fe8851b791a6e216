"""Tests of `clew up`: events are collected, ingested and served."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
from openlineage.client.transport.http import HttpConfig, HttpTransport
from openlineage.client.uuid import generate_new_uuid

pytestmark = pytest.mark.spark

TIMEOUT_SECONDS = 120


def wait_until(poll: Callable[[], Any]) -> Any:
    """Poll until a truthy result and return it."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if result := poll():
            return result
        time.sleep(0.2)
    pytest.fail("timed out")


def find_stream_process(home: Path) -> str | None:
    """Return the process id of the pipeline stream on a data directory, if any."""
    process_ids = [
        path.parent.name
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if (arguments := read_command(path))
        and arguments[1:5] == ["-m", "clew", "pipeline", "stream"]
        and str(home) in arguments
    ]
    return process_ids[0] if process_ids else None


def read_command(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode().split("\0")
    except OSError:
        return []


@pytest.mark.parametrize(("signal_number", "exit_code"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)])
def test_serves_sent_events_and_leaves_no_process_behind(signal_number: int, exit_code: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "clew", "up", "--port", "0", "--home", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        url = next(match[0] for line in lines if (match := re.search(r"http://[^ ]+(?=/ )", line)))
        event = RunEvent(
            eventType=RunState.COMPLETE,
            eventTime="2026-01-01T10:00:00Z",
            run=Run(str(generate_new_uuid())),
            job=Job("shop", "load"),
            producer="https://example.org/producer",
        )
        OpenLineageClient(transport=HttpTransport(HttpConfig(url=url))).emit(event)

        def get_runs() -> Any:
            response = requests.get(f"{url}/api/v1/namespaces/shop/jobs/load/runs", timeout=30)
            return response.ok and response.json()["runs"]

        try:
            assert [run["id"] for run in wait_until(get_runs)] == [event.run.runId]
        finally:
            os.kill(process.pid, signal_number)
        process.stderr.close()
        assert process.wait(60) == exit_code
    wait_until(lambda: find_stream_process(tmp_path) is None)
