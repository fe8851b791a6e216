"""A PostgreSQL database with the tables of a Marquez server, filled from events as the server would store them.

The tables have the columns that an import reads, in two versions: that of 0.51, and one without a time of receipt.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import NAMESPACE_URL, UUID, uuid4, uuid5

import psycopg
from psycopg import sql

OLD_TABLES = """
create table namespaces (uuid uuid primary key, created_at timestamptz not null, updated_at timestamptz not null,
    name varchar not null unique, description text, current_owner_name varchar);
create table sources (uuid uuid primary key, type varchar not null, created_at timestamptz not null,
    updated_at timestamptz not null, name varchar not null unique, connection_url varchar not null, description text);
create table jobs (uuid uuid primary key, type varchar not null, created_at timestamptz not null,
    updated_at timestamptz not null, namespace_uuid uuid, name varchar not null, description text,
    current_version_uuid uuid, namespace_name varchar, current_location varchar);
create table datasets (uuid uuid primary key, type varchar not null, created_at timestamptz not null,
    updated_at timestamptz not null, namespace_uuid uuid, source_uuid uuid, name varchar not null,
    physical_name varchar not null, description text, current_version_uuid uuid, namespace_name varchar,
    source_name varchar, is_deleted boolean default false);
create table dataset_fields (uuid uuid primary key, type text, created_at timestamptz not null,
    updated_at timestamptz not null, dataset_uuid uuid, name varchar not null, description text);
create table dataset_versions (uuid uuid primary key, created_at timestamptz not null, dataset_uuid uuid,
    version uuid not null, run_uuid uuid, fields jsonb, namespace_name varchar, dataset_name varchar,
    lifecycle_state varchar);
create table job_versions (uuid uuid primary key, created_at timestamptz not null, updated_at timestamptz not null,
    job_uuid uuid, version uuid not null, location varchar, latest_run_uuid uuid, namespace_uuid uuid,
    namespace_name varchar, job_name varchar);
create table job_versions_io_mapping (job_version_uuid uuid, dataset_uuid uuid not null, io_type varchar not null);
create table runs (uuid uuid primary key, created_at timestamptz not null, updated_at timestamptz not null,
    job_version_uuid uuid, current_run_state varchar, external_id varchar, namespace_name varchar, job_name varchar,
    transitioned_at timestamp, started_at timestamp, ended_at timestamp);
create table runs_input_mapping (run_uuid uuid not null, dataset_version_uuid uuid not null);
create table tags (uuid uuid primary key, created_at timestamptz not null, updated_at timestamptz not null,
    name varchar not null unique, description text);
create table datasets_tag_mapping (dataset_uuid uuid not null, tag_uuid uuid not null, tagged_at timestamp not null);
create table dataset_fields_tag_mapping (dataset_field_uuid uuid not null, tag_uuid uuid not null,
    tagged_at timestamp not null);
create table lineage_events (event_time timestamptz not null, event jsonb not null, event_type text, job_name text,
    job_namespace text, producer text, run_uuid uuid);
create index on lineage_events (run_uuid);
create index on lineage_events (job_name, job_namespace);
create index on lineage_events (event_time desc);
"""
NEW_TABLES = f"""{OLD_TABLES}
alter table namespaces add column is_hidden boolean default false;
alter table jobs add column simple_name varchar, add column parent_job_uuid uuid, add column is_hidden boolean,
    add column symlink_target_uuid uuid, add column current_run_uuid uuid;
alter table datasets add column is_hidden boolean default false;
alter table runs add column parent_run_uuid uuid, add column job_uuid uuid;
alter table lineage_events add column created_at timestamptz, add column _event_type varchar(64);
create index on lineage_events (created_at desc nulls last);
create table jobs_tag_mapping (job_uuid uuid not null, tag_uuid uuid not null, tagged_at timestamptz not null);
create table dataset_facets (created_at timestamptz not null, dataset_uuid uuid, run_uuid uuid,
    lineage_event_time timestamptz not null, type varchar not null, name varchar not null, facet jsonb not null);
