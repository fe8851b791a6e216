"""Latest lineage assertion of each job on each dataset."""

from __future__ import annotations

from typing import NamedTuple

# Latest assertion per job and dataset; for in-memory DataFrames (namespace ?1), also per version.
LATEST_ASSERTIONS = """select job_namespace, job_name, dataset_namespace, dataset_name, dataset_version, session_id,
run_uuid, edge_set_id, event_time from (
    select *, row_number() over (
        partition by job_namespace, job_name, dataset_namespace, dataset_name,
            case when dataset_namespace = ?1 then dataset_version else '' end
        order by event_time desc, seq desc) as recency
    from lineage_assertions where {condition} and (origin = 'lineage' or not exists (
        select 1 from lineage_assertions explicit where explicit.asserted_by = lineage_assertions.asserted_by
        and explicit.dataset_namespace = lineage_assertions.dataset_namespace
        and explicit.dataset_name = lineage_assertions.dataset_name and explicit.origin = 'lineage'
        and explicit.edge_set_id != ''))
) ranked where recency = 1"""
ALL_LATEST_ASSERTIONS = LATEST_ASSERTIONS.format(condition="true")
EDGES_OF_SET = """select "column", source_namespace, source_name, source_column, type, subtype, description, masking
from edge_sets where edge_set_id = ? order by edge_position"""


class LatestAssertion(NamedTuple):
    """Latest assertion of a job, or without a job, on a dataset."""

    job_namespace: str | None
    job_name: str | None
    dataset_namespace: str
    dataset_name: str
    dataset_version: str
    session_id: str | None
    run_uuid: str | None
    edge_set_id: str
    event_time: int


class AssertedEdge(NamedTuple):
    """An edge of an edge set; the assertion has the target dataset."""

    column: str | None
    source_namespace: str
    source_name: str
    source_column: str | None
    type: str
    subtype: str | None
    description: str | None
    masking: int | None
