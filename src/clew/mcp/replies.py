"""The data of each reply. What is called an id, a column or a dataset here can be given back to a tool as it is."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

Next = Annotated[str | None, Field(description="Give it back as `cursor` to see what comes after; null at the end.")]


class RunEntry(BaseModel):
    """A run in a list: of a notebook, or of another job."""

    id: str = Field(description="of a notebook its session id, else the run's UUID")
    job: str
    state: str
    started_at: datetime | None
    duration_ms: float | None
    error: str | None


class RunsReply(BaseModel):
    """Runs; `total` counts those that are not shown, too, up to a thousand."""

    runs: list[RunEntry]
    total: int
    next_cursor: Next


class HitEntry(BaseModel):
    """Something that was found; its id can be given to every other tool."""

    kind: str
    id: str
    snippet: str


class SearchReply(BaseModel):
    """What was found, the best match first."""

    hits: list[HitEntry]
    total: int
    next_cursor: Next
    did_you_mean: list[str]


class NodeEntry(BaseModel):
    """A dataset, a column, a job or a run on the way; its id can be given to every other tool."""

    id: str
    kind: str
    hops: int = Field(description="how far from what was asked for")
    via: list[str] = Field(description="ids of the nodes next to it on the way, with how: `id (aggregation)`")


class WalkReply(BaseModel):
    """What was reached, the nearest first."""

    start: str
    nodes: list[NodeEntry]
    node_total: int
    is_cut: bool = Field(description="whether there is even more, beyond what was walked")
    next_cursor: Next


class PathReply(BaseModel):
    """A shortest way along the flow of data, from the source on; empty if there is none."""

    is_found: bool
    steps: list[str] = Field(description="`id`, then `→ id (how)`")


class AffectedEntry(BaseModel):
    """A dataset that a change would reach."""

    id: str
    hops: int
    by_values: bool = Field(description="false: the change only has a say, as in a filter or a join")
    columns: list[str]
    column_total: int
    jobs: list[str]


class ImpactReply(BaseModel):
    """What a change would reach, the nearest first."""

    start: str
    affected: list[AffectedEntry]
    affected_total: int
    by_values: int
    by_a_say: int
    is_cut: bool
    next_cursor: Next


class DiffReply(BaseModel):
    """What differs, one line each; nothing of what is the same."""

    left: str
    right: str
    lines: list[str]
    line_total: int
    next_cursor: Next


class DatasetEntry(BaseModel):
    """A dataset that a run or a cell read or made."""

    dataset: str = Field(description="namespace:name")
    rows: int | None
    columns: list[str]
    column_total: int


class CellEntry(BaseModel):
    """A cell's execution in a run."""

    execution_id: str
    cell: str = Field(description="number and name")
    state: str
    duration_ms: float | None
    memory_mb: float | None
    error: str | None
    made: list[str]


class RunReply(BaseModel):
    """What happened in a notebook run; each `…_total` counts what is not shown, too."""

    session_id: str
    notebook: str
    state: str
    started_at: datetime | None
    cells_ms: float
    peak_memory_mb: float | None
    slowest_cell: str | None
    cells: list[CellEntry]
    cell_total: int
    reads: list[DatasetEntry]
    read_total: int
    writes: list[DatasetEntry]
    write_total: int


class Source(BaseModel):
    """A column whose values went into another."""

    column: str = Field(description="namespace:dataset.column")
    how: str


class StepReply(BaseModel):
    """One operation on the way back: what it made, from what, by which line of code."""

    made: str
    sources: list[Source]
    influences: list[str] = Field(description="columns that filtered, joined, grouped or sorted, without giving values")
    execution_id: str | None
    cell: str | None
    line: int | None
    code: str | None


class UpstreamReply(BaseModel):
    """Where something came from: of a column its origins and the steps back, else the nodes upstream; nearest first.

    Origins are what nothing is known to have made.
    """

    start: str
    origins: list[str] = Field(default_factory=list)
    origin_total: int = 0
    steps: list[StepReply] = Field(default_factory=list)
    step_total: int = 0
    nodes: list[NodeEntry] = Field(default_factory=list)
    node_total: int = 0
    next_cursor: Next = None


class OperationEntry(BaseModel):
    """A DataFrame operation of a cell."""

    line: int | None
    code: str
    method: str
    state: str
    duration_ms: float | None
    inputs: list[str]
    outputs: list[str]


class CellReply(BaseModel):
    """What a cell read and made; each `…_total` counts what is not shown, too."""

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
    reads: list[DatasetEntry]
    read_total: int
    made: list[DatasetEntry]
    made_total: int
    new_columns: list[str] = Field(description="columns whose values this cell computed, each with its sources")
    new_column_total: int
    operations: list[OperationEntry]
    operation_total: int
    other_executions: list[str] = Field(description="execution ids of the same cell in this run")


class ColumnEntry(BaseModel):
    """A column of a dataset."""

    name: str
    type: str | None
    description: str | None


class DatasetReply(BaseModel):
    """What is known of a dataset."""

    id: str
    description: str | None
    last_event_at: datetime | None
    is_deleted: bool
    columns: list[ColumnEntry]
    column_total: int
    tags: list[str]
    written_by: list[str]
    read_by: list[str]
    facets: list[str] = Field(description="names of its facets")


class JobReply(BaseModel):
    """What is known of a job."""

    id: str
    type: str | None
    description: str | None
    latest_run: str | None
    latest_state: str | None
    reads: list[str]
    writes: list[str]
    facets: list[str] = Field(description="names of its facets")


class JobRunReply(BaseModel):
    """What is known of a run of a job that is no notebook."""

    id: str
    job: str | None
    state: str
    started_at: datetime | None
    duration_ms: float | None
    parent: str | None
    error: str | None
    reads: list[str]
    writes: list[str]
    facets: list[str] = Field(description="names of its facets")


class DescribeReply(BaseModel):
    """One of these, by the kind of what was asked for."""

    notebook_run: RunReply | None = None
    dataset: DatasetReply | None = None
    job: JobReply | None = None
    run: JobRunReply | None = None
