"""Queries for the edges of the job graph; nodes are returned as the keys of the graph."""

from __future__ import annotations

from typing import Final

_KEY = "'{kind}' || char(31) || {namespace} || char(31) || {name}"


def _key(kind: str, prefix: str = "", table: str = "") -> str:
    return _KEY.format(kind=kind, namespace=f"{table}{prefix}namespace", name=f"{table}{prefix}name")


JOB_EDGES: Final = f"""select {_key("job", "job_")}, {_key("dataset", "dataset_")}, direction = 'INPUT', is_implied,
first_event_at from job_edges"""  # noqa: S608
RENAMES: Final = f"""select {_key("dataset")}, {_key("dataset", "to_")}, renamed_at from renames"""  # noqa: S608
JOB_DEPENDENCIES: Final = f"""select 'job' || char(31) || (source.value ->> 0) || char(31) || (source.value ->> 1),
{_key("job", "job_")}, min(event_time)
from job_dependency_assertions assertion, json_each(assertion.upstream) source group by 1, 2"""  # noqa: S608
DATASET_ASSERTED_EDGES: Final = f"""select distinct
{_key("dataset", "source_")}, {_key("dataset", "dataset_")}, event_time
from lineage_assertions join edge_sets using (edge_set_id) where job_name is null"""  # noqa: S608
CANONICAL_NAMES: Final = f"""select {_key("dataset")}, {_key("dataset", "canonical_")} from dataset_aliases"""  # noqa: S608
PARENT_JOBS: Final = f"""select {_key("job", table="jobs.")}, {_key("job", "parent_job_", "runs.")}
from jobs join runs on runs.run_uuid = latest_run_uuid
where parent_job_namespace is not null and parent_job_name is not null
and (parent_job_namespace, parent_job_name) != (jobs.namespace, jobs.name)"""  # noqa: S608
