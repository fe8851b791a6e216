"""Fixtures of unit and law tests: indexes, and notebook sessions as events."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid4, uuid5

import pytest
from tests.support.event_generator import Scenario

from clew.data_dir import DatabaseUrl, IndexLocation
from clew.index.backends import open_backend

START = datetime(2026, 1, 1, 10, tzinfo=UTC)


class PostgresSchemas:
    """Schemas for an index in one database: each is created once and truncated for each test."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder
        self._schemas: set[str] = set()

    def empty(self, name: str = "tests") -> DatabaseUrl:
        """Return the location of a schema without events."""
        index_location = self.missing(f"{name}_{os.getpid()}")
        if name not in self._schemas:
            open_backend(index_location).remove()
            self._schemas.add(name)
        writer = open_backend(index_location).writer()
        query = "select tablename from pg_tables where schemaname = current_schema"
        for (table,) in writer.database.execute(query).fetchall():
            writer.database.execute(f"delete from {table} where {'key' if table == 'meta' else repr('')} != 'format'")
        writer.database.execute("insert into meta values ('identity', ?)", (uuid4().hex,))
        writer.database.close()
        return index_location

    def missing(self, schema: str) -> DatabaseUrl:
        """Return the location of a schema that does not exist."""
        separator = "&" if "?" in self._url else "?"
        return DatabaseUrl(f"{self._url}{separator}schema={schema}", self._folder)


