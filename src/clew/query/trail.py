"""Chronological log of a session: cells and operations with their inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal

from msgspec import Struct

from clew.query.folding import is_intermediate_frame
from clew.query.model import CellExecution, DatasetState, NotebookOperation, NotebookRun
from clew.query.names import full_name

TimelineKind = Literal["cell started", "cell ended", "operation"]
_MIN_DATETIME = datetime.min.replace(tzinfo=UTC)


class TimelineEntry(Struct, frozen=True):
    """One entry; `detail` is the code of the operation or the final state of the cell."""

    at: datetime | None
    kind: TimelineKind
    cell: str
    detail: str
    read: tuple[str, ...] = ()
    wrote: tuple[str, ...] = ()


def build_timeline(run: NotebookRun) -> list[TimelineEntry]:
    """Build the entries of a session in order: cell start, its operations, cell end."""
    return [entry for cell in run.cells for entry in _cell_entries(run, cell)]


def _cell_entries(run: NotebookRun, cell: CellExecution) -> Iterator[TimelineEntry]:
    name = cell.name or cell.cell_id
    yield TimelineEntry(cell.started_at, "cell started", name, "")
    operations = [operation for operation in run.operations if operation.execution_id == cell.execution_id]
    for operation in sorted(operations, key=lambda operation: operation.started_at or _MIN_DATETIME):
        yield _operation_entry(name, operation)
    if cell.state != "running":
        error = "" if cell.error is None else f": {cell.error.type}: {cell.error.message}"
        yield TimelineEntry(_ended_at(cell), "cell ended", name, f"{cell.state}{error}")


def _operation_entry(cell: str, operation: NotebookOperation) -> TimelineEntry:
    code = " ".join(operation.code.split())
    return TimelineEntry(
        operation.started_at,
        "operation",
        cell,
        code,
        _state_names(operation.inputs),
        _state_names(operation.outputs),
    )


def _ended_at(cell: CellExecution) -> datetime | None:
    if cell.started_at is None or cell.duration_ms is None:
        return None
    return cell.started_at + timedelta(milliseconds=cell.duration_ms)


def _state_names(states: tuple[DatasetState, ...]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(full_name(state.dataset) for state in states if not is_intermediate_frame(state.dataset))
    )
