"""Queries of the web UI: lists, neighbours, versions and search."""

from __future__ import annotations

from typing import TypeAlias

from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.index.backends.base import Row
from clew.index.encoding import IS_ANNOTATIONS, IS_LIKE, like_pattern
from clew.index.queries.reader import IndexReader

# Operations of notebooks: there are thousands, and they are shown with their run.
_IS_OPERATION = f"(namespace = '{NOTEBOOK_NAMESPACE}' and name like '%/%')"
_IS_HIDDEN_DATASET = f"({_IS_OPERATION} or {IS_ANNOTATIONS})"
_IS_CHILD_RUN = "exists (select 1 from runs parent where parent.run_uuid = runs.parent_run_uuid)"
_RUN = """run_uuid, job_namespace, job_name, state, coalesce(started_at, first_event_at) as started_at, ended_at,
session_id, parent_run_uuid, error_message"""
_JOB_EDGES = """select job_edges.*, runs.state from job_edges left join runs on runs.run_uuid = last_run_uuid
where direction = ? and {} order by job_edges.last_event_at desc, 1, 2, 4, 5"""
_IS_LIKE = IS_LIKE.format(1)
_IS_NAMED_LIKE = f"namespace || ' ' || name {_IS_LIKE}"
_IS_RUN_LIKE = f"coalesce(job_namespace, '') || ' ' || coalesce(job_name, '') {_IS_LIKE}"
_MAX_RESULTS = 100

Name: TypeAlias = tuple[str, str]


