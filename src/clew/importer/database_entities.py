"""Reads from a Marquez database what its events do not contain, and the old addresses of jobs and versions.

Tables and columns that a version lacks are skipped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from clew.importer.entities import DatasetId, DatasetStorage, EntityDocuments, PutRun, SchemaColumn
from clew.importer.marquez_database import Connection, Schema
from clew.query.entities.aliases import JobAlias, VersionAlias

_ROWS_PER_FETCH = 10_000
_TIME: Final = """to_char({} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
_CREATED: Final = _TIME.format("created_at")


def read_entities(connection: Connection, schema: Schema, documents: EntityDocuments) -> None:
    """Add tags, owners, deletions, sources, and entities without events."""
    reader = _EntityReader(connection, schema, documents)
    reader.read_tags()
    reader.read_namespaces()
    reader.read_sources()
    reader.read_hidden()
    reader.read_jobs()
    reader.read_datasets()
    reader.read_runs()


class _EntityReader:
    def __init__(self, connection: Connection, schema: Schema, documents: EntityDocuments) -> None:
        self._connection = connection
        self._schema = schema
        self._documents = documents

    def read_tags(self) -> None:
        for name, description in self._rows("select name, description from tags", tags="name description"):
            self._documents.add_tag(name, description)
        tagged: defaultdict[tuple[str, str, str], list[tuple[str | None, str]]] = defaultdict(list)
        mapping, names = "dataset_uuid tag_uuid", "uuid namespace_name name"
        query = """select 'dataset', d.namespace_name, d.name, null, t.name from datasets_tag_mapping m
            join datasets d on d.uuid = m.dataset_uuid join tags t on t.uuid = m.tag_uuid"""
        rows = self._rows(query, datasets_tag_mapping=mapping, datasets=names, tags="uuid")
        query = """select 'dataset', d.namespace_name, d.name, f.name, t.name from dataset_fields_tag_mapping m
            join dataset_fields f on f.uuid = m.dataset_field_uuid join datasets d on d.uuid = f.dataset_uuid
            join tags t on t.uuid = m.tag_uuid"""
        rows += self._rows(
            query,
            dataset_fields_tag_mapping="dataset_field_uuid tag_uuid",
            dataset_fields="uuid dataset_uuid name",
            datasets=names,
        )
        query = f"""select 'job', j.namespace_name, {self._event_name}, null, t.name from jobs_tag_mapping m
            join jobs j on j.uuid = m.job_uuid join tags t on t.uuid = m.tag_uuid"""  # noqa: S608
        rows += self._rows(query, jobs_tag_mapping="job_uuid tag_uuid", jobs=names)
        for kind, namespace, name, column, tag in rows:
            tagged[kind, namespace, name].append((column, tag))
        for identity, tags in tagged.items():
            self._documents.add_tags(*identity, tags)

    def read_namespaces(self) -> None:
        query = f"select name, current_owner_name, description, {_CREATED} from namespaces"  # noqa: S608
        for row in self._rows(query, namespaces="name current_owner_name description created_at"):
            self._documents.add_namespace(*row)

    def read_sources(self) -> None:
        query = f"select name, type, connection_url, description, {_CREATED} from sources"  # noqa: S608
        for row in self._rows(query, sources="name type connection_url description created_at"):
            self._documents.add_source(*row)

    def read_hidden(self) -> None:
        query = "select name from namespaces where is_hidden"
        for (name,) in self._rows(query, namespaces="name is_hidden"):
            self._documents.hide("namespace", name)
        query = "select namespace_name, name from datasets where is_hidden"
        for namespace, name in self._rows(query, datasets="namespace_name name is_hidden"):
            self._documents.hide("dataset", namespace, name)
        query = f"select j.namespace_name, {self._event_name} from jobs j where is_hidden"  # noqa: S608
        for namespace, name in self._rows(query, jobs="namespace_name name is_hidden"):
            self._documents.hide("job", namespace, name)

    def read_jobs(self) -> None:
        """Add jobs that neither an event nor a child names."""
        no_children = "parent_job_uuid" not in self._columns("jobs")
        query = f"""select j.uuid, j.namespace_name, j.name, {_TIME.format("j.created_at")}, j.description,
                {self._optional("jobs", "j", "current_location")}, {self._optional("jobs", "j", "type")}
            from jobs j where {self._optional("jobs", "j", "symlink_target_uuid")} is null and not exists (
                select 1 from lineage_events e
                where e.job_namespace = j.namespace_name and e.job_name in (j.name, {self._simple_name}))
            {"" if no_children else "and not exists (select 1 from jobs c where c.parent_job_uuid = j.uuid)"}"""  # noqa: S608
        for uuid, namespace, name, created_at, description, location, kind in self._rows(
            query, jobs="uuid namespace_name name created_at description", lineage_events="job_name job_namespace"
        ):
            inputs, outputs = self._job_datasets(uuid)
            self._documents.add_job(
                namespace,
                name,
                created_at,
                kind=kind,
                description=description,
                location=location,
                inputs=inputs,
                outputs=outputs,
            )

    def _job_datasets(self, job: object) -> tuple[list[DatasetId], list[DatasetId]]:
        query = """select m.io_type, d.namespace_name, d.name from jobs j
            join job_versions_io_mapping m on m.job_version_uuid = j.current_version_uuid
            join datasets d on d.uuid = m.dataset_uuid where j.uuid = %s"""
        rows = self._rows(
            query, job, job_versions_io_mapping="job_version_uuid dataset_uuid io_type", jobs="current_version_uuid"
        )
        inputs, outputs = ([row[1:] for row in rows if row[0] == kind] for kind in ("INPUT", "OUTPUT"))
        return inputs, outputs

    def read_datasets(self) -> None:
        """Add datasets that no event has written, read or described."""
        named = [_NAMED_BY_EVENTS[table] for table in _NAMED_BY_EVENTS if table in self._schema]
        query = f"""select d.uuid, d.namespace_name, d.name, {_TIME.format("d.created_at")}, d.description,
                d.type, d.physical_name, s.name, s.connection_url
            from datasets d left join sources s on s.uuid = d.source_uuid where not exists (
                select 1 from dataset_versions v join lineage_events e on e.run_uuid = v.run_uuid
                where v.dataset_uuid = d.uuid)
            {"".join(f" and not exists ({query})" for query in named)}"""  # noqa: S608
        for uuid, namespace, name, created_at, description, *storage in self._rows(
            query,
            datasets="uuid namespace_name name created_at description type physical_name source_uuid",
            sources="uuid name connection_url",
            dataset_versions="dataset_uuid run_uuid",
            lineage_events="run_uuid",
        ):
            fields = self._rows(
                "select name, max(type), max(description) from dataset_fields where dataset_uuid = %s"
                " group by name order by min(created_at), name",
                uuid,
                dataset_fields="name type description dataset_uuid created_at",
            )
            self._documents.add_dataset(
                namespace,
                name,
                created_at,
                storage=DatasetStorage(*storage),
                description=description,
                fields=[SchemaColumn(*row) for row in fields],
            )

    def read_runs(self) -> None:
        """Add runs that neither an event nor a child names."""
        no_children = "parent_run_uuid" not in self._columns("runs")
        started, ended = (self._utc_time("runs", "r", f"{name}_at") for name in ("started", "ended"))
        query = f"""select r.uuid::text, r.namespace_name, r.job_name, {_TIME.format("r.created_at")},
                r.current_run_state, {started}, {ended}
            from runs r where r.job_name is not null
            and not exists (select 1 from lineage_events e where e.run_uuid = r.uuid)
            {"" if no_children else "and not exists (select 1 from runs c where c.parent_run_uuid = r.uuid)"}
            order by r.created_at, r.uuid"""  # noqa: S608
        for uuid, namespace, job, created_at, state, started_at, ended_at in self._rows(
            query, runs="uuid namespace_name job_name created_at current_run_state", lineage_events="run_uuid"
        ):
            inputs, outputs = self._run_datasets(uuid)
            run = PutRun(uuid, (namespace, job), created_at, state, started_at, ended_at, inputs, outputs)
            self._documents.add_run(run)

    def _run_datasets(self, run: str) -> tuple[list[DatasetId], list[DatasetId]]:
        inputs = self._rows(
            "select d.namespace_name, d.name from runs_input_mapping m join dataset_versions v"
            " on v.uuid = m.dataset_version_uuid join datasets d on d.uuid = v.dataset_uuid where m.run_uuid = %s",
            run,
            runs_input_mapping="run_uuid dataset_version_uuid",
        )
        outputs = self._rows(
            "select d.namespace_name, d.name from dataset_versions v join datasets d on d.uuid = v.dataset_uuid"
            " where v.run_uuid = %s",
            run,
        )
        return inputs, outputs

    def _rows(self, query: str, *parameters: object, **tables: str) -> list[Any]:
        """Return the rows of a query; none if the schema lacks one of the tables or columns."""
        if any(not set(columns.split()) <= self._columns(table) for table, columns in tables.items()):
            return []
        return self._connection.execute(query, parameters or None).fetchall()

    def _columns(self, table: str) -> frozenset[str]:
        return self._schema.get(table, frozenset())

    def _optional(self, table: str, alias: str, column: str) -> str:
        kind = "timestamptz" if column.endswith("_at") else "text"
        return f"{alias}.{column}" if column in self._columns(table) else f"null::{kind}"

    def _utc_time(self, table: str, alias: str, column: str) -> str:
        """Return a time as text; columns without a time zone are in UTC."""
        value = f"({self._optional(table, alias, column)})::timestamptz"
        return _TIME.format(value)

    @property
    def _simple_name(self) -> str:
        return "j.simple_name" if "simple_name" in self._columns("jobs") else "j.name"

    @property
    def _event_name(self) -> str:
        """Name of the job in its events: Marquez puts the name of the parent before it."""
        if not {"simple_name", "parent_job_uuid"} <= self._columns("jobs"):
            return "j.name"
        return f"case when {_IS_PREFIXED} then j.simple_name else j.name end"


# Queries of what events have stored about a dataset `d`, by table. What a run only reads has a version without a run.
_NAMED_BY_EVENTS: Final = {
    "dataset_facets": "select 1 from dataset_facets f where f.dataset_uuid = d.uuid",
    "runs_input_mapping": """select 1 from dataset_versions v
        join runs_input_mapping m on m.dataset_version_uuid = v.uuid
        join lineage_events e on e.run_uuid = m.run_uuid where v.dataset_uuid = d.uuid""",
    "job_versions_io_mapping": """select 1 from job_versions_io_mapping m
        join job_versions v on v.uuid = m.job_version_uuid
        join lineage_events e on e.job_namespace = v.namespace_name and e.job_name = v.job_name
        where m.dataset_uuid = d.uuid and v.latest_run_uuid is null""",
}
_IS_PREFIXED: Final = """j.parent_job_uuid is not null and not exists (
    select 1 from lineage_events e where e.job_namespace = j.namespace_name and e.job_name = j.name)"""


def read_job_aliases(connection: Connection, schema: Schema) -> Iterator[JobAlias]:
    """Yield the names that Marquez has prefixed with the parent, and the names in events."""
    if {"simple_name", "parent_job_uuid", "namespace_name"} <= schema.get("jobs", frozenset()):
        yield from (
            JobAlias(*row)
            for row in connection.execute(
                f"select j.namespace_name, j.name, j.simple_name from jobs j where {_IS_PREFIXED}"  # noqa: S608
                " and j.name <> j.simple_name"
            ).fetchall()
        )


def read_version_aliases(connection: Connection, schema: Schema) -> Iterator[VersionAlias]:
    """Yield the UUIDs of dataset and job versions, each with the run that made it."""
    if {"uuid", "version", "run_uuid", "dataset_uuid"} <= schema.get("dataset_versions", frozenset()):
        yield from _versions(
            connection,
            """select v.uuid::text, v.version::text, d.namespace_name, d.name, v.run_uuid::text
                from dataset_versions v join datasets d on d.uuid = v.dataset_uuid where v.run_uuid is not null""",
        )
    if {"uuid", "version", "latest_run_uuid", "namespace_name", "job_name"} <= schema.get("job_versions", frozenset()):
        yield from _versions(
            connection,
            """select uuid::text, version::text, namespace_name, job_name, latest_run_uuid::text
                from job_versions where latest_run_uuid is not null""",
        )


def _versions(connection: Connection, query: str) -> Iterator[VersionAlias]:
    with connection.transaction(), connection.cursor("clew_versions") as cursor:
        cursor.itersize = _ROWS_PER_FETCH
        for uuid, version, namespace, name, run in cursor.execute(query):
            yield VersionAlias(uuid, namespace, name, run)
            if version != uuid:
                yield VersionAlias(version, namespace, name, run)
