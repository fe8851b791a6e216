"""Structured content of the replies. Ids, columns and datasets are valid tool arguments."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

NextCursor = Annotated[str | None, Field(description="pass as `cursor` to get the next page; null at the end")]


class RunListEntry(BaseModel):
    """A run of a notebook or of another job."""

    id: str = Field(description="session id of a notebook run, else run UUID")
    job: str
    state: str
    started_at: datetime | None
    duration_ms: float | None
    error: str | None
    tests: str | None = Field(description="counts of data quality tests, such as `2 of 5 failed`")


class RunsReply(BaseModel):
    """A page of runs; `total` counts all pages, up to 1,000 runs."""

    runs: list[RunListEntry]
    total: int
    next_cursor: NextCursor


class HitEntry(BaseModel):
    """A search hit; its id is accepted by all tools."""

    kind: str
    id: str
    snippet: str


class SearchReply(BaseModel):
    """Search hits, best match first."""

    hits: list[HitEntry]
    total: int
    next_cursor: NextCursor
    did_you_mean: list[str]


class NodeEntry(BaseModel):
    """A dataset, column, job or run; its id is accepted by all tools."""

    id: str
    kind: str
    hops: int = Field(description="distance from the start")
    via: list[str] = Field(description="adjacent nodes towards the start, with edge kind: `id (aggregation)`")


class TraversalReply(BaseModel):
    """Upstream or downstream nodes, nearest first."""

    start: str
    nodes: list[NodeEntry]
    node_total: int
    is_truncated: bool = Field(description="true if the traversal reached its node limit")
    next_cursor: NextCursor


class PathReply(BaseModel):
    """A shortest path along the data flow, source first; empty if there is none."""

    is_found: bool
    steps: list[str] = Field(description="`id`, then `→ id (edge kind)`")


class AffectedEntry(BaseModel):
    """A dataset affected by a change."""

    id: str
    hops: int
    is_direct: bool = Field(
        description="true: values derive from it; false: only used in a filter, join, group or sort"
    )
    columns: list[str]
    column_total: int
    jobs: list[str]


class ImpactReply(BaseModel):
    """Datasets affected by a change, nearest first."""

    start: str
    affected: list[AffectedEntry]
    affected_total: int
    direct_count: int = Field(description="affected datasets with derived values")
    indirect_count: int = Field(description="datasets affected only through filters, joins, groups or sorts")
    is_in_memory: bool = Field(description="no file or table is affected, only the listed in-memory frames")
    is_truncated: bool
    next_cursor: NextCursor


class DiffReply(BaseModel):
    """Differences between two runs, one per line."""

    left: str
    right: str
    lines: list[str]
    line_total: int
    next_cursor: NextCursor


class DatasetStateEntry(BaseModel):
    """A dataset that a run or cell read or wrote."""

    dataset: str = Field(description="namespace:name")
    rows: int | None
    columns: list[str]
    column_total: int


class CellEntry(BaseModel):
    """Execution of a cell in a run."""

    execution_id: str
    cell: str = Field(description="number and name")
    state: str
    duration_ms: float | None
    memory_mb: float | None
    error: str | None
    outputs: list[str]


class NotebookRunReply(BaseModel):
    """A notebook run; each `…_total` also counts entries that were cut."""

    session_id: str
    notebook: str
    state: str
    started_at: datetime | None
    total_cell_ms: float
    peak_memory_mb: float | None
    slowest_cell: str | None
    cells: list[CellEntry]
    cell_total: int
    reads: list[DatasetStateEntry]
    read_total: int
    writes: list[DatasetStateEntry]
    write_total: int


class SourceEntry(BaseModel):
    """A direct source of a column."""

    column: str = Field(description="namespace:dataset.column")
    transformation: str


class StepReply(BaseModel):
    """An operation that computed a column, with its sources and code."""

    column: str
    sources: list[SourceEntry]
    indirect_sources: list[str] = Field(description="columns used in a filter, join, group or sort")
    execution_id: str | None
    cell: str | None
    line: int | None
    code: str | None


class UpstreamReply(BaseModel):
    """Upstream lineage, nearest first: origins and steps of a column, else upstream nodes.

    Origins are columns without recorded upstream lineage.
    """

    start: str
    origins: list[str] = Field(default_factory=list)
    origin_total: int = 0
    steps: list[StepReply] = Field(default_factory=list)
    step_total: int = 0
    nodes: list[NodeEntry] = Field(default_factory=list)
    node_total: int = 0
    next_cursor: NextCursor = None


class CellOperationEntry(BaseModel):
    """A DataFrame operation of a cell."""

    line: int | None
    code: str
    method: str
    state: str
    duration_ms: float | None
    inputs: list[str]
    outputs: list[str]


class CellReply(BaseModel):
    """A cell with inputs and outputs; each `…_total` also counts entries that were cut."""

    session_id: str
    execution_id: str
    notebook: str
    cell: str
    state: str
    duration_ms: float | None
    memory_mb: float | None
    error: str | None
    code: str
    code_line_total: int
    inputs: list[DatasetStateEntry]
    input_total: int
    outputs: list[DatasetStateEntry]
    output_total: int
    new_columns: list[str] = Field(description="columns computed by this cell, with their sources")
    new_column_total: int
    operations: list[CellOperationEntry]
    operation_total: int
    other_executions: list[str] = Field(description="ids of other executions of this cell in this run")


class ColumnEntry(BaseModel):
    """A column of a dataset."""

    name: str
    type: str | None
    description: str | None


class TestEntry(BaseModel):
    """Result of a data quality test of a dataset."""

    result: str = Field(description="passed, failed or unknown")
    test: str
    column: str | None
    dataset: str | None = Field(description="id; null if it is the described dataset")
    expected: str | None
    actual: str | None
    severity: str | None
    run: str | None


class DatasetReply(BaseModel):
    """Details of a dataset."""

    id: str
    description: str | None
    last_event_at: datetime | None
    is_deleted: bool
    columns: list[ColumnEntry]
    column_total: int
    tags: list[str]
    written_by: list[str]
    read_by: list[str]
    tests: list[TestEntry] = Field(description="last results of data quality tests, failed ones first")
    test_total: int
    facets: list[str] = Field(description="facet names")


class JobReply(BaseModel):
    """Details of a job."""

    id: str
    type: str | None
    description: str | None
    latest_run: str | None
    latest_state: str | None
    reads: list[str]
    writes: list[str]
    facets: list[str] = Field(description="facet names")


class JobRunReply(BaseModel):
    """Details of a run of a job that is not a notebook."""

    id: str
    job: str | None
    state: str
    started_at: datetime | None
    duration_ms: float | None
    parent: str | None
    error: str | None
    reads: list[str]
    writes: list[str]
    tests: list[TestEntry] = Field(description="results of data quality tests, failed ones first")
    test_total: int
    facets: list[str] = Field(description="facet names")


class DescribeReply(BaseModel):
    """Exactly one field is set, by the kind of the described entity."""

    notebook_run: NotebookRunReply | None = None
    dataset: DatasetReply | None = None
    job: JobReply | None = None
    run: JobRunReply | None = None
