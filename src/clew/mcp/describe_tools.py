"""Tools that describe runs, cells, datasets and jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from clew.index.queries.entities import Name
from clew.mcp.paging import (
    ToolReply,
    count_label,
    duration_text,
    fit_to_budget,
    full_column_name,
    max_len,
    more_line,
    next_cursor,
    page_reply,
    parse_cursor,
    shape_text,
    short_column_name,
    to_dataset_state_entry,
    truncate,
)
from clew.mcp.schemas import (
    CellEntry,
    CellOperationEntry,
    CellReply,
    ColumnEntry,
    DatasetReply,
    DescribeReply,
    DiffReply,
    HitEntry,
    JobReply,
    JobRunReply,
    NotebookRunReply,
    RunListEntry,
    RunsReply,
    SearchReply,
    TestEntry,
)
from clew.query.diff import RunDiff
from clew.query.entities.model import AssertionResult, CatalogDataset, CatalogJob, CatalogRun
from clew.query.entities.runs import JobRunSummary, RunSelection
from clew.query.graph.nodes import Node, NodeKind
from clew.query.model import CellExecution, ColumnLineageEdge, DatasetState, NotebookOperation, NotebookRun
from clew.query.names import UnknownNameError, full_name
from clew.query.notebooks.reports import peak_memory_mb, slowest_cell, total_ms
from clew.query.search import Hits
from clew.query.service import LineageService

_MAX_RUN_ERROR_LENGTH = 300
_MAX_RUNS, _PAGE_SIZE = 1000, 50
_ORDERS: dict[RunSelection, str] = {"recent": "newest first", "failed": "failed, newest first", "slow": "slowest first"}
_NO_RUNS = "No runs are recorded yet."
_NO_RUNS_HINT = "Run `clew demo`, or `clew run NOTEBOOK` and `clew pipeline run`."


def runs_reply(service: LineageService, selection: RunSelection, cursor: str | None, tokens: int) -> ToolReply:
    """Build a page of runs of notebooks and other jobs."""
    runs = service.list_job_runs(selection, limit=_MAX_RUNS)

    def compose(shown: Sequence[JobRunSummary], more: str | None) -> ToolReply:
        head = (
            f"Runs, {_ORDERS[selection]} ({count_label(len(shown), len(runs))}):"
            if runs
            else f"{_NO_RUNS} {_NO_RUNS_HINT}"
        )
        data = RunsReply(runs=[_run_entry(run) for run in shown], total=len(runs), next_cursor=more)
        return ToolReply("\n".join([head, *map(_run_line, shown), *more_line(more)]), data)

    return page_reply(runs, cursor, tokens, compose, _PAGE_SIZE)


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
        tests=None if run.tests is None else str(run.tests),
    )


def _run_line(run: JobRunSummary) -> str:
    started = "" if run.started_at is None else f", started {run.started_at:%Y-%m-%d %H:%M:%S} UTC"
    duration = "" if run.duration_ms is None else f", took {duration_text(run.duration_ms)}"
    error = "" if run.error is None else f": {truncate(run.error, _MAX_RUN_ERROR_LENGTH)}"
    tests = "" if run.tests is None else f", tests: {run.tests}"
    return f"- {run.session_id or run.run_uuid} {run.job_name}: {run.state}{started}{duration}{tests}{error}"


def _run_lines(run: NotebookRun, entries: int) -> Iterator[str]:
    yield f"{run.notebook}, session {run.session_id}: {run.state}, {duration_text(total_ms(run))} in cells"
    slowest = slowest_cell(run)
    if slowest is not None:
        yield f"Slowest: cell {slowest.label}, {duration_text(slowest.duration_ms)}"
    for title, states in (("Read", run.reads), ("Wrote", run.writes)):
        shown = states[:entries]
        yield f"{title} ({count_label(len(shown), len(states))}): {', '.join(map(shape_text, shown)) or 'none'}"
    shown_cells = run.cells[:entries]
    yield f"Cells in order of execution ({count_label(len(shown_cells), len(run.cells))}):"
    yield from (_cell_line(run, cell) for cell in shown_cells)


def _cell_line(run: NotebookRun, cell: CellExecution) -> str:
    outputs = ", ".join(map(shape_text, run.outputs_of(cell)))
    parts = [
        cell.state,
        duration_text(cell.duration_ms),
        f"outputs {outputs}" if outputs else "",
        _error_of(cell, _MAX_RUN_ERROR_LENGTH) or "",
    ]
    return f"- {cell.execution_id} {cell.label}: {', '.join(part for part in parts if part)}"


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
    return CellEntry(
        execution_id=cell.execution_id,
        cell=cell.label,
        state=cell.state,
        duration_ms=cell.duration_ms,
        memory_mb=cell.end_memory_mb,
        error=_error_of(cell, _MAX_RUN_ERROR_LENGTH),
        outputs=list(map(shape_text, run.outputs_of(cell))),
    )


def _error_of(cell: CellExecution, length: int) -> str | None:
    return None if cell.error is None else truncate(str(cell.error), length)


_MAX_CODE_LENGTH = 200
_MAX_CELL_ERROR_LENGTH = 600
# Newest runs to search for an execution id, which does not name its run.
_MAX_RUNS_SEARCHED = 50


def explain_cell_reply(service: LineageService, cell: str, session_id: str | None, tokens: int) -> ToolReply:
    """Build the reply for a cell, given by execution id, cell id, name or number."""
    explained = _Cell(*_find(service, cell, session_id))

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
        return self.run.operations_of(self.cell)

    @cached_property
    def code(self) -> list[str]:
        return self.cell.source.splitlines()

    @cached_property
    def outputs(self) -> list[DatasetState]:
        return self.run.outputs_of(self.cell)

    @cached_property
    def inputs(self) -> list[DatasetState]:
        """Datasets that the cell read, except its own outputs."""
        inputs: dict[str, DatasetState] = {}
        own: set[str] = set()
        for operation in self.operations:
            for state in operation.inputs:
                if full_name(state.dataset) not in own and not state.dataset.is_intermediate_frame:
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


def _find(service: LineageService, text: str, session_id: str | None) -> tuple[NotebookRun, CellExecution]:
    run = service.get_session(session_id) if session_id else service.find_session()
    match = _find_in_run(run, text)
    if match is not None:
        return run, match
    if session_id is None:
        for other in service.list_sessions()[:_MAX_RUNS_SEARCHED]:
            earlier = service.get_session(other.session_id)
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
    return next((cell for cell in reversed(run.cells) if cell.label == text), None)


def _sources(edges: list[ColumnLineageEdge]) -> str:
    return ", ".join(
        dict.fromkeys(f"{short_column_name(edge.source, edge.source_column)} ({edge.label})" for edge in edges)
    )


def _explained_cell_lines(explained: _Cell, entries: int) -> Iterator[str]:
    cell, run = explained.cell, explained.run
    identity = f"execution {cell.execution_id}, session {run.session_id}"
    yield f"Cell {cell.label} of {run.notebook}, {identity}: {cell.state}, {duration_text(cell.duration_ms)}"
    if explained.other_executions:
        others = ", ".join(explained.other_executions[:entries])
        yield f"Executed {len(explained.other_executions) + 1} times in this run; other executions: {others}"
    if cell.error is not None:
        yield f"Error: {_error_of(cell, _MAX_CELL_ERROR_LENGTH)}"
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
    return CellReply(
        session_id=run.session_id,
        execution_id=cell.execution_id,
        notebook=run.notebook,
        cell=cell.label,
        state=cell.state,
        duration_ms=cell.duration_ms,
        memory_mb=cell.end_memory_mb,
        error=_error_of(cell, _MAX_CELL_ERROR_LENGTH),
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


_MAX_TEXT_LENGTH, _MAX_NAMES = 300, 20


def describe_reply(entity: CatalogDataset | CatalogJob | CatalogRun, tokens: int) -> ToolReply:
    """Build the reply for a dataset, job or run; the columns of a dataset are cut to the budget."""
    if isinstance(entity, CatalogDataset):

        def compose(entries: int) -> ToolReply:
            data = DescribeReply(dataset=_dataset(entity, entries))
            return ToolReply(_format_fields(data.dataset), data)

        return fit_to_budget(compose, len(entity.fields), tokens)
    data = DescribeReply(job=_job(entity)) if isinstance(entity, CatalogJob) else DescribeReply(run=_run(entity))
    return ToolReply(_format_fields(data.job or data.run), data)


def search_reply(result: Hits, cursor: str | None, tokens: int) -> ToolReply:
    """Build the reply with a page of hits."""
    start = parse_cursor(cursor)
    hits = [HitEntry(kind=hit.kind, id=hit.id, snippet=truncate(hit.snippet, 120)) for hit in result.hits]

    def compose(entries: int) -> ToolReply:
        shown = hits[:entries]
        more = next_cursor(start, len(shown), result.total)
        head = f"Hits ({count_label(len(shown), result.total)}):" if result.total else "No hits."
        suggestions = [f"Did you mean {', '.join(result.did_you_mean)}?"] if result.did_you_mean else []
        lines = [head, *(f"- {hit.id}: {hit.snippet}" for hit in shown), *suggestions]
        data = SearchReply(hits=shown, total=result.total, next_cursor=more, did_you_mean=list(result.did_you_mean))
        return ToolReply("\n".join([*lines, *more_line(more)]), data)

    return fit_to_budget(compose, len(hits), tokens)


def diff_reply(diff: RunDiff, cursor: str | None, tokens: int) -> ToolReply:
    """Build the reply with the differences between two runs, one per line."""
    lines = list(_differences(diff))

    def compose(shown: Sequence[str], more: str | None) -> ToolReply:
        head = f"{diff.left} → {diff.right} ({count_label(len(shown), len(lines))}):" if lines else "No differences."
        data = DiffReply(left=diff.left, right=diff.right, lines=list(shown), line_total=len(lines), next_cursor=more)
        return ToolReply("\n".join([head, *shown, *more_line(more)]), data)

    return page_reply(lines, cursor, tokens, compose)


def _format_fields(data: DatasetReply | JobReply | JobRunReply | None) -> str:
    if data is None:
        return ""
    fields = data.model_dump(mode="json", exclude_none=True)
    return "\n".join(f"{name}: {_format_value(value)}" for name, value in fields.items() if value not in ([], ""))


def _format_value(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(_format_value(item) for item in value)
    if isinstance(value, dict):
        return " ".join(str(item) for item in value.values())
    return str(value)


def _dataset(dataset: CatalogDataset, entries: int) -> DatasetReply:
    tags = [f"{tag.key}={tag.value}" if tag.value else tag.key for tag in dataset.tags[:_MAX_NAMES]]
    return DatasetReply(
        id=Node("dataset", dataset.namespace, dataset.name).id,
        description=_truncate_optional(dataset.description),
        last_event_at=dataset.updated_at,
        is_deleted=dataset.is_deleted,
        columns=[
            ColumnEntry(name=field.name, type=field.type, description=_truncate_optional(field.description))
            for field in dataset.fields[:entries]
        ],
        column_total=len(dataset.fields),
        tags=tags,
        written_by=_node_ids("job", dataset.written_by),
        read_by=_node_ids("job", dataset.read_by),
        tests=[_test_entry(result, dataset.names) for result in dataset.assertions[:_MAX_NAMES]],
        test_total=len(dataset.assertions),
        facets=sorted({*dataset.facets, *dataset.input_facets})[:_MAX_NAMES],
    )


def _job(job: CatalogJob) -> JobReply:
    return JobReply(
        id=Node("job", job.namespace, job.name).id,
        type=job.type,
        description=_truncate_optional(job.description),
        latest_run=None if job.latest_run is None else job.latest_run.id,
        latest_state=None if job.latest_run is None else job.latest_run.state,
        reads=_node_ids("dataset", job.reads),
        writes=_node_ids("dataset", job.writes),
        facets=sorted(job.facets)[:_MAX_NAMES],
    )


def _run(run: CatalogRun) -> JobRunReply:
    return JobRunReply(
        id=run.id,
        job=None if run.job is None else Node("job", *run.job).id,
        state=run.state,
        started_at=run.started_at,
        duration_ms=run.duration_ms,
        parent=run.parent.run_id,
        error=_truncate_optional(run.error),
        reads=_node_ids("dataset", [(dataset.namespace, dataset.name) for dataset in run.inputs]),
        writes=_node_ids("dataset", [(dataset.namespace, dataset.name) for dataset in run.outputs]),
        tests=[_test_entry(result, ()) for result in run.assertions[:_MAX_NAMES]],
        test_total=len(run.assertions),
        facets=sorted(run.facets)[:_MAX_NAMES],
    )


def _test_entry(result: AssertionResult, own: Collection[Name]) -> TestEntry:
    dataset = result.dataset.namespace, result.dataset.name
    return TestEntry(
        result={True: "passed", False: "failed", None: "unknown"}[result.success],
        test=result.name or result.assertion,
        column=result.column,
        dataset=None if dataset in own else Node("dataset", *dataset).id,
        expected=_truncate_optional(result.expected),
        actual=_truncate_optional(result.actual),
        severity=result.severity,
        run=result.run_uuid if own else None,
    )


def _truncate_optional(text: str | None) -> str | None:
    return None if text is None else truncate(text, _MAX_TEXT_LENGTH)


def _node_ids(kind: NodeKind, names: Sequence[tuple[str, str]]) -> list[str]:
    return [Node(kind, *name).id for name in names[:_MAX_NAMES]]


def _differences(diff: RunDiff) -> Iterator[str]:
    for name in ("job", "state", "duration_ms", "job_version", "error"):
        change = getattr(diff, name)
        if change is not None:
            yield f"{name}: {change.left} → {change.right}"
    for verb, io in (("reads", diff.inputs), ("writes", diff.outputs)):
        yield from (f"+ {verb} {full_name(dataset)}" for dataset in io.added)
        yield from (f"- {verb} {full_name(dataset)}" for dataset in io.removed)
        for changed in io.changed:
            values = msgspec.to_builtins(changed)
            for field in ("version", "rowCount", "schema", "lineage"):
                if values[field] is not None:
                    text = msgspec.json.encode(values[field]).decode()
                    yield f"{verb} {changed.dataset.name} {field}: {truncate(text, _MAX_TEXT_LENGTH)}"
    for code in diff.code:
        yield f"code of {code.name}:"
        yield from code.text.splitlines()[2:]
