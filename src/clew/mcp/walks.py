"""Tools `upstream`, `downstream`, `column_path`, `path_between` and `impact`."""

from __future__ import annotations

from collections.abc import Iterable

from clew.mcp.budget import ToolReply, count_label, fit_to_budget, more_line, next_cursor, parse_cursor
from clew.mcp.replies import AffectedEntry, ImpactReply, NodeEntry, PathReply, TraversalReply, UpstreamReply
from clew.query.graph.nodes import Node
from clew.query.graph_answers import ColumnPath
from clew.query.lineage import ImpactResult, LineageEdge, LineageResult, PathResult

_MAX_COLUMNS, _MAX_VIA, _MAX_JOBS = 10, 5, 5


def traversal_reply(result: LineageResult, cursor: str | None, tokens: int) -> ToolReply:
    """Build a page of upstream or downstream nodes."""
    nodes, start = _entries(result), parse_cursor(cursor)
    rest = nodes[start:]

    def compose(entries: int) -> ToolReply:
        shown = rest[:entries]
        more = next_cursor(start, len(shown), len(nodes))
        lines = [
            f"{result.direction} of {result.start} ({count_label(len(shown), len(nodes))}):",
            *(f"{node.hops}. {node.id} ← {', '.join(node.via)}" for node in shown),
            *_end_lines(more, is_truncated=result.is_truncated),
        ]
        if result.direction == "upstream":
            data: UpstreamReply | TraversalReply = UpstreamReply(
                start=result.start, nodes=shown, node_total=len(nodes), next_cursor=more
            )
        else:
            data = TraversalReply(
                start=result.start,
                nodes=shown,
                node_total=len(nodes),
                is_truncated=result.is_truncated,
                next_cursor=more,
            )
        return ToolReply("\n".join(lines), data)

    return fit_to_budget(compose, len(rest), tokens)


def path_reply(path: PathResult | ColumnPath) -> ToolReply:
    """Build the reply with a path."""
    if not path.edges:
        return ToolReply("No path in either direction.", PathReply(is_found=False, steps=[]))
    steps = [path.edges[0].start, *(f"→ {edge.end} ({_edge_label(edge)})" for edge in path.edges)]
    return ToolReply("\n".join(steps), PathReply(is_found=True, steps=steps))


def impact_reply(impact: ImpactResult, cursor: str | None, tokens: int) -> ToolReply:
    """Build a page of affected datasets."""
    start = parse_cursor(cursor)
    affected = [
        AffectedEntry(
            id=Node("dataset", item.dataset.namespace, item.dataset.name).id,
            hops=item.distance,
            is_direct=item.dependency_type == "DIRECT",
            columns=[node.column or "*" for node in item.columns[:_MAX_COLUMNS]],
            column_total=len(item.columns),
            jobs=list(item.jobs[:_MAX_JOBS]),
        )
        for item in impact.affected
    ]
    rest = affected[start:]

    def compose(entries: int) -> ToolReply:
        shown = rest[:entries]
        more = next_cursor(start, len(shown), len(affected))
        counts = f"{impact.direct} datasets directly and {impact.indirect} indirectly"
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
            affected=shown,
            affected_total=len(affected),
            direct_count=impact.direct,
            indirect_count=impact.indirect,
            is_truncated=impact.is_truncated,
            next_cursor=more,
        )
        return ToolReply("\n".join(lines), data)

    return fit_to_budget(compose, len(rest), tokens)


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
