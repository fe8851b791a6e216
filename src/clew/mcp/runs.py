"""`runs` and `describe_run`: which notebooks ran, and what happened in one of them."""

from __future__ import annotations

from collections.abc import Iterator

from clew.errors import ClewError
from clew.mcp.budget import Reply, clipped, fitting, longest, shown
from clew.mcp.replies import CellEntry, RunEntry, RunReply, RunsReply
from clew.mcp.words import cell_label, dataset_entry, error, made_by, milliseconds, operations_of, shape
from clew.query.answers import Answers
from clew.query.costs import peak_memory_mb, slowest_cell, total_ms
from clew.query.model import CellExecution, DatasetState, NotebookRun, RunSummary

_LONGEST_ERROR = 300
_NOTHING = "No notebook run was recorded yet."
_HOW_TO_RECORD = "Run `clew demo`, or `clew run NOTEBOOK` and `clew pipeline run`."


def recent_runs(answers: Answers, limit: int, tokens: int) -> Reply:
    """The newest runs."""
    known = answers.runs()
    newest = known[:limit]

    def compose(entries: int) -> Reply:
        some = newest[:entries]
        head = (
            f"Notebook runs, newest first ({shown(len(some), len(known))}):"
            if known
            else f"{_NOTHING} {_HOW_TO_RECORD}"
        )
        data = RunsReply(runs=[_run_entry(run) for run in some], total=len(known))
        return Reply("\n".join([head, *map(_run_line, some)]), data)

    return fitting(compose, len(newest), tokens)


def one_run(answers: Answers, session_id: str | None) -> NotebookRun:
    """The run of that id; without one, the last."""
    run = answers.run(session_id) if session_id else answers.latest()
    if run is None:
        raise ClewError(_NOTHING, hint=_HOW_TO_RECORD)
    return run


def run_description(run: NotebookRun, tokens: int) -> Reply:
    """Cells, cost, errors, reads and writes of a run."""

    def compose(entries: int) -> Reply:
        return Reply("\n".join(_lines(run, entries)), _run_reply(run, entries))

    return fitting(compose, longest(run.cells, [*run.reads], [*run.writes]), tokens)


def _run_entry(run: RunSummary) -> RunEntry:
    return RunEntry(
        session_id=run.session_id,
        notebook=run.notebook,
        state=run.state,
        started_at=run.started_at,
        cells=run.cell_count,
        failed_cells=run.failed_cell_count,
    )


def _run_line(run: RunSummary) -> str:
    started = "" if run.started_at is None else f", started {run.started_at:%Y-%m-%d %H:%M:%S} UTC"
    failed = f", {run.failed_cell_count} failed" if run.failed_cell_count else ""
    return f"- {run.session_id} {run.notebook}: {run.state}{started}, {run.cell_count} cells{failed}"


def _lines(run: NotebookRun, entries: int) -> Iterator[str]:
    yield f"{run.notebook}, session {run.session_id}: {run.state}, {milliseconds(total_ms(run))} in cells"
    slowest = slowest_cell(run)
    if slowest is not None:
        yield f"Slowest: cell {cell_label(slowest)}, {milliseconds(slowest.duration_ms)}"
    for title, states in (("Read", run.reads), ("Wrote", run.writes)):
        some = states[:entries]
        yield f"{title} ({shown(len(some), len(states))}): {', '.join(map(shape, some)) or 'nothing'}"
    some_cells = run.cells[:entries]
    yield f"Cells in run order ({shown(len(some_cells), len(run.cells))}):"
    yield from (_cell_line(run, cell) for cell in some_cells)


def _cell_line(run: NotebookRun, cell: CellExecution) -> str:
    made = ", ".join(map(shape, _made(run, cell)))
    failure = error(cell)
    facts = [
        cell.state,
        milliseconds(cell.duration_ms),
        f"made {made}" if made else "",
        clipped(failure, _LONGEST_ERROR) if failure else "",
    ]
    return f"- {cell.execution_id} {cell_label(cell)}: {', '.join(fact for fact in facts if fact)}"


def _run_reply(run: NotebookRun, entries: int) -> RunReply:
    slowest = slowest_cell(run)
    return RunReply(
        session_id=run.session_id,
        notebook=run.notebook,
        state=run.state,
        started_at=run.started_at,
        cells_ms=round(total_ms(run), 3),
        peak_memory_mb=peak_memory_mb(run),
        slowest_cell=None if slowest is None else slowest.execution_id,
        cells=[_cell_entry(run, cell) for cell in run.cells[:entries]],
        cell_total=len(run.cells),
        reads=[dataset_entry(state) for state in run.reads[:entries]],
        read_total=len(run.reads),
        writes=[dataset_entry(state) for state in run.writes[:entries]],
        write_total=len(run.writes),
    )


def _cell_entry(run: NotebookRun, cell: CellExecution) -> CellEntry:
    failure = error(cell)
    return CellEntry(
        execution_id=cell.execution_id,
        cell=cell_label(cell),
        state=cell.state,
        duration_ms=cell.duration_ms,
        memory_mb=cell.end_memory_mb,
        error=None if failure is None else clipped(failure, _LONGEST_ERROR),
        made=list(map(shape, _made(run, cell))),
    )


def _made(run: NotebookRun, cell: CellExecution) -> list[DatasetState]:
    return made_by(operations_of(run, cell))
