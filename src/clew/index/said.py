"""What jobs have said last of the columns of datasets."""

from __future__ import annotations

from typing import NamedTuple

# What each job said last of each dataset that is asked for; of a frame, which has versions within one session, of each.
LAST_STATEMENTS = """select job_namespace, job_name, dataset_namespace, dataset_name, dataset_version, session_id,
run_uuid, edge_set, event_time from (
    select *, row_number() over (
        partition by job_namespace, job_name, dataset_namespace, dataset_name,
            case when dataset_namespace = ?1 then dataset_version else '' end
        order by event_time desc, seq desc) as place
    from statements where {of} and (origin = 'lineage' or not exists (
        select 1 from statements explicit where explicit.author = statements.author
        and explicit.dataset_namespace = statements.dataset_namespace
        and explicit.dataset_name = statements.dataset_name and explicit.origin = 'lineage'
        and explicit.edge_set != ''))
) said where place = 1"""
ALL_LAST_STATEMENTS = LAST_STATEMENTS.format(of="true")
EDGE_SET = """select "column", source_namespace, source_name, source_column, type, subtype, description, masking
from edge_sets where edge_set = ? order by ordinal"""


class Said(NamedTuple):
    """What a job, or nobody, said last of a dataset."""

    job_namespace: str | None
    job_name: str | None
    dataset_namespace: str
    dataset_name: str
    dataset_version: str
    session_id: str | None
    run_uuid: str | None
    edge_set: str
    event_time: int


class SaidEdge(NamedTuple):
    """One edge of a set, into a dataset that the set does not name."""

    column: str | None
    source_namespace: str
    source_name: str
    source_column: str | None
    type: str
    subtype: str | None
    description: str | None
    masking: int | None
