"""`runs`, and a notebook run as `describe` tells of it."""

from __future__ import annotations

from collections.abc import Iterator

from clew.errors import ClewError
from clew.mcp.budget import Reply, clipped, fitting, longest, next_cursor, shown, start_of
from clew.mcp.replies import CellEntry, DescribeReply, RunReply, RunsReply
from clew.mcp.replies import RunEntry as Entry
from clew.mcp.words import cell_label, dataset_entry, error, made_by, milliseconds, operations_of, shape
from clew.query.answers import Answers
from clew.query.costs import peak_memory_mb, slowest_cell, total_ms
from clew.query.model import CellExecution, DatasetState, NotebookRun
from clew.query.run_entries import RunEntry, RunKind

_LONGEST_ERROR = 300
_MOST_RUNS, _PAGE = 1000, 50
_ORDERS: dict[RunKind, str] = {"recent": "newest first", "failed": "failed, newest first", "slow": "slowest first"}
_NOTHING = "No run was recorded yet."
_HOW_TO_RECORD = "Run `clew demo`, or `clew run NOTEBOOK` and `clew pipeline run`."


def some_runs(answers: Answers, kind: RunKind, cursor: str | None, tokens: int) -> Reply:
    """Runs of notebooks and of other jobs, page by page."""
    known, start = answers.job_runs(kind, limit=_MOST_RUNS), start_of(cursor)
    rest = known[start:]

    def compose(entries: int) -> Reply:
        some = rest[:entries]
        head = f"Runs, {_ORDERS[kind]} ({shown(len(some), len(known))}):" if known else f"{_NOTHING} {_HOW_TO_RECORD}"
        more = next_cursor(start, len(some), len(known))
        data = RunsReply(runs=[_run_entry(run) for run in some], total=len(known), next_cursor=more)
        return Reply("\n".join([head, *map(_run_line, some), *_more(more)]), data)

    return fitting(compose, min(len(rest), _PAGE), tokens)


def _more(cursor: str | None) -> list[str]:
    return [] if cursor is None else [f"More with cursor {cursor}."]


def one_run(answers: Answers, session_id: str | None) -> NotebookRun:
    """The run of that id; without one, the last."""
    run = answers.run(session_id) if session_id else answers.latest()
    if run is None:
        raise ClewError(_NOTHING, hint=_HOW_TO_RECORD)
    return run


def run_description(run: NotebookRun, tokens: int) -> Reply:
    """Cells, cost, errors, reads and writes of a run."""

    def compose(entries: int) -> Reply:
        return Reply("\n".join(_lines(run, entries)), DescribeReply(notebook_run=_run_reply(run, entries)))

    return fitting(compose, longest(run.cells, [*run.reads], [*run.writes]), tokens)


def _run_entry(run: RunEntry) -> Entry:
    return Entry(
        id=run.session_id or run.run_uuid,
        job=run.job_name or "",
        state=run.state,
        started_at=run.started_at,
        duration_ms=run.duration_ms,
        error=None if run.error is None else clipped(run.error, _LONGEST_ERROR),
    )


def _run_line(run: RunEntry) -> str:
    started = "" if run.started_at is None else f", started {run.started_at:%Y-%m-%d %H:%M:%S} UTC"
    took = "" if run.duration_ms is None else f", took {milliseconds(run.duration_ms)}"
    error = "" if run.error is None else f": {clipped(run.error, _LONGEST_ERROR)}"
    return f"- {run.session_id or run.run_uuid} {run.job_name}: {run.state}{started}{took}{error}"


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
