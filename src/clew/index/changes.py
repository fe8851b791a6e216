"""What a batch changes in the index: rows by table, ready to be merged. They travel from workers to the driver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from msgspec import Struct, field


class Row(Struct, array_like=True, gc=False):
    """A row of plain values: it cannot stand in a cycle, so Python's collector need not look at it."""


class RunRow(Row):
    """What is known of a run. Each `…_seq` is the position of the event that decided the values before it."""

    run_uuid: str
    job_namespace: str | None
    job_name: str | None
    job_seq: int | None
    state: str
    state_rank: int
    state_at: int
    state_seq: int
    started_at: int | None
    ended_at: int | None
    first_event_at: int
    last_event_at: int
    session_id: str | None
    execution_id: str | None
    last_seq: int
    parent_run_uuid: str | None = None
    parent_job_namespace: str | None = None
    parent_job_name: str | None = None
    root_run_uuid: str | None = None
    root_job_namespace: str | None = None
    root_job_name: str | None = None
    parent_seq: int | None = None
    nominal_start_at: int | None = None
    nominal_end_at: int | None = None
    nominal_seq: int | None = None
    error_message: str | None = None
    error_language: str | None = None
    error_seq: int | None = None
    location: str | None = None
    location_seq: int | None = None
    # Of a run that has ended, as far as the events say that this row was made of.
    job_version: str | None = None


class JobRow(Row):
    """What is known of a job, likewise."""

    namespace: str
    name: str
    first_event_at: int
    last_event_at: int
    first_seq: int
    last_seq: int
    latest_run_uuid: str | None = None
    latest_run_at: int | None = None
    latest_run_seq: int | None = None
    job_type: str | None = None
    integration: str | None = None
    processing_type: str | None = None
    type_seq: int | None = None
    description: str | None = None
    description_seq: int | None = None


class MentionedRunRow(Row):
    """A run that others name as their parent or root, and the job that was named with it first."""

    run_uuid: str
    job_namespace: str | None
    job_name: str | None
    job_seq: int | None
    last_seq: int


class MentionedJobRow(Row):
    """A job of a run that others name as their parent or root."""

    namespace: str
    name: str
    first_seq: int
    last_seq: int


class JobDeclarationRow(Row):
    """A version of a job that JobEvents declare; `inputs` and `outputs` are JSON."""

    job_namespace: str
    job_name: str
    version: str
    inputs: str
    outputs: str
    location: str | None
    created_at: int
    declared_at: int
    declared_seq: int
    first_seq: int
    last_seq: int


class DatasetDeclarationRow(Row):
    """A version of a dataset that DatasetEvents declare; an absent schema or state is empty."""

    dataset_namespace: str
    dataset_name: str
    schema_id: str
    lifecycle_state: str
    version: str | None
    created_at: int
    last_seq: int


class SchemaRow(Row):
    """A schema, named by its content; `fields` is JSON."""

    schema_id: str
    fields: str


class DatasetRow(Row):
    """That there is a dataset; when it was last written, and what became of it."""

    namespace: str
    name: str
    first_event_at: int
    last_event_at: int
    first_seq: int
    last_seq: int
    written_at: int | None = None
    written_seq: int | None = None
    lifecycle_state: str | None = None
    renamed_from_namespace: str | None = None
    renamed_from_name: str | None = None
    lifecycle_at: int | None = None
    lifecycle_seq: int | None = None


class RenameRow(Row):
    """That a dataset has another name since."""

    namespace: str
    name: str
    to_namespace: str
    to_name: str
    renamed_at: int
    last_seq: int


class SymlinksRow(Row):
    """The other names that a dataset bears; `identifiers` is JSON."""

    namespace: str
    name: str
    identifiers: str
    last_seq: int


class RunIoRow(Row):
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
    schema_id: str | None = None
    schema_seq: int | None = None
    row_count: int | None = None
    row_count_seq: int | None = None
    is_implied: bool = False


class JobEdgeRow(Row):
    """That a job was said to read or write a dataset; by its own declarations alone, unless it is lasting."""

    job_namespace: str
    job_name: str
    direction: str
    dataset_namespace: str
    dataset_name: str
    last_run_uuid: str | None
    first_event_at: int
    last_event_at: int
    first_seq: int
    last_seq: int
    is_implied: bool = False
    declared_seq: int | None = None
    is_lasting: bool = True
    is_over: bool = False


class StatementRow(Row):
    """What a run, or a job or a dataset without one, said of one dataset: the edges of a set."""

    author: str
    dataset_namespace: str
    dataset_name: str
    dataset_version: str
    origin: str
    seq: int
    event_time: int
    run_uuid: str | None
    job_namespace: str | None
    job_name: str | None
    session_id: str | None
    edge_set: str


class JobLinksRow(Row):
    """Which jobs an entry of explicit lineage said to feed a job; `upstream` is JSON."""

    author: str
    job_namespace: str
    job_name: str
    seq: int
    event_time: int
    run_uuid: str | None
    upstream: str


class LineageDeclarationRow(Row):
    """Since when a job declares the explicit lineage that it does, without a run."""

    author: str
    seq: int


class RunEventRow(Row):
    """An event of a run: when it took place by its own time, where it stands, and what kind it is."""

    at: int
    seq: int
    event_type: str


class MomentRow(Row):
    """When an event took place by its own time; kept where that decides which facet counts."""

    position: int
    at: int


class EdgeRow(Row):
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


class CellRow(Row):
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


class OperationRow(Row):
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


class FacetsRow(Row):
    """The facets that an entity has, packed, and the position of the last event that gave it one."""

    kind: str
    entity: str
    last_seq: int
    body: bytes


class Changes(Struct):
    """Rows of every table, and the events that they come from as pairs of `seq` and id; those rejected stand apart."""

    events: list[tuple[int, str]] = field(default_factory=list)
    rejected: list[tuple[int, str]] = field(default_factory=list)
    moments: list[MomentRow] = field(default_factory=list)
    run_events: list[RunEventRow] = field(default_factory=list)
    runs: list[RunRow] = field(default_factory=list)
    jobs: list[JobRow] = field(default_factory=list)
    mentioned_runs: list[MentionedRunRow] = field(default_factory=list)
    mentioned_jobs: list[MentionedJobRow] = field(default_factory=list)
    job_declarations: list[JobDeclarationRow] = field(default_factory=list)
    schemas: list[SchemaRow] = field(default_factory=list)
    dataset_declarations: list[DatasetDeclarationRow] = field(default_factory=list)
    datasets: list[DatasetRow] = field(default_factory=list)
    renames: list[RenameRow] = field(default_factory=list)
    symlinks: list[SymlinksRow] = field(default_factory=list)
    run_io: list[RunIoRow] = field(default_factory=list)
    said_job_edges: list[JobEdgeRow] = field(default_factory=list)
    statements: list[StatementRow] = field(default_factory=list)
    links: list[JobLinksRow] = field(default_factory=list)
    lineage_declarations: list[LineageDeclarationRow] = field(default_factory=list)
    edge_sets: list[EdgeRow] = field(default_factory=list)
    cell_executions: list[CellRow] = field(default_factory=list)
    operations: list[OperationRow] = field(default_factory=list)
    facets: list[FacetsRow] = field(default_factory=list)

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """All rows of several parts; the merge will order them."""
        whole = cls()
        for part in parts:
            for name in cls.__struct_fields__:
                getattr(whole, name).extend(getattr(part, name))
        return whole
