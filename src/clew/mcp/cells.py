"""Tool `explain_cell`: inputs, outputs, new columns and code of a cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from clew.mcp.budget import ToolReply, count_label, fit_to_budget, max_len, truncate
from clew.mcp.replies import CellOperationEntry, CellReply
from clew.mcp.runs import load_notebook_run
from clew.mcp.words import (
    cell_label,
    duration_text,
    final_outputs,
    format_error,
    format_transformation,
    full_column_name,
    operations_in,
    shape_text,
    short_column_name,
    to_dataset_state_entry,
)
from clew.query.answers import NotebookService
from clew.query.folding import is_intermediate_frame
from clew.query.model import CellExecution, ColumnLineageEdge, DatasetState, NotebookOperation, NotebookRun
from clew.query.names import UnknownNameError, full_name

_MAX_CODE_LENGTH = 200
_MAX_CELL_ERROR_LENGTH = 600
# Newest runs to search for an execution id, which does not name its run.
_MAX_RUNS_SEARCHED = 50


def explain_cell_reply(notebooks: NotebookService, cell: str, session_id: str | None, tokens: int) -> ToolReply:
    """Build the reply for a cell, given by execution id, cell id, name or number."""
    explained = _Cell(*_find(notebooks, cell, session_id))

    def compose(entries: int) -> ToolReply:
        return ToolReply("\n".join(_explained_cell_lines(explained, entries)), _reply(explained, entries))

    max_entries = max_len(
        explained.code, [*explained.operations], [*explained.inputs], [*explained.outputs], [*explained.new_columns]
    )
    return fit_to_budget(compose, max_entries, tokens)


@dataclass(frozen=True)
class _Cell:
    run: NotebookRun
    cell: CellExecution

    @cached_property
    def operations(self) -> list[NotebookOperation]:
        return operations_in(self.run, self.cell)

    @cached_property
    def code(self) -> list[str]:
        return self.cell.source.splitlines()

    @cached_property
    def outputs(self) -> list[DatasetState]:
        return final_outputs(self.operations)

    @cached_property
    def inputs(self) -> list[DatasetState]:
        """Datasets that the cell read, except its own outputs."""
        inputs: dict[str, DatasetState] = {}
        own: set[str] = set()
        for operation in self.operations:
            for state in operation.inputs:
                if full_name(state.dataset) not in own and not is_intermediate_frame(state.dataset):
                    inputs.setdefault(full_name(state.dataset), state)
            own |= {full_name(state.dataset) for state in operation.outputs}
        return list(inputs.values())

    @cached_property
    def new_columns(self) -> list[str]:
        runs = {operation.run_uuid for operation in self.operations}
        computed: dict[str, list[ColumnLineageEdge]] = {}
        for edge in self.run.edges:
            if edge.run_uuid in runs and edge.type == "DIRECT" and edge.subtype != "IDENTITY":
                computed.setdefault(full_column_name(edge.dataset, edge.column), []).append(edge)
        return [f"{column} from {_sources(edges)}" for column, edges in computed.items()]

    @cached_property
    def other_executions(self) -> list[str]:
        executions = (cell for cell in self.run.cells if cell.cell_id == self.cell.cell_id)
        return [cell.execution_id for cell in executions if cell.execution_id != self.cell.execution_id]


def _find(notebooks: NotebookService, text: str, session_id: str | None) -> tuple[NotebookRun, CellExecution]:
    run = load_notebook_run(notebooks, session_id)
    match = _find_in_run(run, text)
    if match is not None:
        return run, match
    if session_id is None:
        for other in notebooks.runs()[:_MAX_RUNS_SEARCHED]:
            earlier = notebooks.run(other.session_id)
            for cell in earlier.cells:
                if cell.execution_id == text:
                    return earlier, cell
    raise UnknownNameError.of(
        f"cell of session {run.session_id}", text, [cell.name or cell.execution_id for cell in run.cells]
    )


def _find_in_run(run: NotebookRun, text: str) -> CellExecution | None:
    """Find the last execution that a text identifies; ids take precedence over names."""
    for attribute in ("execution_id", "cell_id", "name", "index"):
        matches = [cell for cell in run.cells if str(getattr(cell, attribute)) == text]
        if matches:
            return matches[-1]
    return next((cell for cell in reversed(run.cells) if cell_label(cell) == text), None)


def _sources(edges: list[ColumnLineageEdge]) -> str:
    return ", ".join(
        dict.fromkeys(
            f"{short_column_name(edge.source, edge.source_column)} ({format_transformation(edge)})" for edge in edges
        )
    )


def _explained_cell_lines(explained: _Cell, entries: int) -> Iterator[str]:
    cell, run = explained.cell, explained.run
    identity = f"execution {cell.execution_id}, session {run.session_id}"
    yield f"Cell {cell_label(cell)} of {run.notebook}, {identity}: {cell.state}, {duration_text(cell.duration_ms)}"
    if explained.other_executions:
        others = ", ".join(explained.other_executions[:entries])
        yield f"Executed {len(explained.other_executions) + 1} times in this run; other executions: {others}"
    error = format_error(cell)
    if error is not None:
        yield f"Error: {truncate(error, _MAX_CELL_ERROR_LENGTH)}"
    for title, states in (("Inputs", explained.inputs), ("Outputs", explained.outputs)):
        shown = states[:entries]
        yield f"{title} ({count_label(len(shown), len(states))}): {', '.join(map(shape_text, shown)) or 'none'}"
    yield from _list_lines("New columns", explained.new_columns, entries)
    yield f"Code lines ({count_label(min(entries, len(explained.code)), len(explained.code))}):"
    yield from explained.code[:entries]


def _list_lines(title: str, texts: list[str], entries: int) -> Iterator[str]:
    if texts:
        shown = texts[:entries]
        yield f"{title} ({count_label(len(shown), len(texts))}):"
        yield from (f"- {text}" for text in shown)


def _reply(explained: _Cell, entries: int) -> CellReply:
    cell, run = explained.cell, explained.run
    error = format_error(cell)
    return CellReply(
        session_id=run.session_id,
        execution_id=cell.execution_id,
        notebook=run.notebook,
        cell=cell_label(cell),
        state=cell.state,
        duration_ms=cell.duration_ms,
        memory_mb=cell.end_memory_mb,
        error=None if error is None else truncate(error, _MAX_CELL_ERROR_LENGTH),
        code="\n".join(explained.code[:entries]),
        code_line_total=len(explained.code),
        inputs=[to_dataset_state_entry(state) for state in explained.inputs[:entries]],
        input_total=len(explained.inputs),
        outputs=[to_dataset_state_entry(state) for state in explained.outputs[:entries]],
        output_total=len(explained.outputs),
        new_columns=explained.new_columns[:entries],
        new_column_total=len(explained.new_columns),
        operations=[_to_operation_entry(operation) for operation in explained.operations[:entries]],
        operation_total=len(explained.operations),
        other_executions=explained.other_executions[:entries],
    )


def _to_operation_entry(operation: NotebookOperation) -> CellOperationEntry:
    return CellOperationEntry(
        line=operation.line,
        code=truncate(operation.code, _MAX_CODE_LENGTH),
        method=operation.method,
        state=operation.state,
        duration_ms=operation.duration_ms,
        inputs=[full_name(state.dataset) for state in operation.inputs],
        outputs=[full_name(state.dataset) for state in operation.outputs],
    )
