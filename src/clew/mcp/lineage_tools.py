"""Upstream, downstream, path and impact tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from clew.mcp.paging import (
    ToolReply,
    count_label,
    fit_to_budget,
    full_column_name,
    max_len,
    more_line,
    page_reply,
    short_column_name,
    truncate,
)
from clew.mcp.schemas import (
    AffectedEntry,
    ImpactReply,
    NodeEntry,
    PathReply,
    SourceEntry,
    StepReply,
    TraversalReply,
    UpstreamReply,
)
from clew.query.graph.nodes import Node
from clew.query.lineage import ColumnPath, ImpactResult, LineageEdge, LineageResult, PathResult
from clew.query.model import DatasetName, LineageStep
from clew.query.upstream import OperationStep, find_origins, group_by_operation

_MAX_CODE_LENGTH = 200
_INDENT = "  "


def column_upstream_reply(root: LineageStep, tokens: int) -> ToolReply:
    """Build the reply of `upstream` for a column."""
    steps = list(_steps_back(root))
    origins = list(dict.fromkeys(full_column_name(hop.dataset, hop.column) for hop in find_origins(root)))

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
    phrases = (f"{hop.indirect_phrase} {format_name(hop.dataset, hop.column)}" for hop in step.indirect)
    return list(dict.fromkeys(phrases))


def _key(step: OperationStep) -> int:
    return id(step.sources[0])


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
    transformation = "" if hop.edge is None else f" ({hop.edge.label}{repeated})"
    return f"{short_column_name(hop.dataset, hop.column)}{transformation}"


def _operation(step: OperationStep) -> str:
    indirect = _indirect_sources(step, short_column_name)
    suffix = f" [{', '.join(indirect)}]" if indirect else ""
    return f"← {_location(step.sources[0])}{suffix}"


def _location(hop: LineageStep) -> str:
    if hop.operation is None or hop.cell is None:
        return f"job {hop.edge.job_name}" if hop.edge is not None else "unknown"
    line = "" if hop.operation.line is None else f", line {hop.operation.line}"
    return f"cell {hop.cell.label}{line}: {truncate(hop.operation.code, _MAX_CODE_LENGTH)}"


def _to_step_reply(step: OperationStep) -> StepReply:
    first = step.sources[0]
    operation, cell = first.operation, first.cell
    return StepReply(
        column=full_column_name(step.column.dataset, step.column.column),
        sources=[
            SourceEntry(
                column=full_column_name(source.dataset, source.column),
                transformation=source.edge.label if source.edge else "",
            )
            for source in step.direct
        ],
        indirect_sources=_indirect_sources(step, full_column_name),
        execution_id=None if cell is None else cell.execution_id,
        cell=None if cell is None else cell.label,
        line=None if operation is None else operation.line,
        code=None if operation is None else truncate(operation.code, _MAX_CODE_LENGTH),
    )


_MAX_COLUMNS, _MAX_VIA, _MAX_JOBS = 10, 5, 5


def traversal_reply(result: LineageResult, cursor: str | None, tokens: int) -> ToolReply:
    """Build a page of upstream or downstream nodes."""
    nodes = _entries(result)

    def compose(shown: Sequence[NodeEntry], more: str | None) -> ToolReply:
        lines = [
            f"{result.direction} of {result.start} ({count_label(len(shown), len(nodes))}):",
            *(f"{node.hops}. {node.id} ← {', '.join(node.via)}" for node in shown),
            *_end_lines(more, is_truncated=result.is_truncated),
        ]
        if result.direction == "upstream":
            data: UpstreamReply | TraversalReply = UpstreamReply(
                start=result.start, nodes=list(shown), node_total=len(nodes), next_cursor=more
            )
        else:
            data = TraversalReply(
                start=result.start,
                nodes=list(shown),
                node_total=len(nodes),
                is_truncated=result.is_truncated,
                next_cursor=more,
            )
        return ToolReply("\n".join(lines), data)

    return page_reply(nodes, cursor, tokens, compose)


def path_reply(path: PathResult | ColumnPath) -> ToolReply:
    """Build the reply with a path."""
    if not path.edges:
        return ToolReply("No path in either direction.", PathReply(is_found=False, steps=[]))
    steps = [path.edges[0].start, *(f"→ {edge.end} ({_edge_label(edge)})" for edge in path.edges)]
    return ToolReply("\n".join(steps), PathReply(is_found=True, steps=steps))


def impact_reply(impact: ImpactResult, cursor: str | None, tokens: int) -> ToolReply:
    """Build a page of affected datasets."""
    affected = [
        AffectedEntry(
            id=Node("dataset", item.dataset.namespace, item.dataset.name).id,
            hops=item.distance,
            is_direct=item.dependency_type == "DIRECT",
            columns=[node.column or "*" for node in item.columns[:_MAX_COLUMNS]],
            column_total=len(item.columns),
            jobs=list(item.jobs[:_MAX_JOBS]),
        )
        for item in impact.affected or impact.in_memory
    ]
    is_in_memory = bool(impact.in_memory)

    def compose(shown: Sequence[AffectedEntry], more: str | None) -> ToolReply:
        counts = (
            "no file or table, only in-memory frames"
            if is_in_memory
            else f"{impact.direct} datasets directly and {impact.indirect} indirectly"
        )
        lines = [
            f"Changing {impact.start} affects {counts} ({count_label(len(shown), len(affected))}):",
            *(
                f"{entry.hops}. {entry.id}: {', '.join(entry.columns)}{'' if entry.is_direct else ' (indirect)'}"
                for entry in shown
            ),
            *_end_lines(more, is_truncated=impact.is_truncated),
        ]
        data = ImpactReply(
            start=impact.start,
            affected=list(shown),
            affected_total=len(affected),
            direct_count=impact.direct,
            indirect_count=impact.indirect,
            is_in_memory=is_in_memory,
            is_truncated=impact.is_truncated,
            next_cursor=more,
        )
        return ToolReply("\n".join(lines), data)

    return page_reply(affected, cursor, tokens, compose)


def _entries(result: LineageResult) -> list[NodeEntry]:
    via: dict[str, list[str]] = {}
    for edge in result.edges:
        near, far = (edge.start, edge.end) if result.direction == "downstream" else (edge.end, edge.start)
        via.setdefault(far, []).append(f"{near} ({_edge_label(edge)})")
    return [
        NodeEntry(id=node.id, kind=node.kind, hops=abs(node.distance), via=_limit_via(via.get(node.id, ())))
        for node in result.nodes[1:]
    ]


def _limit_via(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))[:_MAX_VIA]


def _edge_label(edge: LineageEdge) -> str:
    return (edge.subtype or edge.kind).lower()


def _end_lines(more: str | None, *, is_truncated: bool) -> list[str]:
    return [*more_line(more), *(["Truncated: more nodes are further away."] if is_truncated and more is None else [])]
