"""Law: a query for one entity reads an index of SQLite, and never scans a table that grows with the events."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from clew.events.streams import Stream, decode_event
from clew.index.extract.extractor import ChangeExtractor
from clew.index.queries.lineage import latest_assertions
from clew.index.queries.reader import IndexReader
from clew.index.writer import IndexWriter
from clew.query.entities.datasets import describe_dataset
from clew.query.entities.runs import describe_job, describe_run
from clew.query.model import DatasetName
from clew.query.names import column_names, require_run

RUN = "01900000-0000-7000-8000-000000000001"
# Tables with a row per event, run, edge or facet. A plan names a table by its alias.
LARGE_TABLES = (
    *("events", "runs", "run_io", "jobs", "datasets", "lineage_assertions", "edge_sets", "facets", "operations"),
    *("cell_executions", "reported_job_edges", "job_dependency_assertions", "schemas", "assertion", "explicit"),
)
_SCAN = re.compile(r"^SCAN (\w+)(?! USING)")


def _event() -> dict[str, Any]:
    source = {"namespace": "n", "name": "raw", "field": "a"}
    lineage = {"columnLineage": {"fields": {"b": {"inputFields": [source]}}}}
    return {
        "eventTime": "2026-01-01T10:00:00Z",
        "eventType": "COMPLETE",
        "run": {"runId": RUN},
        "job": {"namespace": "n", "name": "job"},
        "inputs": [{"namespace": "n", "name": "raw"}],
        "outputs": [{"namespace": "n", "name": "table", "facets": lineage}],
    }


class TracedIndex(IndexReader):
    """An index that records the statements that are executed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def record(self, statements: list[str]) -> None:
        connection: Any = self._database
        connection.set_trace_callback(statements.append)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TracedIndex]:
    location = tmp_path_factory.mktemp("index") / "index.sqlite"
    extractor = ChangeExtractor()
    extractor.add(decode_event(Stream.OPENLINEAGE, json.dumps(_event()).encode()), f"{1:032x}", 1)
    with IndexWriter(location) as writer:
        writer.apply("test/0", extractor.changes())
    with TracedIndex(location) as reader:
        yield reader


def _run_io(index: IndexReader, direction: str) -> Any:
    return next(io for io in index.io_of((RUN,))[RUN] if io.direction == direction)


QUERIES: dict[str, Callable[[IndexReader], object]] = {
    "columns of a dataset": lambda index: column_names(index, DatasetName("n", "table")),
    "a dataset": lambda index: describe_dataset(index, ("n", "table")),
    "a job": lambda index: describe_job(index, ("n", "job")),
    "a run": lambda index: describe_run(index, RUN),
    "reads and writes of a dataset": lambda index: index.io_of_dataset(("n", "table"), 10),
    "latest assertions": lambda index: latest_assertions(index, [("n", "table")]),
    "producer of an input": lambda index: index.writer_of(_run_io(index, "INPUT"), require_run(index, RUN)),
    "consumers of an output": lambda index: index.readers_of(_run_io(index, "OUTPUT"), require_run(index, RUN), 10),
    "jobs of a dataset": lambda index: index.jobs_of_dataset(("n", "table")),
    "datasets of a job": lambda index: index.datasets_of_job(("n", "job")),
    "asserted sources": lambda index: index.asserted_datasets(("n", "table"), is_forward=False),
    "asserted targets": lambda index: index.asserted_datasets(("n", "raw"), is_forward=True),
    "datasets with lineage from a dataset": lambda index: index.targets_of(("n", "raw")),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_for_one_entity_does_not_scan_a_large_table(index: TracedIndex, name: str) -> None:
    statements: list[str] = []
    index.record(statements)
    QUERIES[name](index)
    selects = [statement for statement in statements if statement.lstrip().startswith(("select", "with"))]
    assert selects
    with closing(sqlite3.connect(index.path)) as connection:
        assert [scan for select in selects for scan in _find_scans(connection, select)] == []


def _find_scans(connection: sqlite3.Connection, select: str) -> list[tuple[str, str]]:
    plan = [row[3] for row in connection.execute(f"explain query plan {select}")]
    subqueries = {step.partition(" ")[2] for step in plan if step.startswith(("CO-ROUTINE", "MATERIALIZE"))}
    scanned = [match[1] for step in plan if (match := _SCAN.match(step))]
    return [(table, select) for table in scanned if table in LARGE_TABLES and table not in subqueries]
