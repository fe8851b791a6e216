"""Tool `upstream` for columns: a text tree and a list of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from clew.mcp.budget import ToolReply, count_label, fit_to_budget, max_len, truncate
from clew.mcp.replies import SourceEntry, StepReply, UpstreamReply
from clew.mcp.words import cell_label, format_transformation, full_column_name, short_column_name
from clew.query.model import DatasetName, LineageStep
from clew.query.steps import OperationStep, group_by_operation, indirect_phrase, is_indirect

_MAX_CODE_LENGTH = 200
_INDENT = "  "


def column_upstream_reply(root: LineageStep, tokens: int) -> ToolReply:
    """Build the reply of `upstream` for a column."""
    steps = list(_steps_back(root))
    origins = list(dict.fromkeys(_origins(root)))

    def compose(entries: int) -> ToolReply:
        shown = steps[:entries]
        data = UpstreamReply(
            start=full_column_name(root.dataset, root.column),
            origins=origins[:entries],
            origin_total=len(origins),
            steps=list(map(_to_step_reply, shown)),
            step_total=len(steps),
        )
        return ToolReply("\n".join(_lines(root, shown, len(steps), data)), data)

    return fit_to_budget(compose, max_len(steps, [*origins]), tokens)


def _steps_back(root: LineageStep) -> Iterator[OperationStep]:
    """Yield the steps nearest first, so that the token budget cuts off the most distant ones."""
    queue = [root]
    for hop in queue:
        for step in group_by_operation(hop):
            yield step
            queue += step.direct


def _indirect_sources(step: OperationStep, format_name: Callable[[DatasetName, str | None], str]) -> list[str]:
    phrases = (f"{indirect_phrase(hop)} {format_name(hop.dataset, hop.column)}" for hop in step.indirect)
    return list(dict.fromkeys(phrases))


def _key(step: OperationStep) -> int:
    return id(step.sources[0])


def _origins(hop: LineageStep) -> Iterator[str]:
    direct = [source for source in hop.upstream if not is_indirect(source)]
    if not direct and not hop.is_repeated and hop.edge is not None:
        yield full_column_name(hop.dataset, hop.column)
    for source in direct:
        yield from _origins(source)


def _lines(root: LineageStep, shown: list[OperationStep], total: int, data: UpstreamReply) -> Iterator[str]:
    name = full_column_name(root.dataset, root.column)
    if not total:
        yield f"{name}: no upstream lineage is recorded; it is an external source, or its producer was not captured."
        return
    yield f"{name} comes from ({count_label(len(data.origins), data.origin_total)}): {', '.join(data.origins) or '…'}"
    yield f"Steps back ({count_label(len(shown), total)}):"
    yield from _tree(root, {_key(step) for step in shown}, depth=0)


def _tree(hop: LineageStep, shown: set[int], depth: int) -> Iterator[str]:
    """Render the steps as a tree, indented only where a column has several sources."""
    for step in group_by_operation(hop):
        if _key(step) not in shown:
            yield f"{_INDENT * depth}… further back: upstream of {full_column_name(hop.dataset, hop.column)}"
            return
        yield f"{_INDENT * depth}{_operation(step)}"
        is_branch = len(step.direct) > 1
        for source in step.direct:
            yield f"{_INDENT * depth}{'- ' if is_branch else ''}{_source(source)}"
            yield from _tree(source, shown, depth + is_branch)


def _source(hop: LineageStep) -> str:
    repeated = ", shown above" if hop.is_repeated else ""
    transformation = "" if hop.edge is None else f" ({format_transformation(hop.edge)}{repeated})"
    return f"{short_column_name(hop.dataset, hop.column)}{transformation}"


def _operation(step: OperationStep) -> str:
    indirect = _indirect_sources(step, short_column_name)
    suffix = f" [{', '.join(indirect)}]" if indirect else ""
    return f"← {_location(step.sources[0])}{suffix}"


def _location(hop: LineageStep) -> str:
    if hop.operation is None or hop.cell is None:
        return f"job {hop.edge.job_name}" if hop.edge is not None else "unknown"
    line = "" if hop.operation.line is None else f", line {hop.operation.line}"
    return f"cell {cell_label(hop.cell)}{line}: {truncate(hop.operation.code, _MAX_CODE_LENGTH)}"


def _to_step_reply(step: OperationStep) -> StepReply:
    first = step.sources[0]
    operation, cell = first.operation, first.cell
    return StepReply(
        column=full_column_name(step.column.dataset, step.column.column),
        sources=[
            SourceEntry(
                column=full_column_name(source.dataset, source.column),
                transformation=format_transformation(source.edge) if source.edge else "",
            )
            for source in step.direct
        ],
        indirect_sources=_indirect_sources(step, full_column_name),
        execution_id=None if cell is None else cell.execution_id,
        cell=None if cell is None else cell_label(cell),
        line=None if operation is None else operation.line,
        code=None if operation is None else truncate(operation.code, _MAX_CODE_LENGTH),
    )
