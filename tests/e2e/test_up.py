"""Tests of `clew up`: events are collected, ingested and served, also while the pipeline is killed and restarted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
from openlineage.client.transport.http import HttpConfig, HttpTransport
from openlineage.client.uuid import generate_new_uuid

pytestmark = pytest.mark.spark

TIMEOUT_SECONDS = 300
CLEW = [sys.executable, "-m", "clew"]


def wait_until(poll: Callable[[], Any]) -> Any:
    """Poll until a truthy result and return it."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if result := poll():
            return result
        time.sleep(0.2)
    pytest.fail("timed out")


def find_stream_process(home: Path) -> int | None:
    """Return the process id of the pipeline stream on a data directory, if any."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        arguments = read_file(path).split("\0")
        if arguments[1:5] == ["-m", "clew", "pipeline", "stream"] and str(home) in arguments:
            return int(path.parent.name)
    return None


def find_descendants(pid: int) -> dict[int, str]:
    """Return the command lines of all processes below a process, by id."""
    children = read_file(Path(f"/proc/{pid}/task/{pid}/children")).split()
    found: dict[int, str] = {}
    for child in map(int, children):
        found |= {child: read_file(Path(f"/proc/{child}/cmdline")), **find_descendants(child)}
    return found


def read_file(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


class Service:
    """A running `clew up` and the runs sent to it."""

    def __init__(self, process: subprocess.Popen[str], url: str, home: Path) -> None:
        self.process = process
        self.url = url
        self.home = home
        self.run_ids: list[str] = []
        self._client = OpenLineageClient(transport=HttpTransport(HttpConfig(url=url, retry={"total": 0})))

    def send_run(self) -> None:
        run_id = str(generate_new_uuid())
        event = RunEvent(
            eventType=RunState.COMPLETE,
            eventTime="2026-01-01T10:00:00Z",
            run=Run(run_id),
            job=Job("shop", "load"),
            producer="https://example.org/producer",
        )
        self._client.emit(event)
        self.run_ids.append(run_id)

    def has_all_runs(self) -> bool:
        response = requests.get(f"{self.url}/api/v1/namespaces/shop/jobs/load/runs?limit=1000", timeout=30)
        return response.ok and {run["id"] for run in response.json()["runs"]} == set(self.run_ids)

    def metric(self, name: str) -> float:
        text = requests.get(f"{self.url}/metrics", timeout=30).text
        return float(re.search(rf"^{name} (.+)$", text, re.MULTILINE)[1])  # type: ignore[index]

    def status(self) -> dict[str, Any]:
        command = [*CLEW, "pipeline", "status", "--json", "--home", str(self.home)]
        status: dict[str, Any] = msgspec.json.decode(subprocess.run(command, capture_output=True, check=True).stdout)
        return status

    def find_java(self) -> int | None:
        stream = find_stream_process(self.home)
        commands = {} if stream is None else find_descendants(stream)
        return next(
            (pid for pid, command in commands.items() if "org.apache.spark.deploy.SparkSubmit" in command), None
        )


@contextmanager
def run_service(home: Path) -> Iterator[Service]:
    with subprocess.Popen(
        [*CLEW, "up", "--port", "0", "--home", str(home)], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        url = next(match[0] for line in lines if (match := re.search(r"http://[^ ]+(?=/ )", line)))
        try:
            yield Service(process, url, home)
        finally:
            process.stderr.close()
            with suppress(ProcessLookupError):
                process.terminate()
            process.wait(60)


@pytest.mark.parametrize(("signal_number", "exit_code"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)])
def test_serves_sent_events_and_leaves_no_process_behind(signal_number: int, exit_code: int, tmp_path: Path) -> None:
    with run_service(tmp_path) as service:
        service.send_run()
        wait_until(service.has_all_runs)
        os.kill(service.process.pid, signal_number)
        assert service.process.wait(60) == exit_code
    wait_until(lambda: find_stream_process(tmp_path) is None)


def test_collects_and_recovers_while_the_pipeline_is_killed(tmp_path: Path) -> None:
    with run_service(tmp_path) as service:
        service.send_run()
        wait_until(service.has_all_runs)
        assert (service.metric("clew_pipeline_up"), service.metric("clew_pipeline_restarts")) == (1, 0)
        assert (service.metric("clew_index_up"), service.metric("clew_log_lag_events")) == (1, 0)
        for restarts, find_process in ((1, partial(find_stream_process, tmp_path)), (2, service.find_java)):
            os.kill(wait_until(find_process), signal.SIGKILL)
            service.send_run()
            while service.metric("clew_pipeline_restarts") < restarts:
                time.sleep(0.2)
            assert requests.get(f"{service.url}/readyz", timeout=30).text.startswith("ready\npipeline: r")
            service.send_run()
            wait_until(service.has_all_runs)
        supervisor = service.status()["supervisor"]
        assert (supervisor["is_running"], supervisor["restarts"]) == (True, 2)
        health = requests.get(f"{service.url}/api/v2/pages/health", timeout=30).json()
        assert health["supervisor"]["restarts"] == 2
        runs = set(service.run_ids)
    # The next start takes over at once from one that was killed.
    with run_service(tmp_path) as service:
        os.kill(service.process.pid, signal.SIGKILL)
        service.process.wait(60)
    with run_service(tmp_path) as service:
        service.run_ids.extend(runs)
        service.send_run()
        wait_until(service.has_all_runs)
