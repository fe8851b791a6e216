"""How fast questions are answered, in process against PostgreSQL with Marquez's tables, and over HTTP.

The index is filled with the first 20,000 generated events, one in ten of which also reads a dataset that all read, and
some of which have megabytes. PostgreSQL holds the same events. Both are asked in turn, in the same run.

python -m bench.measure_serving [EVENTS]     a full round has 20,000 events
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from statistics import median
from urllib.parse import quote

import msgspec
from bench import generate
from bench.figures import Report
from bench.http_load import Server, answer_times, ask_all, p95, serving
from bench.logs import SEED, received
from bench.marquez_tables import BEFORE, BY_RUN, JOB_BY_RUN, Connection, filled
from bench.memory import held_by
from bench.rounds import asked_for, scratch

from clew.data_dir import DataDir
from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges
from clew.eventlog.writer import LogWriter
from clew.events.ids import event_id
from clew.events.streams import Stream, decode_event
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter
from clew.query.entities.catalog import Catalog, CatalogPool

_EVENTS = 20_000
_BIG = 10
_HOT = {"namespace": "s3://lake", "name": "hot.calendar", "facets": {"schema": {"fields": [{"name": "day"}]}}}
_BATCH = 2_000
_CLIENTS = 16
_REQUESTS = 8_000

Name = tuple[str, str]


def main() -> None:
    """Print the figures."""
    asked = asked_for(__doc__)
    report = Report("serving", asked)
    bodies = list(told(asked.share(_EVENTS, at_least=2_000)))
    with scratch() as folder:
        home = DataDir(folder / "home").create()
        fill(home, bodies)
        with CatalogPool(home.index, home.log).open() as catalog:
            runs, jobs, datasets = names_in(catalog)
            with filled(bodies) as postgres:
                compare(report, catalog, postgres, bodies, runs)
        with serving(home.root) as server:
            ask(report, server, runs, jobs, datasets)


def told(count: int) -> Iterator[bytes]:
    """The events: as they are generated, but one in ten reads what all read."""
    for place, body in enumerate(dict.fromkeys(generate.events(count, SEED, _BIG))):
        event = msgspec.json.decode(body)
        if place % 10 == 0:
            event["inputs"].append(_HOT)
        yield msgspec.json.encode(event) if place % 10 == 0 else body


def fill(home: DataDir, bodies: Sequence[bytes]) -> None:
    """Store events in the log, and take them into the index with the code that runs on workers."""
    with LogWriter(home.log) as log:
        for start in range(0, len(bodies), _BATCH):
            log.append(received(bodies[start : start + _BATCH]))
    end = end_position(home.log)
    with IndexWriter(home.index) as sink:
        for number, part in enumerate(split_ranges(home.log, 0, end, 16 << 20)):
            observer = ChangeExtractor(sink.dictionary)
            for seq, line in read_lines(part):
                body = decode_record(line).body
                observer.add(decode_event(Stream.OPENLINEAGE, body), event_id(body), seq)
            sink.apply(f"bench/{number}", observer.changes())


def names_in(catalog: Catalog) -> tuple[list[str], list[Name], list[Name]]:
    """Runs, jobs and datasets to ask for, in an order that repeats."""
    runs = [row["run_uuid"] for row in catalog.reader.query("select run_uuid from runs order by 1")]
    jobs = [(row["namespace"], row["name"]) for row in catalog.reader.query("select namespace, name from jobs")]
    # Not those whose own facets have megabytes: that is what sending them costs.
    made = catalog.reader.query(
        """select distinct dataset_namespace, dataset_name from run_io where direction = 'OUTPUT' and not exists (
            select 1 from facets where kind = 'dataset' and length(body) > 20000
            and entity_key between dataset_namespace || char(31) || dataset_name || char(31)
                and dataset_namespace || char(31) || dataset_name || char(32))"""
    )
    datasets = [(row[0], row[1]) for row in made]
    for found in (runs, jobs, datasets):
        Random(SEED).shuffle(found)
    return runs, jobs, datasets


def compare(report: Report, catalog: Catalog, postgres: Connection, bodies: Sequence[bytes], runs: list[str]) -> None:
    """Hold answers from the index against the same answers out of PostgreSQL."""
    big = [msgspec.json.decode(body) for body in bodies if len(body) > 500_000]
    touched = [(one["namespace"], one["name"]) for event in big for one in (*event["inputs"], *event["outputs"])]
    hot = [(str(_HOT["namespace"]), str(_HOT["name"]))]
    for what, names, bar in (
        ("facets of a dataset whose runs have events of megabytes, “before” / clew", touched, 500),
        ("facets of a dataset that hundreds of runs read, “before” / clew", hot, 1000),
    ):
        theirs = typical(lambda name: facets_before(postgres, name), names, 5)
        ours = typical(lambda name: facets_now(catalog, name), names, 50)
        report.say(f"{what}: {1000 * theirs:,.1f} ms against {1e6 * ours:,.0f} µs, median")
        report.at_least(what, theirs / ours, bar, "×")
    some = runs[:300]
    theirs = typical(lambda run: facets_by_run(postgres, run), some, 2)
    ours = typical(lambda run: msgspec.json.encode(run_facets(catalog, run)), some, 2)
    report.say(f"facets of a run and its job: {1e6 * theirs:,.0f} µs against {1e6 * ours:,.0f} µs, median")
    report.at_least("all facets of a run, facet tables / clew", theirs / ours, 5, "×")


def facets_before(postgres: Connection, name: Name) -> object:
    """The facets of a dataset out of raw events, merged."""
    row = postgres.execute(BEFORE, {"namespace": name[0], "name": name[1]}).fetchone()
    found: dict[str, object] = {}
    for facets in row[0] if row is not None and row[0] else ():
        found |= facets
    return found


def facets_now(catalog: Catalog, name: Name) -> bytes:
    """The facets of a dataset as they would be sent."""
    return msgspec.json.encode(catalog.reader.dataset_facets_of([name])[name])


def facets_by_run(postgres: Connection, run: str) -> object:
    """The facets of a run and of its job out of facet tables, merged."""
    found: dict[str, object] = {}
    for query in (BY_RUN, JOB_BY_RUN):
        for _, facet in postgres.execute(query, {"run": run}):
            found |= facet
    return msgspec.json.encode(found)


def run_facets(catalog: Catalog, run: str) -> list[object]:
    """The facets of a run and of its job."""
    return [catalog.run_facets(run, "run"), catalog.run_facets(run, "job")]


def typical(work: Callable[[str], object] | Callable[[Name], object], keys: Sequence[object], times: int) -> float:
    """The median of the seconds that it takes for each of some keys; the first round does not count."""
    found = []
    for turn in range(times + 1):
        for key in keys:
            began = time.perf_counter()
            work(key)  # type: ignore[arg-type]
            if turn:
                found.append(time.perf_counter() - began)
    return median(found)


def ask(report: Report, server: Server, runs: list[str], jobs: list[Name], datasets: list[Name]) -> None:
    """Ask over HTTP."""
    one_job = [f"/api/v1/namespaces/{quote(space)}/jobs/{quote(name)}" for space, name in jobs[:200]]
    lineage = [f"/api/v1/lineage?nodeId={quote(f'job:{space}:{name}')}&depth=20" for space, name in jobs[:20]]
    columns = [
        f"/api/v1/column-lineage?nodeId={quote(f'dataset:{space}:{name}')}&withDownstream=true"
        for space, name in datasets[:50]
    ]
    pages = [f"/api/v1/namespaces/scheduler-{number}/jobs?limit=25" for number in range(6)]
    report.at_most("API start to first answer", server.seconds_to_start, 2, " s")
    report.say(f"graphs and search, which a first start makes of the index aside: {server.until_it_rests():.1f} s more")
    for what, paths, count, bar in (
        ("a page of 25 jobs, p95 over HTTP", pages, 100, 20),
        ("one job, p95 over HTTP", one_job, 400, 2),
        ("/lineage to depth 20, p95 over HTTP", lineage, 40, 150),
        ("/column-lineage both ways, p95 over HTTP", columns, 100, 150),
    ):
        answer_times(server.port, paths, min(len(paths), 10))
        times = answer_times(server.port, paths, count)
        report.say(f"{what}: median {median(times):.1f} ms")
        report.at_most(what, p95(times), bar, " ms")
    run_paths = [f"/api/v1/jobs/runs/{run}" for run in runs]
    dataset_paths = [f"/api/v1/namespaces/{quote(s, safe='')}/datasets/{quote(n, safe='')}" for s, n in datasets]
    for what, paths in (("run documents", run_paths), ("dataset documents", dataset_paths)):
        asked = [paths[place % len(paths)] for place in range(_REQUESTS)]
        ask_all(server.port, asked[:500], _CLIENTS)
        cpu = server.cpu_seconds()
        seconds = ask_all(server.port, asked, _CLIENTS)
        cpu = server.cpu_seconds() - cpu
        report.say(f"{what}: {len(asked) / seconds:,.0f} requests per second, {_CLIENTS} clients on the same cores")
        report.at_least(f"{what}, requests per second of one worker’s CPU", len(asked) / cpu, 5_000)
    held = held_by(server.process)
    report.say(f"the server holds {held.pss >> 20} MB")


if __name__ == "__main__":
    main()
