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
create table job_io (job text, is_input boolean, dataset text);
create table column_lineage (output text, output_field text, input text, input_field text);
"""
_INDEXES = """
create index on lineage_events (run_uuid);
create index on dataset_runs (namespace, name);
create index on run_facets (run_uuid);
create index on job_facets (run_uuid);
create index on lineage_events (job_namespace, job_name, event_time);
create index on job_io (job, is_input);
create index on job_io (dataset, is_input);
create index on column_lineage (output, output_field);
create index on column_lineage (input, input_field);
analyze;
"""
DATASET_FACETS_QUERY = """select jsonb_agg(ds -> 'facets' order by e.event_time) from dataset_runs d
    join lineage_events e on e.run_uuid = d.run_uuid,
    jsonb_array_elements(coalesce(e.event -> 'inputs', '[]') || coalesce(e.event -> 'outputs', '[]')) as ds
    where d.namespace = %(namespace)s and d.name = %(name)s and ds -> 'facets' is not null
    and ds ->> 'name' = d.name and ds ->> 'namespace' = d.namespace"""
RUN_FACETS_QUERY = """select name, facet from run_facets where run_uuid = %(run)s order by lineage_event_time"""
JOB_FACETS_QUERY = """select name, facet from job_facets where run_uuid = %(run)s order by lineage_event_time"""
JOB_QUERY = """select event -> 'job' from lineage_events where job_namespace = %(namespace)s and job_name = %(name)s
    order by event_time desc limit 1"""
JOBS_PAGE_QUERY = """select distinct on (job_name) job_name, event -> 'job' from lineage_events
    where job_namespace = %(namespace)s order by job_name, event_time desc limit 25"""
# Jobs and datasets to a distance of 20 edges in both directions, as the release does it: with a recursive CTE.
LINEAGE_QUERY = """with recursive reached(job, depth) as (
    select %(job)s::text, 0
    union
    select other.job, depth + 1 from reached
        join job_io own on own.job = reached.job
        join job_io other on other.dataset = own.dataset and other.is_input <> own.is_input
    where depth < 20
) select job, is_input, dataset from job_io where job in (select job from reached)"""
COLUMN_LINEAGE_QUERY = """with recursive upstream(name, field, depth) as (
    select %(dataset)s::text, output_field, 0 from column_lineage where output = %(dataset)s
    union
    select input, input_field, depth + 1 from upstream
        join column_lineage on output = name and output_field = field where depth < 20
), downstream(name, field, depth) as (
    select %(dataset)s::text, input_field, 0 from column_lineage where input = %(dataset)s
    union
    select output, output_field, depth + 1 from downstream
        join column_lineage on input = name and input_field = field where depth < 20
) select distinct name, field from upstream union select distinct name, field from downstream"""

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
        job_io: set[tuple[str, str, str]] = set()
        columns: set[tuple[str, str, str, str]] = set()
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
                for side in ("inputs", "outputs"):
                    for dataset in event[side]:
                        name = qualified_name(dataset["namespace"], dataset["name"])
                        job_io.add((qualified_name(job["namespace"], job["name"]), str(side == "inputs"), name))
                        columns.update(_column_rows(name, dataset))
                for table, subject in (("run_facets", event["run"]), ("job_facets", job)):
                    facets[table] += [
                        (run, time, name, msgspec.json.encode({name: facet}).decode())
                        for name, facet in subject.get("facets", {}).items()
                    ]
        _copy(cursor, "dataset_runs", runs)
        _copy(cursor, "job_io", job_io)
        _copy(cursor, "column_lineage", columns)
        for table, table_rows in facets.items():
            _copy(cursor, table, table_rows)


def qualified_name(namespace: str, name: str) -> str:
    """Return the key of a job or a dataset."""
    return f"{namespace}:{name}"


def _column_rows(output: str, dataset: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    fields = dataset.get("facets", {}).get("columnLineage", {}).get("fields", {})
    for field, lineage in fields.items():
        for source in lineage["inputFields"]:
            yield output, field, qualified_name(source["namespace"], source["name"]), source["field"]


def _copy(cursor: psycopg.Cursor[tuple[Any, ...]], table: str, table_rows: Iterable[tuple[str, ...]]) -> None:
    with cursor.copy(f"copy {table} from stdin") as rows:
        for row in table_rows:
            rows.write_row(row)
