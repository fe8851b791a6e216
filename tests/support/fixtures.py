"""Fixtures shared by unit and law tests: indexes, and notebook sessions as events."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid4, uuid5

import pytest
from tests.support.event_generator import World

from clew.data_dir import DatabaseUrl, IndexLocation
from clew.index.backends import open_backend

START = datetime(2026, 1, 1, 10, tzinfo=UTC)


class PostgresPlaces:
    """Empty places for an index in one database: a schema is made once, and emptied for each test."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder
        self._schemas: set[str] = set()

    def empty(self, name: str = "tests") -> DatabaseUrl:
        """A place that holds no events."""
        place = self.missing(f"{name}_{os.getpid()}")
        if name not in self._schemas:
            open_backend(place).remove()
            self._schemas.add(name)
        writer = open_backend(place).writer()
        query = "select tablename from pg_tables where schemaname = current_schema"
        for (table,) in writer.database.execute(query).fetchall():
            writer.database.execute(f"delete from {table} where {'key' if table == 'meta' else repr('')} != 'format'")
        writer.database.execute("insert into meta values ('identity', ?)", (uuid4().hex,))
        writer.database.close()
        return place

    def missing(self, schema: str) -> DatabaseUrl:
        """A place where nothing is."""
        mark = "&" if "?" in self._url else "?"
        return DatabaseUrl(f"{self._url}{mark}schema={schema}", self._folder)


@pytest.fixture(scope="session")
def postgres_places(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> PostgresPlaces:
    """Places in the tests' PostgreSQL."""
    return PostgresPlaces(postgres, tmp_path_factory.mktemp("beside"))


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> IndexLocation:
    """Where to put an index: one after the other, a file and a database."""
    if request.param == "sqlite":
        return tmp_path / "index.sqlite"
    places: PostgresPlaces = request.getfixturevalue("postgres_places")
    return places.empty()


class Clock:
    """Each look at it is a minute later."""

    def __init__(self) -> None:
        self.minutes = 0

    def __call__(self) -> str:
        self.minutes += 1
        return (START + timedelta(minutes=self.minutes)).isoformat()


class Session:
    """A run of a notebook, cell by cell.

    Datasets are written `orders.csv` (a file), `df@2` (a variable in its second version) or `cell/dataframe_head` (a
    frame that no variable held). A source is (dataset, column, subtype); subtypes of influences make INDIRECT edges.
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
        """A cell that does one operation; gives the id of the operation's run."""
        execution, run = f"{self.id}-{len(self.events)}", str(uuid5(NAMESPACE_OID, f"{self.id}-{len(self.events)}"))
        self._cells.append(cell)
        if has_cell:
            self._cell(cell, execution, "start")
        sources = {source[0] for found in columns.values() for source in found}
        self._lineage(
            f"{cell}/dataframe_{cell}", run, [self._dataset(one) for one in sources], [self._output(output, columns)]
        )
        self._dataframe(cell, execution, run, code or f"{cell}()")
        if has_cell:
            self._cell(cell, execution, "error" if error else "end", error, duration_ms)
        return run

    def run(self, kind: str) -> None:
        """An event of the run that stands for the whole session."""
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
        fields = {column: {"inputFields": [*map(self._source, found)]} for column, found in columns.items() if column}
        whole = [self._source(source) for source in columns.get(None, [])]
        schema = {"fields": [{"name": column, "type": "int64"} for column in fields]}
        facets = {"schema": schema, "columnLineage": {"fields": fields, "dataset": whole}}
        return {
            **dataset,
            "facets": {**dataset["facets"], **facets},
            "outputFacets": {"outputStatistics": {"rowCount": 7}},
        }

    def _source(self, source: tuple[str, ...]) -> dict[str, Any]:
        text, column, subtype = (*source, "IDENTITY")[:3]
        dataset = self._dataset(text)
        kind = "DIRECT" if subtype in {"IDENTITY", "TRANSFORMATION", "AGGREGATION"} else "INDIRECT"
        how = [{"type": kind, "subtype": subtype}]
        return {"namespace": dataset["namespace"], "name": dataset["name"], "field": column, "transformations": how}


class Story:
    """Sessions on one clock, and the index that comes of them."""

    def __init__(self, index: IndexLocation) -> None:
        self.index = index
        self._clock = Clock()
        self._sessions: list[Session] = []

    def session(self, session_id: str = "aaaa1111", notebook: str = "orders") -> Session:
        """A session that starts now."""
        made = Session(self._clock, session_id, notebook)
        self._sessions.append(made)
        return made

    def tell(self, sessions: Iterable[Session] | None = None) -> IndexLocation:
        """Index the events, session by session, in the order given: the order in which the log received them."""
        from clew.events.streams import decode_event
        from clew.index.extract.extractor import ChangeExtractor
        from clew.index.writer import IndexWriter

        events = [event for session in sessions or self._sessions for event in session.events]
        observer = ChangeExtractor()
        for seq, (stream, event) in enumerate(events):
            observer.add(decode_event(stream, json.dumps(event).encode()), f"{seq:032x}", seq)
        with IndexWriter(self.index) as sink:
            sink.apply("batch/0", observer.changes())
        return self.index


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """An empty story, to be filled with sessions."""
    return Story(tmp_path / "index.sqlite")


@pytest.fixture
def orders(story: Story) -> Story:
    """The run of a notebook that reads a file, filters it in place, joins, and writes a file; its last cell fails."""
    session = story.session()
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
    story.tell()
    return story


Lines = Callable[[Any], list[str]]


@pytest.fixture
def lines_of() -> Lines:
    """A walk's answer as lines: `dataset@version.column subtype`, two spaces for each hop."""

    def name(hop: Any) -> str:
        short = hop.dataset.name.removeprefix("/data/").removeprefix("orders/")
        return f"{short}{'@' + hop.version if hop.version else ''}.{hop.column}"

    def lines(hop: Any, depth: int = 0) -> list[str]:
        how = "" if hop.edge is None else f" {hop.edge.subtype}"
        repeated = " again" if hop.is_repeated else ""
        own = "  " * depth + name(hop) + how + repeated
        return [own, *(line for source in hop.upstream for line in lines(source, depth + 1))]

    return lines


@pytest.fixture
def world(tmp_path: Path) -> World:
    """An empty world."""
    return World(tmp_path)


@pytest.fixture
def holdings(world: World) -> Iterator[Any]:
    """What a process keeps of the world's index."""
    from clew.query.context import QueryResources

    with QueryResources(world.index) as kept:
        yield kept


@pytest.fixture(scope="session")
def world_in() -> type[World]:
    """How to make an empty world in a folder."""
    return World
