"""Changes of a batch: rows to merge by table. Workers send them to the driver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Self, get_args, get_type_hints

from msgspec import Struct, field

from clew.events.facets import FacetOrder
from clew.events.openlineage import Event, to_epoch_micros
from clew.index.encoding import entity_key


class TableRow(Struct, array_like=True, gc=False):
    """A row of scalar values; gc=False, as it cannot be part of a reference cycle."""


class RunRow(TableRow):
    """A run.

    Each `…_seq` is the position of the event that decided the values before it, and `…_order_time` its event time if
    facets are ordered by event time.
    """

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
    parent_order_time: int | None = None
    parent_seq: int | None = None
    nominal_start_at: int | None = None
    nominal_end_at: int | None = None
    nominal_order_time: int | None = None
    nominal_seq: int | None = None
    error_message: str | None = None
    error_language: str | None = None
    error_order_time: int | None = None
    error_seq: int | None = None
    source_code_location: str | None = None
    source_code_location_order_time: int | None = None
    source_code_location_seq: int | None = None
    # Whether an event of the run has explicit lineage entries.
    has_lineage_entries: bool = False
    # Only of ended runs, computed from the events of this batch.
    job_version: str | None = None


class JobRow(TableRow):
    """A job."""

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
    type_order_time: int | None = None
    type_seq: int | None = None
    description: str | None = None
    description_order_time: int | None = None
    description_seq: int | None = None
    parent_job_namespace: str | None = None
    parent_job_name: str | None = None
    parent_order_time: int | None = None
    parent_seq: int | None = None


class ReferencedRunRow(TableRow):
    """A run referenced as parent or root, with the job of the first reference."""

    run_uuid: str
    job_namespace: str | None
    job_name: str | None
    job_seq: int | None
    first_event_at: int
    last_event_at: int
    last_seq: int


class ReferencedJobRow(TableRow):
    """The job of a run referenced as parent or root."""

    namespace: str
    name: str
    first_event_at: int
    last_event_at: int
    first_seq: int
    last_seq: int


class JobDeclarationRow(TableRow):
    """A job version declared by JobEvents; `inputs` and `outputs` are JSON."""

    job_namespace: str
    job_name: str
    version: str
    inputs: str
    outputs: str
    source_code_location: str | None
    created_at: int
    declared_at: int
    declared_seq: int
    first_seq: int
    last_seq: int


class DatasetDeclarationRow(TableRow):
    """A dataset version declared by DatasetEvents; an absent schema or state is empty."""

    dataset_namespace: str
    dataset_name: str
    schema_id: str
    lifecycle_state: str
    version: str | None
    created_at: int
    last_seq: int


class SchemaRow(TableRow):
    """A schema; the id is a hash of the content, `fields` is JSON."""

    schema_id: str
    fields: str


class DatasetRow(TableRow):
    """A dataset with its last write and lifecycle change."""

    namespace: str
    name: str
    first_event_at: int
    last_event_at: int
    first_seq: int
    last_seq: int
    written_at: int | None = None
    written_seq: int | None = None
    # Version of the last write; empty if it had none.
    current_version: str | None = None
    current_version_seq: int | None = None
    description: str | None = None
    description_order_time: int | None = None
    description_seq: int | None = None
    lifecycle_state: str | None = None
    renamed_from_namespace: str | None = None
    renamed_from_name: str | None = None
    lifecycle_at: int | None = None
    lifecycle_seq: int | None = None


class RenameRow(TableRow):
    """A renamed dataset with its new name."""

    namespace: str
    name: str
    to_namespace: str
    to_name: str
    renamed_at: int
    last_seq: int


class SymlinksRow(TableRow):
    """The symlinks of a dataset; `identifiers` is JSON."""

    namespace: str
    name: str
    identifiers: str
    last_seq: int
    order_time: int | None = None


class RunIoRow(TableRow):
    """An input or output of a run."""

    run_uuid: str
    direction: str
    dataset_namespace: str
    dataset_name: str
    dataset_version: str
    job_namespace: str | None
    job_name: str | None
    session_id: str | None
    first_seq: int
    last_seq: int
    last_event_at: int
    schema_id: str | None = None
    schema_order_time: int | None = None
    schema_seq: int | None = None
    row_count: int | None = None
    row_count_order_time: int | None = None
    row_count_seq: int | None = None
    is_implied: bool = False


class JobEdgeRow(TableRow):
    """An input or output of a job; `is_observed` unless only JobEvents declare it."""

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
    declared_at: int | None = None
    declared_order_time: int | None = None
    declared_seq: int | None = None
    # Whether the last declaration lists the dataset, and not only its lineage.
    is_listed: bool | None = None
    is_observed: bool = True
    is_superseded: bool = False


class AssertionRow(TableRow):
    """A lineage assertion of a run, or of a job or a dataset without a run, on one dataset."""

    asserted_by: str
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
    edge_set_id: str
    order_time: int | None = None


class JobDependenciesRow(TableRow):
    """Upstream jobs of a job by explicit lineage; `upstream` is JSON."""

    asserted_by: str
    job_namespace: str
    job_name: str
    seq: int
    event_time: int
    run_uuid: str | None
    upstream: str
    order_time: int | None = None


class StaticLineageRow(TableRow):
    """Position of the last explicit lineage that a job declared without a run."""

    asserted_by: str
    seq: int
    order_time: int | None = None
    has_entries: bool = False


class QualityAssertionsRow(TableRow):
    """Results of data quality tests of one dataset in a facet of a run, a job or the dataset; `assertions` is JSON."""

    asserted_by: str
    dataset_namespace: str
    dataset_name: str
    facet_type: str
    seq: int
    event_time: int
    run_uuid: str | None
    job_namespace: str | None
    job_name: str | None
    dataset_version: str | None
    assertions: str
    order_time: int | None = None


class RunEventRow(TableRow):
    """An event of a run."""

    event_time: int
    seq: int
    event_type: str


class EdgeRow(TableRow):
    """An edge of an edge set."""

    edge_set_id: str
    edge_position: int
    column: str | None
    source_namespace: str
    source_name: str
    source_column: str | None
    type: str
    subtype: str | None
    description: str | None
    masking: bool | None


class CellRow(TableRow):
    """A cell execution."""

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
    state_rank: int


class OperationRow(TableRow):
    """A DataFrame operation; `inputs` and `outputs` are JSON."""

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


class FacetsRow(TableRow):
    """The facets of an entity as a compressed blob, with the position of their last event."""

    kind: str
    entity_key: str
    last_seq: int
    body: bytes


class ChangeSet(Struct):
    """Rows by table, and the ingested and rejected events as pairs of `seq` and id."""

    events: list[tuple[int, str]] = field(default_factory=list)
    rejected: list[tuple[int, str]] = field(default_factory=list)
    run_events: list[RunEventRow] = field(default_factory=list)
    runs: list[RunRow] = field(default_factory=list)
    jobs: list[JobRow] = field(default_factory=list)
    referenced_runs: list[ReferencedRunRow] = field(default_factory=list)
    referenced_jobs: list[ReferencedJobRow] = field(default_factory=list)
    job_declarations: list[JobDeclarationRow] = field(default_factory=list)
    schemas: list[SchemaRow] = field(default_factory=list)
    dataset_declarations: list[DatasetDeclarationRow] = field(default_factory=list)
    datasets: list[DatasetRow] = field(default_factory=list)
    renames: list[RenameRow] = field(default_factory=list)
    symlinks: list[SymlinksRow] = field(default_factory=list)
    run_io: list[RunIoRow] = field(default_factory=list)
    reported_job_edges: list[JobEdgeRow] = field(default_factory=list)
    lineage_assertions: list[AssertionRow] = field(default_factory=list)
    job_dependency_assertions: list[JobDependenciesRow] = field(default_factory=list)
    static_lineage: list[StaticLineageRow] = field(default_factory=list)
    quality_assertions: list[QualityAssertionsRow] = field(default_factory=list)
    edge_sets: list[EdgeRow] = field(default_factory=list)
    cell_executions: list[CellRow] = field(default_factory=list)
    operations: list[OperationRow] = field(default_factory=list)
    facets: list[FacetsRow] = field(default_factory=list)

    @classmethod
    def concat(cls, change_sets: Iterable[Self]) -> Self:
        """Concatenate change sets."""
        result = cls()
        for change_set in change_sets:
            for name in cls.__struct_fields__:
                getattr(result, name).extend(getattr(change_set, name))
        return result


def _row_types() -> dict[str, type[TableRow]]:
    hints = get_type_hints(ChangeSet)
    row_types = {table: get_args(hint)[0] for table, hint in hints.items()}
    return {table: kind for table, kind in row_types.items() if isinstance(kind, type) and issubclass(kind, TableRow)}


# Row type of each table.
ROW_TYPES: Final = _row_types()


class EventContext(NamedTuple):
    """Values of an event that all rows need; times are in epoch microseconds.

    `order_time` is the event time if facets are ordered by event time, else None.
    """

    event: Event
    seq: int
    event_time: int
    order_time: int | None
    run_uuid: str | None
    job: tuple[str | None, str | None]

    @classmethod
    def of(cls, event: Event, seq: int, order: FacetOrder) -> EventContext:
        """Build the context of an event."""
        run_uuid = None if event.run is None else event.run.run_id
        job = (None, None) if event.job is None else (event.job.namespace, event.job.name)
        event_time = to_epoch_micros(event.time)
        return cls(event, seq, event_time, event_time if order is FacetOrder.EVENT_TIME else None, run_uuid, job)

    @property
    def asserted_by(self) -> str:
        """Key of the run, job or dataset that makes the event's assertions."""
        event = self.event
        if self.run_uuid is not None or event.dataset is None or event.kind != "DATASET":
            return self.run_uuid or entity_key(*self.job)
        # One part more than the key of a job, so that a job and a dataset of the same name differ.
        return entity_key(event.dataset.namespace, event.dataset.name, None)
