"""Graph of jobs and datasets."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.index.keys import KEY_SEPARATOR
from clew.index.reader import IndexReader
from clew.query.graph.adjacency import Adjacency, build_adjacency
from clew.query.graph.nodes import Node, node_key, parse_node_key
from clew.query.graph.stored import MappedArrays
from clew.query.graph.texts import Numbers, StringTable

JobEdgeKind = Literal["READ", "WRITE", "RENAME", "FEED", "DECLARED"]
JOB_EDGE_KINDS: Final[tuple[JobEdgeKind, ...]] = ("READ", "WRITE", "RENAME", "FEED", "DECLARED")
# Flag of edges to inputs that only a lineage facet names.
IMPLIED_FLAG: Final = 8


@dataclass(frozen=True)
class JobGraph:
    """All jobs and datasets. All names of a dataset map to one number (`canonical_numbers`)."""

    names: StringTable
    canonical_numbers: Numbers
    parents: Numbers
    forward: Adjacency
    backward: Adjacency
    first_seen: Numbers
    edge_kinds: Numbers

    @property
    def edge_count(self) -> int:
        """Number of edges."""
        return len(self.first_seen)

    def find(self, node: Node) -> int | None:
        """Return the number of a job or dataset, by any of its names; None if it has no lineage."""
        number = self.names.find(node_key(node.kind, node.namespace, node.name))
        return None if number is None else self.canonical_numbers[number]

    def node(self, number: int) -> Node:
        """Return the job or dataset with a number."""
        return parse_node_key(self.names[number])

    def is_job(self, number: int) -> bool:
        """Check whether a node is a job."""
        return number in self._jobs

    def is_frame(self, number: int) -> bool:
        """Check whether a node is an in-memory DataFrame."""
        return number in self._frames

    def edge_kind(self, edge: int) -> JobEdgeKind:
        """Return the kind of an edge."""
        return JOB_EDGE_KINDS[self.edge_kinds[edge] & ~IMPLIED_FLAG]

    def first_by_name(self, numbers: Iterable[int]) -> int:
        """Return the first node by name."""
        return min(numbers)

    def parent(self, number: int) -> int:
        """Return the parent job of a job, or the job itself."""
        return self.parents[number]

    def children(self) -> dict[int, list[int]]:
        """Return the child jobs by parent job."""
        return self._children

    @cached_property
    def _jobs(self) -> range:
        return self.names.prefix_range(f"job{KEY_SEPARATOR}")

    @cached_property
    def _frames(self) -> range:
        return self.names.prefix_range(node_key("dataset", NOTEBOOK_NAMESPACE, ""))

    @cached_property
    def _children(self) -> dict[int, list[int]]:
        children: dict[int, list[int]] = {}
        for number in self._jobs:
            if self.parents[number] != number:
                children.setdefault(self.parents[number], []).append(number)
        return children

    def arrays(self) -> dict[str, Any]:
        """Return the arrays of a newly built graph, to be written to a file."""
        return {
            "name_offsets": self.names.offsets,
            "names": self.names.body,
            **{name: getattr(self, name) for name in ("canonical_numbers", "parents", "first_seen", "edge_kinds")},
            **{
                f"{direction}_{field}": getattr(getattr(self, direction), field)
                for direction in _DIRECTIONS
                for field in _ADJACENCY_FIELDS
            },
        }

    @classmethod
    def from_arrays(cls, mapped: MappedArrays) -> JobGraph:
        """Create the graph from mapped arrays."""
        arrays = mapped.arrays
        forward, backward = (
            Adjacency(*(arrays[f"{direction}_{field}"] for field in _ADJACENCY_FIELDS)) for direction in _DIRECTIONS
        )
        return cls(
            names=StringTable(arrays["name_offsets"], arrays["names"]),
            canonical_numbers=arrays["canonical_numbers"],
            parents=arrays["parents"],
            forward=forward,
            backward=backward,
            first_seen=arrays["first_seen"],
            edge_kinds=arrays["edge_kinds"],
        )


_DIRECTIONS = ("forward", "backward")
_ADJACENCY_FIELDS = ("offsets", "ends", "edges")


def build_job_graph(index: IndexReader) -> JobGraph:
    """Build the graph of all jobs and datasets of an index."""
    builder = _GraphBuilder()
    for start, end, kind, first_seen in _edges(index):
        builder.add(start, end, kind, first_seen)
    return builder.build(list(index.canonical_names()), list(index.parent_jobs()))


def _edges(index: IndexReader) -> Iterator[tuple[str, str, int, int]]:
    read, write, rename, feed, declared = range(len(JOB_EDGE_KINDS))
    for job, dataset, is_input, is_implied, first_seen in index.all_job_edges():
        implied = IMPLIED_FLAG if is_implied else 0
        yield (dataset, job, read | implied, first_seen) if is_input else (job, dataset, write | implied, first_seen)
    for old, new, first_seen in index.all_renames():
        yield old, new, rename, first_seen
    for upstream, job, first_seen in index.all_job_dependencies():
        yield upstream, job, feed, first_seen
    for source, dataset, first_seen in index.dataset_asserted_edges():
        yield source, dataset, declared, first_seen


class _GraphBuilder:
    """Collects edges between names; nodes are numbered at the end."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._starts, self._ends, self._edge_kinds = array("I"), array("I"), array("B")
        self._first_seen = array("q")

    def add(self, start: str, end: str, kind: int, first_seen: int) -> None:
        numbers = self._numbers
        self._starts.append(numbers.setdefault(start, len(numbers)))
        self._ends.append(numbers.setdefault(end, len(numbers)))
        self._edge_kinds.append(kind)
        self._first_seen.append(first_seen)

    def build(self, aliases: Iterable[tuple[str, str]], parents: Iterable[tuple[str, str]]) -> JobGraph:
        aliases, parents = list(aliases), list(parents)
        numbers = self._numbers
        for pair in (*aliases, *parents):
            for key in pair:
                numbers.setdefault(key, len(numbers))
        names, sorted_numbers = StringTable.from_mapping(numbers)
        canonical_numbers = array("I", range(len(numbers)))
        for name, node in aliases:
            canonical_numbers[sorted_numbers[numbers[name]]] = sorted_numbers[numbers[node]]
        parent_of = array("I", range(len(numbers)))
        for job, parent in parents:
            parent_of[sorted_numbers[numbers[job]]] = sorted_numbers[numbers[parent]]
        numbers.clear()
        return self._merge_edges(
            names, canonical_numbers, parent_of, array("I", (canonical_numbers[number] for number in sorted_numbers))
        )

    def _merge_edges(
        self, names: StringTable, canonical_numbers: array[int], parents: array[int], node_numbers: array[int]
    ) -> JobGraph:
        """Merge edges between the same nodes: earliest first-seen time, implied only if all are."""
        count = len(names)
        edge_numbers: dict[int, int] = {}
        starts, ends, edge_kinds, first_seen = array("I"), array("I"), array("B"), array("q")
        for start, end, kind, at in zip(self._starts, self._ends, self._edge_kinds, self._first_seen, strict=True):
            start, end = node_numbers[start], node_numbers[end]  # noqa: PLW2901
            if start == end:
                continue
            edge = edge_numbers.setdefault(start * count + end, len(starts))
            if edge == len(starts):
                starts.append(start)
                ends.append(end)
                edge_kinds.append(kind)
                first_seen.append(at)
            else:
                edge_kinds[edge] &= kind | ~IMPLIED_FLAG & 0xFF
                first_seen[edge] = min(first_seen[edge], at)
        edge_numbers.clear()
        return JobGraph(
            names=names,
            canonical_numbers=canonical_numbers,
            parents=parents,
            forward=build_adjacency(count, starts, ends),
            backward=build_adjacency(count, ends, starts),
            first_seen=first_seen,
            edge_kinds=edge_kinds,
        )
