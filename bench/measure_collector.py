"""Benchmark: the collector against PostgreSQL, its CPU per event, and the latency of small events beside large ones.

Both receive the same events, acknowledged when durable, and alternate; the median of the turns counts. PostgreSQL has
as many connections as the collector has clients; results with fewer are printed as well. The clients of each are a
separate process, in which each waits for a response before it sends the next request: their CPU is not available to the
server.

python -m bench.measure_collector [EVENTS]     a full run sends 10,000 events in each of three turns
"""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from random import Random
from statistics import median

import msgspec
from bench import generate
from bench.costs import TICKS_PER_SECOND
from bench.figures import Baseline, Report
from bench.logs import SEED
from bench.memory import measure_memory
from bench.postgres import count_events, insert_rows, make_row, start_with_table
from bench.processes import cpu_ticks
from bench.rounds import parse_run_size, scratch_folder
from bench.senders import SendResult

_EVENTS = 10_000
_TURNS = 3
_CLIENTS = 64
_FEWER_CLIENTS = (16,)
_LARGE_EVENTS = 4
_LARGE_BYTES = 100_000_000
_SMALL_EVENTS = 100
_TIMEOUT_SECONDS = 600


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("collector", run_size)
    events = list(dict.fromkeys(islice(generate.generate_events(10**9, SEED), run_size.scale(_EVENTS, minimum=100))))
    report.log(f"{len(events):,} events, {sum(map(len, events)) / len(events):,.0f} bytes each, {_CLIENTS} clients")
    compare(events, report)
    measure_large_events(report)


def compare(events: list[bytes], report: Report) -> None:
    """Measure durable events per second, and CPU per event."""
    rates, collector_costs, postgres_costs = [], [], []
    postgres_rates: dict[int, list[float]] = {connections: [] for connections in (_CLIENTS, *_FEWER_CLIENTS)}
    rows = [make_row(event) for event in events]
    with scratch_folder() as folder, start_with_table(folder / "postgres") as (url, server_pid):
        file = folder / "events.jsonl"
        file.write_bytes(b"\n".join(events) + b"\n")
        for turn in range(_TURNS):
            for connections, turn_rates in postgres_rates.items():
                before = cpu_ticks(server_pid)
                insert_result = insert_rows(url, rows, connections)
                turn_rates.append(len(rows) / insert_result.seconds)
                postgres_costs.append((cpu_ticks(server_pid) - before) / TICKS_PER_SECOND / len(rows))
                report.log(
                    f"PostgreSQL, {connections} connections: {turn_rates[-1]:,.0f}/s, "
                    f"{1000 * postgres_costs[-1]:.3f} ms of CPU per event, "
                    f"its clients {1000 * insert_result.cpu_seconds / len(rows):.3f} ms"
                )
            with run_collector(folder / f"home {turn}") as (port, collector_pid):
                before = cpu_ticks(collector_pid)
                result = run_senders(port, _CLIENTS, file)
                collector_costs.append((cpu_ticks(collector_pid) - before) / TICKS_PER_SECOND / len(events))
            check(result.status_counts == {"201": len(events)}, f"not all events were stored: {result.status_counts}")
            rates.append(len(events) / result.seconds)
            report.log(
                f"the collector: {rates[-1]:,.0f}/s, {1000 * collector_costs[-1]:.3f} ms of CPU per event, "
                f"its clients {1000 * result.cpu_seconds / len(events):.3f} ms"
            )
        check(count_events(url) == _TURNS * len(postgres_rates) * len(rows), "PostgreSQL does not have all events")
    rate, best = median(rates), max(median(turn_rates) for turn_rates in postgres_rates.values())
    report.log(f"the collector / PostgreSQL with its best number of connections: {rate / best:.2f}×")
    baseline = median(postgres_rates[_CLIENTS])
    report.check_min(
        "durable events per second / INSERT per event",
        rate / baseline,
        3,
        rounds=[turn / baseline for turn in rates],
        cpu_ratio=median(postgres_costs) / median(collector_costs),
    )
    milliseconds = [1000 * cost for cost in collector_costs]
    report.check_max(
        "CPU per event of the collector",
        median(milliseconds),
        0.4,
        " ms",
        rounds=milliseconds,
        baseline=Baseline("PostgreSQL, one INSERT per event", 1000 * median(postgres_costs)),
    )


