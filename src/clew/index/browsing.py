"""What someone asks of the index who looks around in it: lists, what stands next to what, what happened when."""

from __future__ import annotations

from typing import TypeAlias

from clew.events.notebook import FRAMES
from clew.index.notes import IS_NOTES
from clew.index.patterns import IS_LIKE, containing
from clew.index.reader import IndexReader, Row

# There are thousands, and they are told with their run.
_IS_OPERATION = f"(namespace = '{FRAMES}' and name like '%/%')"
_IS_NO_DATASET = f"({_IS_OPERATION} or {IS_NOTES})"
_IS_PART = "exists (select 1 from runs parent where parent.run_uuid = runs.parent_run_uuid)"
_RUN = """run_uuid, job_namespace, job_name, state, coalesce(started_at, first_event_at) as started_at, ended_at,
session_id, parent_run_uuid, error_message"""
_TOUCHING = """select job_edges.*, runs.state from job_edges left join runs on runs.run_uuid = last_run_uuid
where direction = ? and {} order by job_edges.last_event_at desc, 1, 2, 4, 5"""
_IS_LIKE = IS_LIKE.format(1)
_IS_NAMED_LIKE = f"namespace || ' ' || name {_IS_LIKE}"
_IS_RUN_LIKE = f"coalesce(job_namespace, '') || ' ' || coalesce(job_name, '') {_IS_LIKE}"
_MOST_FOUND = 100

Name: TypeAlias = tuple[str, str]


