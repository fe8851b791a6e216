"""Benchmark: latency of queries, in process against PostgreSQL with Marquez's tables, and over HTTP.

The index has the first 10,000 generated events; one in ten also reads a dataset that all read, and some have megabytes.
PostgreSQL has the same events. Both are queried alternately, in the same run.

python -m bench.measure_serving [EVENTS]     a full run has 10,000 events
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from random import Random
from statistics import median
from typing import Any, LiteralString
from urllib.parse import quote

import msgspec
from bench import generate
from bench.costs import TICKS_PER_SECOND, Cost
from bench.figures import Baseline, Report
from bench.http_load import Server, measure_latencies, measure_own_writes, p95, run_server, send_all
from bench.logs import SEED, to_incoming
from bench.marquez_tables import (
    COLUMN_LINEAGE_QUERY,
    DATASET_FACETS_QUERY,
    JOB_FACETS_QUERY,
    JOB_QUERY,
    JOBS_PAGE_QUERY,
    LINEAGE_QUERY,
    RUN_FACETS_QUERY,
    Connection,
    open_filled_database,
    qualified_name,
)
from bench.memory import measure_memory
from bench.plain import measure_import_cpu
from bench.processes import cpu_ticks
from bench.rounds import parse_run_size, scratch_folder

from clew.data_dir import DataDir
from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges
from clew.eventlog.writer import LogWriter
from clew.events.ids import event_id
from clew.events.streams import Stream, decode_event
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter
from clew.query.context import QueryResources
from clew.query.entities.catalog import Catalog

_EVENTS = 10_000
_BIG_EVENTS = 10
_BIG_DATASETS = 10
_HOT_DATASET = {"namespace": "s3://lake", "name": "hot.calendar", "facets": {"schema": {"fields": [{"name": "day"}]}}}
_EVENTS_PER_BATCH = 2_000
_CLIENTS = 16
_REQUESTS = 4_000
_BASELINE_QUERIES = 3
# About those that a pipeline has not indexed yet, at 200 events per second.
_OWN_WRITES = 300

Name = tuple[str, str]


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("serving", run_size)
    bodies = list(make_bodies(run_size.scale(_EVENTS, minimum=100)))
    with scratch_folder() as folder:
        home = DataDir(folder / "home").create()
        fill_index(home, bodies)
        with QueryResources(home.index) as resources, resources.catalog() as catalog:
            runs, jobs, datasets = list_names(catalog)
        with open_filled_database(bodies) as postgres:
            with QueryResources(home.index) as resources, resources.catalog() as catalog:
                compare(report, catalog, postgres, bodies, runs)
            baselines = measure_baselines(postgres, jobs, datasets)
        with run_server(home.root) as server:
            measure_latency(report, server, jobs, datasets, baselines)
            measure_throughput(report, server, runs, datasets)
        with run_server(home.root, "--collect") as server:
            server.wait_until_idle()
            measure_reads_of_own_writes(report, server, baselines["job"])


def make_bodies(count: int) -> Iterator[bytes]:
    """Generate events; one in ten also reads the hot dataset."""
    events = generate.generate_events(count, SEED, min(count // 50, _BIG_EVENTS))
    for position, body in enumerate(dict.fromkeys(events)):
        event = msgspec.json.decode(body)
        if position % 10 == 0:
            event["inputs"].append(_HOT_DATASET)
        yield msgspec.json.encode(event) if position % 10 == 0 else body


def fill_index(home: DataDir, bodies: Sequence[bytes]) -> None:
    """Append events to the log, and index them with the code of the workers."""
    with LogWriter(home.log) as log:
        for start in range(0, len(bodies), _EVENTS_PER_BATCH):
            log.append(to_incoming(bodies[start : start + _EVENTS_PER_BATCH]))
    end = end_position(home.log)
    with IndexWriter(home.index) as writer:
        for number, range_ in enumerate(split_ranges(home.log, 0, end, 16 << 20)):
            extractor = ChangeExtractor(writer.dictionary)
            for seq, line in read_lines(range_):
                body = decode_record(line).body
                extractor.add(decode_event(Stream.OPENLINEAGE, body), event_id(body), seq)
            writer.apply(f"bench/{number}", extractor.changes())


def list_names(catalog: Catalog) -> tuple[list[str], list[Name], list[Name]]:
    """List runs, jobs and datasets to query, in a reproducible order."""
    runs = [row["run_uuid"] for row in catalog.reader.query("select run_uuid from runs order by 1")]
    jobs = [(row["namespace"], row["name"]) for row in catalog.reader.query("select namespace, name from jobs")]
    # Without datasets whose facets have megabytes, which measure the transfer.
    rows = catalog.reader.query(
        """select distinct dataset_namespace, dataset_name from run_io where direction = 'OUTPUT' and not exists (
            select 1 from facets where kind = 'dataset' and length(body) > 20000
            and entity_key between dataset_namespace || char(31) || dataset_name || char(31)
                and dataset_namespace || char(31) || dataset_name || char(32))"""
    )
    datasets = [(row[0], row[1]) for row in rows]
    for names in (runs, jobs, datasets):
        Random(SEED).shuffle(names)
    return runs, jobs, datasets


def compare(report: Report, catalog: Catalog, postgres: Connection, bodies: Sequence[bytes], runs: list[str]) -> None:
    """Compare queries of the index with the same queries of PostgreSQL."""
    big = [msgspec.json.decode(body) for body in bodies if len(body) > 500_000]
    big_datasets = [
        (dataset["namespace"], dataset["name"]) for event in big for dataset in (*event["inputs"], *event["outputs"])
    ]
    hot = [(str(_HOT_DATASET["namespace"]), str(_HOT_DATASET["name"]))]
    for label, names, target in (
        ("facets of a dataset with events of megabytes, “before” / clew", big_datasets[:_BIG_DATASETS], 500),
        ("facets of a dataset that hundreds of runs read, “before” / clew", hot, 1000),
    ):
        before = measure_query(lambda name: merge_raw_facets(postgres, name), names, 3, postgres.info.backend_pid)
        clew = measure_query(lambda name: encode_dataset_facets(catalog, name), names, 50)
        report.log(f"{label}: {1000 * before.wall:,.1f} ms against {1e6 * clew.wall:,.0f} µs, median")
        report.check_min(label, before.wall / clew.wall, target, "×", cpu_ratio=before.cpu / clew.cpu)
    sample = runs[:300]
    tables = measure_query(lambda run: merge_run_facets(postgres, run), sample, 2, postgres.info.backend_pid)
    clew = measure_query(lambda run: msgspec.json.encode(run_facets(catalog, run)), sample, 2)
    report.log(f"facets of a run and its job: {1e6 * tables.wall:,.0f} µs against {1e6 * clew.wall:,.0f} µs, median")
    ratio = tables.wall / clew.wall
    report.check_min("all facets of a run, facet tables / clew", ratio, 5, "×", cpu_ratio=tables.cpu / clew.cpu)


def merge_raw_facets(postgres: Connection, name: Name) -> object:
    """Merge the facets of a dataset from raw events."""
    row = postgres.execute(DATASET_FACETS_QUERY, {"namespace": name[0], "name": name[1]}).fetchone()
    merged: dict[str, object] = {}
    for facets in row[0] if row is not None and row[0] else ():
        merged |= facets
    return merged


def encode_dataset_facets(catalog: Catalog, name: Name) -> bytes:
    """Encode the facets of a dataset as in a response."""
    return msgspec.json.encode(catalog.reader.dataset_facets_of([name])[name])


def merge_run_facets(postgres: Connection, run: str) -> object:
    """Merge the facets of a run and its job from facet tables."""
    merged: dict[str, object] = {}
    for query in (RUN_FACETS_QUERY, JOB_FACETS_QUERY):
        for _, facet in postgres.execute(query, {"run": run}):
            merged |= facet
    return msgspec.json.encode(merged)


def run_facets(catalog: Catalog, run: str) -> list[object]:
    """Facets of a run and its job."""
    return [catalog.run_facets(run, "run"), catalog.run_facets(run, "job")]


def measure_query(
    query: Callable[[Any], object], keys: Sequence[object], repetitions: int, server_pid: int | None = None
) -> Cost:
    """Measure the median wall time and the mean CPU of a query over keys, with the server; the first round warms up."""
    times: list[float] = []
    cpu = 0.0
    for repetition in range(repetitions + 1):
        if repetition == 1:
            cpu = _cpu_seconds(server_pid)
        for key in keys:
            start = time.perf_counter()
            query(key)
            if repetition:
                times.append(time.perf_counter() - start)
    # CPU of servers is counted in ticks of 10 ms.
    used = max(_cpu_seconds(server_pid) - cpu, 1 / TICKS_PER_SECOND if server_pid else 1e-9)
    return Cost(median(times), used / len(times))


def _cpu_seconds(server_pid: int | None) -> float:
    return time.process_time() + (cpu_ticks(server_pid) / TICKS_PER_SECOND if server_pid else 0.0)


def measure_baselines(postgres: Connection, jobs: list[Name], datasets: list[Name]) -> dict[str, Baseline]:
    """Measure queries of PostgreSQL with the rows that the responses need, without encoding and HTTP."""

    def fetch(query: LiteralString, **parameters: str) -> object:
        return postgres.execute(query, parameters).fetchall()

    def measure(name: str, queries: list[Callable[[], object]]) -> Baseline:
        return Baseline(
            f"PostgreSQL, {name}", 1000 * p95([measure_query(lambda run: run(), [query], 1).wall for query in queries])
        )

    return {
        "page": measure("one query", [partial(fetch, JOBS_PAGE_QUERY, namespace=f"scheduler-{n}") for n in range(6)]),
        "job": measure("one query", [partial(fetch, JOB_QUERY, namespace=ns, name=name) for ns, name in jobs[:100]]),
        "lineage": measure(
            "a recursive CTE",
            [partial(fetch, LINEAGE_QUERY, job=qualified_name(*job)) for job in jobs[:_BASELINE_QUERIES]],
        ),
        "columns": measure(
            "a recursive CTE",
            [partial(fetch, COLUMN_LINEAGE_QUERY, dataset=qualified_name(*name)) for name in datasets[:20]],
        ),
    }


def measure_latency(
    report: Report, server: Server, jobs: list[Name], datasets: list[Name], baselines: dict[str, Baseline]
) -> None:
    """Measure sequential requests over HTTP."""
    job_paths = [f"/api/v1/namespaces/{quote(space)}/jobs/{quote(name)}" for space, name in jobs[:200]]
    lineage_paths = [f"/api/v1/lineage?nodeId={quote(f'job:{space}:{name}')}&depth=20" for space, name in jobs[:20]]
    column_paths = [
        f"/api/v1/column-lineage?nodeId={quote(f'dataset:{space}:{name}')}&withDownstream=true"
        for space, name in datasets[:50]
    ]
    page_paths = [f"/api/v1/namespaces/scheduler-{number}/jobs?limit=25" for number in range(6)]
    imports = measure_import_cpu(["starlette.applications", "uvicorn", "httptools", "uvloop"])
    report.check_max(
        "API start to first response",
        server.seconds_to_start,
        2,
        " s",
        baseline=Baseline("import of starlette and uvicorn", imports),
    )
    report.log(
        f"graphs and search index, built in the background after the first start: {server.wait_until_idle():.1f} s more"
    )
    for label, paths, count, target, baseline in (
        ("a page of 25 jobs, p95 over HTTP", page_paths, 100, 20, "page"),
        ("one job, p95 over HTTP", job_paths, 400, 2, "job"),
        ("/lineage to depth 20, p95 over HTTP", lineage_paths, 40, 150, "lineage"),
        ("/column-lineage in both directions, p95 over HTTP", column_paths, 100, 150, "columns"),
    ):
        measure_latencies(server.port, paths, min(len(paths), 10))
        times = measure_latencies(server.port, paths, count)
        report.log(f"{label}: median {median(times):.1f} ms")
        report.check_max(label, p95(times), target, " ms", baseline=baselines[baseline])


def measure_throughput(report: Report, server: Server, runs: list[str], datasets: list[Name]) -> None:
    """Measure concurrent requests over HTTP."""
    count = report.run_size.scale(_REQUESTS, 200)
    run_paths = [f"/api/v1/jobs/runs/{run}" for run in runs]
    dataset_paths = [f"/api/v1/namespaces/{quote(s, safe='')}/datasets/{quote(n, safe='')}" for s, n in datasets]
    baseline = Baseline("/healthz of the same server", measure_rate(report, server, "/healthz", ["/healthz"], count))
    for label, paths in (("run documents", run_paths), ("dataset documents", dataset_paths)):
        rate = measure_rate(report, server, label, paths, count)
        name = f"{label}, requests per second of one worker’s CPU"
        report.check_min(name, rate, 5_000, " per second", baseline=baseline)
    memory = measure_memory(server.pid)
    report.log(f"memory of the server: {memory.pss >> 20} MB")


def measure_rate(report: Report, server: Server, label: str, paths: Sequence[str], count: int) -> float:
    """Measure the requests per CPU-second of the server."""
    requests = [paths[position % len(paths)] for position in range(count)]
    send_all(server.port, requests[:500], _CLIENTS)
    cpu = server.cpu_seconds()
    seconds = send_all(server.port, requests, _CLIENTS)
    # CPU is counted in ticks of 10 ms.
    cpu = max(server.cpu_seconds() - cpu, 1 / TICKS_PER_SECOND)
    report.log(f"{label}: {len(requests) / seconds:,.0f} requests per second, {_CLIENTS} clients on the same cores")
    return len(requests) / cpu


def measure_reads_of_own_writes(report: Report, server: Server, baseline: Baseline) -> None:
    """Measure reads of what was written last. No pipeline runs, so that the number of unindexed events grows."""
    bodies = list(islice(generate.generate_events(10 * _OWN_WRITES, SEED + 1), _OWN_WRITES))
    times = measure_own_writes(server.port, bodies, [list(own_paths(body)) for body in bodies])
    label = "a run, job or dataset after its event was acknowledged, p95 over HTTP"
    report.log(f"{label}: median {median(times):.1f} ms, with up to {_OWN_WRITES} unindexed events")
    report.check_max(label, p95(times), 100, " ms", baseline=baseline)


def own_paths(body: bytes) -> Iterator[str]:
    """Yield the paths of the run, the job and an output of an event."""
    event = msgspec.json.decode(body)
    job = event["job"]
    yield f"/api/v1/jobs/runs/{event['run']['runId']}"
    yield f"/api/v1/namespaces/{quote(job['namespace'], safe='')}/jobs/{quote(job['name'], safe='')}"
    for output in event["outputs"][:1]:
        yield f"/api/v1/namespaces/{quote(output['namespace'], safe='')}/datasets/{quote(output['name'], safe='')}"


if __name__ == "__main__":
    main()