def measure_large_events(report: Report) -> None:
    """Measure memory during large events, and the latency of small events."""
    random = Random(SEED)
    jobs = generate.make_jobs(random, generate.make_tables(random))
    large = generate.big_event(random, jobs[0], report.run_size.scale(_LARGE_BYTES, 1_000_000))
    with scratch_folder() as folder, run_collector(folder / "home") as (port, collector_pid):
        file = folder / "large.jsonl"
        with file.open("wb") as output:
            output.writelines(b'{"place":%d,%s\n' % (number, large.strip()[1:]) for number in range(_LARGE_EVENTS))
        idle = [measure_small(port, 1_000_000 + number) for number in range(_SMALL_EVENTS)]
        before, peak, is_finished = measure_memory(collector_pid).pss, [0], threading.Event()
        watcher = threading.Thread(target=watch_memory, args=(collector_pid, peak, is_finished))
        watcher.start()
        seconds, delays = measure_delays(port, file)
        is_finished.set()
        watcher.join()
        size = sum(path.stat().st_size for path in (folder / "home" / "log").glob("*.ndjson"))
    check(size > _LARGE_EVENTS * len(large), "not all large events are in the log")
    report.log(
        f"{_LARGE_EVENTS} × {len(large) / 1e6:.0f} MB in {seconds:.1f} s; {len(delays)} small events during that time"
    )
    report.log(f"memory before: {before / 1e6:,.0f} MB")
    report.check_max(
        "memory during four events of 100 MB",
        peak[0] / 1e6,
        300,
        " MB",
        baseline=Baseline("the four events", _LARGE_EVENTS * len(large) / 1e6),
    )
    report.check_max(
        "longest latency of a small event during that time",
        max(delays),
        0.5,
        " s",
        baseline=Baseline("longest of 100 before", max(idle)),
    )


def measure_delays(port: int, file: Path) -> tuple[float, list[float]]:
    """Send large events concurrently, and return the seconds and the latencies of small events."""
    with subprocess.Popen(sender_command(port, _LARGE_EVENTS, file), stdout=subprocess.PIPE) as process:
        delays: list[float] = []
        while process.poll() is None:
            delays.append(measure_small(port, len(delays) + 1))
            time.sleep(0.01)
        assert process.stdout is not None  # noqa: S101  # for the type checker
        result = msgspec.json.decode(process.stdout.read(), type=SendResult)
    check(result.status_counts == {"201": _LARGE_EVENTS}, f"not all events were stored: {result.status_counts}")
    return result.seconds, delays


def measure_small(port: int, number: int) -> float:
    """Measure the seconds until a small event is acknowledged, over a new connection."""
    start = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_SECONDS)
    body = (
        b'{"eventTime":"2026-01-01T10:00:00Z","run":{"runId":"%d"},"job":{"namespace":"bench","name":"small"}}' % number
    )
    connection.request("POST", "/api/v1/lineage", body)
    status = connection.getresponse().status
    connection.close()
    check(status == http.HTTPStatus.CREATED, f"the response to a small event was {status}")
    return time.perf_counter() - start


def watch_memory(pid: int, peak: list[int], is_finished: threading.Event) -> None:
    """Record the peak memory of a process, sampled twenty times per second."""
    while not is_finished.wait(0.05):
        peak[0] = max(peak[0], measure_memory(pid).pss)


@contextmanager
def run_collector(home: Path) -> Iterator[tuple[int, int]]:
    """Run a collector, and yield its port and process id."""
    command = [sys.executable, "-m", "clew", "collect", "--port", "0", "--home", str(home)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None  # noqa: S101  # for the type checker
        match = re.search(r":(\d+)/", process.stderr.readline())
        check(match is not None, "the collector did not start")
        try:
            yield int(match[1]) if match else 0, process.pid
        finally:
            process.terminate()


def sender_command(port: int, clients: int, file: Path) -> list[str]:
    """Command that sends the events of a file."""
    return [sys.executable, "-m", "bench.senders", str(port), str(clients), str(file)]


def run_senders(port: int, clients: int, file: Path) -> SendResult:
    """Send the events of a file, and wait for the responses."""
    command = sender_command(port, clients, file)
    process = subprocess.run(command, stdout=subprocess.PIPE, timeout=_TIMEOUT_SECONDS, check=True)
    return msgspec.json.decode(process.stdout, type=SendResult)


def check(condition: bool, message: str) -> None:  # noqa: FBT001
    """Raise an error if a condition does not hold."""
    if not condition:
        raise RuntimeError(message)


if __name__ == "__main__":
    main()
