"""Columns, and which values or decisions of one went into another."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct

from clew.events.notebook import FRAMES
from clew.index.keys import BETWEEN_PARTS, entity
from clew.index.reader import IndexReader
from clew.index.said import Said, SaidEdge
from clew.query.graph.adjacency import Adjacency, adjacency
from clew.query.graph.nodes import Column, column_key, column_of
from clew.query.graph.stored import StoredArrays
from clew.query.graph.texts import Numbers, Texts
from clew.query.model import EdgeType

_Name = tuple[str, str]
RENAMED = "RENAME"
# The key of a dataset as a whole ends where that of a column goes on with its name.
_LAST_OF_WHOLE = ord(BETWEEN_PARTS)


class Transformation(Struct, frozen=True):
    """How a column went into another; `subtype` RENAME: it is the same column, of a dataset that was renamed."""

    type: EdgeType
    subtype: str | None = None
    description: str | None = None
    is_masking: bool | None = None


class ColumnStep(Struct, frozen=True):
    """An edge as it is met from one of its ends: the other end, and what made it."""

    end: int
    transformation: Transformation
    job: _Name | None


@dataclass(frozen=True)
class ColumnGraph:
    """All columns that lineage speaks of, and all edges between them, one per job and transformation."""

    names: Texts
    jobs: Texts
    transformations: tuple[Transformation, ...]
    whole_of: Numbers
    forward: Adjacency
    backward: Adjacency
    job_of: Numbers
    transformation_of: Numbers
    aliases: dict[_Name, _Name]

    @property
    def edge_count(self) -> int:
        """How many edges there are."""
        return len(self.job_of)

    def find(self, column: Column) -> int | None:
        """The number of a column; None if lineage tells nothing of it."""
        namespace, dataset = self.aliases.get((column.namespace, column.dataset), (column.namespace, column.dataset))
        return self.names.find(column_key(namespace, dataset, column.column))

    def find_most(self, column: Column) -> int | None:
        """The number of a column, or else of its dataset as a whole: what is said of that is said of the column."""
        found = self.find(column)
        return self.find(Column(column.namespace, column.dataset)) if found is None else found

    def column(self, number: int) -> Column:
        """The column of a number."""
        return column_of(self.names[number])

    def columns_of(self, namespace: str, dataset: str) -> range:
        """The numbers of all columns of a dataset, and of the dataset as a whole."""
        return self.names.beginning(column_key(*self.aliases.get((namespace, dataset), (namespace, dataset)), None))

    def is_whole(self, number: int) -> bool:
        """Whether a number is that of a dataset as a whole."""
        return self.whole_of[number] == number and self.names.last_byte(number) == _LAST_OF_WHOLE

    def is_frame(self, number: int) -> bool:
        """Whether a number is that of a column that was only ever in memory."""
        return number in self._frames

    @cached_property
    def _frames(self) -> range:
        return self.names.beginning(f"{FRAMES}{BETWEEN_PARTS}")

    def steps(self, number: int, *, is_forward: bool) -> Iterator[ColumnStep]:
        """The edges from a column, or into it; what is said of the dataset as a whole is said of each column."""
        whole = self.whole_of[number]
        side = self.forward if is_forward else self.backward
        for node in (number,) if whole == number else (number, whole):
            for end, edge in zip(side.ends_of(node), side.edges_of(node), strict=True):
                job = self.job_of[edge]
                made_by = None if job == len(self.jobs) else _job(self.jobs[job])
                yield ColumnStep(end, self.transformations[self.transformation_of[edge]], made_by)

    def sources_of(self, number: int) -> dict[int, list[int]]:
        """The columns that went into a column by its own edges, each with the numbers of the transformations."""
        found: dict[int, list[int]] = {}
        for end, edge in zip(self.backward.ends_of(number), self.backward.edges_of(number), strict=True):
            how, known = self.transformation_of[edge], found.get(end)
            if known is None:
                found[end] = [how]
            elif how not in known:
                known.append(how)
        return found

    def arrays(self) -> dict[str, Any]:
        """What there is to store of a graph that was just built."""
        more = _More(self.transformations, [(*name, *node) for name, node in self.aliases.items()])
        return {
            "name_offsets": self.names.offsets,
            "names": self.names.body,
            "job_offsets": self.jobs.offsets,
            "jobs": self.jobs.body,
            "whole_of": self.whole_of,
            "job_of": self.job_of,
            "transformation_of": self.transformation_of,
            **{f"{way}_{part}": getattr(getattr(self, way), part) for way in _WAYS for part in _PARTS},
            "more": msgspec.json.encode(more),
        }

    @classmethod
    def stored(cls, stored: StoredArrays) -> ColumnGraph:
        """The graph of a file."""
        arrays = stored.arrays
        more = msgspec.json.decode(arrays["more"], type=_More)
        forward, backward = (Adjacency(*(arrays[f"{way}_{part}"] for part in _PARTS)) for way in _WAYS)
        return cls(
            names=Texts(arrays["name_offsets"], arrays["names"]),
            jobs=Texts(arrays["job_offsets"], arrays["jobs"]),
            transformations=more.transformations,
            whole_of=arrays["whole_of"],
            forward=forward,
            backward=backward,
            job_of=arrays["job_of"],
            transformation_of=arrays["transformation_of"],
            aliases={(row[0], row[1]): (row[2], row[3]) for row in more.aliases},
        )


class _More(Struct):
    transformations: tuple[Transformation, ...]
    aliases: list[tuple[str, str, str, str]]


_WAYS = ("forward", "backward")
_PARTS = ("offsets", "ends", "edges")


def column_graph(index: IndexReader) -> ColumnGraph:
    """The graph of what was said last of each dataset by each job."""
    draft = _Draft({_name(name): _name(node) for name, node in index.node_names()})
    frames = []
    for said in index.last_statements(FRAMES):
        if said.dataset_namespace == FRAMES:
            frames.append(said)
        else:
            draft.add_all(index, said)
    for said in of_last_sessions(frames):
        draft.add_all(index, said)
    draft.add_renames([(_name(old), _name(new)) for old, new, _ in index.all_renames()])
    return draft.graph()


def turn_of(said: Said) -> tuple[Any, ...]:
    """What statements are taken in order by: those on frames after all others, in the order of their times."""
    is_frame = said.dataset_namespace == FRAMES
    when = (said.event_time, said.dataset_version) if is_frame else ()
    return is_frame, *when, said.job_namespace or "", said.job_name or "", said.dataset_namespace, said.dataset_name


def of_last_sessions(frames: Iterable[Said]) -> list[Said]:
    """Of frames, which are made anew in every session, only what the last session said of each; in order."""
    in_order = sorted(frames, key=turn_of)
    last = {said.dataset_name: said.session_id for said in in_order}
    return [said for said in in_order if last[said.dataset_name] == said.session_id]


def transformation_of(edge: SaidEdge) -> Transformation:
    """How an edge of a set says that a column went into another."""
    masking = None if edge.masking is None else bool(edge.masking)
    return Transformation("INDIRECT" if edge.type == "INDIRECT" else "DIRECT", edge.subtype, edge.description, masking)


def _name(key: str) -> _Name:
    _, namespace, name = key.split(BETWEEN_PARTS, 2)
    return namespace, name


def _job(key: str) -> _Name:
    namespace, name = key.split(BETWEEN_PARTS, 1)
    return namespace, name


class _Draft:
    """Edges between names as they come; numbers are given at the end."""

    def __init__(self, aliases: dict[_Name, _Name]) -> None:
        self._aliases = aliases
        self._columns: dict[str, int] = {}
        self._jobs: dict[str, int] = {}
        self._transformations: dict[Transformation, int] = {}
        self._starts, self._ends = array("I"), array("I")
        self._made_by, self._hows = array("i"), array("I")

    def add_all(self, index: IndexReader, said: Said) -> None:
        """Take what a job said last of a dataset; nothing if it was taken back."""
        edges = list(index.edge_set(said.edge_set))
        sources = [self._source(index, said, edge) for edge in edges]
        dataset = said.dataset_namespace, said.dataset_name
        # A variable is one frame after the other: each is a dataset of its own, and the name alone means the last.
        if edges and said.dataset_namespace == FRAMES and said.dataset_version:
            self._aliases[dataset] = FRAMES, f"{said.dataset_name}@{said.dataset_version}"
        target = self._node(*dataset)
        job = -1
        if edges and said.job_name is not None:
            job = self._jobs.setdefault(entity(said.job_namespace, said.job_name), len(self._jobs))
        for source, edge in zip(sources, edges, strict=True):
            self._add((*source, edge.source_column), (*target, edge.column), transformation_of(edge), job)

    def _source(self, index: IndexReader, said: Said, edge: SaidEdge) -> _Name:
        is_frame = edge.source_namespace == FRAMES and said.run_uuid is not None
        version = index.input_version(said.run_uuid or "", FRAMES, edge.source_name) if is_frame else ""
        if version:
            return FRAMES, f"{edge.source_name}@{version}"
        return self._node(edge.source_namespace, edge.source_name)

    def add_renames(self, renames: Iterable[tuple[_Name, _Name]]) -> None:
        """Say of every column of a dataset that was renamed that it is the column of that name afterwards."""
        pairs = {(self._node(*old), self._node(*new)) for old, new in renames}
        columns: dict[_Name, set[str | None]] = {name: set() for pair in pairs for name in pair}
        for key in self._columns:
            column = column_of(key)
            if (column.namespace, column.dataset) in columns:
                columns[column.namespace, column.dataset].add(column.column)
        # A dataset may be renamed again and again: a column is known under all its names.
        is_settled = False
        while not is_settled:
            is_settled = True
            for old, new in pairs:
                if columns[old] != columns[new]:
                    columns[old] = columns[new] = columns[old] | columns[new]
                    is_settled = False
        how = Transformation("DIRECT", RENAMED)
        for old, new in pairs - {(name, name) for name in columns}:
            for name in columns[old]:
                self._add((*old, name), (*new, name), how, -1)

    def graph(self) -> ColumnGraph:
        names, columns = Texts.renumbered(self._columns)
        jobs, places = Texts.renumbered(self._jobs)
        starts, ends = (array("I", map(columns.__getitem__, side)) for side in (self._starts, self._ends))
        # An edge of no job has the number behind the last.
        made_by = [*places, len(jobs)]
        self._columns.clear()
        return ColumnGraph(
            names=names,
            jobs=jobs,
            transformations=tuple(self._transformations),
            whole_of=_wholes(names),
            forward=adjacency(len(names), starts, ends),
            backward=adjacency(len(names), ends, starts),
            job_of=array("I", map(made_by.__getitem__, self._made_by)),
            transformation_of=self._hows,
            aliases=self._aliases,
        )

    def _node(self, namespace: str, name: str) -> _Name:
        return self._aliases.get((namespace, name), (namespace, name))

    def _add(
        self, source: tuple[str, str, str | None], target: tuple[str, str, str | None], how: Transformation, job: int
    ) -> None:
        columns = self._columns
        start = columns.setdefault(column_key(*source), len(columns))
        end = columns.setdefault(column_key(*target), len(columns))
        self._starts.append(start)
        self._ends.append(end)
        self._made_by.append(job)
        self._hows.append(self._transformations.setdefault(how, len(self._transformations)))


def _wholes(names: Texts) -> array[int]:
    """The number of each column's dataset as a whole; its own where nothing was said of that."""
    wholes = array("I", range(len(names)))
    before = None
    for number in range(len(names)):
        column = column_of(names[number])
        if column.column is None:
            before = number, (column.namespace, column.dataset)
        elif before is not None and before[1] == (column.namespace, column.dataset):
            wholes[number] = before[0]
    return wholes
