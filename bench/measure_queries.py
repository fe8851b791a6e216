"""Questions in process, on an index of a million runs, a million edges and a million edges between columns.

python -m bench.measure_queries [EVENTS]
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import process_time

import msgspec
from bench.figures import Report
from bench.large_index import COLUMNS, SCHEDULER, STORE, job_name, source_name, table_name, write_index
from bench.rounds import asked_for, scratch

from clew.index.queries.reader import IndexReader
from clew.query.context import QueryResources
from clew.query.entities.facets import describe_dataset, describe_job, describe_run
from clew.query.lineage import analyze_impact, find_path, traverse_lineage
from clew.query.search import search_entities

_JOBS = 250_000
_QUESTIONS = 500
# What a server does before it can answer: it loads itself, opens the index and the graph, and walks two hops.
_START = f"""
import sys
from time import process_time
from pathlib import Path
from starlette.testclient import TestClient
from clew.api.app import create_app
from clew.api.v2.routes import operation_routes
from clew.query.service import NotebookService
from clew.query.context import QueryResources
index = Path(sys.argv[1])
client = TestClient(create_app(lambda: NotebookService(index), operation_routes(QueryResources(index))))
answer = client.get("/api/v2/lineage", params={{"nodeId": "dataset:{STORE}:{table_name(0)}", "depth": 2}})
assert answer.status_code == 200, answer.text
print(process_time())
"""
# Not getrusage: it counts what the parent held when it started the process.
_GRAPHS = """
import re, sys
from pathlib import Path
from clew.query.context import QueryResources
with QueryResources(Path(sys.argv[1])) as holdings, holdings.reader() as index:
    holdings.get_job_graph(index), holdings.get_column_graph(index)
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024)
"""


def main() -> None:
    """Print the figures."""
    asked = asked_for(__doc__)
    report = Report("queries", asked)
    jobs = asked.share(_JOBS, at_least=1_000)
    with scratch() as folder:
        index = folder / "index.sqlite"
        write_index(index, jobs)
        report.say(f"{jobs:,} jobs, {4 * jobs:,} runs, an index of {index.stat().st_size >> 20:,} MB")
        building, reading = memory_with_graphs(index), memory_with_graphs(index)
        report.say(f"a process that builds both graphs holds {building:,.0f} MB, one that reads them {reading:,.0f} MB")
        report.at_most("memory, both graphs built", building, 600, " MB")
        starts = sorted(float(_ran([sys.executable, "-c", _START, str(index)])) for _ in range(3))
        report.at_most("CPU up to the first answer of a server that starts", starts[1], 2, " s")
        with QueryResources(index) as holdings, holdings.reader() as reader:
            _ask(report, holdings, reader, jobs)


def _ask(report: Report, holdings: QueryResources, index: IndexReader, jobs: int) -> None:
    random = Random(11)

    def table() -> str:
        return f"dataset:{STORE}:{table_name(random.randrange(jobs))}"

    def source() -> str:
        return f"dataset:{STORE}:{source_name(random.randrange(100))}"

    def column() -> str:
        return f"column_{random.randrange(COLUMNS)}"

    def job() -> tuple[str, str]:
        return SCHEDULER, job_name(random.randrange(jobs))

    asked: dict[str, tuple[Callable[[], object], float | None]] = {
        "lineage of a table, both ways, depth 20": (lambda: traverse_lineage(holdings, index, table()), 20),
        "lineage of a source that thousands read": (lambda: traverse_lineage(holdings, index, source()), None),
        "lineage of a column, both ways, depth 20": (lambda: traverse_lineage(holdings, index, table(), column()), 20),
        "impact of a column": (lambda: analyze_impact(holdings, index, table(), column()), None),
        "a path": (lambda: find_path(holdings, index, table(), table()), None),
        "a dataset": (lambda: describe_dataset(index, STORE, table_name(random.randrange(jobs))), None),
        "a job": (lambda: describe_job(index, *job()), None),
        "a run": (lambda: describe_run(index, _last_run(index, *job())), None),
    }
    for what, (question, bar) in asked.items():
        middle, high = _percentiles(question)
        report.say(f"{what}: {middle:,.3f} ms of CPU, 95th percentile {high:,.2f}")
        if bar is not None:
            report.at_most(f"{what}, encoded, p95", high, bar, " ms")
    began = process_time()
    holdings.search_index.refresh()
    report.say(f"search file made in {process_time() - began:,.1f} CPU-s")
    middle, high = _percentiles(
        lambda: search_entities(holdings.search_index, index, f"table {random.randrange(100):03}")
    )
    report.say(f"a search: {middle:,.2f} ms of CPU, 95th percentile {high:,.2f}")


def _last_run(index: IndexReader, namespace: str, name: str) -> str:
    row = index.query_one("select latest_run_uuid from jobs where namespace = ? and name = ?", namespace, name)
    return "" if row is None else str(row[0])


def _percentiles(question: Callable[[], object]) -> tuple[float, float]:
    """The 50th and 95th percentile of the CPU of a question and its answer as JSON, in milliseconds."""
    question()
    taken = []
    for _ in range(_QUESTIONS):
        began = process_time()
        msgspec.json.encode(question())
        taken.append(1000 * (process_time() - began))
    taken.sort()
    return taken[len(taken) // 2], taken[len(taken) * 95 // 100]


def memory_with_graphs(index: Path) -> float:
    """The most memory that a process held when it had both graphs, as it says itself, in MB."""
    return float(_ran([sys.executable, "-c", _GRAPHS, str(index)]))


def _ran(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
