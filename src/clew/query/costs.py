"""Time and memory of a notebook run."""

from __future__ import annotations

from clew.query.model import CellExecution, NotebookRun


def slowest_cell(run: NotebookRun) -> CellExecution | None:
    """Return the cell with the longest duration."""
    timed = [cell for cell in run.cells if cell.duration_ms is not None]
    return max(timed, key=lambda cell: cell.duration_ms or 0.0, default=None)


def total_ms(run: NotebookRun) -> float:
    """Return the sum of the cell durations."""
    return sum(cell.duration_ms or 0.0 for cell in run.cells)


def peak_memory_mb(run: NotebookRun) -> float | None:
    """Return the peak memory, sampled at the start and end of each cell."""
    samples = [
        memory for cell in run.cells for memory in (cell.start_memory_mb, cell.end_memory_mb) if memory is not None
    ]
    return max(samples, default=None)
