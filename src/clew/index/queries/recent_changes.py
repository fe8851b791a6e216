"""Queries for what changed in the index after a position of the log."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.index.encoding import IS_ANNOTATIONS
from clew.index.queries.entities import IS_TOP_LEVEL, REQUESTED_NAMES, Name, to_json_array
from clew.index.queries.reader import IndexReader
from clew.index.queries.records import RunRecord

# In-memory frames of notebooks get another schema with each statement; charts and models have none.
_IS_STORED = f"dataset_namespace != '{NOTEBOOK_NAMESPACE}'"
# Datasets of events, and the inputs and outputs of jobs with events: the last event of a run may list no datasets.
_TOUCHED_DATASETS: Final = f"""select namespace as dataset_namespace, name as dataset_name from datasets
where last_seq > ?1 and not {IS_ANNOTATIONS} and namespace != '{NOTEBOOK_NAMESPACE}'
union select dataset_namespace, dataset_name from jobs
join reported_job_edges on job_namespace = namespace and job_name = name where jobs.last_seq > ?1 and {_IS_STORED}"""  # noqa: S608
_DATASETS_WITH_SEVERAL_SCHEMAS: Final = f"""select namespace, name from (
    select namespace, name, schema_id from {REQUESTED_NAMES} cross join run_io
    on dataset_namespace = wanted.namespace and dataset_name = wanted.name where schema_id is not null
    union select namespace, name, schema_id from {REQUESTED_NAMES} cross join dataset_declarations
    on dataset_namespace = wanted.namespace and dataset_name = wanted.name where schema_id != ''
) used group by namespace, name having count(*) > 1"""  # noqa: S608
_DROPPED_DATASETS: Final = f"""select namespace, name, lifecycle_at, lifecycle_seq from dataset_states
where lifecycle_seq > ? and lifecycle_state = 'DROP' and is_deleted and namespace != '{NOTEBOOK_NAMESPACE}'"""  # noqa: S608


def find_failed_runs(index: IndexReader, after: int) -> list[RunRecord]:
    """Return runs that failed or were aborted by an event after a position, without notebook cells and operations."""
    condition = f"where state in ('FAILED', 'ABORTED') and state_seq > ? and {IS_TOP_LEVEL} order by state_seq"
    return index.run_records(condition, after)


def find_tested_entities(index: IndexReader, after: int) -> list[str]:
    """Return the keys of runs, jobs and datasets that reported test results after a position, in order."""
    query = "select asserted_by from quality_assertions where seq > ? group by asserted_by order by min(seq)"
    return [row[0] for row in index.query(query, after)]


def find_touched_datasets(index: IndexReader, after: int) -> list[Name]:
    """Return the datasets that may have a new version after a position."""
    return sorted(index.stream(_TOUCHED_DATASETS, after))


def find_datasets_with_several_schemas(index: IndexReader, names: Collection[Name]) -> list[Name]:
    """Return those of the datasets that had more than one schema."""
    return list(index.stream(_DATASETS_WITH_SEVERAL_SCHEMAS, to_json_array(names)))


def find_dropped_datasets(index: IndexReader, after: int) -> list[tuple[str, str, int, int]]:
    """Return datasets dropped after a position and not written since: names, time and position."""
    return list(index.stream(_DROPPED_DATASETS, after))


def find_changed_runs(index: IndexReader, run_uuids: Iterable[str], after: int) -> dict[str, int]:
    """Return those of the runs that have events after a position, with the time of their first event."""
    query = """select run_uuid, first_event_at from json_each(?) wanted
    cross join runs on run_uuid = atom where last_seq > ?"""
    return dict(index.stream(query, to_json_array(sorted(set(run_uuids))), after))


def is_declared_after(index: IndexReader, name: Name, schema_id: str, after: int) -> bool:
    """Return whether a DatasetEvent after a position declared a schema of a dataset."""
    query = """select 1 from dataset_declarations
    where dataset_namespace = ? and dataset_name = ? and schema_id = ? and last_seq > ?"""
    return index.query_one(query, *name, schema_id, after) is not None


def find_redeclared_datasets(index: IndexReader) -> list[Name]:
    """Return the datasets for which DatasetEvents declared several schemas."""
    query = """select dataset_namespace, dataset_name from dataset_declarations where schema_id != ''
    group by 1, 2 having count(*) > 1"""
    return list(index.stream(query))
