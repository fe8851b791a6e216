"""Time and memory of notebook sessions, and their slowest cells."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from clew.query.costs import peak_memory_mb, total_ms
from clew.query.model import CellExecution, NotebookRun, State

_MAX_CELLS = 5


class CellResources(Struct, frozen=True):
    """Duration and memory increase of a cell execution."""

    execution_id: str
    cell: str
    state: str
    duration_ms: float | None
    memory_increase_mb: float | None


class SessionResources(Struct, frozen=True):
    """Resources of a session, and its slowest cells."""

    session_id: str
    notebook: str
    state: State
    started_at: datetime | None
    cell_count: int
    cells_ms: float
    peak_memory_mb: float | None
    memory_increase_mb: float | None
    slowest: tuple[CellResources, ...]


def summarize_resources(run: NotebookRun) -> SessionResources:
    """Summarize the resources of a session."""
    timed = sorted(run.cells, key=lambda cell: cell.duration_ms or 0.0, reverse=True)
    started = [cell.start_memory_mb for cell in run.cells if cell.start_memory_mb is not None]
    peak = peak_memory_mb(run)
    return SessionResources(
        session_id=run.session_id,
        notebook=run.notebook,
        state=run.state,
        started_at=run.started_at,
        cell_count=len(run.cells),
        cells_ms=round(total_ms(run), 3),
        peak_memory_mb=peak,
        memory_increase_mb=None if peak is None or not started else round(peak - started[0], 3),
        slowest=tuple(map(_cell_resources, timed[:_MAX_CELLS])),
    )


def _cell_resources(cell: CellExecution) -> CellResources:
    before, after = cell.start_memory_mb, cell.end_memory_mb
    number = "" if cell.index is None else f"{cell.index} "
    return CellResources(
        execution_id=cell.execution_id,
        cell=f"{number}{cell.name or cell.cell_id}",
        state=cell.state,
        duration_ms=cell.duration_ms,
        memory_increase_mb=None if before is None or after is None else round(after - before, 3),
    )