"""
START = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
STATES = {"COMPLETE": "COMPLETED", "FAIL": "FAILED", "ABORT": "ABORTED"}
Event = dict[str, Any]
Name = tuple[str, str]


def row_id(*parts: object) -> UUID:
    """Return the UUID of a row by its name."""
    return uuid5(NAMESPACE_URL, "/".join(map(str, parts)))


class MarquezDatabase:
    """Writes to a database as a Marquez server does. `is_old` is a version without the time of receipt."""

    def __init__(self, url: str, *, is_old: bool = False) -> None:
        self.url = url
        self._is_old = is_old
        self._count = 0
        with self.connect() as connection:
            connection.execute(OLD_TABLES if is_old else NEW_TABLES)

    @property
    def has_received_at(self) -> bool:
        """Return whether events have a time of receipt."""
        return not self._is_old

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection."""
        return psycopg.connect(self.url, autocommit=True)

    def store(self, events: Iterable[Event], *, has_received_at: bool = True) -> None:
        """Store events one second after the other; with their jobs, datasets, runs and versions."""
        with self.connect() as connection, connection.transaction():
            for event in events:
                self._count += 1
                received_at = START + timedelta(seconds=self._count)
                self._store_event(connection, event, received_at if has_received_at else None)
                if "run" in event:
                    self._store_run(connection, event, received_at)

    def execute(self, statement: str, *values: object) -> list[Any]:
        """Execute a statement and return its rows, if any."""
        with self.connect() as connection:
            cursor = connection.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def _store_event(self, connection: psycopg.Connection[Any], event: Event, received_at: datetime | None) -> None:
        job, run = event.get("job", {}), event.get("run", {}).get("runId")
        columns = "event_time, event, event_type, job_name, job_namespace, producer, run_uuid"
        values = [
            event["eventTime"],
            json.dumps(event),
            event.get("eventType"),
            job.get("name"),
            job.get("namespace"),
            event.get("producer"),
            run,
        ]
        if not self._is_old:
            kind = "RUN_EVENT" if run else "JOB_EVENT" if job else "DATASET_EVENT"
            columns, values = f"{columns}, created_at, _event_type", [*values, received_at, kind]
        marks = ", ".join(["%s"] * len(values))
        connection.execute(f"insert into lineage_events ({columns}) values ({marks})", values)

    def _store_run(self, connection: psycopg.Connection[Any], event: Event, at: datetime) -> None:
        run, job = UUID(event["run"]["runId"]), event["job"]
        namespace, name = job["namespace"], job["name"]
        self.add_namespace(connection, namespace, at)
        # Old versions do not read the parent.
        parent = None if self._is_old else event["run"].get("facets", {}).get("parent")
        full_name, parent_job = name, None
        if parent is not None:
            parent_name = parent["job"]["name"]
            simple = name.removeprefix(f"{parent_name}.")
            full_name = f"{parent_name}.{simple}"
            parent_job = self.add_job(connection, (namespace, parent_name), at)
        job_id = self.add_job(
            connection, (namespace, full_name), at, full_name.removeprefix(f"{full_name[: -len(name)]}"), parent_job
        )
        if parent is not None:
            parent_run = UUID(parent["run"]["runId"])
            self.add_run(connection, parent_run, (namespace, parent["job"]["name"]), "RUNNING", at, None)
            connection.execute("update jobs set simple_name = %s where uuid = %s", [simple, job_id])
        state = STATES.get(event.get("eventType", ""), "RUNNING")
        is_end = state != "RUNNING"
        self.add_run(connection, run, (namespace, full_name), state, at, at if is_end else None)
        if parent is not None:
            connection.execute("update runs set parent_run_uuid = %s where uuid = %s", [parent_run, run])
        version = row_id("job version", namespace, full_name)
        connection.execute(
            "insert into job_versions values (%s, %s, %s, %s, %s, null, %s, null, %s, %s)"
            " on conflict (uuid) do update set latest_run_uuid = excluded.latest_run_uuid",
            [version, at, at, job_id, row_id("hash", version), run, namespace, full_name],
        )
        connection.execute("update jobs set current_version_uuid = %s where uuid = %s", [version, job_id])
        for kind, key in (("INPUT", "inputs"), ("OUTPUT", "outputs")):
            for dataset in event.get(key, []):
                dataset_id = self.add_dataset(connection, dataset, at)
                self._map_dataset(connection, dataset, dataset_id, version, kind, run, at)

    def _map_dataset(
        self,
        connection: psycopg.Connection[Any],
        dataset: Event,
        dataset_id: UUID,
        job_version: UUID,
        kind: str,
        run: UUID,
        at: datetime,
    ) -> None:
        connection.execute(
            "insert into job_versions_io_mapping select %s, %s, %s where not exists (select 1 from"
            " job_versions_io_mapping where job_version_uuid = %s and dataset_uuid = %s and io_type = %s)",
            [job_version, dataset_id, kind] * 2,
        )
        version = row_id("dataset version", dataset["namespace"], dataset["name"], run)
        if kind == "INPUT":
            # The current version, or one without a run.
            ((current,),) = connection.execute(
                "select current_version_uuid from datasets where uuid = %s", [dataset_id]
            ).fetchall()
            if current is None:
                current = version
                connection.execute(
                    "insert into dataset_versions values (%s, %s, %s, %s, null, null, %s, %s, null)",
                    [current, at, dataset_id, row_id("hash", current), dataset["namespace"], dataset["name"]],
                )
                connection.execute(
                    "update datasets set current_version_uuid = %s where uuid = %s", [current, dataset_id]
                )
            connection.execute("insert into runs_input_mapping values (%s, %s)", [run, current])
        if kind == "OUTPUT":
            connection.execute(
                "insert into dataset_versions values (%s, %s, %s, %s, %s, null, %s, %s, null) on conflict do nothing",
                [version, at, dataset_id, row_id("hash", version), run, dataset["namespace"], dataset["name"]],
            )
            connection.execute("update datasets set current_version_uuid = %s where uuid = %s", [version, dataset_id])
        if not self._is_old:
            for name, facet in dataset.get("facets", {}).items():
                connection.execute(
                    "insert into dataset_facets values (%s, %s, %s, %s, 'DATASET', %s, %s)",
                    [at, dataset_id, run, at, name, json.dumps({name: facet})],
                )

    def add_namespace(self, connection: psycopg.Connection[Any], name: str, at: datetime) -> None:
        """Add a namespace."""
        connection.execute(
            "insert into namespaces (uuid, created_at, updated_at, name, current_owner_name)"
            " values (%s, %s, %s, %s, 'anonymous') on conflict do nothing",
            [row_id("namespace", name), at, at, name],
        )

    def add_job(
        self,
        connection: psycopg.Connection[Any],
        name: Name,
        at: datetime = START,
        simple_name: str | None = None,
        parent: UUID | None = None,
        description: str | None = None,
    ) -> UUID:
        """Add a job."""
        uuid = row_id("job", *name)
        connection.execute(
            "insert into jobs (uuid, type, created_at, updated_at, name, namespace_name, description)"
            " values (%s, 'BATCH', %s, %s, %s, %s, %s)"
            " on conflict (uuid) do update set updated_at = excluded.updated_at",
            [uuid, at, at, name[1], name[0], description],
        )
        if not self._is_old:
            connection.execute(
                "update jobs set simple_name = %s, parent_job_uuid = %s where uuid = %s",
                [simple_name or name[1], parent, uuid],
            )
        return uuid

    def add_dataset(self, connection: psycopg.Connection[Any], dataset: Event, at: datetime = START) -> UUID:
        """Add a dataset with its fields."""
        namespace, name = dataset["namespace"], dataset["name"]
        uuid = row_id("dataset", namespace, name)
        self.add_namespace(connection, namespace, at)
        connection.execute(
            "insert into datasets (uuid, type, created_at, updated_at, name, physical_name, namespace_name,"
            " source_name, description) values (%s, 'DB_TABLE', %s, %s, %s, %s, %s, 'default', %s)"
            " on conflict do nothing",
            [uuid, at, at, name, name, namespace, dataset.get("description")],
        )
        for field in dataset.get("facets", {}).get("schema", {}).get("fields", []):
            connection.execute(
                "insert into dataset_fields values (%s, %s, %s, %s, %s, %s, %s) on conflict do nothing",
                [row_id(uuid, field["name"]), field.get("type"), at, at, uuid, field["name"], field.get("description")],
            )
        return uuid

    def add_run(
        self,
        connection: psycopg.Connection[Any],
        run: UUID,
        job: Name,
        state: str,
        started_at: datetime,
        ended_at: datetime | None,
    ) -> None:
        """Add a run or set its state."""
        connection.execute(
            "insert into runs (uuid, created_at, updated_at, current_run_state, namespace_name, job_name, started_at,"
            " ended_at) values (%s, %s, %s, %s, %s, %s, %s, %s) on conflict (uuid) do update set"
            " current_run_state = excluded.current_run_state, ended_at = coalesce(excluded.ended_at, runs.ended_at)",
            [
                run,
                started_at,
                started_at,
                state,
                *job,
                started_at.replace(tzinfo=None),
                ended_at and ended_at.replace(tzinfo=None),
            ],
        )

    def tag(self, name: str, description: str | None = None, **entities: UUID) -> None:
        """Add a tag, and its mapping to a dataset, a dataset_field or a job."""
        tag = row_id("tag", name)
        self.execute(
            "insert into tags values (%s, now(), now(), %s, %s) on conflict do nothing", tag, name, description
        )
        for kind, uuid in entities.items():
            self.execute(f"insert into {kind}s_tag_mapping values (%s, %s, now())", uuid, tag)


def create_database(server: str) -> str:
    """Create an empty database on a server and return its URL."""
    name = f"marquez_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


def run_event(number: int, kind: str = "COMPLETE", parent: str | None = None, **members: Any) -> Event:
    """Make an event of a run of one of three jobs, which reads `in` and writes `out`."""
    facets: dict[str, Any] = {}
    if parent is not None:
        run = {"runId": str(row_id("run", parent, number))}
        facets["parent"] = {"run": run, "job": {"namespace": "jobs", "name": parent}}
    schema = {"fields": [{"name": "id", "type": "int"}, {"name": f"c{number % 3}", "type": "text"}]}
    return {
        "eventTime": (START + timedelta(minutes=number)).isoformat(),
        "eventType": kind,
        "run": {"runId": str(row_id("run", number)), "facets": facets},
        "job": {"namespace": "jobs", "name": f"job{number % 3}", "facets": {}},
        "inputs": [{"namespace": "db", "name": "in"}],
        "outputs": [{"namespace": "db", "name": f"out{number % 3}", "facets": {"schema": schema}}],
        "producer": "https://example.com/producer",
        **members,
    }
