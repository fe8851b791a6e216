"""Render a notebook run as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from clew.cli.figures import format_count, format_duration, format_megabytes, format_shape
from clew.query.costs import peak_memory_mb, slowest_cell, total_ms
from clew.query.folding import is_intermediate_frame
from clew.query.model import CellExecution, DatasetState, NotebookRun
from clew.query.names import short_name

_STATE_STYLE = {"completed": "green", "failed": "red", "stopped": "yellow", "running": "cyan", "lost": "red"}


def run_summary(run: NotebookRun) -> RenderableType:
    """Summarize a run: state, cost, failures, inputs and outputs."""
    return Group(*_summary_lines(run))


def cell_table(run: NotebookRun) -> Table:
    """Return a table of the cells in execution order."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("#", "cell", "state", "time", "memory", "outputs"):
        table.add_column(title, justify="right" if title in {"#", "time", "memory"} else "left")
    for cell in run.cells:
        table.add_row(
            "" if cell.index is None else str(cell.index),
            cell_name(cell),
            Text(cell.state, style=_STATE_STYLE.get(cell.state, "")),
            format_duration(cell.duration_ms),
            format_megabytes(cell.end_memory_mb),
            ", ".join(f"{short_name(state.dataset)} {_state_shape(state)}" for state in _cell_outputs(run, cell)),
        )
    return table


def cell_name(cell: CellExecution) -> str:
    """Return the name of a cell, or the start of its code."""
    if cell.name:
        return cell.name
    lines = [line for line in cell.source.splitlines() if line.strip()]
    return lines[0][:40] if lines else cell.cell_id


def _summary_lines(run: NotebookRun) -> Iterator[Text]:
    failed = [cell for cell in run.cells if cell.state == "failed"]
    facts = [
        format_count(len(run.cells), "cell"),
        _outcome(run, len(failed)),
        f"{format_duration(total_ms(run))} in cells",
        f"peak {format_megabytes(peak_memory_mb(run))}",
        format_count(len(run.operations), "operation"),
    ]
    yield Text.assemble((run.notebook, "bold"), f"  {' · '.join(facts)}", (f"  session {run.session_id}", "dim"))
    slowest = slowest_cell(run)
    if slowest is not None:
        share = (slowest.duration_ms or 0.0) / max(total_ms(run), 0.001)
        cost = f", {format_duration(slowest.duration_ms)}, {share:.0%} of the run"
        yield Text.assemble("Slowest cell: ", (_cell_label(slowest), "cyan"), cost)
    for cell in failed:
        yield Text.assemble("Failed: ", (_cell_label(cell), "cyan"), ", ", (_error_text(cell), "red"))
    for title, states in (("Read", run.reads), ("Wrote", run.writes)):
        if states:
            yield Text(f"{title}: {', '.join(map(_dataset_text, states))}")


def _outcome(run: NotebookRun, failed: int) -> str:
    states = Counter(cell.state for cell in run.cells)
    counts = {"failed": failed, "lost": states["lost"], "running": states["running"]}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "all completed"


def _cell_label(cell: CellExecution) -> str:
    number = "" if cell.index is None else f"{cell.index} "
    return f"cell {number}{cell_name(cell)}"


def _error_text(cell: CellExecution) -> str:
    return "unknown error" if cell.error is None else f"{cell.error.type}: {cell.error.message}"


def _dataset_text(state: DatasetState) -> str:
    return f"{short_name(state.dataset)} ({_state_shape(state)})"


def _state_shape(state: DatasetState) -> str:
    return format_shape(state.row_count, len(state.fields))


def _cell_outputs(run: NotebookRun, cell: CellExecution) -> list[DatasetState]:
    """Return the datasets produced by a cell, each in its last state."""
    operations = [operation for operation in run.operations if operation.execution_id == cell.execution_id]
    states = [
        state for operation in operations for state in operation.outputs if not is_intermediate_frame(state.dataset)
    ]
    return list({state.dataset: state for state in states}.values())
