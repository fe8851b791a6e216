"""Format names, durations and dataset states; names are valid as tool arguments."""

from __future__ import annotations

from clew.mcp.replies import DatasetStateEntry
from clew.query.folding import is_intermediate_frame
from clew.query.model import CellExecution, ColumnLineageEdge, DatasetName, DatasetState, NotebookOperation, NotebookRun
from clew.query.names import full_name, short_name

_MAX_COLUMNS = 12


def full_column_name(dataset: DatasetName, column: str | None) -> str:
    """Return `namespace:dataset.column`."""
    return f"{full_name(dataset)}.{column or '*'}"


def short_column_name(dataset: DatasetName, column: str | None) -> str:
    """Return the short name of the dataset and the column."""
    return f"{short_name(dataset)}.{column or '*'}"


def cell_label(cell: CellExecution) -> str:
    """Return the number and the name of a cell, or its id if it has no name."""
    name = cell.name or cell.cell_id
    return name if cell.index is None else f"{cell.index} {name}"


def format_transformation(edge: ColumnLineageEdge) -> str:
    """Format the transformation of an edge, and its flag (`opaque`, `inferred`)."""
    flag = "" if edge.flag is None else f", {edge.flag}"
    return f"{(edge.subtype or edge.type).lower()}{flag}"


def duration_text(duration: float | None) -> str:
    """Format milliseconds, with a decimal below 10 ms."""
    return "?" if duration is None else f"{duration:,.1f} ms" if duration < 10 else f"{duration:,.0f} ms"


def format_error(cell: CellExecution) -> str | None:
    """Format the error of a cell, if it failed."""
    return None if cell.error is None else f"{cell.error.type}: {cell.error.message}"


def shape_text(state: DatasetState) -> str:
    """Format a dataset with its numbers of rows and columns: `orders 3,000 × 6`."""
    rows = "?" if state.row_count is None else f"{state.row_count:,}"
    return f"{short_name(state.dataset)} {rows} × {len(state.fields)}"


def to_dataset_state_entry(state: DatasetState) -> DatasetStateEntry:
    """Convert a dataset state, with its first columns."""
    names = [field.name for field in state.fields]
    return DatasetStateEntry(
        dataset=full_name(state.dataset),
        rows=state.row_count,
        columns=names[:_MAX_COLUMNS],
        column_total=len(names),
    )


def operations_in(run: NotebookRun, cell: CellExecution) -> list[NotebookOperation]:
    """Return the operations of a cell in order of execution."""
    return [operation for operation in run.operations if operation.execution_id == cell.execution_id]


def final_outputs(operations: list[NotebookOperation]) -> list[DatasetState]:
    """Return the last state of each output of operations, without intermediate frames."""
    states = (state for operation in operations for state in operation.outputs)
    return list({state.dataset: state for state in states if not is_intermediate_frame(state.dataset)}.values())
