"""Names and figures as replies write them: short, and fit to be given back."""

from __future__ import annotations

from clew.mcp.replies import DatasetEntry
from clew.query.folding import is_unnamed
from clew.query.model import CellExecution, ColumnEdge, Dataset, DatasetState, NotebookRun, Operation
from clew.query.names import full_name, short_name

_MOST_COLUMNS = 12


def full_column(dataset: Dataset, column: str | None) -> str:
    """A column by its whole name."""
    return f"{full_name(dataset)}.{column or '*'}"


def short_column(dataset: Dataset, column: str | None) -> str:
    """A column as a person calls it."""
    return f"{short_name(dataset)}.{column or '*'}"


def cell_label(cell: CellExecution) -> str:
    """The cell's number and its name, or its id where it has none."""
    name = cell.name or cell.cell_id
    return name if cell.index is None else f"{cell.index} {name}"


def how(edge: ColumnEdge) -> str:
    """In which way a column's values went on, and whether that is known or guessed."""
    flag = "" if edge.flag is None else f", {edge.flag}"
    return f"{(edge.subtype or edge.type).lower()}{flag}"


def milliseconds(duration: float | None) -> str:
    """A duration without false precision."""
    return "?" if duration is None else f"{duration:,.1f} ms" if duration < 10 else f"{duration:,.0f} ms"


def error(cell: CellExecution) -> str | None:
    """Why a cell failed, in one line."""
    return None if cell.error is None else f"{cell.error.type}: {cell.error.message}"


def shape(state: DatasetState) -> str:
    """`orders 3,000 × 6`."""
    rows = "?" if state.row_count is None else f"{state.row_count:,}"
    return f"{short_name(state.dataset)} {rows} × {len(state.fields)}"


def dataset_entry(state: DatasetState) -> DatasetEntry:
    """A dataset with the first of its columns."""
    names = [field.name for field in state.fields]
    return DatasetEntry(
        dataset=full_name(state.dataset),
        rows=state.row_count,
        columns=names[:_MOST_COLUMNS],
        column_total=len(names),
    )


def operations_of(run: NotebookRun, cell: CellExecution) -> list[Operation]:
    """The operations of a cell, in the order in which they ran."""
    return [operation for operation in run.operations if operation.execution_id == cell.execution_id]


def made_by(operations: list[Operation]) -> list[DatasetState]:
    """What operations left under a name, each dataset as it was at the end."""
    states = (state for operation in operations for state in operation.outputs)
    return list({state.dataset: state for state in states if not is_unnamed(state.dataset)}.values())
