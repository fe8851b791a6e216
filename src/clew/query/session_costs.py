"""What sessions of notebooks cost: time and memory, and the cells that took most of it."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from clew.query.costs import peak_memory_mb, total_ms
from clew.query.model import CellExecution, NotebookRun, State

_MOST_CELLS = 5


class CellCost(Struct, frozen=True):
    """An execution of a cell, by its time and by how much more memory was taken when it ended."""

    execution_id: str
    cell: str
    state: str
    duration_ms: float | None
    grown_mb: float | None


class SessionCost(Struct, frozen=True):
    """A session, and its slowest cells."""

    session_id: str
    notebook: str
    state: State
    started_at: datetime | None
    cell_count: int
    cells_ms: float
    peak_memory_mb: float | None
    grown_mb: float | None
    slowest: tuple[CellCost, ...]


def session_cost(run: NotebookRun) -> SessionCost:
    """The cost of one session."""
    timed = sorted(run.cells, key=lambda cell: cell.duration_ms or 0.0, reverse=True)
    started = [cell.start_memory_mb for cell in run.cells if cell.start_memory_mb is not None]
    peak = peak_memory_mb(run)
    return SessionCost(
        session_id=run.session_id,
        notebook=run.notebook,
        state=run.state,
        started_at=run.started_at,
        cell_count=len(run.cells),
        cells_ms=round(total_ms(run), 3),
        peak_memory_mb=peak,
        grown_mb=None if peak is None or not started else round(peak - started[0], 3),
        slowest=tuple(map(_cell_cost, timed[:_MOST_CELLS])),
    )


def _cell_cost(cell: CellExecution) -> CellCost:
    before, after = cell.start_memory_mb, cell.end_memory_mb
    number = "" if cell.index is None else f"{cell.index} "
    return CellCost(
        execution_id=cell.execution_id,
        cell=f"{number}{cell.name or cell.cell_id}",
        state=cell.state,
        duration_ms=cell.duration_ms,
        grown_mb=None if before is None or after is None else round(after - before, 3),
    )
