"""Benchmark: `clew up` against a running Marquez server, with the same events and the same requests.

    MARQUEZ_URL=http://127.0.0.1:5000 make bench ONLY=marquez

Both receive the events from four clients, alternating, and answer the same requests of the API, one at a time. The time
of clew ends when the last event is visible; Marquez stores an event before it responds. The server should have no other
data and no other users. Without `MARQUEZ_URL`, nothing is measured; `serving`, `collector` and `import` compare with
the tables of Marquez in PostgreSQL.

python -m bench.measure_marquez [EVENTS]     a full run sends 1,500 events
"""

from __future__ import annotations

import http.client
import os
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from statistics import median
from urllib.parse import quote, urlsplit

import msgspec
from bench import generate
from bench.figures import Report
from bench.logs import SEED
from bench.rounds import parse_run_size, scratch_folder
from tests.faults.service import run_service

_EVENTS = 1_500
_TURNS = 3
_CLIENTS = 4
_REQUESTS = 20
_TIMEOUT_SECONDS = 600


@dataclass(frozen=True)
class MarquezApi:
    """Server with the API of Marquez."""

    url: str

    def connect(self) -> http.client.HTTPConnection:
        """Open a connection."""
        address = urlsplit(self.url)
        kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
        return kind(address.hostname or "127.0.0.1", address.port, timeout=_TIMEOUT_SECONDS)

    def send(self, events: Sequence[bytes]) -> Counter[int]:
        """Send events with several clients; return the number of responses by status."""
        pending = deque(events)

        def run_client() -> Counter[int]:
            connection, statuses = self.connect(), Counter[int]()
            while pending:
                try:
                    body = pending.popleft()
                except IndexError:
                    break
                connection.request("POST", "/api/v1/lineage", body, {"content-type": "application/json"})
                response = connection.getresponse()
                response.read()
                statuses[response.status] += 1
            connection.close()
            return statuses

        with ThreadPoolExecutor(_CLIENTS) as executor:
            clients = [executor.submit(run_client) for _ in range(_CLIENTS)]
            return sum((client.result() for client in clients), Counter[int]())

    def wait_until_visible(self, runs: Sequence[str]) -> None:
        """Wait until the API has all of some runs."""
        connection, end = self.connect(), time.monotonic() + _TIMEOUT_SECONDS
        for run in runs:
            while self._status(connection, f"/api/v1/jobs/runs/{run}") != http.HTTPStatus.OK:
                if time.monotonic() > end:
                    message = f"The run {run} is not visible after {_TIMEOUT_SECONDS} seconds."
                    raise RuntimeError(message)
                time.sleep(0.02)
        connection.close()

    def measure_latency(self, paths: Sequence[str]) -> float:
        """Measure the median seconds of a response."""
        connection = self.connect()
        times = []
        for path in islice(paths, _REQUESTS):
            start = time.perf_counter()
            status = self._status(connection, path)
            times.append(time.perf_counter() - start)
            if status != http.HTTPStatus.OK:
                message = f"{self.url}{path}: {status}"
                raise RuntimeError(message)
        connection.close()
        return median(times)

    @staticmethod
    def _status(connection: http.client.HTTPConnection, path: str) -> int:
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        return response.status


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("marquez", run_size)
    url = os.environ.get("MARQUEZ_URL")
    if not url:
        report.log("not measured: MARQUEZ_URL is not set")
        return
    events = list(dict.fromkeys(generate.generate_events(run_size.scale(_EVENTS, 30), SEED)))
    with scratch_folder() as folder, run_service(folder / "home") as (_, clew):
        compare(MarquezApi(clew), MarquezApi(url), events, report)


def compare(clew: MarquezApi, marquez: MarquezApi, events: list[bytes], report: Report) -> None:
    """Compare ingestion and reads."""
    part = -(-len(events) // (_TURNS + 1))
    ratios, rates = [], []
    # The first turn is a warm-up of both.
    for turn in range(_TURNS + 1):
        batch = events[turn * part : (turn + 1) * part]
        if not batch:
            break
        clew_rate, marquez_rate = (measure_ingestion(server, batch) for server in (clew, marquez))
        report.log(f"clew {clew_rate:,.0f} events/s, Marquez {marquez_rate:,.1f}")
        if turn:
            rates.append(clew_rate)
            ratios.append(clew_rate / marquez_rate)
    report.compare("events per second until visible, clew / Marquez", median(ratios), "×", rounds=ratios)
    for name, paths in make_paths(events).items():
        seconds = [server.measure_latency(paths) for server in (clew, marquez)]
        report.log(f"{name}: clew {1e3 * seconds[0]:.1f} ms, Marquez {1e3 * seconds[1]:,.1f} ms, median")
        report.compare(f"{name}: median latency of Marquez / of clew", seconds[1] / seconds[0], "×")


def measure_ingestion(server: MarquezApi, events: list[bytes]) -> float:
    """Measure the events per second until all are visible."""
    start = time.perf_counter()
    statuses = server.send(events)
    if set(statuses) != {http.HTTPStatus.CREATED}:
        message = f"{server.url} did not store all events: {dict(statuses)}"
        raise RuntimeError(message)
    server.wait_until_visible([msgspec.json.decode(body)["run"]["runId"] for body in events[-_CLIENTS:]])
    return len(events) / (time.perf_counter() - start)


def make_paths(events: list[bytes]) -> dict[str, list[str]]:
    """Return paths of the API for jobs, datasets and runs of the events."""
    decoded = [msgspec.json.decode(body) for body in events]
    jobs = dict.fromkeys((event["job"]["namespace"], event["job"]["name"]) for event in decoded)
    outputs = dict.fromkeys((item["namespace"], item["name"]) for event in decoded for item in event["outputs"])
    runs = dict.fromkeys(event["run"]["runId"] for event in decoded)
    spaces = dict.fromkeys(namespace for namespace, _ in jobs)

    def node(kind: str, name: tuple[str, str]) -> str:
        return quote(f"{kind}:{name[0]}:{name[1]}", safe="")

    return {
        "a page of 25 jobs": [f"/api/v1/namespaces/{quote(space, safe='')}/jobs?limit=25" for space in spaces],
        "a job": [f"/api/v1/namespaces/{quote(space, safe='')}/jobs/{quote(name, safe='')}" for space, name in jobs],
        "a dataset": [
            f"/api/v1/namespaces/{quote(space, safe='')}/datasets/{quote(name, safe='')}" for space, name in outputs
        ],
        "a run": [f"/api/v1/jobs/runs/{run}" for run in runs],
        "lineage, depth 3": [f"/api/v1/lineage?nodeId={node('job', name)}&depth=3" for name in jobs],
        "column lineage": [f"/api/v1/column-lineage?nodeId={node('dataset', name)}" for name in outputs],
    }


if __name__ == "__main__":
    main()
