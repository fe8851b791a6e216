"""Records that the queries of entities return."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias


class RunRecord(NamedTuple):
    """A run with its facet blob; a placeholder has neither times nor facets."""

    run_uuid: str
    job_namespace: str | None
    job_name: str | None
    state: Any
    first_event_at: int | None
    last_event_at: int | None
    nominal_start_at: int | None
    nominal_end_at: int | None
    started_at: int | None
    ended_at: int | None
    parent_run_uuid: str | None
    parent_job_namespace: str | None
    parent_job_name: str | None
    root_run_uuid: str | None
    job_version: str | None
    error_message: str | None
    session_id: str | None
    is_placeholder: int
    body: bytes | None

    @property
    def start_time(self) -> int | None:
        """Start of the run, or its first event if it has no START event."""
        return self.first_event_at if self.started_at is None else self.started_at

    @property
    def end_time(self) -> int | None:
        """End of the run, or its last event if it has no terminal event."""
        return self.last_event_at if self.ended_at is None else self.ended_at


class RunIoRecord(NamedTuple):
    """An input or output of a run with its facet blobs; row count, schema and blobs only if requested."""

    run_uuid: str
    direction: str
    namespace: str
    name: str
    version: str
    row_count: int | None
    is_implied: int
    schema_id: str | None
    bodies: tuple[bytes, ...]

    @property
    def dataset(self) -> tuple[str, str]:
        """Name of the dataset."""
        return self.namespace, self.name


class DatasetRecord(NamedTuple):
    """A dataset with its current state, and the names before and after a rename."""

    namespace: str
    name: str
    first_event_at: int
    last_event_at: int
    last_seq: int
    written_at: int | None
    lifecycle_state: str | None
    renamed_from_namespace: str | None
    renamed_from_name: str | None
    to_namespace: str | None
    to_name: str | None
    is_deleted: int


# Dataset namespace and name, version, run that wrote it, time, schema id, lifecycle state and row count.
DatasetWriteRecord: TypeAlias = tuple[str, str, str, str | None, int, str | None, str | None, int | None]


class AssertedEdge(NamedTuple):
    """An edge of an edge set; the assertion has the target dataset."""

    edge_set_id: str
    column: str | None
    source_namespace: str
    source_name: str
    source_column: str | None
    type: str
    subtype: str | None
    description: str | None
    masking: int | None


class QualityRecord(NamedTuple):
    """Test results of a dataset in one facet; `assertions` is JSON."""

    asserted_by: str
    dataset_namespace: str
    dataset_name: str
    run_uuid: str | None
    job_namespace: str | None
    job_name: str | None
    event_time: int
    assertions: str