class Browser(IndexReader):
    """A view of the index for people who look around."""

    def counts(self) -> Row | None:
        """How many datasets, jobs, runs and notebook sessions there are, as the lists count them."""
        return self._one(
            f"""select (select count(*) from datasets where not {_IS_NO_DATASET}) as datasets,
            (select count(*) from jobs where not {_IS_OPERATION}) as jobs,
            (select count(*) from runs where not {_IS_PART}) as runs,
            (select count(distinct session_id) from cell_executions) as sessions"""  # noqa: S608
        )

    def dataset_page(self, text: str, limit: int) -> tuple[list[Row], int]:
        """Datasets whose name holds a text, the last touched first, and how many there are."""
        where = f"from dataset_states where not {_IS_NO_DATASET} and {_IS_NAMED_LIKE}"
        rows = self._all(f"select * {where} order by last_seq desc, namespace, name limit ?2", containing(text), limit)
        return rows, self._count(f"select count(*) {where}", containing(text))

    def job_page(self, text: str, limit: int) -> tuple[list[Row], int]:
        """Jobs whose name holds a text, the last that ran first, and how many there are."""
        where = f"from jobs where not {_IS_OPERATION} and {_IS_NAMED_LIKE}"
        rows = self._all(
            f"select * {where} order by last_event_at desc, last_seq desc, namespace, name limit ?2",
            containing(text),
            limit,
        )
        return rows, self._count(f"select count(*) {where}", containing(text))

    def run_page(self, text: str, state: str, limit: int) -> tuple[list[Row], int]:
        """Runs that are part of no other, the newest first, and how many there are."""
        where = f"from runs where not {_IS_PART} and (?2 = '' or state = ?2) and {_IS_RUN_LIKE}"
        query = f"select {_RUN} {where} order by last_event_at desc, run_uuid limit ?3"
        rows = self._all(query, containing(text), state, limit)
        return rows, self._count(f"select count(*) {where}", containing(text), state)

    def run(self, run_uuid: str) -> Row | None:
        """One run, be it only known as another's parent."""
        return self._one("select * from all_runs where run_uuid = ?", run_uuid)

    def children(self, run_uuid: str, limit: int) -> tuple[list[Row], int]:
        """The runs that are part of a run, as they started, and how many there are."""
        where = "from runs where parent_run_uuid = ?"
        rows = self._all(f"select {_RUN} {where} order by 5, first_event_at, run_uuid limit ?", run_uuid, limit)
        return rows, self._count(f"select count(*) {where}", run_uuid)

    def run_io(self, run_uuid: str) -> list[Row]:
        """What a run read and wrote."""
        return self._all(
            "select * from run_io where run_uuid = ? order by direction, last_seq, dataset_namespace, dataset_name",
            run_uuid,
        )

    def job(self, job: Name) -> Row | None:
        """One job, be it only known by name."""
        return self._one("select * from all_jobs where namespace = ? and name = ?", *job)

    def runs_of(self, job: Name, limit: int) -> tuple[list[Row], int]:
        """A job's runs, the newest first, and how many there are."""
        where = "from runs where job_namespace = ? and job_name = ?"
        rows = self._all(f"select {_RUN} {where} order by started_at desc, run_uuid desc limit ?", *job, limit)
        return rows, self._count(f"select count(*) {where}", *job)

    def dataset(self, dataset: Name) -> Row | None:
        """One dataset, by the name that events gave it."""
        return self._one("select * from dataset_states where namespace = ? and name = ?", *dataset)

    def node_of(self, dataset: Name) -> Name:
        """The name that stands for a dataset and all its other names."""
        row = self._one("select node_namespace, node_name from nodes where namespace = ? and name = ?", *dataset)
        return dataset if row is None else (row["node_namespace"], row["node_name"])

    def names_of(self, dataset: Name) -> list[Name]:
        """All names of the same dataset; the one asked by first."""
        rows = self._all(
            """select other.namespace, other.name from nodes own join nodes other using (node_namespace, node_name)
            where own.namespace = ? and own.name = ? order by 1, 2""",
            *dataset,
        )
        return list(dict.fromkeys([dataset, *((row["namespace"], row["name"]) for row in rows)]))

    def jobs_touching(self, dataset: Name, direction: str) -> list[Row]:
        """The jobs that read (INPUT) or write (OUTPUT) a dataset by this name, the last to do so first."""
        return self._all(_TOUCHING.format("dataset_namespace = ? and dataset_name = ?"), direction, *dataset)

    def datasets_touched(self, job: Name, direction: str) -> list[Row]:
        """What a job reads or writes, the last touched first."""
        return self._all(_TOUCHING.format("job_edges.job_namespace = ? and job_edges.job_name = ?"), direction, *job)

    def job_and_operations(self, job: Name) -> list[Name]:
        """A job; of a notebook, the jobs of its operations as well."""
        rows = self._all(
            f"""select namespace, name from jobs where namespace = ?1 and namespace = '{FRAMES}'
            and name >= ?2 || '/' and name < ?2 || '0' order by name""",  # noqa: S608
            *job,
        )
        return [job, *((row["namespace"], row["name"]) for row in rows)]

    def time_span(self) -> Row | None:
        """When the first and the last event of a run came."""
        return self._one("select min(first_event_at) as first, max(last_event_at) as last from runs")

    def first_seen(self, job: Name, direction: str, dataset: Name) -> int | None:
        """When a job was first known to touch a dataset."""
        row = self._one(
            """select min(first_event_at) as at from run_io join runs using (run_uuid)
            where dataset_namespace = ? and dataset_name = ? and direction = ?
            and run_io.job_namespace = ? and run_io.job_name = ?""",
            *dataset,
            direction,
            *job,
        )
        return None if row is None else row["at"]

    def versions_of(self, dataset: Name, limit: int) -> tuple[list[Row], int]:
        """What was written to a dataset, the newest first, and how many times."""
        where = "from dataset_versions where dataset_namespace = ? and dataset_name = ?"
        rows = self._all(f"select * {where} order by created_at desc, last_seq desc limit ?", *dataset, limit)
        return rows, self._count(f"select count(*) {where}", *dataset)

    def last_edges(self, dataset: Name, most: int) -> list[Row]:
        """Where the columns of a dataset come from, by the last statement on it."""
        return self._all(
            """select * from column_edges where (author, dataset_namespace, dataset_name, dataset_version) = (
                select author, dataset_namespace, dataset_name, dataset_version from statements
                where dataset_namespace = ? and dataset_name = ? and edge_set != ''
                order by event_time desc, seq desc limit 1
            ) order by ordinal limit ?""",
            *dataset,
            most,
        )

    def columns_like(self, text: str) -> list[Row]:
        """Columns whose name holds a text, with their datasets."""
        return self._all(
            f"""select * from (
                select distinct namespace, name, field.value ->> 'name' as column_name from (
                    select distinct dataset_namespace as namespace, dataset_name as name, schema_id from run_io
                    where schema_id is not null
                ) described join schemas using (schema_id), json_each(schemas.fields) field
                where not {_IS_OPERATION} and field.value ->> 'name' {_IS_LIKE}
            ) columns order by length(column_name), 1, 2, 3 limit ?2""",  # noqa: S608
            containing(text),
            _MOST_FOUND,
        )

    def runs_like(self, text: str) -> list[Row]:
        """Runs whose id begins with a text."""
        return self._all(
            f"select {_RUN} from runs where run_uuid >= ?1 and run_uuid < ?1 || '~' order by run_uuid limit ?2",  # noqa: S608
            text.lower(),
            _MOST_FOUND,
        )

    def code_like(self, text: str) -> list[Row]:
        """Operations of notebooks whose code holds a text, of each code the last."""
        return self._all(
            f"""select notebook, session_id, operation_code as line from (
                select operations.*, row_number() over (
                    partition by notebook, operation_code order by event_time desc, last_seq desc) as place
                from operations where operation_code {_IS_LIKE}
            ) found where place = 1 order by event_time desc, last_seq desc limit ?2""",  # noqa: S608
            containing(text),
            _MOST_FOUND,
        )

    def _count(self, query: str, *values: object) -> int:
        row = self._one(query, *values)
        return 0 if row is None else int(row[0])
