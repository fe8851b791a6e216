"""Graph of jobs and datasets: cached arrays or lazy reads."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from clew.errors import ClewError
from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.index.encoding import KEY_SEPARATOR
from clew.index.queries.reader import IndexReader
from clew.query.graph.nodes import (
    ArrayGraph,
    Node,
    Numbers,
    StringTable,
    build_adjacency,
    node_key,
    parse_node_key,
)

JobEdgeKind = Literal["READ", "WRITE", "RENAME", "FEED", "DECLARED"]
JOB_EDGE_KINDS: Final[tuple[JobEdgeKind, ...]] = ("READ", "WRITE", "RENAME", "FEED", "DECLARED")


@dataclass(frozen=True)
class JobGraph(ArrayGraph):
    """All jobs and datasets. All names of a dataset map to one number (`canonical_numbers`)."""

    canonical_numbers: Numbers
    parents: Numbers
    first_seen: Numbers
    edge_kinds: Numbers

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

    def ends_of(self, number: int, *, is_forward: bool) -> Sequence[int]:
        """Return the nodes that a node feeds (`is_forward`) or is fed by, sorted by name."""
        return (self.forward if is_forward else self.backward).ends_of(number)

    def dated_ends_of(self, number: int, *, is_forward: bool) -> Iterator[tuple[int, int]]:
        """Yield the neighbours of a node, and the time of the first event that reported each edge."""
        adjacency = self.forward if is_forward else self.backward
        for end, edge in zip(adjacency.ends_of(number), adjacency.edges_of(number), strict=True):
            yield end, self.first_seen[edge]

    def edge_kind(self, start: int, end: int) -> JobEdgeKind | None:
        """Return the kind of the edge between two nodes, if there is one."""
        edge = self.forward.edge_to(start, end)
        return None if edge is None else JOB_EDGE_KINDS[self.edge_kinds[edge]]

    def first_by_name(self, numbers: Iterable[int]) -> int:
        """Return the first node by name."""
        return min(numbers)

    def parent(self, number: int) -> int:
        """Return the parent job of a job, or the job itself."""
        return self.parents[number]

    def children(self, number: int) -> Sequence[int]:
        """Return the child jobs of a job."""
        return self._children.get(number, ())

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


def build_job_graph(index: IndexReader) -> JobGraph:
    """Build the graph of all jobs and datasets of an index."""
    builder = _GraphBuilder()
    for start, end, kind, first_seen in _edges(index):
        builder.add(start, end, kind, first_seen)
    return builder.build(list(index.canonical_names()), list(index.parent_jobs()))


def _edges(index: IndexReader) -> Iterator[tuple[str, str, int, int]]:
    read, write, rename, feed, declared = range(len(JOB_EDGE_KINDS))
    for job, dataset, is_input, _, first_seen in index.all_job_edges():
        yield (dataset, job, read, first_seen) if is_input else (job, dataset, write, first_seen)
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
        """Merge edges between the same nodes, with the earliest first-seen time."""
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


# One lookup costs 60 to 80 µs; with this limit a query needs less than 0.4 s, process start included.
MAX_LOOKUPS = 2_000


class BudgetExceededError(ClewError):
    """A lazy traversal needs more index lookups than its budget allows."""


class LookupBudget:
    """Counter of index lookups that raises when the limit is exceeded."""

    def __init__(self, max_lookups: int | None = None) -> None:
        self._remaining = MAX_LOOKUPS if max_lookups is None else max_lookups

    def spend(self) -> None:
        """Count one lookup."""
        self._remaining -= 1
        if self._remaining < 0:
            raise BudgetExceededError("The traversal needs too many index lookups.")


_Edge = tuple[str, str, JobEdgeKind, int]
_Pair = tuple[str, str, int]


class LazyJobGraph:
    """Lazy counterpart of `JobGraph`, which loads the edges of a node on first use."""

    def __init__(self, index: IndexReader, budget: LookupBudget | None = None) -> None:
        self._index = index
        self._budget = budget or LookupBudget(sys.maxsize)
        self._numbers: dict[str, int] = {}
        self._keys: list[str] = []
        self._has_edges: dict[int, bool] = {}
        # By node: the first-seen time of the edge to each neighbour, forward and backward.
        self._ends: dict[int, dict[bool, dict[int, int]]] = {}
        self._edge_kinds: dict[tuple[int, int], JobEdgeKind] = {}

    def find(self, node: Node) -> int | None:
        """Return the number of a job or dataset, by any of its names; None if it has no lineage."""
        name = node.namespace, node.name
        canonical = self._index.find_canonical_name(name) if node.kind == "dataset" else None
        number = self.number_of(node_key(node.kind, *(canonical or name)))
        is_in_graph = (
            self.load(number) or canonical is not None or (node.kind == "job" and self._has_parent_or_children(number))
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

    def ends_of(self, number: int, *, is_forward: bool) -> Sequence[int]:
        """Return the nodes that a node feeds (`is_forward`) or is fed by, sorted."""
        self.load(number)
        return list(self._ends[number][is_forward])

    def dated_ends_of(self, number: int, *, is_forward: bool) -> Iterable[tuple[int, int]]:
        """Return the neighbours of a node, and the time of the first event that reported each edge."""
        self.load(number)
        return self._ends[number][is_forward].items()

    def edge_kind(self, start: int, end: int) -> JobEdgeKind | None:
        """Return the kind of the edge between two nodes, if there is one."""
        self.load(start)
        return self._edge_kinds.get((start, end))

    def first_by_name(self, numbers: Iterable[int]) -> int:
        """Return the first node by name."""
        return min(numbers, key=self._sort_key)

    def sort(self, numbers: Iterable[int]) -> Iterable[int]:
        """Sort neighbours: by name."""
        return sorted(numbers, key=self._sort_key)

    def _sort_key(self, number: int) -> bytes:
        return self._keys[number].encode()

    def parent(self, number: int) -> int:
        """Return the parent job of a job, or the job itself."""
        return self._parents.get(number, number)

    def children(self, number: int) -> Sequence[int]:
        """Return the child jobs of a job."""
        return self._children.get(number, ())

    def load(self, number: int) -> bool:
        """Load all edges of a node in both directions; return whether it has any."""
        if number not in self._has_edges:
            self._budget.spend()
            node = self.node(number)
            edges = list(self._job_edges(node) if node.kind == "job" else self._dataset_edges(node))
            ends: dict[bool, dict[int, int]] = {True: {}, False: {}}
            for start_key, end_key, kind, first_seen in edges:
                start, end = self.number_of(start_key), self.number_of(end_key)
                if start != end:
                    self._edge_kinds.setdefault((start, end), kind)
                    is_forward = start == number
                    other = end if is_forward else start
                    ends[is_forward][other] = min(ends[is_forward].get(other, first_seen), first_seen)
            self._ends[number] = {
                is_forward: {end: times[end] for end in self.sort(times)} for is_forward, times in ends.items()
            }
            self._has_edges[number] = bool(edges)
        return self._has_edges[number]

    def number_of(self, key: str) -> int:
        """Return the number of a node by key, whether it has lineage or not."""
        number = self._numbers.setdefault(key, len(self._keys))
        if number == len(self._keys):
            self._keys.append(key)
        return number

    def _job_edges(self, node: Node) -> Iterator[_Edge]:
        own = node_key(*_key_parts(node))
        for is_input, namespace, dataset, first_seen in self._index.datasets_of_job((node.namespace, node.name)):
            other = node_key("dataset", namespace, dataset)
            yield (other, own, "READ", first_seen) if is_input else (own, other, "WRITE", first_seen)
        for upstream, job, first_seen in self._job_dependencies.get(own, ()):
            yield upstream, job, "FEED", first_seen

    def _dataset_edges(self, node: Node) -> Iterator[_Edge]:
        own, name = node_key(*_key_parts(node)), (node.namespace, node.name)
        for is_input, namespace, job, first_seen in self._index.jobs_of_dataset(name):
            other = node_key("job", namespace, job)
            yield (own, other, "READ", first_seen) if is_input else (other, own, "WRITE", first_seen)
        for old, new, first_seen in self._renames.get(own, ()):
            yield old, new, "RENAME", first_seen
        for namespace, source, first_seen in self._index.asserted_datasets(name, is_forward=False):
            yield node_key("dataset", namespace, source), own, "DECLARED", first_seen
        for namespace, target, first_seen in self._index.asserted_datasets(name, is_forward=True):
            yield own, node_key("dataset", namespace, target), "DECLARED", first_seen

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
        return {self.number_of(job): self.number_of(parent) for job, parent in self._index.parent_jobs()}

    @cached_property
    def _children(self) -> dict[int, list[int]]:
        children: dict[int, list[int]] = {}
        for number in sorted(self._parents, key=self._sort_key):
            if self._parents[number] != number:
                children.setdefault(self._parents[number], []).append(number)
        return children


def _group_by_end(pairs: Iterable[_Pair]) -> dict[str, list[_Pair]]:
    groups: dict[str, list[_Pair]] = {}
    for pair in pairs:
        for end in {pair[0], pair[1]}:
            groups.setdefault(end, []).append(pair)
    return groups


def _key_parts(node: Node) -> tuple[str, str, str]:
    return node.kind, node.namespace, node.name
