"""Benchmark: import of a Marquez database: events per second, memory, and latency of readers during the backfill.

The events are in the tables of a Marquez server, in a PostgreSQL that is started here. They are read with Spark and
appended to the log. The rate is that of a warm process: a first import of a small database precedes it. The memory is
that of the command with its JVM and all workers, and of ingestion and backfill too; that of PostgreSQL is not included.

python -m bench.measure_import [EVENTS]     a full run imports 20,000 events, and 30 of 10 MB with them
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from statistics import median, quantiles

import msgspec
import psycopg
from bench.costs import Cost, measure_cost
from bench.figures import Baseline, Report
from bench.generate import big_event, generate_events, make_jobs, make_tables
from bench.logs import SEED
from bench.memory import run_and_measure_peak
from bench.postgres import start_server
from bench.rounds import parse_run_size, scratch_folder

from clew.data_dir import DatabaseUrl, DataDir
from clew.importer.importer import ImportContext, import_database
from clew.importer.ingestion import SparkOptions
from clew.pipeline.spark.session import build_session
from clew.query.context import QueryResources

_EVENTS = 20_000
_BIG_EVENTS = 30
_BIG_BYTES = 10_000_000
_WARM_UP_EVENTS = 2_000
_MIN_EVENTS = 200
_ROUNDS = 3
_READS = 300
# 2026-01-01T00:00:00Z
_START = 1_767_225_600
_TABLE = """create table lineage_events (event_time timestamptz not null, event jsonb not null, event_type text,
    job_name text, job_namespace text, producer text, run_uuid uuid, created_at timestamptz, _event_type varchar(64));
create index on lineage_events (created_at desc nulls last);
create index on lineage_events (event_time desc);
create index on lineage_events (run_uuid);
create index on lineage_events (job_name, job_namespace)"""


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("import", run_size)
    count, big = run_size.scale(_EVENTS, _MIN_EVENTS), run_size.scale(_BIG_EVENTS, 2)
    with scratch_folder() as folder, tempfile.TemporaryDirectory() as server, start_server(Path(server)) as url:
        databases = {name: create_database(url, name) for name in ("small", "usual", "large")}
        fill(databases["small"], generate_events(min(count, _WARM_UP_EVENTS), SEED))
        size = fill(databases["usual"], generate_events(count, SEED))
        fill(databases["large"], with_big_events(generate_events(count, SEED), count, big))
        report.log(f"{count:,} events of {size / count / 1e3:.1f} KB")
        best = measure_rate(report, folder, databases, count)
        plain = measure_cost(partial(copy_events, databases["usual"], folder / "copy.jsonl"))
        report.check_min(
            "events per second, warm",
            count / best.wall,
            5_000,
            " events/s",
            baseline=Baseline("plain Python: COPY to a file with one event per line", count / plain.wall),
            cpu_ratio=plain.cpu / best.cpu,
        )
        home = folder / "large"
        command = [sys.executable, "-m", "clew", "import", "marquez", databases["large"], "--home", str(home), "--json"]
        started = time.monotonic()
        peak, process = run_and_measure_peak([*command, "--no-backfill"])
        imported = msgspec.json.decode(process.stdout)["events"] if process.returncode == 0 else 0
        if imported != count + big:
            print(process.stderr, file=sys.stderr)
        report.log(f"import and ingestion with {big} events of 10 MB: {time.monotonic() - started:.0f} s")
        report.check_min("imported events", imported, count + big)
        report.check_max(
            "memory of all processes (PSS)",
            peak.pss / 1e6,
            3_000,
            " MB",
            baseline=Baseline("the events of 10 MB alone", big * _BIG_BYTES / 1e6),
        )
        measure_latency(report, DataDir(home))


def create_database(url: str, name: str) -> str:
    """Create a database with Marquez's table of events; return its URL."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"create database {name}")
    database = url.replace("/postgres?", f"/{name}?")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(_TABLE)
    return database


