"""What a question is answered with: plain frozen values, ready to print or to encode as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

State = Literal["NEW", "RUNNING", "COMPLETED", "FAILED", "ABORTED"]
CellState = Literal["completed", "failed", "stopped", "running", "lost"]
EdgeType = Literal["DIRECT", "INDIRECT"]


class Dataset(Struct, frozen=True, order=True):
    """A dataset by its OpenLineage identity."""

    namespace: str
    name: str


class Field(Struct, frozen=True):
    """A column as the last schema facet describes it."""

    name: str
    type: str | None = None


class DatasetState(Struct, frozen=True):
    """A dataset as a run left it: `version` tells the states of one notebook variable apart."""

    dataset: Dataset
    version: str | None
    fields: tuple[Field, ...]
    row_count: int | None


class ColumnEdge(Struct, frozen=True):
    """One column's influence on another, and the operation that made it so.

    `column` is None for what holds for the whole output, `source_column` where the source column is unknown.
    """

    dataset: Dataset
    version: str | None
    column: str | None
    source: Dataset
    source_version: str | None
    source_column: str | None
    type: EdgeType
    subtype: str | None
    flag: Literal["opaque", "inferred"] | None
    run_uuid: str | None
    job_name: str


class Operation(Struct, frozen=True):
    """One user-level DataFrame operation of a notebook run."""

    run_uuid: str
    job_name: str
    execution_id: str
    cell_id: str
    method: str
    kind: str
    code: str
    line: int | None
    started_at: datetime | None
    duration_ms: float | None
    state: State
    inputs: tuple[DatasetState, ...]
    outputs: tuple[DatasetState, ...]


class CellError(Struct, frozen=True):
    """Why a cell failed, in the exception's own words."""

    type: str
    message: str
    traceback: str


class CellExecution(Struct, frozen=True):
    """One execution of one cell."""

    execution_id: str
    cell_id: str
    name: str | None
    index: int | None
    source: str
    state: CellState
    started_at: datetime | None
    duration_ms: float | None
    start_memory_mb: float | None
    end_memory_mb: float | None
    error: CellError | None


class NotebookRun(Struct, frozen=True):
    """One session of a notebook: its cells in run order, their operations, what it read and wrote."""

    session_id: str
    run_uuid: str | None
    notebook: str
    state: State
    started_at: datetime | None
    ended_at: datetime | None
    cells: tuple[CellExecution, ...]
    operations: tuple[Operation, ...]
    reads: tuple[DatasetState, ...]
    writes: tuple[DatasetState, ...]
    edges: tuple[ColumnEdge, ...]


class RunSummary(Struct, frozen=True):
    """One session of a notebook in a list."""

    session_id: str
    notebook: str
    state: State
    started_at: datetime | None
    ended_at: datetime | None
    cell_count: int
    failed_cell_count: int


class Hop(Struct, frozen=True):
    """A column and the hops that lead to it, each with the operation that made it."""

    dataset: Dataset
    version: str | None
    column: str | None
    edge: ColumnEdge | None
    operation: Operation | None
    cell: CellExecution | None
    upstream: tuple[Hop, ...]
    is_repeated: bool = False
