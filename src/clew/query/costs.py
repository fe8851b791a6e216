"""What a run cost, and which cell most of it."""

from __future__ import annotations

from clew.query.model import CellExecution, NotebookRun


def slowest_cell(run: NotebookRun) -> CellExecution | None:
    """The cell that took longest."""
    timed = [cell for cell in run.cells if cell.duration_ms is not None]
    return max(timed, key=lambda cell: cell.duration_ms or 0.0, default=None)


def total_ms(run: NotebookRun) -> float:
    """Time spent in cells."""
    return sum(cell.duration_ms or 0.0 for cell in run.cells)


def peak_memory_mb(run: NotebookRun) -> float | None:
    """The highest memory seen at the start or end of a cell."""
    seen = [memory for cell in run.cells for memory in (cell.start_memory_mb, cell.end_memory_mb) if memory is not None]
    return max(seen, default=None)
