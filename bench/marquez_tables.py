"""The same events in PostgreSQL with Marquez's tables: raw events, and one row per facet of each event.

Tables and indexes are those of its facet proposal and of its release. The queries are the ones that the proposal
replaces ("before"), and the ones by run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from bench.postgres import start_server

_TABLES = """
create table lineage_events (run_uuid text, event_time timestamptz, event_type text, event jsonb, job_name text,
    job_namespace text, producer text);
create table dataset_runs (namespace text, name text, run_uuid text);
create table run_facets (run_uuid text, lineage_event_time timestamptz, name text, facet jsonb);
create table job_facets (run_uuid text, lineage_event_time timestamptz, name text, facet jsonb);
"""
_INDEXES = """
create index on lineage_events (run_uuid);
create index on dataset_runs (namespace, name);
create index on run_facets (run_uuid);
create index on job_facets (run_uuid);
analyze;
"""
DATASET_FACETS_QUERY = """select jsonb_agg(ds -> 'facets' order by e.event_time) from dataset_runs d
    join lineage_events e on e.run_uuid = d.run_uuid,
    jsonb_array_elements(coalesce(e.event -> 'inputs', '[]') || coalesce(e.event -> 'outputs', '[]')) as ds
    where d.namespace = %(namespace)s and d.name = %(name)s and ds -> 'facets' is not null
    and ds ->> 'name' = d.name and ds ->> 'namespace' = d.namespace"""
RUN_FACETS_QUERY = """select name, facet from run_facets where run_uuid = %(run)s order by lineage_event_time"""
JOB_FACETS_QUERY = """select name, facet from job_facets where run_uuid = %(run)s order by lineage_event_time"""

Connection = psycopg.Connection[tuple[Any, ...]]


@contextmanager
def open_filled_database(events: Iterable[bytes]) -> Iterator[Connection]:
    """Start a temporary PostgreSQL with these events."""
    with (
        tempfile.TemporaryDirectory(prefix="clew-bench-") as folder,
        start_server(Path(folder)) as url,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        connection.execute(_TABLES)
        _load(connection, events)
        for statement in _INDEXES.split(";"):
            connection.execute(statement)
        connection.execute("set jit = off")
        yield connection


def _load(connection: Connection, events: Iterable[bytes]) -> None:
    with connection.cursor() as cursor:
        runs: set[tuple[str, str, str]] = set()
        facets: dict[str, list[tuple[str, str, str, str]]] = {"run_facets": [], "job_facets": []}
        with cursor.copy("copy lineage_events from stdin") as rows:
            for body in events:
                event = msgspec.json.decode(body)
                run, time = event["run"]["runId"], event["eventTime"]
                job = event["job"]
                rows.write_row(
                    (run, time, event["eventType"], body.decode(), job["name"], job["namespace"], event["producer"])
                )
                for dataset in (*event["inputs"], *event["outputs"]):
                    runs.add((dataset["namespace"], dataset["name"], run))
                for table, subject in (("run_facets", event["run"]), ("job_facets", job)):
                    facets[table] += [
                        (run, time, name, msgspec.json.encode({name: facet}).decode())
                        for name, facet in subject.get("facets", {}).items()
                    ]
        _copy(cursor, "dataset_runs", runs)
        for table, table_rows in facets.items():
            _copy(cursor, table, table_rows)


def _copy(cursor: psycopg.Cursor[tuple[Any, ...]], table: str, table_rows: Iterable[tuple[str, ...]]) -> None:
    with cursor.copy(f"copy {table} from stdin") as rows:
        for row in table_rows:
            rows.write_row(row)
