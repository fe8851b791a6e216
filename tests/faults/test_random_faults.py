"""Random faults of `clew up` under load: nothing acknowledged is lost, nothing is counted twice, every row is right.

`make test-faults FAULTS=50` injects 50 faults, each of a random kind at a random time. Then a separate program,
`tests/faults/checker.py`, compares log, lake and index with the acknowledged events and with the reference.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Self

import pytest
import requests
from bench.generate import generate_events
from bench.processes import list_process_tree
from tests.faults.service import kind_of, start_service, stop_service
from tests.support.paths import ROOT

FAULTS = int(os.environ.get("FAULTS", "50"))
SEED = int(os.environ.get("FAULTS_SEED", "1"))
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 12.0
STOPPED_SECONDS = 3.0
EVENTS_PER_REQUEST, REQUESTS_PER_SECOND = 3, 4.0
# A producer must not notice that a part of the pipeline ended.
MAX_GAP_SECONDS = 2.0
CHECK_SECONDS = 1_200


class Producer(threading.Thread):
    """Sends events in order, repeats what was not acknowledged, and records what was."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[bytes] = []
        self.statuses: Counter[str] = Counter()
        self.longest_gap = 0.0
        self._url = f"{url}/api/v1/lineage"
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()

    def reset_gap(self) -> None:
        """Start to measure the longest time without an acknowledgement."""
        self.longest_gap = 0.0

    def run(self) -> None:
        events = generate_events(10_000_000, SEED)
        bodies: list[bytes] = []
        last = time.monotonic()
        while not self._ended.wait(1 / REQUESTS_PER_SECOND):
            bodies = bodies or [next(events) for _ in range(EVENTS_PER_REQUEST)]
            if self._send(bodies):
                self.acknowledged += bodies
                bodies = []
                now = time.monotonic()
                self.longest_gap = max(self.longest_gap, now - last)
                last = now

    def _send(self, bodies: list[bytes]) -> bool:
        try:
            headers = {"content-type": "application/json"}
            response = requests.post(self._url, b"[%s]" % b",".join(bodies), headers=headers, timeout=30)
        except requests.RequestException as error:
            self.statuses[type(error).__name__] += 1
            return False
        self.statuses[str(response.status_code)] += 1
        return response.status_code == requests.codes.created


class Service:
    """`clew up`, which is started again on the same port if a fault ended it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._process, self.url = start_service(home)
        self._port = int(self.url.rpartition(":")[2])

    def processes(self, kind: str) -> list[int]:
        """List the processes of a kind."""
        found = []
        for process in list_process_tree(self._process.pid):
            try:
                command = Path(f"/proc/{process.id}/cmdline").read_text()
            except OSError:
                continue
            if command and kind_of(command) == kind:
                found.append(process.id)
        return found

    def restart(self) -> None:
        """Start the service again after it ended."""
        self._process.wait(60)
        self._process, self.url = start_service(self.home, self._port)

    def stop(self) -> None:
        """Stop the service with SIGTERM."""
        stop_service(self._process)


def kill(kind: str, service: Service, random: Random) -> bool:
    """Kill one process of a kind; return whether there was one."""
    processes = service.processes(kind)
    if processes:
        _send_signal(random.choice(processes), signal.SIGKILL)
    return bool(processes)


def suspend(kind: str, service: Service, random: Random) -> bool:
    """Suspend one process of a kind for some seconds."""
    processes = service.processes(kind)
    if not processes:
        return False
    process = random.choice(processes)
    _send_signal(process, signal.SIGSTOP)
    time.sleep(STOPPED_SECONDS)
    _send_signal(process, signal.SIGCONT)
    return True


def restart_server(service: Service, random: Random) -> bool:
    """Kill the whole service, and start it again."""
    kill("server", service, random)
    service.restart()
    return True


def stop_server(service: Service, random: Random) -> bool:
    """Stop the service in order, and start it again."""
    del random
    service.stop()
    service.restart()
    return True


def tear_log(service: Service, random: Random) -> bool:
    """Kill the service, leave a part of a record at the end of the log, and start the service again."""
    kill("server", service, random)
    service._process.wait(60)
    segment = max((service.home / "log").glob("*.ndjson"))
    with segment.open("ab") as file:
        file.write(b'{"stream":"openlineage","event":{"run":'[: random.randrange(1, 39)])
    service.restart()
    return True


def _send_signal(process: int, number: signal.Signals) -> None:
    # The process may have ended meanwhile.
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return


Fault = Callable[[Service, Random], bool]
PIPELINE_FAULTS: dict[str, Fault] = {
    f"{action.__name__} {kind}": lambda service, random, action=action, kind=kind: action(kind, service, random)  # type: ignore[misc]
    for action in (kill, suspend)
    for kind in ("pipeline", "java", "workers")
}
SERVER_FAULTS: dict[str, Fault] = {
    "kill server": restart_server,
    "stop server": stop_server,
    "torn log": tear_log,
    "suspend server": lambda service, random: suspend("server", service, random),
}


@pytest.mark.timeout(FAULTS * 60 + CHECK_SECONDS)
def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    random, injected = Random(SEED), Counter[str]()
    gaps: dict[str, float] = {}
    service = Service(tmp_path / "home")
    try:
        with Producer(service.url) as producer:
            while injected.total() < FAULTS:
                time.sleep(random.uniform(MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS))
                producer.reset_gap()
                name, fault = random.choice(sorted({**PIPELINE_FAULTS, **SERVER_FAULTS}.items()))
                if fault(service, random):
                    injected[name] += 1
                    time.sleep(MIN_PAUSE_SECONDS)
                    gaps[name] = max(gaps.get(name, 0.0), producer.longest_gap)
    finally:
        service.stop()
    print(f"{dict(injected)}\n{len(producer.acknowledged)} events acknowledged, {dict(producer.statuses)}, {gaps}")  # noqa: T201
    acknowledged = tmp_path / "acknowledged.ndjson"
    acknowledged.write_bytes(b"\n".join(producer.acknowledged))
    subprocess.run([sys.executable, "-m", "clew", "pipeline", "run", "--home", str(service.home)], check=True)
    check_home(service.home, acknowledged)
    assert len(producer.acknowledged) > FAULTS
    assert {name: gap for name, gap in gaps.items() if name in PIPELINE_FAULTS and gap > MAX_GAP_SECONDS} == {}


def check_home(home: Path, acknowledged: Path) -> None:
    """Run the checker as a separate program."""
    command = [sys.executable, "-m", "tests.faults.checker", str(home), str(acknowledged)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=CHECK_SECONDS, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
