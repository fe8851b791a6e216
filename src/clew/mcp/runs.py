"""Tool `list_runs`, and `describe` for notebook runs."""

from __future__ import annotations

from collections.abc import Iterator

from clew.errors import ClewError
from clew.mcp.budget import (
    ToolReply,
    count_label,
    fit_to_budget,
    max_len,
    more_line,
    next_cursor,
    parse_cursor,
    truncate,
)
from clew.mcp.replies import CellEntry, DescribeReply, NotebookRunReply, RunListEntry, RunsReply
from clew.mcp.words import (
    cell_label,
    duration_text,
    final_outputs,
    format_error,
    operations_in,
    shape_text,
    to_dataset_state_entry,
)
from clew.query.answers import NotebookService
from clew.query.costs import peak_memory_mb, slowest_cell, total_ms
from clew.query.model import CellExecution, DatasetState, NotebookRun
from clew.query.run_entries import JobRunSummary, RunSelection

_MAX_RUN_ERROR_LENGTH = 300
_MAX_RUNS, _PAGE_SIZE = 1000, 50
_ORDERS: dict[RunSelection, str] = {"recent": "newest first", "failed": "failed, newest first", "slow": "slowest first"}
_NO_RUNS = "No runs are recorded yet."
_NO_RUNS_HINT = "Run `clew demo`, or `clew run NOTEBOOK` and `clew pipeline run`."


def runs_reply(notebooks: NotebookService, selection: RunSelection, cursor: str | None, tokens: int) -> ToolReply:
    """Build a page of runs of notebooks and other jobs."""
    runs, start = notebooks.job_runs(selection, limit=_MAX_RUNS), parse_cursor(cursor)
    rest = runs[start:]

    def compose(entries: int) -> ToolReply:
        shown = rest[:entries]
        head = (
            f"Runs, {_ORDERS[selection]} ({count_label(len(shown), len(runs))}):"
            if runs
            else f"{_NO_RUNS} {_NO_RUNS_HINT}"
        )
        more = next_cursor(start, len(shown), len(runs))
        data = RunsReply(runs=[_run_entry(run) for run in shown], total=len(runs), next_cursor=more)
        return ToolReply("\n".join([head, *map(_run_line, shown), *more_line(more)]), data)

    return fit_to_budget(compose, min(len(rest), _PAGE_SIZE), tokens)


def load_notebook_run(notebooks: NotebookService, session_id: str | None) -> NotebookRun:
    """Return a notebook run by session id, or the latest."""
    run = notebooks.run(session_id) if session_id else notebooks.latest_run()
    if run is None:
        raise ClewError(_NO_RUNS, hint=_NO_RUNS_HINT)
    return run


def notebook_run_reply(run: NotebookRun, tokens: int) -> ToolReply:
    """Build the reply for a notebook run: cells, durations, memory, errors, reads and writes."""

    def compose(entries: int) -> ToolReply:
        return ToolReply("\n".join(_run_lines(run, entries)), DescribeReply(notebook_run=_run_reply(run, entries)))

    return fit_to_budget(compose, max_len(run.cells, [*run.reads], [*run.writes]), tokens)


def _run_entry(run: JobRunSummary) -> RunListEntry:
    return RunListEntry(
        id=run.session_id or run.run_uuid,
        job=run.job_name or "",
        state=run.state,
        started_at=run.started_at,
        duration_ms=run.duration_ms,
        error=None if run.error is None else truncate(run.error, _MAX_RUN_ERROR_LENGTH),
    )


def _run_line(run: JobRunSummary) -> str:
    started = "" if run.started_at is None else f", started {run.started_at:%Y-%m-%d %H:%M:%S} UTC"
    duration = "" if run.duration_ms is None else f", took {duration_text(run.duration_ms)}"
    error = "" if run.error is None else f": {truncate(run.error, _MAX_RUN_ERROR_LENGTH)}"
    return f"- {run.session_id or run.run_uuid} {run.job_name}: {run.state}{started}{duration}{error}"


def _run_lines(run: NotebookRun, entries: int) -> Iterator[str]:
    yield f"{run.notebook}, session {run.session_id}: {run.state}, {duration_text(total_ms(run))} in cells"
    slowest = slowest_cell(run)
    if slowest is not None:
        yield f"Slowest: cell {cell_label(slowest)}, {duration_text(slowest.duration_ms)}"
    for title, states in (("Read", run.reads), ("Wrote", run.writes)):
        shown = states[:entries]
        yield f"{title} ({count_label(len(shown), len(states))}): {', '.join(map(shape_text, shown)) or 'none'}"
    shown_cells = run.cells[:entries]
    yield f"Cells in order of execution ({count_label(len(shown_cells), len(run.cells))}):"
    yield from (_cell_line(run, cell) for cell in shown_cells)


def _cell_line(run: NotebookRun, cell: CellExecution) -> str:
    outputs = ", ".join(map(shape_text, _outputs(run, cell)))
    error = format_error(cell)
    parts = [
        cell.state,
        duration_text(cell.duration_ms),
        f"outputs {outputs}" if outputs else "",
        truncate(error, _MAX_RUN_ERROR_LENGTH) if error else "",
    ]
    return f"- {cell.execution_id} {cell_label(cell)}: {', '.join(part for part in parts if part)}"


def _run_reply(run: NotebookRun, entries: int) -> NotebookRunReply:
    slowest = slowest_cell(run)
    return NotebookRunReply(
        session_id=run.session_id,
        notebook=run.notebook,
        state=run.state,
        started_at=run.started_at,
        total_cell_ms=round(total_ms(run), 3),
        peak_memory_mb=peak_memory_mb(run),
        slowest_cell=None if slowest is None else slowest.execution_id,
        cells=[_cell_entry(run, cell) for cell in run.cells[:entries]],
        cell_total=len(run.cells),
        reads=[to_dataset_state_entry(state) for state in run.reads[:entries]],
        read_total=len(run.reads),
        writes=[to_dataset_state_entry(state) for state in run.writes[:entries]],
        write_total=len(run.writes),
    )


def _cell_entry(run: NotebookRun, cell: CellExecution) -> CellEntry:
    error = format_error(cell)
    return CellEntry(
        execution_id=cell.execution_id,
        cell=cell_label(cell),
        state=cell.state,
        duration_ms=cell.duration_ms,
        memory_mb=cell.end_memory_mb,
        error=None if error is None else truncate(error, _MAX_RUN_ERROR_LENGTH),
        outputs=list(map(shape_text, _outputs(run, cell))),
    )


def _outputs(run: NotebookRun, cell: CellExecution) -> list[DatasetState]:
    return final_outputs(operations_in(run, cell))
