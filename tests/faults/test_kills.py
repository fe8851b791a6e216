"""Kills: processes of `clew up` are killed or stopped under load; events are accepted all the time and none is lost."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import pytest
import requests
from bench.processes import list_process_tree

from clew.events.ids import event_id
from clew.index.queries.reader import IndexReader

MAX_GAP_SECONDS = 2.0
WAIT_SECONDS = 240.0


@pytest.fixture
def port() -> int:
    """Return a port that is free for the whole test: the service is started several times."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


@contextmanager
def run_service(home: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run `clew up`; it is killed at the end."""
    command = [sys.executable, "-m", "clew", "up", "--port", str(port), "--home", str(home)]
    with (home.parent / "output").open("ab") as output, subprocess.Popen(command, stderr=output) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.kill()


class Sender:
    """Sends an event every 50 ms, each until it is accepted, and measures the longest time without a response."""

    def __init__(self, port: int) -> None:
        self.accepted: list[str] = []
        self.gaps: list[float] = []
        self.errors: list[str] = []
        self._url = f"http://127.0.0.1:{port}/api/v1/lineage"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        last, number = time.monotonic(), 0
        while not self._stop.wait(0.05):
            number += 1
            body = json.dumps(
                {
                    "eventTime": "2026-01-01T10:00:00Z",
                    "eventType": "COMPLETE",
                    "run": {"runId": f"run-{number}"},
                    "job": {"namespace": "load", "name": f"job-{number % 7}"},
                    "outputs": [{"namespace": "load", "name": f"table-{number % 5}"}],
                }
            ).encode()
            while not self._stop.is_set():
                try:
                    status = requests.post(
                        self._url, body, headers={"content-type": "application/json"}, timeout=10
                    ).status_code
                except requests.RequestException as error:
                    self.errors.append(type(error).__name__)
                    time.sleep(0.02)
                    continue
                if status == 201:
                    self.accepted.append(event_id(body))
                    break
                self.errors.append(str(status))
                time.sleep(0.02)
            now = time.monotonic()
            self.gaps.append(now - last)
            last = now


def find_processes(pid: int, kind: str) -> list[int]:
    """List the processes of a kind below `clew up`."""
    found = []
    for process in list_process_tree(pid):
        with suppress(OSError):
            command = (Path("/proc") / str(process.id) / "cmdline").read_text()
            if kind in command and process.id != pid:
                found.append(process.id)
    return found


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


def count_indexed(home: Path, event_ids: list[str]) -> int:
    try:
        with IndexReader(home / "index.sqlite") as index:
            return sum(map(index.has_event, event_ids))
    except Exception:  # noqa: BLE001  # there is no index yet
        return 0


KINDS = {"worker": "worker_daemon", "java": "SparkSubmit", "pipeline": "pipeline\0stream"}


@pytest.mark.timeout(1200)
def test_events_are_accepted_while_processes_are_killed(tmp_path: Path, port: int) -> None:
    home = tmp_path / "home"
    with run_service(home, port) as service:
        wait_until(lambda: is_ready(port))
        with Sender(port) as sender:
            for name, kind in KINDS.items():
                for number in (signal.SIGKILL, signal.SIGSTOP):
                    wait_until(lambda: find_processes(service.pid, kind))  # noqa: B023
                    indexed = len(sender.accepted)
                    wait_until(lambda: count_indexed(home, sender.accepted[-1:]) or len(sender.accepted) > indexed + 40)  # noqa: B023
                    (victim, *_) = find_processes(service.pid, kind)
                    with suppress(ProcessLookupError):
                        os.kill(victim, number)
                    time.sleep(5)
                    if number == signal.SIGSTOP:
                        with suppress(ProcessLookupError):
                            os.kill(victim, signal.SIGCONT)
                    print(name, number, max(sender.gaps), sender.errors)  # noqa: T201
        assert sender.errors == []
        assert max(sender.gaps) < MAX_GAP_SECONDS
        accepted = sender.accepted
        # The whole service is killed: events are accepted as soon as it is started again.
        service.kill()
        service.wait()
    with run_service(home, port):
        wait_until(lambda: is_ready(port))
        with Sender(port) as sender:
            wait_until(lambda: len(sender.accepted) > 20)
        accepted = list(dict.fromkeys([*accepted, *sender.accepted]))
        wait_until(lambda: count_indexed(home, accepted) == len(accepted))
        with IndexReader(home / "index.sqlite") as index:
            assert index.count("select count(*) from events") == len(accepted)


def is_ready(port: int) -> bool:
    try:
        return requests.get(f"http://127.0.0.1:{port}/healthz", timeout=5).ok
    except requests.RequestException:
        return False
