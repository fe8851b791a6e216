"""Adjacency of numbered nodes in compressed sparse row (CSR) arrays."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from clew.query.graph.texts import Numbers

# A pair of nodes is packed into one integer, which sorts faster than a tuple.
_SHIFT = 32
_LOW_MASK = (1 << _SHIFT) - 1


@dataclass(frozen=True, slots=True)
class Adjacency:
    """Neighbours and edge numbers of each node, in one direction."""

    offsets: Numbers
    ends: Numbers
    edges: Numbers

    def ends_of(self, node: int) -> Sequence[int]:
        """Return the neighbours of a node, sorted."""
        return self.ends[self.offsets[node] : self.offsets[node + 1]]

    def edges_of(self, node: int) -> Sequence[int]:
        """Return the edge numbers of a node, in the order of `ends_of`."""
        return self.edges[self.offsets[node] : self.offsets[node + 1]]

    def degree(self, node: int) -> int:
        """Return the number of edges of a node."""
        return self.offsets[node + 1] - self.offsets[node]

    def edge_to(self, node: int, end: int) -> int | None:
        """Return the number of the edge between two nodes, if there is one."""
        last = self.offsets[node + 1]
        position = bisect_left(self.ends, end, self.offsets[node], last)
        return self.edges[position] if position < last and self.ends[position] == end else None


def build_adjacency(nodes: int, starts: Numbers, ends: Numbers) -> Adjacency:
    """Build the adjacency of edges from `starts` to `ends`; an edge's number is its position in both."""
    keys = [start << _SHIFT | end for start, end in zip(starts, ends, strict=True)]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    counts = array("I", bytes(4 * (nodes + 1)))
    for start in starts:
        counts[start + 1] += 1
    sorted_ends = array("I", (keys[edge] & _LOW_MASK for edge in order))
    return Adjacency(array("I", accumulate(counts)), sorted_ends, array("I", order))
