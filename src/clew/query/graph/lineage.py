"""Jobs and datasets, and which feeds which."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from clew.events.notebook import FRAMES
from clew.index.keys import BETWEEN_PARTS
from clew.index.reader import IndexReader
from clew.query.graph.adjacency import Adjacency, adjacency
from clew.query.graph.nodes import Node, key_of, node_of
from clew.query.graph.stored import StoredArrays
from clew.query.graph.texts import Numbers, Texts

How = Literal["READ", "WRITE", "RENAME", "FEED", "DECLARED"]
HOWS: Final[tuple[How, ...]] = ("READ", "WRITE", "RENAME", "FEED", "DECLARED")
# An input that only lineage names is no weaker an edge, but says where it is from.
IMPLIED: Final = 8


@dataclass(frozen=True)
class LineageGraph:
    """All jobs and datasets. A dataset has one number, whichever of its names is asked by."""

    names: Texts
    node_of: Numbers
    parents: Numbers
    forward: Adjacency
    backward: Adjacency
    since: Numbers
    hows: Numbers

    @property
    def edge_count(self) -> int:
        """How many edges there are."""
        return len(self.since)

    def find(self, node: Node) -> int | None:
        """The number of a job or dataset; None if lineage tells nothing of it."""
        found = self.names.find(key_of(node.kind, node.namespace, node.name))
        return None if found is None else self.node_of[found]

    def node(self, number: int) -> Node:
        """The job or dataset of a number."""
        return node_of(self.names[number])

    def is_job(self, number: int) -> bool:
        """Whether a number is a job's."""
        return number in self._jobs

    def is_frame(self, number: int) -> bool:
        """Whether a number is that of a dataset that was only ever in memory."""
        return number in self._frames

    def how(self, edge: int) -> How:
        """What an edge says."""
        return HOWS[self.hows[edge] & ~IMPLIED]

    def first(self, numbers: Iterable[int]) -> int:
        """Of several nodes the one whose name comes first."""
        return min(numbers)

    def parent(self, number: int) -> int:
        """The job that started a job; itself if none did."""
        return self.parents[number]

    def children(self) -> dict[int, list[int]]:
        """The jobs whose runs name a run of another job as their parent, by that job."""
        return self._children

    @cached_property
    def _jobs(self) -> range:
        return self.names.beginning(f"job{BETWEEN_PARTS}")

    @cached_property
    def _frames(self) -> range:
        return self.names.beginning(key_of("dataset", FRAMES, ""))

    @cached_property
    def _children(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for number in self._jobs:
            if self.parents[number] != number:
                found.setdefault(self.parents[number], []).append(number)
        return found

    def arrays(self) -> dict[str, Any]:
        """What there is to store of a graph that was just built."""
        return {
            "name_offsets": self.names.offsets,
            "names": self.names.body,
            **{name: getattr(self, name) for name in ("node_of", "parents", "since", "hows")},
            **{f"{way}_{part}": getattr(getattr(self, way), part) for way in _WAYS for part in _PARTS},
        }

    @classmethod
    def stored(cls, stored: StoredArrays) -> LineageGraph:
        """The graph of a file."""
        arrays = stored.arrays
        forward, backward = (Adjacency(*(arrays[f"{way}_{part}"] for part in _PARTS)) for way in _WAYS)
        return cls(
            names=Texts(arrays["name_offsets"], arrays["names"]),
            node_of=arrays["node_of"],
            parents=arrays["parents"],
            forward=forward,
            backward=backward,
            since=arrays["since"],
            hows=arrays["hows"],
        )


_WAYS = ("forward", "backward")
_PARTS = ("offsets", "ends", "edges")


def lineage_graph(index: IndexReader) -> LineageGraph:
    """The graph of all that an index knows."""
    draft = _Draft()
    for start, end, how, since in _edges(index):
        draft.add(start, end, how, since)
    return draft.graph(list(index.node_names()), list(index.parent_jobs()))


def _edges(index: IndexReader) -> Iterator[tuple[str, str, int, int]]:
    read, write, rename, feed, declared = range(len(HOWS))
    for job, dataset, is_input, is_implied, since in index.all_job_edges():
        implied = IMPLIED if is_implied else 0
        yield (dataset, job, read | implied, since) if is_input else (job, dataset, write | implied, since)
    for old, new, since in index.all_renames():
        yield old, new, rename, since
    for upstream, job, since in index.all_job_links():
        yield upstream, job, feed, since
    for source, dataset, since in index.jobless_edges():
        yield source, dataset, declared, since


class _Draft:
    """Edges between names as they come; nodes and their numbers are found at the end."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._starts, self._ends, self._hows = array("I"), array("I"), array("B")
        self._since = array("q")

    def add(self, start: str, end: str, how: int, since: int) -> None:
        numbers = self._numbers
        self._starts.append(numbers.setdefault(start, len(numbers)))
        self._ends.append(numbers.setdefault(end, len(numbers)))
        self._hows.append(how)
        self._since.append(since)

    def graph(self, aliases: Iterable[tuple[str, str]], parents: Iterable[tuple[str, str]]) -> LineageGraph:
        aliases, parents = list(aliases), list(parents)
        known = self._numbers
        for pair in (*aliases, *parents):
            for key in pair:
                known.setdefault(key, len(known))
        names, places = Texts.renumbered(known)
        nodes = array("I", range(len(known)))
        for name, node in aliases:
            nodes[places[known[name]]] = places[known[node]]
        parent_of = array("I", range(len(known)))
        for job, parent in parents:
            parent_of[places[known[job]]] = places[known[parent]]
        known.clear()
        return self._joined(names, nodes, parent_of, array("I", (nodes[place] for place in places)))

    def _joined(self, names: Texts, nodes: array[int], parents: array[int], places: array[int]) -> LineageGraph:
        """One edge between two nodes, however many names said it: known since the first, implied only if all are."""
        count = len(names)
        found: dict[int, int] = {}
        starts, ends, hows, since = array("I"), array("I"), array("B"), array("q")
        for start, end, how, at in zip(self._starts, self._ends, self._hows, self._since, strict=True):
            start, end = places[start], places[end]  # noqa: PLW2901
            if start == end:
                continue
            edge = found.setdefault(start * count + end, len(starts))
            if edge == len(starts):
                starts.append(start)
                ends.append(end)
                hows.append(how)
                since.append(at)
            else:
                hows[edge] &= how | ~IMPLIED & 0xFF
                since[edge] = min(since[edge], at)
        found.clear()
        return LineageGraph(
            names=names,
            node_of=nodes,
            parents=parents,
            forward=adjacency(count, starts, ends),
            backward=adjacency(count, ends, starts),
            since=since,
            hows=hows,
        )
