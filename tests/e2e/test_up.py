"""`clew up`: an event goes in at one end, and the answer comes out at the other."""

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

PATIENCE_SECONDS = 120


def until(found: Callable[[], Any]) -> Any:
    """What is found, as soon as it is."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if result := found():
            return result
        time.sleep(0.2)
    pytest.fail("it never came")


def stream_of(home: Path) -> str | None:
    """The process that holds the lake, if one does."""
    found = [
        path.parent.name
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if (words := command_of(path)) and words[1:5] == ["-m", "clew", "pipeline", "stream"] and str(home) in words
    ]
    return found[0] if found else None


def command_of(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode().split("\0")
    except OSError:
        return []


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)])
def test_what_is_sent_is_answered_and_nothing_stays_behind(number: int, exit_code: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "clew", "up", "--port", "0", "--home", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        url = next(found[0] for line in lines if (found := re.search(r"http://[^ ]+(?=/ )", line)))
        event = RunEvent(
            eventType=RunState.COMPLETE,
            eventTime="2026-01-01T10:00:00Z",
            run=Run(str(generate_new_uuid())),
            job=Job("shop", "load"),
            producer="https://example.org/producer",
        )
        OpenLineageClient(transport=HttpTransport(HttpConfig(url=url))).emit(event)

        def known_runs() -> Any:
            answered = requests.get(f"{url}/api/v1/namespaces/shop/jobs/load/runs", timeout=30)
            return answered.ok and answered.json()["runs"]

        try:
            assert [run["id"] for run in until(known_runs)] == [event.run.runId]
        finally:
            os.kill(process.pid, number)
        process.stderr.close()
        assert process.wait(60) == exit_code
    until(lambda: stream_of(tmp_path) is None)
