"""What a batch changes in the index: rows by table, ready to be merged. They travel from workers to the driver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from msgspec import Struct, field


class RunRow(Struct, array_like=True):
    """What is known of a run."""

    run_uuid: str
    job_namespace: str | None
    job_name: str | None
    state: str
    state_rank: int
    state_at: int
    state_seq: int
    started_at: int | None
    ended_at: int | None
    first_event_at: int
    last_event_at: int
    parent_run_uuid: str | None
    parent_job_namespace: str | None
    parent_job_name: str | None
    root_run_uuid: str | None
    session_id: str | None
    execution_id: str | None
    last_seq: int


class JobRow(Struct, array_like=True):
    """What is known of a job."""

    namespace: str
    name: str
    job_type: str | None
    integration: str | None
    latest_run_uuid: str | None
    last_event_at: int
    first_seq: int
    last_seq: int


class DatasetRow(Struct, array_like=True):
    """That there is a dataset."""

    namespace: str
    name: str
    last_event_at: int
    first_seq: int
    last_seq: int


class RunIoRow(Struct, array_like=True):
    """That a run read or wrote a dataset."""

    run_uuid: str
    direction: str
    dataset_namespace: str
    dataset_name: str
    dataset_version: str
    job_namespace: str | None
    job_name: str | None
    session_id: str | None
    last_seq: int


class JobEdgeRow(Struct, array_like=True):
    """That a job reads or writes a dataset."""

    job_namespace: str
    job_name: str
    direction: str
    dataset_namespace: str
    dataset_name: str
    last_run_uuid: str | None
    last_event_at: int
    first_seq: int
    last_seq: int


class StatementRow(Struct, array_like=True):
    """What a run, or a job without one, said of one output: the edges of a set."""

    author: str
    dataset_namespace: str
    dataset_name: str
    dataset_version: str
    seq: int
    event_time: int
    run_uuid: str | None
    job_namespace: str | None
    job_name: str | None
    session_id: str | None
    edge_set: str


class EdgeRow(Struct, array_like=True):
    """One edge of a set."""

    edge_set: str
    ordinal: int
    column: str | None
    source_namespace: str
    source_name: str
    source_column: str | None
    type: str
    subtype: str | None
    description: str | None
    masking: bool | None


class CellRow(Struct, array_like=True):
    """What is known of a cell execution."""

    session_id: str
    execution_id: str
    notebook: str | None
    cell_id: str | None
    cell_name: str | None
    cell_index: int | None
    cell_source: str | None
    started_at: int | None
    ended_at: int | None
    start_memory_mb: float | None
    end_memory_mb: float | None
    duration_ms: float | None
    error_type: str | None
    error_message: str | None
    traceback: str | None
    state: str
    first_seq: int
    last_seq: int


class OperationRow(Struct, array_like=True):
    """What is known of a DataFrame operation; `inputs` and `outputs` are JSON."""

    session_id: str
    operation_id: str
    run_uuid: str | None
    execution_id: str | None
    cell_id: str | None
    cell_name: str | None
    notebook: str | None
    operation_type: str | None
    operation_method: str | None
    operation_code: str | None
    line: int | None
    end_line: int | None
    count: int | None
    inputs: str
    outputs: str
    event_time: int
    overhead_ms: float | None
    duration_ms: float | None
    df_size_mb: float | None
    last_seq: int


class FacetRow(Struct, array_like=True):
    """The facet of that name that an entity has since `seq`."""

    kind: str
    entity: str
    name: str
    seq: int
    event_time: int
    body: bytes


class Changes(Struct):
    """Rows of every table, and the events that they come from as pairs of `seq` and id; those rejected stand apart."""

    events: list[tuple[int, str]] = field(default_factory=list)
    rejected: list[tuple[int, str]] = field(default_factory=list)
    runs: list[RunRow] = field(default_factory=list)
    jobs: list[JobRow] = field(default_factory=list)
    datasets: list[DatasetRow] = field(default_factory=list)
    run_io: list[RunIoRow] = field(default_factory=list)
    job_edges: list[JobEdgeRow] = field(default_factory=list)
    statements: list[StatementRow] = field(default_factory=list)
    edge_sets: list[EdgeRow] = field(default_factory=list)
    cell_executions: list[CellRow] = field(default_factory=list)
    operations: list[OperationRow] = field(default_factory=list)
    facets: list[FacetRow] = field(default_factory=list)

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """All rows of several parts; the merge will order them."""
        whole = cls()
        for part in parts:
            for name in cls.__struct_fields__:
                getattr(whole, name).extend(getattr(part, name))
        return whole