@pytest.fixture(scope="session")
def postgres_schemas(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> PostgresSchemas:
    """Return the schemas of the PostgreSQL server of the tests."""
    return PostgresSchemas(postgres, tmp_path_factory.mktemp("beside"))


@pytest.fixture(params=["sqlite", "postgres"])
def index_location(request: pytest.FixtureRequest, tmp_path: Path) -> IndexLocation:
    """Return the location of an index: a SQLite file, then a PostgreSQL schema."""
    if request.param == "sqlite":
        return tmp_path / "index.sqlite"
    schemas: PostgresSchemas = request.getfixturevalue("postgres_schemas")
    return schemas.empty()


class Clock:
    """A clock that advances one minute per call."""

    def __init__(self) -> None:
        self.minutes = 0

    def __call__(self) -> str:
        self.minutes += 1
        return (START + timedelta(minutes=self.minutes)).isoformat()


class NotebookSession:
    """The events of one notebook session, cell by cell.

    Datasets are written `orders.csv` (a file), `df@2` (a variable in its second version) or `cell/dataframe_head` (a
    frame without a variable). A source is (dataset, column, subtype); other subtypes than
    IDENTITY, TRANSFORMATION and AGGREGATION make INDIRECT edges.
    """

    def __init__(self, clock: Clock, session_id: str, notebook: str) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.id, self.notebook = session_id, notebook
        self._cells: list[str] = []
        self._clock = clock

    def operation(
        self,
        cell: str,
        output: str,
        columns: dict[str | None, list[tuple[str, ...]]],
        *,
        code: str = "",
        error: str | None = None,
        has_cell: bool = True,
        duration_ms: float = 10.0,
    ) -> str:
        """Add a cell with one operation; return the run id of the operation."""
        execution, run = f"{self.id}-{len(self.events)}", str(uuid5(NAMESPACE_OID, f"{self.id}-{len(self.events)}"))
        self._cells.append(cell)
        if has_cell:
            self._cell(cell, execution, "start")
        sources = {source[0] for column_sources in columns.values() for source in column_sources}
        self._lineage(
            f"{cell}/dataframe_{cell}",
            run,
            [self._dataset(source) for source in sources],
            [self._output(output, columns)],
        )
        self._dataframe(cell, execution, run, code or f"{cell}()")
        if has_cell:
            self._cell(cell, execution, "error" if error else "end", error, duration_ms)
        return run

    def run(self, kind: str) -> None:
        """Add an event of the run of the whole session."""
        job_type = {"processingType": "BATCH", "integration": "MARIMO", "jobType": "NOTEBOOK"}
        self._lineage(None, str(uuid5(NAMESPACE_OID, self.id)), [], [], kind=kind, facets={"jobType": job_type})

    def _context(self, cell: str, execution: str) -> dict[str, Any]:
        return {
            "session_id": self.id,
            "execution_id": execution,
            "timestamp": self._clock(),
            "cell_id": cell[:4],
            "cell_name": cell,
            "notebook": f"{self.notebook}.py",
        }

    def _cell(self, cell: str, execution: str, kind: str, error: str | None = None, duration: float = 0.0) -> None:
        event = {"event_type": f"cell_execution_{kind}", **self._context(cell, execution), "cell_source": f"{cell}()"}
        event |= {"start_memory_mb": 100.0, "cell_index": len(self._cells)}
        if kind != "start":
            event |= {"duration_ms": duration, "end_memory_mb": 120.0}
        if error is not None:
            event["error_info"] = {"error_type": "KeyError", "error_message": error, "traceback": "…"}
        self.events.append(("runtime", event))

    def _dataframe(self, cell: str, execution: str, run: str, code: str) -> None:
        event = {"event_type": "dataframe_lineage", **self._context(cell, execution), "run_id": run, "line": 1}
        self.events.append(("dataframe", {**event, "operation_code": code, "operation_method": cell}))

    def _lineage(
        self,
        job: str | None,
        run: str,
        inputs: list[dict[str, Any]],
        outputs: list[dict[str, Any]],
        *,
        kind: str = "COMPLETE",
        facets: dict[str, Any] | None = None,
    ) -> None:
        name = self.notebook if job is None else f"{self.notebook}/{job}"
        event = {
            "eventTime": self._clock(),
            "eventType": kind,
            "run": {"runId": run},
            "job": {"namespace": "marimo", "name": name, "facets": facets or {}},
            "inputs": inputs,
            "outputs": outputs,
            "session_id": self.id,
        }
        self.events.append(("openlineage", event))

    def _dataset(self, text: str) -> dict[str, Any]:
        name, _, version = text.partition("@")
        if "." in name:
            return {"namespace": "file", "name": f"/data/{name}", "facets": {}}
        facets = {"version": {"datasetVersion": version or "1"}}
        return {"namespace": "marimo", "name": f"{self.notebook}/{name}", "facets": facets}

    def _output(self, text: str, columns: dict[str | None, list[tuple[str, ...]]]) -> dict[str, Any]:
        dataset = self._dataset(text)
        fields = {
            column: {"inputFields": [*map(self._source, column_sources)]}
            for column, column_sources in columns.items()
            if column
        }
        dataset_sources = [self._source(source) for source in columns.get(None, [])]
        schema = {"fields": [{"name": column, "type": "int64"} for column in fields]}
        facets = {"schema": schema, "columnLineage": {"fields": fields, "dataset": dataset_sources}}
        return {
            **dataset,
            "facets": {**dataset["facets"], **facets},
            "outputFacets": {"outputStatistics": {"rowCount": 7}},
        }

    def _source(self, source: tuple[str, ...]) -> dict[str, Any]:
        text, column, subtype, description = (*source, *("IDENTITY", "")[len(source) - 2 :])
        dataset = self._dataset(text)
        kind = "DIRECT" if subtype in {"IDENTITY", "TRANSFORMATION", "AGGREGATION"} else "INDIRECT"
        transformations = [{"type": kind, "subtype": subtype, "description": description}]
        return {
            "namespace": dataset["namespace"],
            "name": dataset["name"],
            "field": column,
            "transformations": transformations,
        }


class NotebookEvents:
    """Notebook sessions on one clock, and their index."""

    def __init__(self, index: IndexLocation) -> None:
        self.index = index
        self._clock = Clock()
        self._sessions: list[NotebookSession] = []

    def session(self, session_id: str = "aaaa1111", notebook: str = "orders") -> NotebookSession:
        """Start a session."""
        session = NotebookSession(self._clock, session_id, notebook)
        self._sessions.append(session)
        return session

    def index_events(self, sessions: Iterable[NotebookSession] | None = None) -> IndexLocation:
        """Index the events session by session, in the order of `sessions`, which is the order of receipt."""
        from clew.events.streams import decode_event
        from clew.index.extract.extractor import ChangeExtractor
        from clew.index.writer import IndexWriter

        events = [event for session in sessions or self._sessions for event in session.events]
        extractor = ChangeExtractor()
        for seq, (stream, event) in enumerate(events):
            extractor.add(decode_event(stream, json.dumps(event).encode()), f"{seq:032x}", seq)
        with IndexWriter(self.index) as index_writer:
            index_writer.apply("batch/0", extractor.changes())
        return self.index


@pytest.fixture
def notebook_events(tmp_path: Path) -> NotebookEvents:
    """Return an empty collection of notebook sessions."""
    return NotebookEvents(tmp_path / "index.sqlite")


@pytest.fixture
def orders(notebook_events: NotebookEvents) -> NotebookEvents:
    """Index a notebook session that reads, filters, aggregates and writes a file; its last cell fails."""
    session = notebook_events.session()
    session.run("START")
    session.operation(
        "load", "df@1", {"id": [("orders.csv", "id")], "price": [("orders.csv", "price")]}, duration_ms=90
    )
    session.operation(
        "keep", "df@2", {"id": [("df@1", "id")], "price": [("df@1", "price")], None: [("df@1", "id", "FILTER")]}
    )
    session.operation(
        "total", "totals@1", {"sum": [("df@2", "price", "AGGREGATION")], None: [("df@2", "id", "GROUP_BY")]}
    )
    session.operation("save", "totals.parquet", {"sum": [("totals@1", "sum")]}, code="totals.to_parquet(path)")
    session.operation("fail", "broken@1", {}, error="'prise'")
    session.run("FAIL")
    notebook_events.index_events()
    return notebook_events


Lines = Callable[[Any], list[str]]


@pytest.fixture
def format_lineage() -> Lines:
    """Return a formatter of upstream lineage: one line `dataset@version.column subtype` per hop, indented by depth."""

    def name(hop: Any) -> str:
        short = hop.dataset.name.removeprefix("/data/").removeprefix("orders/")
        return f"{short}{'@' + hop.version if hop.version else ''}.{hop.column}"

    def lines(hop: Any, depth: int = 0) -> list[str]:
        subtype = "" if hop.edge is None else f" {hop.edge.subtype}"
        suffix = " again" if hop.is_repeated else ""
        current_line = "  " * depth + name(hop) + subtype + suffix
        return [current_line, *(line for source in hop.upstream for line in lines(source, depth + 1))]

    return lines


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    """Return an empty scenario."""
    return Scenario(tmp_path)


@pytest.fixture
def resources(scenario: Scenario) -> Iterator[Any]:
    """Yield the query resources of the scenario's index."""
    from clew.query.context import QueryResources

    with QueryResources(scenario.index) as resources:
        yield resources


@pytest.fixture(scope="session")
def scenario_class() -> type[Scenario]:
    """Return the class of scenarios, for tests that create several."""
    return Scenario
