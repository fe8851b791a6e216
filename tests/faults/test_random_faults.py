"""Random faults of `clew up` under load: nothing acknowledged is lost, nothing is counted twice, every row is right.

`make test-faults FAULTS=50` injects 50 faults of all kinds in random order, at random times: killed and suspended
processes of each kind, a kill between the commits of lake and index, torn and corrupted segments, writes that fail, and
jumps of the clock. A lost executor of a cluster is in `tests/integration/pipeline/test_cluster.py`. Then a separate
program, `tests/faults/checker.py`, compares log, lake and index with the acknowledged events and with the reference.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Self

import pytest
import requests
from bench.generate import generate_events
from bench.processes import list_process_tree
from tests.faults.clock import ShiftedClock, has_compiler
from tests.faults.service import kind_of, start_service, stop_service
from tests.reference.events import log_lines, parse_record
from tests.support.paths import ROOT

from clew.eventlog.segments import is_damaged

FAULTS = int(os.environ.get("FAULTS", "50"))
SEED = int(os.environ.get("FAULTS_SEED", "1"))
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 12.0
STOPPED_SECONDS = 3.0
WAIT_SECONDS, POLL_SECONDS = 30.0, 0.005
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
    """`clew up` or `clew collect`, which is started again on the same port if a fault ended it."""

    def __init__(self, home: Path, clock: ShiftedClock | None, command: str = "up") -> None:
        self.home, self.clock, self._command = home, clock, command
        # Lines of the log that a fault has damaged; none of them was acknowledged.
        self.damaged: list[bytes] = []
        self._environment = clock.environment if clock else {}
        self._process, self.url = start_service(home, environment=self._environment, command_name=command)
        self._port = int(self.url.rpartition(":")[2])

    def processes(self, kind: str) -> list[int]:
        """List the processes of a kind."""
        found = []
        for process in self.all_processes():
            try:
                command = Path(f"/proc/{process}/cmdline").read_text()
            except OSError:
                continue
            if command and kind_of(command) == kind:
                found.append(process)
        return found

    def all_processes(self) -> list[int]:
        """List the service and its descendants."""
        return [process.id for process in list_process_tree(self._process.pid)]

    def restart(self) -> None:
        """Start the service again after it ended."""
        self.wait_for_end()
        self._process, self.url = start_service(self.home, self._port, self._environment, self._command)

    def wait_for_end(self) -> None:
        """Wait until the service has ended."""
        self._process.wait(60)

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
    service.wait_for_end()
    with last_segment(service).open("ab") as file:
        file.write(b'{"stream":"openlineage","event":{"run":'[: random.randrange(1, 39)])
    service.restart()
    return True


def corrupt_log(service: Service, random: Random) -> bool:
    """Kill the service, add a line of zeros and a record with a flipped bit to the log, and start the service again."""
    kill("server", service, random)
    service.wait_for_end()
    segment = last_segment(service)
    content = segment.read_bytes()
    records = content[: content.rfind(b"\n") + 1].splitlines(keepends=True)
    if not records:
        service.restart()
        return False
    flipped = bytearray(records[-1])
    flipped[random.randrange(len(flipped) // 2, len(flipped) - 2)] ^= 1
    lines = [b"\0" * random.randrange(1, 5_000) + b"\n", bytes(flipped)]
    # Each line once, and none that was split by the flipped bit.
    lines = [line for line in lines if line.count(b"\n") == 1 and line not in service.damaged]
    with segment.open("r+b") as file:
        file.truncate(content.rfind(b"\n") + 1)
        file.seek(0, os.SEEK_END)
        file.writelines(lines)
    service.damaged += lines
    service.restart()
    return True


def last_segment(service: Service) -> Path:
    """Return the segment of the log that is written to."""
    return max((service.home / "log").glob("*.ndjson"))


def fill_disk(service: Service, random: Random) -> bool:
    """Let all writes of the service fail for some seconds: no file may become longer than one byte."""
    del random
    _limit_file_size(service, 1)
    time.sleep(STOPPED_SECONDS)
    # Processes that started meanwhile have inherited the limit.
    _limit_file_size(service, resource.RLIM_INFINITY)
    return True


def _limit_file_size(service: Service, size: int) -> None:
    limited: set[int] = set()
    while pending := set(service.all_processes()) - limited:
        for process in pending:
            try:
                _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
                resource.prlimit(process, resource.RLIMIT_FSIZE, (size, hard))
            except ProcessLookupError:
                pass
        limited |= pending


def shift_clock(service: Service, random: Random) -> bool:
    """Set the time of day of the whole service forward or back, by up to an hour."""
    if service.clock is None:
        return False
    service.clock.shift(random.randrange(-3_600, 3_600))
    return True


def kill_between_commits(service: Service, random: Random) -> bool:
    """Kill the pipeline when the last event table has been committed, before or while the index is."""
    del random
    commits = service.home / "lake" / "lineage_events" / "_delta_log"
    known = set(commits.glob("*.json"))
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        if set(commits.glob("*.json")) - known:
            for process in service.processes("pipeline"):
                _send_signal(process, signal.SIGKILL)
            return True
        time.sleep(POLL_SECONDS)
    return False


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
PIPELINE_FAULTS["kill between commits"] = kill_between_commits
PIPELINE_FAULTS["clock jump"] = shift_clock
SERVER_FAULTS: dict[str, Fault] = {
    "kill server": restart_server,
    "stop server": stop_server,
    "torn log": tear_log,
    "corrupt log": corrupt_log,
    "full disk": fill_disk,
    "suspend server": lambda service, random: suspend("server", service, random),
}
FAULT_KINDS = {**PIPELINE_FAULTS, **SERVER_FAULTS}


@pytest.mark.timeout(FAULTS * 60)
def test_the_collector_loses_nothing(tmp_path: Path) -> None:
    kinds = {**SERVER_FAULTS, "clock jump": shift_clock}
    service = Service(tmp_path / "home", make_clock(tmp_path), "collect")
    try:
        with Producer(service.url) as producer:
            injected, _ = inject(kinds, service, producer)
    finally:
        service.stop()
    print(f"{dict(injected)}\n{len(producer.acknowledged)} events acknowledged, {dict(producer.statuses)}")  # noqa: T201
    lines = [line for _, line in log_lines(service.home / "log") if line not in service.damaged]
    stored = Counter(parse_record(line)[1] for line in lines)
    assert set(producer.acknowledged) - set(stored) == set()
    assert max(stored.values()) == 1
    assert all(is_damaged(line.removesuffix(b"\n")) for line in service.damaged)
    assert len(producer.acknowledged) > FAULTS
    # Writes that failed were answered.
    assert set(producer.statuses) <= {"201", "503", "ConnectionError", "ReadTimeout", "ChunkedEncodingError"}


def inject(kinds: Mapping[str, Fault], service: Service, producer: Producer) -> tuple[Counter[str], dict[str, float]]:
    """Inject all kinds of faults in random order, and again; return their numbers and the longest gaps."""
    random, injected, gaps = Random(SEED), Counter[str](), dict[str, float]()
    order: list[str] = []
    while injected.total() < FAULTS:
        time.sleep(random.uniform(MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS))
        producer.reset_gap()
        order = order or random.sample(sorted(kinds), len(kinds))
        name = order.pop()
        if kinds[name](service, random):
            injected[name] += 1
            time.sleep(MIN_PAUSE_SECONDS)
            gaps[name] = max(gaps.get(name, 0.0), producer.longest_gap)
    return injected, gaps


def make_clock(folder: Path) -> ShiftedClock | None:
    """Create a clock, if that is possible."""
    return ShiftedClock(folder / "clock") if has_compiler() else None


@pytest.mark.timeout(FAULTS * 60 + CHECK_SECONDS)
def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    service = Service(tmp_path / "home", make_clock(tmp_path))
    try:
        with Producer(service.url) as producer:
            injected, gaps = inject(FAULT_KINDS, service, producer)
    finally:
        service.stop()
    print(f"{dict(injected)}\n{len(producer.acknowledged)} events acknowledged, {dict(producer.statuses)}, {gaps}")  # noqa: T201
    acknowledged = tmp_path / "acknowledged.ndjson"
    acknowledged.write_bytes(b"\n".join(producer.acknowledged))
    damaged = tmp_path / "damaged.ndjson"
    damaged.write_bytes(b"".join(service.damaged))
    command = [sys.executable, "-m", "clew", "pipeline", "run", "--home", str(service.home)]
    # 1: records were rejected.
    assert subprocess.run(command, check=False).returncode in ({0, 1} if service.damaged else {0})
    check_home(service.home, acknowledged, damaged)
    assert len(producer.acknowledged) > FAULTS
    assert {name: gap for name, gap in gaps.items() if name in PIPELINE_FAULTS and gap > MAX_GAP_SECONDS} == {}


def check_home(home: Path, acknowledged: Path, damaged: Path) -> None:
    """Run the checker as a separate program."""
    command = [sys.executable, "-m", "tests.faults.checker", str(home), str(acknowledged), str(damaged)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=CHECK_SECONDS, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
