"""`upstream` and `downstream` of anything, `column_path`, `path_between` and `impact`: answers of the graph."""

from __future__ import annotations

from collections.abc import Iterable

from clew.mcp.budget import Reply, fitting, next_cursor, shown, start_of
from clew.mcp.replies import AffectedEntry, ImpactReply, NodeEntry, PathReply, UpstreamReply, WalkReply
from clew.query.graph.nodes import Node
from clew.query.graph_answers import ColumnPath
from clew.query.lineage import Impact, Lineage, LineageEdge
from clew.query.lineage import Path as NodePath

_MOST_COLUMNS, _MOST_VIA, _MOST_JOBS = 10, 5, 5


def walk_reply(found: Lineage, cursor: str | None, tokens: int) -> Reply:
    """What a walk came to, page by page."""
    nodes, start = _entries(found), start_of(cursor)
    rest = nodes[start:]

    def compose(entries: int) -> Reply:
        some = rest[:entries]
        more = next_cursor(start, len(some), len(nodes))
        lines = [
            f"{found.direction} of {found.start} ({shown(len(some), len(nodes))}):",
            *(f"{node.hops}. {node.id} ← {', '.join(node.via)}" for node in some),
            *_ends(more, is_cut=found.is_cut),
        ]
        if found.direction == "upstream":
            data: UpstreamReply | WalkReply = UpstreamReply(
                start=found.start, nodes=some, node_total=len(nodes), next_cursor=more
            )
        else:
            data = WalkReply(
                start=found.start, nodes=some, node_total=len(nodes), is_cut=found.is_cut, next_cursor=more
            )
        return Reply("\n".join(lines), data)

    return fitting(compose, len(rest), tokens)


def path_reply(found: NodePath | ColumnPath) -> Reply:
    """The way, or that there is none."""
    if not found.edges:
        return Reply("Nothing leads from one to the other, nor back.", PathReply(is_found=False, steps=[]))
    steps = [found.edges[0].start, *(f"→ {edge.end} ({_how(edge)})" for edge in found.edges)]
    return Reply("\n".join(steps), PathReply(is_found=True, steps=steps))


def impact_reply(found: Impact, cursor: str | None, tokens: int) -> Reply:
    """What a change would reach, page by page."""
    start = start_of(cursor)
    affected = [
        AffectedEntry(
            id=Node("dataset", one.dataset.namespace, one.dataset.name).id,
            hops=one.distance,
            by_values=one.how == "DIRECT",
            columns=[node.column or "*" for node in one.columns[:_MOST_COLUMNS]],
            column_total=len(one.columns),
            jobs=list(one.jobs[:_MOST_JOBS]),
        )
        for one in found.affected
    ]
    rest = affected[start:]

    def compose(entries: int) -> Reply:
        some = rest[:entries]
        more = next_cursor(start, len(some), len(affected))
        reach = f"{found.direct} datasets by values and {found.indirect} by a say only"
        lines = [
            f"A change of {found.start} reaches {reach} ({shown(len(some), len(affected))}):",
            *(f"{one.hops}. {one.id}: {', '.join(one.columns)}{'' if one.by_values else ' (a say)'}" for one in some),
            *_ends(more, is_cut=found.is_cut),
        ]
        data = ImpactReply(
            start=found.start,
            affected=some,
            affected_total=len(affected),
            by_values=found.direct,
            by_a_say=found.indirect,
            is_cut=found.is_cut,
            next_cursor=more,
        )
        return Reply("\n".join(lines), data)

    return fitting(compose, len(rest), tokens)


def _entries(found: Lineage) -> list[NodeEntry]:
    via: dict[str, list[str]] = {}
    for edge in found.edges:
        near, far = (edge.start, edge.end) if found.direction == "downstream" else (edge.end, edge.start)
        via.setdefault(far, []).append(f"{near} ({_how(edge)})")
    return [
        NodeEntry(id=node.id, kind=node.kind, hops=abs(node.distance), via=_first(via.get(node.id, ())))
        for node in found.nodes[1:]
    ]


def _first(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))[:_MOST_VIA]


def _how(edge: LineageEdge) -> str:
    return (edge.subtype or edge.kind).lower()


def _ends(more: str | None, *, is_cut: bool) -> list[str]:
    told = [] if more is None else [f"More with cursor {more}."]
    return [*told, *(["There is even more, further away."] if is_cut and more is None else [])]
