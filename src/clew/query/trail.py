"""The trail of a session: what was done when, and with which data."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal

from msgspec import Struct

from clew.query.folding import is_unnamed
from clew.query.model import CellExecution, DatasetState, NotebookRun, Operation
from clew.query.names import full_name

What = Literal["cell started", "cell ended", "operation"]
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Entry(Struct, frozen=True):
    """One thing that happened; `detail` is the operation's code, or how the cell ended."""

    at: datetime | None
    what: What
    cell: str
    detail: str
    read: tuple[str, ...] = ()
    wrote: tuple[str, ...] = ()


def trail(run: NotebookRun) -> list[Entry]:
    """All entries of a session in the order of time; a cell begins before its operations and ends after them."""
    return [entry for cell in run.cells for entry in _of_cell(run, cell)]


def _of_cell(run: NotebookRun, cell: CellExecution) -> Iterator[Entry]:
    name = cell.name or cell.cell_id
    yield Entry(cell.started_at, "cell started", name, "")
    own = [operation for operation in run.operations if operation.execution_id == cell.execution_id]
    for operation in sorted(own, key=lambda one: one.started_at or _LONG_AGO):
        yield _of_operation(name, operation)
    if cell.state != "running":
        error = "" if cell.error is None else f": {cell.error.type}: {cell.error.message}"
        yield Entry(_end(cell), "cell ended", name, f"{cell.state}{error}")


def _of_operation(cell: str, operation: Operation) -> Entry:
    code = " ".join(operation.code.split())
    return Entry(operation.started_at, "operation", cell, code, _names(operation.inputs), _names(operation.outputs))


def _end(cell: CellExecution) -> datetime | None:
    if cell.started_at is None or cell.duration_ms is None:
        return None
    return cell.started_at + timedelta(milliseconds=cell.duration_ms)


def _names(states: tuple[DatasetState, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(full_name(state.dataset) for state in states if not is_unnamed(state.dataset)))
