"""The collector against PostgreSQL, what an event costs it, and whether large events stand in the way of small ones.

Both get the same events, each acknowledged when it is durable, and take turns; the median of the turns counts.
PostgreSQL has as many connections as the collector has clients; how it does with fewer is told beside it. The clients
of each are a process of their own, in which each waits for an answer before it sends the next and does little else:
what they take of the machine is missed by the server.

python -m bench.measure_collector [EVENTS]     a full round sends 20,000 events in each of three turns
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
from bench.costs import TICKS
from bench.figures import Report
from bench.logs import SEED
from bench.memory import held_by
from bench.postgres import count, insert, postgres, row
from bench.processes import ticks
from bench.rounds import asked_for, scratch
from bench.senders import Sent

_EVENTS = 20_000
_TURNS = 3
_CLIENTS = 64
_FEWER = (8, 32)
_LARGE = 4
_LARGE_BYTES = 100_000_000
_PATIENCE_SECONDS = 600


def main() -> None:
    """Print the figures."""
    asked = asked_for(__doc__)
    report = Report("collector", asked)
    events = list(dict.fromkeys(islice(generate.events(10**9, SEED), asked.share(_EVENTS, at_least=4_000))))
    report.say(f"{len(events):,} events, {sum(map(len, events)) / len(events):,.0f} bytes each, {_CLIENTS} clients")
    compare(events, report)
    take_large(report)


def compare(events: list[bytes], report: Report) -> None:
    """Durable events a second, and CPU per event."""
    ours, costs, their_costs = [], [], []
    theirs: dict[int, list[float]] = {connections: [] for connections in (_CLIENTS, *_FEWER)}
    rows = [row(event) for event in events]
    with scratch() as folder, postgres(folder / "postgres") as (address, server):
        file = folder / "events.jsonl"
        file.write_bytes(b"\n".join(events) + b"\n")
        for turn in range(_TURNS):
            for connections, rates in theirs.items():
                before = ticks(server)
                inserted = insert(address, rows, connections)
                rates.append(len(rows) / inserted.seconds)
                their_costs.append((ticks(server) - before) / TICKS / len(rows))
                report.say(
                    f"PostgreSQL, {connections} connections: {rates[-1]:,.0f}/s, "
                    f"{1000 * their_costs[-1]:.3f} ms of CPU per event, "
                    f"its clients {1000 * inserted.cpu_seconds / len(rows):.3f} ms"
                )
            with collecting(folder / f"home {turn}") as (port, process):
                before = ticks(process)
                sent = send(port, _CLIENTS, file)
                costs.append((ticks(process) - before) / TICKS / len(events))
            require(sent.answers == {"201": len(events)}, f"not all were stored: {sent.answers}")
            ours.append(len(events) / sent.seconds)
            report.say(
                f"the collector: {ours[-1]:,.0f}/s, {1000 * costs[-1]:.3f} ms of CPU per event, "
                f"its clients {1000 * sent.cpu_seconds / len(events):.3f} ms"
            )
        require(count(address) == _TURNS * len(theirs) * len(rows), "PostgreSQL does not hold all events")
    rate, best = median(ours), max(median(rates) for rates in theirs.values())
    report.say(f"against PostgreSQL at its best number of connections: {rate / best:.2f}×")
    report.at_least("durable events a second / INSERT per event", rate / median(theirs[_CLIENTS]), 3)
    report.at_most("CPU per event of the collector", 1000 * median(costs), 0.4, " ms")


def take_large(report: Report) -> None:
    """Memory while large events come, and how long small ones wait meanwhile."""
    random = Random(SEED)
    jobs = generate.make_jobs(random, generate.make_tables(random))
    large = generate.big_event(random, jobs[0], _LARGE_BYTES)
    with scratch() as folder, collecting(folder / "home") as (port, process):
        file = folder / "large.jsonl"
        with file.open("wb") as written:
            written.writelines(b'{"place":%d,%s\n' % (place, large.strip()[1:]) for place in range(_LARGE))
        post_small(port, 0)
        before, peak, is_over = held_by(process).pss, [0], threading.Event()
        watcher = threading.Thread(target=watch_memory, args=(process, peak, is_over))
        watcher.start()
        seconds, delays = while_sending(port, file)
        is_over.set()
        watcher.join()
        size = sum(path.stat().st_size for path in (folder / "home" / "log").glob("*.ndjson"))
    require(size > _LARGE * len(large), "not all large events are in the log")
    report.say(f"{_LARGE} × {len(large) / 1e6:.0f} MB in {seconds:.1f} s; {len(delays)} small ones meanwhile")
    report.say(f"memory before: {before / 1e6:,.0f} MB")
    report.at_most("memory while four events of 100 MB come", peak[0] / 1e6, 300, " MB")
    report.at_most("longest wait of a small event meanwhile", max(delays), 0.5, " s")


def while_sending(port: int, file: Path) -> tuple[float, list[float]]:
    """Send large events at once; gives how long it took, and how long each small one waited meanwhile."""
    with subprocess.Popen(sending(port, _LARGE, file), stdout=subprocess.PIPE) as process:
        delays: list[float] = []
        while process.poll() is None:
            start = time.perf_counter()
            post_small(port, len(delays) + 1)
            delays.append(time.perf_counter() - start)
            time.sleep(0.01)
        assert process.stdout is not None  # noqa: S101  # for the type checker
        sent = msgspec.json.decode(process.stdout.read(), type=Sent)
    require(sent.answers == {"201": _LARGE}, f"not all were stored: {sent.answers}")
    return sent.seconds, delays


def post_small(port: int, number: int) -> None:
    """Send a small event, over a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_SECONDS)
    body = b'{"eventTime":"2026-01-01T10:00:00Z","run":{"runId":"%d"}}' % number
    connection.request("POST", "/api/v1/lineage", body)
    status = connection.getresponse().status
    connection.close()
    require(status == http.HTTPStatus.CREATED, f"a small event was answered with {status}")


def watch_memory(process: int, peak: list[int], is_over: threading.Event) -> None:
    """Note the most that a process holds, looking twenty times a second."""
    while not is_over.wait(0.05):
        peak[0] = max(peak[0], held_by(process).pss)


@contextmanager
def collecting(home: Path) -> Iterator[tuple[int, int]]:
    """A collector as users start it; gives its port and the id of its process."""
    command = [sys.executable, "-m", "clew", "collect", "--port", "0", "--home", str(home)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None  # noqa: S101  # for the type checker
        found = re.search(r":(\d+)/", process.stderr.readline())
        require(found is not None, "the collector did not start")
        try:
            yield int(found[1]) if found else 0, process.pid
        finally:
            process.terminate()


def sending(port: int, clients: int, file: Path) -> list[str]:
    """What sends the events of a file."""
    return [sys.executable, "-m", "bench.senders", str(port), str(clients), str(file)]


def send(port: int, clients: int, file: Path) -> Sent:
    """Send the events of a file, and wait for the answers."""
    command = sending(port, clients, file)
    ended = subprocess.run(command, stdout=subprocess.PIPE, timeout=_PATIENCE_SECONDS, check=True)
    return msgspec.json.decode(ended.stdout, type=Sent)


def require(is_so: bool, otherwise: str) -> None:  # noqa: FBT001
    """Give up on a measure that would measure something else."""
    if not is_so:
        raise RuntimeError(otherwise)


if __name__ == "__main__":
    main()
