"""The data of each reply. What is called an id, a column or a dataset here can be given back to a tool as it is."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field


class RunEntry(BaseModel):
    """A notebook run in a list."""

    session_id: str
    notebook: str
    state: str
    started_at: datetime | None
    cells: int
    failed_cells: int


class RunsReply(BaseModel):
    """Notebook runs, the newest first; `total` counts those that are not shown, too."""

    runs: list[RunEntry]
    total: int


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
    """Where a column came from: its origins, which nothing is known to have made, and the steps back, nearest first."""

    column: str
    origins: list[str]
    origin_total: int
    steps: list[StepReply]
    step_total: int


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
