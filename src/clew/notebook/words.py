"""A lineage in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from clew.notebook.frame_graph import FrameGraph, FrameLink

_DIRECT = {
    "IDENTITY": "is taken as it is from",
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


def words(graph: FrameGraph, column: str | None = None) -> str:
    """What each column of the target comes from, step by step; one sentence a line."""
    columns = [column] if column is not None else list(graph.nodes[0].columns)
    told = [line for name in columns for line in _of_column(graph, 0, name, set())]
    return "\n".join([*told, *_of_rows(graph)])


def _of_column(graph: FrameGraph, node: int, column: str, seen: set[tuple[int, str]]) -> Iterator[str]:
    if (node, column) in seen:
        return
    seen.add((node, column))
    links = [link for link in graph.links if (link.target, link.column) == (node, column)]
    direct = [link for link in links if link.type == "DIRECT"]
    name = f"{graph.nodes[node].title}.{column}"
    if not direct and node == 0:
        yield f"{name} has no source that is known: it was made here."
    for way, group in _by_way(direct).items():
        guess = "" if all(link.is_certain for link in group) else ", as far as can be told"
        yield f"{name} {way} {_sources(graph, group)}{_influences(graph, links)}{guess}."
    for link in direct:
        yield from _of_column(graph, link.source, link.source_column, seen)


def _of_rows(graph: FrameGraph) -> Iterator[str]:
    """What held for whole frames, from the target back."""
    for node in range(len(graph.nodes)):
        whole = [link for link in graph.links if link.target == node and link.column is None]
        if whole:
            yield f"The rows of {graph.nodes[node].title} were {_listed(_influence_words(graph, whole))}."


def _by_way(links: list[FrameLink]) -> dict[str, list[FrameLink]]:
    ways: dict[str, list[FrameLink]] = {}
    for link in links:
        ways.setdefault(_DIRECT.get(link.subtype, "comes from"), []).append(link)
    return ways


def _sources(graph: FrameGraph, links: list[FrameLink]) -> str:
    return _listed([f"{graph.nodes[link.source].title}.{link.source_column}" for link in links])


def _influences(graph: FrameGraph, links: list[FrameLink]) -> str:
    told = _influence_words(graph, [link for link in links if link.type == "INDIRECT"])
    return f", {_listed(told)}" if told else ""


def _influence_words(graph: FrameGraph, links: list[FrameLink]) -> list[str]:
    by_word: dict[str, list[str]] = {}
    for link in links:
        name = f"{graph.nodes[link.source].title}.{link.source_column}"
        by_word.setdefault(_INDIRECT.get(link.subtype, "depending on"), []).append(name)
    return [f"{word} {_listed(names)}" for word, names in by_word.items()]


def _listed(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
