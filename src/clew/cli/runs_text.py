"""A notebook run as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from clew.cli.figures import counted, duration, megabytes, shape
from clew.query.costs import peak_memory_mb, slowest_cell, total_ms
from clew.query.folding import is_unnamed
from clew.query.model import CellExecution, DatasetState, NotebookRun
from clew.query.names import short_name

_STATE_STYLE = {"completed": "green", "failed": "red", "stopped": "yellow", "running": "cyan", "lost": "red"}


def summary(run: NotebookRun) -> RenderableType:
    """What happened: state, cost, failures, what was read and written."""
    return Group(*_summary_lines(run))


def cell_table(run: NotebookRun) -> Table:
    """The cells in the order in which they ran."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("#", "cell", "state", "time", "memory", "made"):
        table.add_column(title, justify="right" if title in {"#", "time", "memory"} else "left")
    for cell in run.cells:
        table.add_row(
            "" if cell.index is None else str(cell.index),
            cell_name(cell),
            Text(cell.state, style=_STATE_STYLE.get(cell.state, "")),
            duration(cell.duration_ms),
            megabytes(cell.end_memory_mb),
            ", ".join(f"{short_name(state.dataset)} {_shape(state)}" for state in _made(run, cell)),
        )
    return table


def cell_name(cell: CellExecution) -> str:
    """The cell's own name, or the start of its code."""
    if cell.name:
        return cell.name
    lines = [line for line in cell.source.splitlines() if line.strip()]
    return lines[0][:40] if lines else cell.cell_id


def _summary_lines(run: NotebookRun) -> Iterator[Text]:
    failed = [cell for cell in run.cells if cell.state == "failed"]
    facts = [
        counted(len(run.cells), "cell"),
        _outcome(run, len(failed)),
        f"{duration(total_ms(run))} in cells",
        f"peak {megabytes(peak_memory_mb(run))}",
        counted(len(run.operations), "operation"),
    ]
    yield Text.assemble((run.notebook, "bold"), f"  {' · '.join(facts)}", (f"  session {run.session_id}", "dim"))
    slowest = slowest_cell(run)
    if slowest is not None:
        share = (slowest.duration_ms or 0.0) / max(total_ms(run), 0.001)
        cost = f", {duration(slowest.duration_ms)}, {share:.0%} of the run"
        yield Text.assemble("Slowest cell: ", (_numbered(slowest), "cyan"), cost)
    for cell in failed:
        yield Text.assemble("Failed: ", (_numbered(cell), "cyan"), ", ", (_error(cell), "red"))
    for title, states in (("Read", run.reads), ("Wrote", run.writes)):
        if states:
            yield Text(f"{title}: {', '.join(map(_dataset, states))}")


def _outcome(run: NotebookRun, failed: int) -> str:
    states = Counter(cell.state for cell in run.cells)
    counts = {"failed": failed, "lost": states["lost"], "not ended": states["running"]}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "all completed"


def _numbered(cell: CellExecution) -> str:
    number = "" if cell.index is None else f"{cell.index} "
    return f"cell {number}{cell_name(cell)}"


def _error(cell: CellExecution) -> str:
    return "unknown error" if cell.error is None else f"{cell.error.type}: {cell.error.message}"


def _dataset(state: DatasetState) -> str:
    return f"{short_name(state.dataset)} ({_shape(state)})"


def _shape(state: DatasetState) -> str:
    return shape(state.row_count, len(state.fields))


def _made(run: NotebookRun, cell: CellExecution) -> list[DatasetState]:
    """What a cell left behind: of a dataset that it made several times, the last state."""
    operations = [one for one in run.operations if one.execution_id == cell.execution_id]
    states = [state for one in operations for state in one.outputs if not is_unnamed(state.dataset)]
    return list({state.dataset: state for state in states}.values())
