"""Lazy graph of jobs and datasets: loads nodes from the index as they are visited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.index.entities import find_canonical_name
from clew.index.keys import KEY_SEPARATOR
from clew.index.neighbours import NeighbourQueries
from clew.index.reader import IndexReader
from clew.query.graph.far import LookupBudget
from clew.query.graph.lineage import JobEdgeKind
from clew.query.graph.nodes import Node, node_key, parse_node_key

_Edge = tuple[str, str, JobEdgeKind, int]
_Pair = tuple[str, str, int]


class LazyJobGraph:
    """Lazy counterpart of `JobGraph`, which loads the edges of a node on first use."""

    def __init__(self, index: IndexReader, budget: LookupBudget | None = None) -> None:
        self._index, self._neighbours = index, NeighbourQueries(index, NOTEBOOK_NAMESPACE)
        self._budget = budget or LookupBudget()
        self._numbers: dict[str, int] = {}
        self._keys: list[str] = []
        self._has_edges: dict[int, bool] = {}
        self._edges: dict[tuple[int, int], int] = {}
        self._edge_kinds: list[JobEdgeKind] = []
        self.first_seen: list[int] = []
        self.forward, self.backward = LazyAdjacency(self, is_forward=True), LazyAdjacency(self, is_forward=False)

    def find(self, node: Node) -> int | None:
        """Return the number of a job or dataset, by any of its names; None if it has no lineage."""
        row = find_canonical_name(self._index, node.namespace, node.name) if node.kind == "dataset" else None
        name = (node.namespace, node.name) if row is None else (row[0], row[1])
        number = self._number(node_key(node.kind, *name))
        is_in_graph = (
            self.load(number) or row is not None or (node.kind == "job" and self._has_parent_or_children(number))
        )
        return number if is_in_graph else None

    def node(self, number: int) -> Node:
        """Return the job or dataset with a number."""
        return parse_node_key(self._keys[number])

    def is_job(self, number: int) -> bool:
        """Check whether a node is a job."""
        return self._keys[number].startswith(f"job{KEY_SEPARATOR}")

    def is_frame(self, number: int) -> bool:
        """Check whether a node is an in-memory DataFrame."""
        return self._keys[number].startswith(node_key("dataset", NOTEBOOK_NAMESPACE, ""))

    def edge_kind(self, edge: int) -> JobEdgeKind:
        """Return the kind of an edge."""
        return self._edge_kinds[edge]

    def first_by_name(self, numbers: Iterable[int]) -> int:
        """Return the first node by name."""
        return min(numbers, key=self.sort_key)

    def sort_key(self, number: int) -> bytes:
        """Return the sort key of a node."""
        return self._keys[number].encode()

    def parent(self, number: int) -> int:
        """Return the parent job of a job, or the job itself."""
        return self._parents.get(number, number)

    def children(self) -> dict[int, list[int]]:
        """Return the child jobs by parent job."""
        return self._children

    def edge(self, start: int, end: int) -> int | None:
        """Return the number of the edge between two nodes, if there is one."""
        self.load(start)
        return self._edges.get((start, end))

    def load(self, number: int) -> bool:
        """Load all edges of a node in both directions; return whether it has any."""
        if number not in self._has_edges:
            self._budget.spend()
            node, adjacencies = self.node(number), (self.forward, self.backward)
            edges = list(self._job_edges(node) if node.kind == "job" else self._dataset_edges(node))
            ends: tuple[dict[int, int], dict[int, int]] = {}, {}
            for start_key, end_key, kind, first_seen in edges:
                start, end = self._number(start_key), self._number(end_key)
                if start != end:
                    edge = self._merge_edge(start, end, kind, first_seen)
                    is_outgoing = start == number
                    ends[0 if is_outgoing else 1][end if is_outgoing else start] = edge
            for adjacency, edge_to in zip(adjacencies, ends, strict=True):
                adjacency.set_edges(number, edge_to)
            self._has_edges[number] = bool(edges)
        return self._has_edges[number]

    def _merge_edge(self, start: int, end: int, kind: JobEdgeKind, first_seen: int) -> int:
        """Merge edges between the same nodes, with the earliest first-seen time."""
        edge = self._edges.setdefault((start, end), len(self.first_seen))
        if edge == len(self.first_seen):
            self._edge_kinds.append(kind)
            self.first_seen.append(first_seen)
        self.first_seen[edge] = min(self.first_seen[edge], first_seen)
        return edge

    def _number(self, key: str) -> int:
        number = self._numbers.setdefault(key, len(self._keys))
        if number == len(self._keys):
            self._keys.append(key)
        return number

    def _job_edges(self, node: Node) -> Iterator[_Edge]:
        own = node_key(*_key_parts(node))
        for is_input, name, first_seen in self._neighbours.datasets_of((node.namespace, node.name)):
            other = node_key("dataset", *name)
            yield (other, own, "READ", first_seen) if is_input else (own, other, "WRITE", first_seen)
        for upstream, job, first_seen in self._job_dependencies.get(own, ()):
            yield upstream, job, "FEED", first_seen

    def _dataset_edges(self, node: Node) -> Iterator[_Edge]:
        own, name = node_key(*_key_parts(node)), (node.namespace, node.name)
        for is_input, job, first_seen in self._neighbours.jobs_of(name):
            other = node_key("job", *job)
            yield (own, other, "READ", first_seen) if is_input else (other, own, "WRITE", first_seen)
        for old, new, first_seen in self._renames.get(own, ()):
            yield old, new, "RENAME", first_seen
        for source, first_seen in self._neighbours.asserted_datasets(name, is_forward=False):
            yield node_key("dataset", *source), own, "DECLARED", first_seen
        for target, first_seen in self._neighbours.asserted_datasets(name, is_forward=True):
            yield own, node_key("dataset", *target), "DECLARED", first_seen

    def _has_parent_or_children(self, number: int) -> bool:
        return number in self._parents or number in self._children

    # Renames and job dependencies are few: load all of them on first use.
    @cached_property
    def _renames(self) -> dict[str, list[_Pair]]:
        renames = list(self._index.all_renames())
        names = dict(self._index.canonical_names()) if renames else {}
        return _group_by_end((names.get(old, old), names.get(new, new), first_seen) for old, new, first_seen in renames)

    @cached_property
    def _job_dependencies(self) -> dict[str, list[_Pair]]:
        return _group_by_end(self._index.all_job_dependencies())

    @cached_property
    def _parents(self) -> dict[int, int]:
        return {self._number(job): self._number(parent) for job, parent in self._index.parent_jobs()}

    @cached_property
    def _children(self) -> dict[int, list[int]]:
        children: dict[int, list[int]] = {}
        for number in sorted(self._parents, key=self.sort_key):
            if self._parents[number] != number:
                children.setdefault(self._parents[number], []).append(number)
        return children


class LazyAdjacency:
    """Edges of loaded nodes in one direction, with neighbours sorted by name."""

    def __init__(self, graph: LazyJobGraph, *, is_forward: bool) -> None:
        self._graph, self._is_forward = graph, is_forward
        self._edges: dict[int, dict[int, int]] = {}

    def set_edges(self, node: int, edges: dict[int, int]) -> None:
        """Set the edges of a node, by neighbour."""
        self._edges[node] = {end: edges[end] for end in sorted(edges, key=self._graph.sort_key)}

    def ends_of(self, node: int) -> Sequence[int]:
        """Return the neighbours of a node, sorted by name."""
        self._graph.load(node)
        return list(self._edges[node])

    def edges_of(self, node: int) -> Sequence[int]:
        """Return the edge numbers of a node, in the order of `ends_of`."""
        self._graph.load(node)
        return list(self._edges[node].values())

    def edge_to(self, node: int, end: int) -> int | None:
        """Return the number of the edge between two nodes, if there is one."""
        return self._graph.edge(*((node, end) if self._is_forward else (end, node)))


def _group_by_end(pairs: Iterable[_Pair]) -> dict[str, list[_Pair]]:
    groups: dict[str, list[_Pair]] = {}
    for pair in pairs:
        for end in {pair[0], pair[1]}:
            groups.setdefault(end, []).append(pair)
    return groups


def _key_parts(node: Node) -> tuple[str, str, str]:
    return node.kind, node.namespace, node.name
