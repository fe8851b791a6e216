"""`explain_cell`: what a cell read and made, with its code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from clew.mcp.budget import Reply, clipped, fitting, longest, shown
from clew.mcp.replies import CellReply, OperationEntry
from clew.mcp.runs import one_run
from clew.mcp.words import (
    cell_label,
    dataset_entry,
    error,
    full_column,
    how,
    made_by,
    milliseconds,
    operations_of,
    shape,
    short_column,
)
from clew.query.answers import Answers
from clew.query.folding import is_unnamed
from clew.query.model import CellExecution, ColumnEdge, DatasetState, NotebookRun, Operation
from clew.query.names import UnknownNameError, full_name

_LONGEST_CODE = 200
_LONGEST_ERROR = 600
# An execution id alone does not say in which run it was: so many of the newest runs are looked through.
_RUNS_SEARCHED = 50


def explanation(answers: Answers, cell: str, session_id: str | None, tokens: int) -> Reply:
    """What the cell did, by its execution id, its name, its number or its cell id."""
    found = _Cell(*_find(answers, cell, session_id))

    def compose(entries: int) -> Reply:
        return Reply("\n".join(_lines(found, entries)), _reply(found, entries))

    most = longest(found.code, [*found.operations], [*found.reads], [*found.made], [*found.new_columns])
    return fitting(compose, most, tokens)


@dataclass(frozen=True)
class _Cell:
    run: NotebookRun
    cell: CellExecution

    @cached_property
    def operations(self) -> list[Operation]:
        return operations_of(self.run, self.cell)

    @cached_property
    def code(self) -> list[str]:
        return self.cell.source.splitlines()

    @cached_property
    def made(self) -> list[DatasetState]:
        return made_by(self.operations)

    @cached_property
    def reads(self) -> list[DatasetState]:
        """What the cell took from elsewhere: its own results, read again, do not count."""
        reads: dict[str, DatasetState] = {}
        own: set[str] = set()
        for operation in self.operations:
            for state in operation.inputs:
                if full_name(state.dataset) not in own and not is_unnamed(state.dataset):
                    reads.setdefault(full_name(state.dataset), state)
            own |= {full_name(state.dataset) for state in operation.outputs}
        return list(reads.values())

    @cached_property
    def new_columns(self) -> list[str]:
        runs = {operation.run_uuid for operation in self.operations}
        computed: dict[str, list[ColumnEdge]] = {}
        for edge in self.run.edges:
            if edge.run_uuid in runs and edge.type == "DIRECT" and edge.subtype != "IDENTITY":
                computed.setdefault(full_column(edge.dataset, edge.column), []).append(edge)
        return [f"{column} from {_sources(edges)}" for column, edges in computed.items()]

    @cached_property
    def others(self) -> list[str]:
        same = (cell for cell in self.run.cells if cell.cell_id == self.cell.cell_id)
        return [cell.execution_id for cell in same if cell.execution_id != self.cell.execution_id]


def _find(answers: Answers, text: str, session_id: str | None) -> tuple[NotebookRun, CellExecution]:
    run = one_run(answers, session_id)
    found = _in_run(run, text)
    if found is not None:
        return run, found
    if session_id is None:
        for other in answers.runs()[:_RUNS_SEARCHED]:
            earlier = answers.run(other.session_id)
            for cell in earlier.cells:
                if cell.execution_id == text:
                    return earlier, cell
    raise UnknownNameError.of(
        f"cell of session {run.session_id}", text, [cell.name or cell.execution_id for cell in run.cells]
    )


def _in_run(run: NotebookRun, text: str) -> CellExecution | None:
    """The last execution that the text names; ids come first, because a cell may bear any name."""
    for names in ("execution_id", "cell_id", "name", "index"):
        found = [cell for cell in run.cells if str(getattr(cell, names)) == text]
        if found:
            return found[-1]
    return next((cell for cell in reversed(run.cells) if cell_label(cell) == text), None)


def _sources(edges: list[ColumnEdge]) -> str:
    return ", ".join(dict.fromkeys(f"{short_column(edge.source, edge.source_column)} ({how(edge)})" for edge in edges))


def _lines(found: _Cell, entries: int) -> Iterator[str]:
    cell, run = found.cell, found.run
    identity = f"execution {cell.execution_id}, session {run.session_id}"
    yield f"Cell {cell_label(cell)} of {run.notebook}, {identity}: {cell.state}, {milliseconds(cell.duration_ms)}"
    if found.others:
        others = ", ".join(found.others[:entries])
        yield f"It was executed {len(found.others) + 1} times in this run; the others: {others}"
    failure = error(cell)
    if failure is not None:
        yield f"Error: {clipped(failure, _LONGEST_ERROR)}"
    for title, states in (("Read", found.reads), ("Made", found.made)):
        some = states[:entries]
        yield f"{title} ({shown(len(some), len(states))}): {', '.join(map(shape, some)) or 'no DataFrame'}"
    yield from _listed("New columns", found.new_columns, entries)
    yield f"Code (lines: {shown(min(entries, len(found.code)), len(found.code))}):"
    yield from found.code[:entries]


def _listed(title: str, texts: list[str], entries: int) -> Iterator[str]:
    if texts:
        some = texts[:entries]
        yield f"{title} ({shown(len(some), len(texts))}):"
        yield from (f"- {text}" for text in some)


def _reply(found: _Cell, entries: int) -> CellReply:
    cell, run = found.cell, found.run
    failure = error(cell)
    return CellReply(
        session_id=run.session_id,
        execution_id=cell.execution_id,
        notebook=run.notebook,
        cell=cell_label(cell),
        state=cell.state,
        duration_ms=cell.duration_ms,
        memory_mb=cell.end_memory_mb,
        error=None if failure is None else clipped(failure, _LONGEST_ERROR),
        code="\n".join(found.code[:entries]),
        code_line_total=len(found.code),
        reads=[dataset_entry(state) for state in found.reads[:entries]],
        read_total=len(found.reads),
        made=[dataset_entry(state) for state in found.made[:entries]],
        made_total=len(found.made),
        new_columns=found.new_columns[:entries],
        new_column_total=len(found.new_columns),
        operations=[_operation(operation) for operation in found.operations[:entries]],
        operation_total=len(found.operations),
        other_executions=found.others[:entries],
    )


def _operation(operation: Operation) -> OperationEntry:
    return OperationEntry(
        line=operation.line,
        code=clipped(operation.code, _LONGEST_CODE),
        method=operation.method,
        state=operation.state,
        duration_ms=operation.duration_ms,
        inputs=[full_name(state.dataset) for state in operation.inputs],
        outputs=[full_name(state.dataset) for state in operation.outputs],
    )
