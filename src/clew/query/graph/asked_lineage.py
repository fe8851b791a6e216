"""Jobs and datasets that are found as they are walked: few questions go so far that all of them are needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from clew.events.notebook import FRAMES
from clew.index.entities import node_row
from clew.index.keys import BETWEEN_PARTS
from clew.index.neighbours import Neighbours
from clew.index.reader import IndexReader
from clew.query.graph.far import Patience
from clew.query.graph.lineage import How
from clew.query.graph.nodes import Node, key_of, node_of

_Edge = tuple[str, str, How, int]
_Pair = tuple[str, str, int]


class AskedLineage:
    """The graph that `LineageGraph` has in arrays, asked of the index node by node."""

    def __init__(self, index: IndexReader, patience: Patience | None = None) -> None:
        self._index, self._neighbours = index, Neighbours(index, FRAMES)
        self._patience = patience or Patience()
        self._numbers: dict[str, int] = {}
        self._keys: list[str] = []
        self._asked: dict[int, bool] = {}
        self._edges: dict[tuple[int, int], int] = {}
        self._hows: list[How] = []
        self.since: list[int] = []
        self.forward, self.backward = AskedSide(self, is_forward=True), AskedSide(self, is_forward=False)

    def find(self, node: Node) -> int | None:
        """The number of a job or dataset; None if lineage tells nothing of it."""
        known = node_row(self._index, node.namespace, node.name) if node.kind == "dataset" else None
        name = (node.namespace, node.name) if known is None else (known[0], known[1])
        number = self._number(key_of(node.kind, *name))
        is_told = self.ask(number) or known is not None or (node.kind == "job" and self._is_relative(number))
        return number if is_told else None

    def node(self, number: int) -> Node:
        """The job or dataset of a number."""
        return node_of(self._keys[number])

    def is_job(self, number: int) -> bool:
        """Whether a number is a job's."""
        return self._keys[number].startswith(f"job{BETWEEN_PARTS}")

    def is_frame(self, number: int) -> bool:
        """Whether a number is that of a dataset that was only ever in memory."""
        return self._keys[number].startswith(key_of("dataset", FRAMES, ""))

    def how(self, edge: int) -> How:
        """What an edge says."""
        return self._hows[edge]

    def first(self, numbers: Iterable[int]) -> int:
        """Of several nodes the one whose name comes first."""
        return min(numbers, key=self.place)

    def place(self, number: int) -> bytes:
        """What nodes are put in order by."""
        return self._keys[number].encode()

    def parent(self, number: int) -> int:
        """The job that started a job; itself if none did."""
        return self._parents.get(number, number)

    def children(self) -> dict[int, list[int]]:
        """The jobs whose runs name a run of another job as their parent, by that job."""
        return self._children

    def edge(self, start: int, end: int) -> int | None:
        """The number of the edge between two nodes."""
        self.ask(start)
        return self._edges.get((start, end))

    def ask(self, number: int) -> bool:
        """Have all edges of a node, both ways, and say whether anything is told of it."""
        if number not in self._asked:
            self._patience.spend()
            node, sides = self.node(number), (self.forward, self.backward)
            found = list(self._of_job(node) if node.kind == "job" else self._of_dataset(node))
            ends: tuple[dict[int, int], dict[int, int]] = {}, {}
            for start_key, end_key, how, since in found:
                start, end = self._number(start_key), self._number(end_key)
                if start != end:
                    edge = self._joined(start, end, how, since)
                    is_from_it = start == number
                    ends[0 if is_from_it else 1][end if is_from_it else start] = edge
            for side, edges in zip(sides, ends, strict=True):
                side.put(number, edges)
            self._asked[number] = bool(found)
        return self._asked[number]

    def _joined(self, start: int, end: int, how: How, since: int) -> int:
        """One edge between two nodes, however many names said it: known since the first."""
        edge = self._edges.setdefault((start, end), len(self.since))
        if edge == len(self.since):
            self._hows.append(how)
            self.since.append(since)
        self.since[edge] = min(self.since[edge], since)
        return edge

    def _number(self, key: str) -> int:
        number = self._numbers.setdefault(key, len(self._keys))
        if number == len(self._keys):
            self._keys.append(key)
        return number

    def _of_job(self, node: Node) -> Iterator[_Edge]:
        own = key_of(*_parts(node))
        for is_input, name, since in self._neighbours.datasets_of((node.namespace, node.name)):
            other = key_of("dataset", *name)
            yield (other, own, "READ", since) if is_input else (own, other, "WRITE", since)
        for upstream, job, since in self._links.get(own, ()):
            yield upstream, job, "FEED", since

    def _of_dataset(self, node: Node) -> Iterator[_Edge]:
        own, name = key_of(*_parts(node)), (node.namespace, node.name)
        for is_input, job, since in self._neighbours.jobs_of(name):
            other = key_of("job", *job)
            yield (own, other, "READ", since) if is_input else (other, own, "WRITE", since)
        for old, new, since in self._renames.get(own, ()):
            yield old, new, "RENAME", since
        for source, since in self._neighbours.declared(name, is_forward=False):
            yield key_of("dataset", *source), own, "DECLARED", since
        for target, since in self._neighbours.declared(name, is_forward=True):
            yield own, key_of("dataset", *target), "DECLARED", since

    def _is_relative(self, number: int) -> bool:
        return number in self._parents or number in self._children

    # Few are renamed, and few jobs feed jobs: these are read whole, when the first is asked for.
    @cached_property
    def _renames(self) -> dict[str, list[_Pair]]:
        renames = list(self._index.all_renames())
        names = dict(self._index.node_names()) if renames else {}
        return _by_ends((names.get(old, old), names.get(new, new), since) for old, new, since in renames)

    @cached_property
    def _links(self) -> dict[str, list[_Pair]]:
        return _by_ends(self._index.all_job_links())

    @cached_property
    def _parents(self) -> dict[int, int]:
        return {self._number(job): self._number(parent) for job, parent in self._index.parent_jobs()}

    @cached_property
    def _children(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for number in sorted(self._parents, key=self.place):
            if self._parents[number] != number:
                found.setdefault(self._parents[number], []).append(number)
        return found


class AskedSide:
    """The edges of nodes in one direction, the neighbours of a node in the order of their names."""

    def __init__(self, graph: AskedLineage, *, is_forward: bool) -> None:
        self._graph, self._is_forward = graph, is_forward
        self._edges: dict[int, dict[int, int]] = {}

    def put(self, node: int, edges: dict[int, int]) -> None:
        """Note what was found of a node."""
        self._edges[node] = {end: edges[end] for end in sorted(edges, key=self._graph.place)}

    def ends_of(self, node: int) -> Sequence[int]:
        """The neighbours of a node, in order."""
        self._graph.ask(node)
        return list(self._edges[node])

    def edges_of(self, node: int) -> Sequence[int]:
        """The numbers of a node's edges, beside their ends."""
        self._graph.ask(node)
        return list(self._edges[node].values())

    def edge_to(self, node: int, end: int) -> int | None:
        """The number of an edge between two nodes."""
        return self._graph.edge(*((node, end) if self._is_forward else (end, node)))


def _by_ends(pairs: Iterable[_Pair]) -> dict[str, list[_Pair]]:
    found: dict[str, list[_Pair]] = {}
    for pair in pairs:
        for end in {pair[0], pair[1]}:
            found.setdefault(end, []).append(pair)
    return found


def _parts(node: Node) -> tuple[str, str, str]:
    return node.kind, node.namespace, node.name