class PageQueries(IndexReader):
    """Queries of the web UI."""

    def counts(self) -> Row | None:
        """Return the numbers of datasets, jobs, runs and notebook sessions, counted as in the lists."""
        return self._row(
            f"""select (select count(*) from datasets where not {_IS_HIDDEN_DATASET}) as datasets,
            (select count(*) from jobs where not {_IS_OPERATION}) as jobs,
            (select count(*) from runs where not {_IS_CHILD_RUN}) as runs,
            (select count(distinct session_id) from cell_executions) as sessions"""  # noqa: S608
        )

    def dataset_page(self, text: str, limit: int) -> tuple[list[Row], int]:
        """Return datasets by part of the name, most recent first, and their total number."""
        where = f"from dataset_states where not {_IS_HIDDEN_DATASET} and {_IS_NAMED_LIKE}"
        rows = self._rows(
            f"select * {where} order by last_seq desc, namespace, name limit ?2", like_pattern(text), limit
        )
        return rows, self._count(f"select count(*) {where}", like_pattern(text))

    def job_page(self, text: str, limit: int) -> tuple[list[Row], int]:
        """Return jobs by part of the name, most recent first, and their total number."""
        where = f"from jobs where not {_IS_OPERATION} and {_IS_NAMED_LIKE}"
        rows = self._rows(
            f"select * {where} order by last_event_at desc, last_seq desc, namespace, name limit ?2",
            like_pattern(text),
            limit,
        )
        return rows, self._count(f"select count(*) {where}", like_pattern(text))

    def run_page(self, text: str, state: str, limit: int) -> tuple[list[Row], int]:
        """Return runs without a parent, newest first, and their total number."""
        where = f"from runs where not {_IS_CHILD_RUN} and (?2 = '' or state = ?2) and {_IS_RUN_LIKE}"
        query = f"select {_RUN} {where} order by last_event_at desc, run_uuid limit ?3"
        rows = self._rows(query, like_pattern(text), state, limit)
        return rows, self._count(f"select count(*) {where}", like_pattern(text), state)

    def run(self, run_uuid: str) -> Row | None:
        """Return a run, or its placeholder."""
        return self._row("select * from all_runs where run_uuid = ?", run_uuid)

    def children(self, run_uuid: str, limit: int) -> tuple[list[Row], int]:
        """Return the child runs of a run, ordered by start, and their total number."""
        where = "from runs where parent_run_uuid = ?"
        rows = self._rows(f"select {_RUN} {where} order by 5, first_event_at, run_uuid limit ?", run_uuid, limit)
        return rows, self._count(f"select count(*) {where}", run_uuid)

    def run_io(self, run_uuid: str) -> list[Row]:
        """Return the inputs and outputs of a run."""
        return self._rows(
            "select * from run_io where run_uuid = ? order by direction, last_seq, dataset_namespace, dataset_name",
            run_uuid,
        )

    def job(self, job: Name) -> Row | None:
        """Return a job, or its placeholder."""
        return self._row("select * from all_jobs where namespace = ? and name = ?", *job)

    def runs_of(self, job: Name, limit: int) -> tuple[list[Row], int]:
        """Return the runs of a job, newest first, and their total number."""
        where = "from runs where job_namespace = ? and job_name = ?"
        rows = self._rows(f"select {_RUN} {where} order by started_at desc, run_uuid desc limit ?", *job, limit)
        return rows, self._count(f"select count(*) {where}", *job)

    def dataset(self, dataset: Name) -> Row | None:
        """Return the dataset of this name, aliases not resolved."""
        return self._row("select * from dataset_states where namespace = ? and name = ?", *dataset)

    def canonical_name(self, dataset: Name) -> Name:
        """Return the canonical name of a dataset."""
        row = self._row(
            "select canonical_namespace, canonical_name from dataset_aliases where namespace = ? and name = ?", *dataset
        )
        return dataset if row is None else (row["canonical_namespace"], row["canonical_name"])

    def aliases_of(self, dataset: Name) -> list[Name]:
        """Return all names of a dataset, the given one first."""
        rows = self._rows(
            """select other.namespace, other.name from dataset_aliases own
            join dataset_aliases other using (canonical_namespace, canonical_name)
            where own.namespace = ? and own.name = ? order by 1, 2""",
            *dataset,
        )
        return list(dict.fromkeys([dataset, *((row["namespace"], row["name"]) for row in rows)]))

    def jobs_using(self, dataset: Name, direction: str) -> list[Row]:
        """Return the jobs that read (INPUT) or write (OUTPUT) a dataset under this name, most recent first."""
        return self._rows(_JOB_EDGES.format("dataset_namespace = ? and dataset_name = ?"), direction, *dataset)

    def datasets_used_by(self, job: Name, direction: str) -> list[Row]:
        """Return the inputs or outputs of a job, most recent first."""
        return self._rows(_JOB_EDGES.format("job_edges.job_namespace = ? and job_edges.job_name = ?"), direction, *job)

    def job_and_operations(self, job: Name) -> list[Name]:
        """Return a job, and for a notebook the jobs of its operations."""
        rows = self._rows(
            f"""select namespace, name from jobs where namespace = ?1 and namespace = '{NOTEBOOK_NAMESPACE}'
            and name >= ?2 || '/' and name < ?2 || '0' order by name""",  # noqa: S608
            *job,
        )
        return [job, *((row["namespace"], row["name"]) for row in rows)]

    def time_range(self) -> Row | None:
        """Return the times of the first and the last event of all runs."""
        return self._row("select min(first_event_at) as first, max(last_event_at) as last from runs")

    def first_seen(self, job: Name, direction: str, dataset: Name) -> int | None:
        """Return when a job was first reported to read or write a dataset."""
        row = self._row(
            """select min(first_event_at) as first_event_at from run_io join runs using (run_uuid)
            where dataset_namespace = ? and dataset_name = ? and direction = ?
            and run_io.job_namespace = ? and run_io.job_name = ?""",
            *dataset,
            direction,
            *job,
        )
        return None if row is None else row["first_event_at"]

    def versions_of(self, dataset: Name, limit: int) -> tuple[list[Row], int]:
        """Return the versions of a dataset, newest first, and their total number."""
        where = "from dataset_versions where dataset_namespace = ? and dataset_name = ?"
        rows = self._rows(f"select * {where} order by created_at desc, last_seq desc limit ?", *dataset, limit)
        return rows, self._count(f"select count(*) {where}", *dataset)

    def latest_column_edges(self, dataset: Name, limit: int) -> list[Row]:
        """Return the column edges of the last assertion on a dataset."""
        return self._rows(
            """select * from column_edges where (asserted_by, dataset_namespace, dataset_name, dataset_version) = (
                select asserted_by, dataset_namespace, dataset_name, dataset_version from lineage_assertions
                where dataset_namespace = ? and dataset_name = ? and edge_set_id != ''
                order by event_time desc, seq desc limit 1
            ) order by edge_position limit ?""",
            *dataset,
            limit,
        )

    def search_columns(self, text: str) -> list[Row]:
        """Return columns by part of the name, with their datasets."""
        return self._rows(
            f"""select * from (
                select distinct namespace, name, field.value ->> 'name' as column_name from (
                    select distinct dataset_namespace as namespace, dataset_name as name, schema_id from run_io
                    where schema_id is not null
                ) versions join schemas using (schema_id), json_each(schemas.fields) field
                where not {_IS_OPERATION} and field.value ->> 'name' {_IS_LIKE}
            ) columns order by length(column_name), 1, 2, 3 limit ?2""",  # noqa: S608
            like_pattern(text),
            _MAX_RESULTS,
        )

    def search_runs(self, text: str) -> list[Row]:
        """Return runs by prefix of the id."""
        return self._rows(
            f"select {_RUN} from runs where run_uuid >= ?1 and run_uuid < ?1 || '~' order by run_uuid limit ?2",  # noqa: S608
            text.lower(),
            _MAX_RESULTS,
        )

    def search_code(self, text: str) -> list[Row]:
        """Return notebook operations by part of the code, the last one per distinct code."""
        return self._rows(
            f"""select notebook, session_id, operation_code as line from (
                select operations.*, row_number() over (
                    partition by notebook, operation_code order by event_time desc, last_seq desc) as recency
                from operations where operation_code {_IS_LIKE}
            ) ranked where recency = 1 order by event_time desc, last_seq desc limit ?2""",  # noqa: S608
            like_pattern(text),
            _MAX_RESULTS,
        )

    def _count(self, query: str, *values: object) -> int:
        row = self._row(query, *values)
        return 0 if row is None else int(row[0])
