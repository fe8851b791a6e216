"""Explain a frame graph in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from clew.notebook.frame_graph import FrameGraph, FrameLink

_DIRECT = {
    "IDENTITY": "is copied from",
    "TRANSFORMATION": "is computed from",
    "AGGREGATION": "is aggregated from",
}
_INDIRECT = {
    "FILTER": "filtered by",
    "JOIN": "joined on",
    "GROUP_BY": "grouped by",
    "SORT": "sorted by",
    "WINDOW": "windowed by",
    "CONDITIONAL": "depending on",
}


def explain_graph(graph: FrameGraph, column: str | None = None) -> str:
    """Explain the sources of one or all columns of the target, one sentence per line."""
    columns = [column] if column is not None else list(graph.nodes[0].columns)
    lines = [line for name in columns for line in _explain_column(graph, 0, name, set())]
    return "\n".join([*lines, *_explain_rows(graph)])


def _explain_column(graph: FrameGraph, node: int, column: str, seen: set[tuple[int, str]]) -> Iterator[str]:
    if (node, column) in seen:
        return
    seen.add((node, column))
    links = [link for link in graph.links if (link.target, link.column) == (node, column)]
    direct = [link for link in links if link.type == "DIRECT"]
    name = f"{graph.nodes[node].title}.{column}"
    if not direct and node == 0:
        yield f"{name} has no recorded source."
    for phrase, group in _group_by_phrase(direct).items():
        qualifier = "" if all(link.is_certain for link in group) else " (inferred)"
        yield f"{name} {phrase} {_source_names(graph, group)}{_indirect_clause(graph, links)}{qualifier}."
    for link in direct:
        yield from _explain_column(graph, link.source, link.source_column, seen)


def _explain_rows(graph: FrameGraph) -> Iterator[str]:
    """Explain the dependencies of whole frames, starting at the target."""
    for node in range(len(graph.nodes)):
        row_links = [link for link in graph.links if link.target == node and link.column is None]
        if row_links:
            yield f"The rows of {graph.nodes[node].title} were {_join_names(_indirect_phrases(graph, row_links))}."


def _group_by_phrase(links: list[FrameLink]) -> dict[str, list[FrameLink]]:
    groups: dict[str, list[FrameLink]] = {}
    for link in links:
        groups.setdefault(_DIRECT.get(link.subtype, "comes from"), []).append(link)
    return groups


def _source_names(graph: FrameGraph, links: list[FrameLink]) -> str:
    return _join_names([f"{graph.nodes[link.source].title}.{link.source_column}" for link in links])


def _indirect_clause(graph: FrameGraph, links: list[FrameLink]) -> str:
    phrases = _indirect_phrases(graph, [link for link in links if link.type == "INDIRECT"])
    return f", {_join_names(phrases)}" if phrases else ""


def _indirect_phrases(graph: FrameGraph, links: list[FrameLink]) -> list[str]:
    sources_by_phrase: dict[str, list[str]] = {}
    for link in links:
        name = f"{graph.nodes[link.source].title}.{link.source_column}"
        sources_by_phrase.setdefault(_INDIRECT.get(link.subtype, "depending on"), []).append(name)
    return [f"{phrase} {_join_names(names)}" for phrase, names in sources_by_phrase.items()]


def _join_names(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
