"""Edges of numbered nodes, as arrays: the neighbours of a node stand beside each other."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from clew.query.graph.texts import Numbers

# A pair of nodes as one number: such are sorted faster than pairs.
_SHIFT = 32
_LOW = (1 << _SHIFT) - 1


@dataclass(frozen=True, slots=True)
class Adjacency:
    """The ends of each node's edges, and the number of each edge."""

    offsets: Numbers
    ends: Numbers
    edges: Numbers

    def ends_of(self, node: int) -> Sequence[int]:
        """The neighbours of a node, in order."""
        return self.ends[self.offsets[node] : self.offsets[node + 1]]

    def edges_of(self, node: int) -> Sequence[int]:
        """The numbers of a node's edges, beside their ends."""
        return self.edges[self.offsets[node] : self.offsets[node + 1]]

    def degree(self, node: int) -> int:
        """How many edges a node has."""
        return self.offsets[node + 1] - self.offsets[node]

    def edge_to(self, node: int, end: int) -> int | None:
        """The number of an edge between two nodes."""
        last = self.offsets[node + 1]
        place = bisect_left(self.ends, end, self.offsets[node], last)
        return self.edges[place] if place < last and self.ends[place] == end else None


def adjacency(nodes: int, starts: Numbers, ends: Numbers) -> Adjacency:
    """The edges from `starts` to `ends`, an edge's number being its place in both."""
    keys = [start << _SHIFT | end for start, end in zip(starts, ends, strict=True)]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    counts = array("I", bytes(4 * (nodes + 1)))
    for start in starts:
        counts[start + 1] += 1
    sorted_ends = array("I", (keys[place] & _LOW for place in order))
    return Adjacency(array("I", accumulate(counts)), sorted_ends, array("I", order))
