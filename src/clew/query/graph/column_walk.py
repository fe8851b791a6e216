"""Walks over columns: whose values went into a column, whose a column went into, and who only had a say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, Protocol

from msgspec import Struct, structs

from clew.query.folding import STRENGTH
from clew.query.graph.columns import ColumnStep, Transformation
from clew.query.graph.nodes import Column
from clew.query.graph.walk import Direction
from clew.query.model import EdgeType

# What to do with a column that only had a say in another: `named`, it is told and not followed, else almost everything
# would be upstream of everything; `followed`, whoever took values from what it had a say in is told as well.
Influence = Literal["named", "followed"]


class Columns(Protocol):
    """A graph of columns."""

    def columns_of(self, namespace: str, dataset: str) -> Iterable[int]:
        """The numbers of all columns of a dataset, and of the dataset as a whole."""

    def column(self, number: int) -> Column:
        """The column of a number."""

    def is_whole(self, number: int) -> bool:
        """Whether a number is that of a dataset as a whole."""

    def is_frame(self, number: int) -> bool:
        """Whether a number is that of a column that was only ever in memory."""

    def steps(self, number: int, *, is_forward: bool) -> Iterator[ColumnStep]:
        """The edges from a column, or into it."""


class FoundColumn(Struct, frozen=True):
    """A column that a walk came to; DIRECT if values went all the way. `distance` is less than 0 upstream."""

    number: int
    distance: int
    how: EdgeType


class FoundEdge(Struct, frozen=True):
    """An edge along the flow of data, and the job that it is of."""

    start: int
    end: int
    transformation: Transformation
    job: tuple[str, str] | None


class ColumnWalk(Struct, frozen=True):
    """What a walk came to, the nearest first, and the edges that it went along."""

    found: tuple[FoundColumn, ...]
    edges: tuple[FoundEdge, ...]
    is_cut: bool


def column_walk(
    graph: Columns,
    start: Iterable[int],
    direction: Direction = "upstream",
    *,
    depth: int = 20,
    limit: int = 1000,
    influence: Influence = "named",
    has_frames: bool = False,
) -> ColumnWalk:
    """Go from columns as far as `depth` hops and `limit` columns allow; frames in memory are passed through."""
    ways = {"upstream": (False,), "downstream": (True,), "both": (False, True)}[direction]
    walk = _Walk(graph, tuple(start), limit, is_influence_followed=influence == "followed", has_frames=has_frames)
    for is_forward in ways:
        walk.go(depth, is_forward=is_forward)
    return walk.result()


class _Walk:
    def __init__(
        self, graph: Columns, start: tuple[int, ...], limit: int, *, is_influence_followed: bool, has_frames: bool
    ) -> None:
        self._graph, self._start, self._limit = graph, start, max(limit, len(start))
        self._is_influence_followed, self._has_frames = is_influence_followed, has_frames
        self._found: dict[int, FoundColumn] = {number: FoundColumn(number, 0, "DIRECT") for number in start}
        self._edges: dict[FoundEdge, None] = {}
        self._is_cut = False

    def result(self) -> ColumnWalk:
        return ColumnWalk(tuple(self._found.values()), tuple(self._edges), self._is_cut)

    def go(self, depth: int, *, is_forward: bool) -> None:
        # A column is gone from twice at most: as one that values came to, and as one that only had a say.
        frontier: list[tuple[int, EdgeType]] = [(number, "DIRECT") for number in self._start]
        seen = set(frontier)
        for distance in range(1, depth + 1):
            beyond: list[tuple[int, EdgeType]] = []
            for number, how in frontier:
                for step in self._steps(number, how, is_forward=is_forward):
                    reached: EdgeType = "DIRECT" if how == step.transformation.type == "DIRECT" else "INDIRECT"
                    if not self._take(step.end, distance if is_forward else -distance, reached):
                        continue
                    pair = (number, step.end) if is_forward else (step.end, number)
                    self._edges[FoundEdge(*pair, step.transformation, step.job)] = None
                    if (step.end, reached) not in seen:
                        seen.add((step.end, reached))
                        beyond.append((step.end, reached))
            frontier = beyond

    def _take(self, number: int, distance: int, how: EdgeType) -> bool:
        known = self._found.get(number)
        if known is None:
            if len(self._found) >= self._limit:
                self._is_cut = True
                return False
            self._found[number] = FoundColumn(number, distance, how)
        elif how == "DIRECT" and known.how != "DIRECT":
            self._found[number] = structs.replace(known, how=how)
        return True

    def _steps(self, number: int, how: EdgeType, *, is_forward: bool) -> Iterator[ColumnStep]:
        """The steps from a column that was come to in that way, to columns that are told."""
        if how == "INDIRECT" and not self._is_influence_followed:
            return
        for step in self._through_frames(number, is_forward=is_forward):
            # Who only had a say in what only had a say is not asked.
            if how == "DIRECT" or step.transformation.type == "DIRECT":
                yield step

    def _through_frames(self, number: int, *, is_forward: bool) -> Iterator[ColumnStep]:
        passed: set[tuple[int, EdgeType]] = set()
        pending = [step for one in self._meant(number, is_forward=is_forward) for step in self._from(one, is_forward)]
        while pending:
            step = pending.pop(0)
            if self._has_frames or not self._graph.is_frame(step.end):
                yield step
                continue
            passage = step.end, step.transformation.type
            if passage in passed:
                continue
            passed.add(passage)
            for one in self._meant(step.end, is_forward=is_forward):
                for further in self._from(one, is_forward):
                    how = joined(step.transformation, further.transformation)
                    if how is not None:
                        pending.append(structs.replace(further, transformation=how, job=step.job))

    def _from(self, number: int, is_forward: bool) -> Iterator[ColumnStep]:  # noqa: FBT001
        return self._graph.steps(number, is_forward=is_forward)

    def _meant(self, number: int, *, is_forward: bool) -> Iterable[int]:
        """Who has had a say in a whole dataset has had one in each of its columns."""
        if not is_forward or not self._graph.is_whole(number):
            return (number,)
        column = self._graph.column(number)
        return self._graph.columns_of(column.namespace, column.dataset)


def joined(near: Transformation, far: Transformation) -> Transformation | None:
    """Two transformations as one; None if the far end has no part in the near one."""
    if near.type == far.type == "INDIRECT":
        return None
    if near.type != far.type:
        return near if near.type == "INDIRECT" else far
    return max(near, far, key=lambda one: STRENGTH.get(one.subtype, 0))