def fill(database: str, bodies: Iterable[bytes]) -> int:
    """Store events, one per second; return their bytes."""
    size = 0
    with psycopg.connect(database, autocommit=True) as connection, connection.cursor() as cursor:
        columns = "event_time, event, job_name, job_namespace, run_uuid, created_at, _event_type"
        with cursor.copy(f"copy lineage_events ({columns}) from stdin") as rows:
            for number, body in enumerate(bodies):
                event, size = msgspec.json.decode(body), size + len(body)
                job, received_at = event["job"], time.gmtime(_START + number)
                rows.write_row(
                    (
                        event["eventTime"],
                        body.decode(),
                        job["name"],
                        job["namespace"],
                        event["run"]["runId"],
                        time.strftime("%Y-%m-%d %H:%M:%S+00", received_at),
                        "RUN_EVENT",
                    )
                )
        connection.execute("vacuum analyze lineage_events")
    return size


def with_big_events(bodies: Iterator[bytes], count: int, big: int) -> Iterator[bytes]:
    """Mix big events with others."""
    random = Random(SEED)
    jobs = make_jobs(random, make_tables(random))
    for _ in range(big):
        yield from islice(bodies, count // big)
        yield big_event(random, random.choice(jobs), _BIG_BYTES)
    yield from bodies


def measure_rate(report: Report, folder: Path, databases: dict[str, str], count: int) -> Cost:
    """Measure the least cost from the database to the log."""
    spark = build_session()
    costs = []
    try:
        import_into(folder / "warm-up", databases["small"], SparkOptions(session=spark))
        for number in range(_ROUNDS):
            home = folder / f"round-{number}"
            cost = measure_cost(partial(import_into, home, databases["usual"], SparkOptions(session=spark)))
            report.log(f"{cost.rate(count)}, without PostgreSQL")
            costs.append(cost)
    finally:
        spark.stop()
    return min(costs, key=lambda cost: cost.wall)


def copy_events(database: str, file: Path) -> None:
    """Copy the events of a database to a file, and sync it."""
    with (
        psycopg.connect(database) as connection,
        connection.cursor() as cursor,
        cursor.copy("copy (select event::text from lineage_events order by created_at) to stdout") as rows,
        file.open("wb") as output,
    ):
        for row in rows:
            output.write(row)
        output.flush()
        os.fsync(output.fileno())


def import_into(home: Path, database: str, spark: SparkOptions) -> None:
    """Import a database into the log of a new home."""
    import_database(ImportContext(DataDir(home), spark, has_ingestion=False), DatabaseUrl(database, Path()))


def measure_latency(report: Report, home: DataDir) -> None:
    """Compare the latency of reading jobs without and with a backfill in another process."""
    resources = QueryResources(home.index, home.lake)
    try:
        with resources.catalog() as catalog:
            names = [(row["namespace"], row["name"]) for row in catalog.reader.query("select * from jobs limit 200")]
        read(resources, names)
        idle = read(resources, names)
        with backfill(home) as process:
            during: list[Cost] = []
            while process.poll() is None or not during:
                during += read(resources, names)
    finally:
        resources.close()
    samples = [[cost.wall for cost in sample] for sample in (idle, during)]
    medians = [quantiles(sample, n=20)[9] * 1e3 for sample in samples]
    p95 = [quantiles(sample, n=20)[18] * 1e3 for sample in samples]
    cpu = [median(cost.cpu for cost in sample) for sample in (idle, during)]
    report.log(f"a job: median {medians[0]:.2f} and {medians[1]:.2f} ms, p95 {p95[0]:.2f} and {p95[1]:.2f} ms")
    report.check_max(
        "median latency of a job during the backfill / before it",
        medians[1] / medians[0],
        2,
        "×",
        cpu_ratio=cpu[1] / cpu[0],
    )


def read(resources: QueryResources, names: list[tuple[str, str]]) -> list[Cost]:
    """Return the costs of reading each of some jobs."""
    times = []
    for number in range(_READS):
        started, cpu = time.perf_counter(), time.thread_time()
        with resources.catalog() as catalog:
            catalog.job(names[number % len(names)])
        times.append(Cost(time.perf_counter() - started, time.thread_time() - cpu))
    return times


@contextmanager
def backfill(home: DataDir) -> Iterator[subprocess.Popen[bytes]]:
    """Run a backfill in another process."""
    command = [sys.executable, "-m", "clew", "pipeline", "backfill", "--home", str(home.root)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        yield process


if __name__ == "__main__":
    main()
