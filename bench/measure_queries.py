"""Benchmark: queries in process, on an index with half a million runs, edges and column edges.

python -m bench.measure_queries [EVENTS]
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from time import process_time

import msgspec
from bench.figures import Baseline, Report
from bench.large_index import COLUMNS, SCHEDULER, STORE, job_name, source_name, table_name, write_index
from bench.plain import measure_import_cpu, run_python
from bench.recursive import RecursiveQueries
from bench.rounds import parse_run_size, scratch_folder

from clew.index.queries.reader import IndexReader
from clew.query.context import QueryResources
from clew.query.entities.datasets import describe_dataset
from clew.query.entities.runs import describe_job, describe_run
from clew.query.names import resolve_id
from clew.query.search import search_entities
from clew.query.service import LineageService

_JOBS = 125_000
_QUERIES = 300
_BASELINE_QUERIES = 20
# Start of a server: imports, opening of index and graph, and a traversal of two hops.
_START_SERVER = f"""
import sys
from time import process_time
from pathlib import Path
from starlette.testclient import TestClient
from clew.api.app import create_app
from clew.api.v2.routes import operation_routes
from clew.query.context import QueryResources
index = Path(sys.argv[1])
client = TestClient(create_app(operation_routes(QueryResources(index))))
response = client.get("/api/v2/lineage", params={{"nodeId": "dataset:{STORE}:{table_name(0)}", "depth": 2}})
assert response.status_code == 200, response.text
print(process_time())
"""
# Not getrusage: it includes the memory of the parent at the fork.
_BUILD_GRAPHS = """
import re, sys
from pathlib import Path
from clew.query.context import QueryResources
with QueryResources(Path(sys.argv[1])) as resources, resources.reader() as index:
    resources.get_job_graph(index), resources.get_column_graph(index)
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024)
"""
# The same edges in dictionaries of sets, without times, versions and entities.
_BUILD_DICTIONARIES = """
import re, sqlite3, sys
from collections import defaultdict
from pathlib import Path
index, graphs = sqlite3.connect(sys.argv[1]), []
for query in (
    "select job_name, dataset_name from job_edges",
    'select dataset_name || char(31) || "column", source_name || char(31) || source_column from column_edges',
):
    up, down = defaultdict(set), defaultdict(set)
    for target, source in index.execute(query):
        up[target].add(source)
        down[source].add(target)
    graphs += up, down
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024)
"""


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("queries", run_size)
    jobs = run_size.scale(_JOBS, minimum=1_000)
    with scratch_folder() as folder:
        index = folder / "index.sqlite"
        write_index(index, jobs)
        report.log(f"{jobs:,} jobs, {4 * jobs:,} runs, an index of {index.stat().st_size >> 20:,} MB")
        building, reading = (float(run_python("-c", _BUILD_GRAPHS, str(index))) for _ in range(2))
        report.log(f"memory of a process that builds both graphs {building:,.0f} MB, that reads them {reading:,.0f} MB")
        dictionaries = float(run_python("-c", _BUILD_DICTIONARIES, str(index)))
        baseline = Baseline("the same edges in dictionaries of sets", dictionaries)
        report.check_max("memory, both graphs built", building, 600, " MB", baseline=baseline)
        starts = sorted(float(run_python("-c", _START_SERVER, str(index))) for _ in range(3))
        baseline = Baseline(
            "import of starlette and uvicorn", measure_import_cpu(["starlette.applications", "uvicorn"])
        )
        report.check_max("CPU of a server from its start to its first response", starts[1], 2, " s", baseline=baseline)
        with QueryResources(index) as resources, resources.reader() as reader:
            _measure_queries(report, resources, reader, jobs, RecursiveQueries(index, STORE))


def _measure_queries(
    report: Report, resources: QueryResources, index: IndexReader, jobs: int, recursive: RecursiveQueries
) -> None:
    random, service = Random(11), LineageService(resources, index)

    def random_name() -> str:
        return table_name(random.randrange(jobs))

    def random_table() -> str:
        return f"dataset:{STORE}:{random_name()}"

    def random_source() -> str:
        return f"dataset:{STORE}:{source_name(random.randrange(100))}"

    def random_column() -> str:
        return f"column_{random.randrange(COLUMNS)}"

    def random_job() -> tuple[str, str]:
        return SCHEDULER, job_name(random.randrange(jobs))

    traversals: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "lineage of a table, both directions, depth 20": (
            lambda: service.traverse(random_table()),
            lambda: recursive.table_lineage(random_name()),
        ),
        "lineage of a column, both directions, depth 20": (
            lambda: service.traverse(resolve_id(index, random_table(), random_column())),
            lambda: recursive.column_lineage(random_name(), random_column()),
        ),
    }
    for name, (query, recursive_query) in traversals.items():
        _, p95 = _percentiles(query)
        baseline = Baseline("a recursive CTE, names only", _percentiles(recursive_query, _BASELINE_QUERIES)[1])
        report.check_max(f"{name}, encoded, p95", p95, 20, " ms", baseline=baseline)
    queries: dict[str, Callable[[], object]] = {
        "lineage of a source with thousands of readers": lambda: service.traverse(random_source()),
        "impact of a column": lambda: service.analyze_impact(resolve_id(index, random_table(), random_column())),
        "a path": lambda: service.find_path(random_table(), random_table()),
        "a dataset": lambda: describe_dataset(index, (STORE, random_name())),
        "a job": lambda: describe_job(index, random_job()),
        "a run": lambda: describe_run(index, _last_run(index, *random_job())),
    }
    for name, query in queries.items():
        median, p95 = _percentiles(query)
        report.log(f"{name}: {median:,.3f} ms of CPU, 95th percentile {p95:,.2f}")
    start = process_time()
    resources.search_index.refresh()
    report.log(f"search index built in {process_time() - start:,.1f} CPU-s")
    median, p95 = _percentiles(
        lambda: search_entities(resources.search_index, index, f"table {random.randrange(100):03}")
    )
    report.log(f"a search: {median:,.2f} ms of CPU, 95th percentile {p95:,.2f}")


def _last_run(index: IndexReader, namespace: str, name: str) -> str:
    row = index.query_one("select latest_run_uuid from jobs where namespace = ? and name = ?", namespace, name)
    return "" if row is None else str(row[0])


def _percentiles(query: Callable[[], object], count: int = _QUERIES) -> tuple[float, float]:
    """Measure the 50th and 95th percentile of the CPU of a query and its JSON result, in milliseconds."""
    query()
    times = []
    for _ in range(count):
        start = process_time()
        msgspec.json.encode(query())
        times.append(1000 * (process_time() - start))
    times.sort()
    return times[len(times) // 2], times[len(times) * 95 // 100]


if __name__ == "__main__":
    main()
