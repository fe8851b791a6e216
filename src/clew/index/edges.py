"""What the graph of jobs and datasets is made of, as queries: their ends by the keys that the graph writes."""

from __future__ import annotations

from typing import Final

_KEY = "'{kind}' || char(31) || {namespace} || char(31) || {name}"


def _key(kind: str, prefix: str = "", table: str = "") -> str:
    return _KEY.format(kind=kind, namespace=f"{table}{prefix}namespace", name=f"{table}{prefix}name")


JOB_EDGES: Final = f"""select {_key("job", "job_")}, {_key("dataset", "dataset_")}, direction = 'INPUT', is_implied,
first_event_at from job_edges"""  # noqa: S608
RENAMES: Final = f"""select {_key("dataset")}, {_key("dataset", "to_")}, renamed_at from renames"""  # noqa: S608
JOB_LINKS: Final = f"""select 'job' || char(31) || (source.value ->> 0) || char(31) || (source.value ->> 1),
{_key("job", "job_")}, min(event_time) from links, json_each(links.upstream) source group by 1, 2"""  # noqa: S608
JOBLESS: Final = f"""select distinct {_key("dataset", "source_")}, {_key("dataset", "dataset_")}, event_time
from statements join edge_sets using (edge_set) where job_name is null"""  # noqa: S608
NODE_NAMES: Final = f"""select {_key("dataset")}, {_key("dataset", "node_")} from nodes"""  # noqa: S608
PARENT_JOBS: Final = f"""select {_key("job", table="jobs.")}, {_key("job", "parent_job_", "runs.")}
from jobs join runs on runs.run_uuid = latest_run_uuid
where parent_job_namespace is not null and parent_job_name is not null
and (parent_job_namespace, parent_job_name) != (jobs.namespace, jobs.name)"""  # noqa: S608
