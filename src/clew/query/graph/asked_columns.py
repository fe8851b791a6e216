"""Columns that are found as they are walked, as what was said last of each dataset has them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from clew.events.notebook import FRAMES
from clew.index.entities import node_row
from clew.index.keys import BETWEEN_PARTS
from clew.index.neighbours import Neighbours
from clew.index.reader import IndexReader
from clew.index.said import Said, SaidEdge
from clew.query.graph.columns import RENAMED, ColumnStep, Transformation, of_last_sessions, transformation_of, turn_of
from clew.query.graph.far import Patience
from clew.query.graph.nodes import Column, column_key

_Name = tuple[str, str]
_Steps = dict[str | None, list[ColumnStep]]


class AskedColumns:
    """The graph that `ColumnGraph` has in arrays, asked of the index dataset by dataset."""

    def __init__(self, index: IndexReader, patience: Patience | None = None) -> None:
        self._index, self._neighbours = index, Neighbours(index, FRAMES)
        self._patience = patience or Patience()
        self._numbers: dict[Column, int] = {}
        self._columns: list[Column] = []
        self._nodes: dict[_Name, _Name] = {}
        self._said: dict[_Name, list[Said]] = {}
        self._sets: dict[str, list[SaidEdge]] = {}
        # Of a frame in one of its versions, the name that all of them bear.
        self._variables: dict[_Name, _Name] = {}
        self._steps: dict[tuple[_Name, bool], _Steps] = {}

    def find(self, column: Column) -> int | None:
        """The number of a column; None if lineage tells nothing of it."""
        dataset = self._meant(column.namespace, column.dataset)
        return self._number(Column(*dataset, column.column)) if column.column in self._known(dataset) else None

    def find_most(self, column: Column) -> int | None:
        """The number of a column, or else of its dataset as a whole: what is said of that is said of the column."""
        found = self.find(column)
        return self.find(Column(column.namespace, column.dataset)) if found is None else found

    def column(self, number: int) -> Column:
        """The column of a number."""
        return self._columns[number]

    def columns_of(self, namespace: str, dataset: str) -> list[int]:
        """The numbers of all columns of a dataset, and of the dataset as a whole."""
        meant = self._meant(namespace, dataset)
        known = sorted(self._known(meant), key=lambda name: (name or "").encode())
        return [self._number(Column(*meant, name)) for name in known]

    def is_whole(self, number: int) -> bool:
        """Whether a number is that of a dataset as a whole."""
        return self._columns[number].column is None

    def is_frame(self, number: int) -> bool:
        """Whether a number is that of a column that was only ever in memory."""
        return self._columns[number].namespace == FRAMES

    def steps(self, number: int, *, is_forward: bool) -> Iterator[ColumnStep]:
        """The edges from a column, or into it; what is said of the dataset as a whole is said of each column."""
        column = self._columns[number]
        dataset = column.namespace, column.dataset
        for name in dict.fromkeys((column.column, None)):
            found = [*self._said_steps(dataset, is_forward=is_forward).get(name, ())]
            if dataset in self._renames and name in self._known(dataset):
                found += self._renamed(dataset, name, is_forward=is_forward)
            yield from sorted(found, key=lambda step: self._place(step.end))

    def _place(self, number: int) -> bytes:
        column = self._columns[number]
        return column_key(column.namespace, column.dataset, column.column).encode()

    def _number(self, column: Column) -> int:
        number = self._numbers.setdefault(column, len(self._columns))
        if number == len(self._columns):
            self._columns.append(column)
        return number

    def _known(self, dataset: _Name) -> set[str | None]:
        """The columns that something is said of, by whichever name the dataset had before or has since."""
        names = self._chain(dataset)
        return {column for name in names for way in (True, False) for column in self._said_steps(name, is_forward=way)}

    def _said_steps(self, dataset: _Name, *, is_forward: bool) -> _Steps:
        """The edges of a dataset that were said, by column."""
        key = dataset, is_forward
        if key not in self._steps:
            self._patience.spend()
            found = self._steps[key] = {}
            said = self._said_from(dataset) if is_forward else self._said_into(dataset)
            for one in sorted(said, key=turn_of):
                target = self._target(one)
                job = None if one.job_name is None else (one.job_namespace or "", one.job_name)
                for edge in self._edges(one.edge_set):
                    ends = Column(*self._source(one, edge), edge.source_column), Column(*target, edge.column)
                    own, other = ends if is_forward else ends[::-1]
                    if (own.namespace, own.dataset) == dataset:
                        step = ColumnStep(self._number(other), transformation_of(edge), job)
                        found.setdefault(own.column, []).append(step)
        return self._steps[key]

    def _said_into(self, dataset: _Name) -> Iterator[Said]:
        for name in self._names(dataset):
            yield from (said for said in self._last_said(name) if self._target(said) == dataset)

    def _said_from(self, dataset: _Name) -> Iterator[Said]:
        fed = {target for name in self._names(dataset) for target in self._neighbours.fed_by(name)}
        for target in fed:
            yield from self._last_said(target)

    def _last_said(self, name: _Name) -> list[Said]:
        """What each job said last of a dataset by one of its names; of a frame, in its last session."""
        if name not in self._said:
            self._patience.spend()
            found = self._neighbours.said_of(name)
            self._said[name] = of_last_sessions(found) if name[0] == FRAMES else found
        return self._said[name]

    def _edges(self, edge_set: str) -> list[SaidEdge]:
        if edge_set not in self._sets:
            self._sets[edge_set] = list(self._index.edge_set(edge_set))
        return self._sets[edge_set]

    def _target(self, said: Said) -> _Name:
        return self._then((said.dataset_namespace, said.dataset_name), said.dataset_version, said)

    def _source(self, said: Said, edge: SaidEdge) -> _Name:
        name, version = (edge.source_namespace, edge.source_name), ""
        if edge.source_namespace == FRAMES and said.run_uuid is not None:
            version = self._index.input_version(said.run_uuid, *name)
        return self._then(name, version, said)

    def _then(self, name: _Name, version: str, said: Said) -> _Name:
        """What a statement means by a name; a frame of no version is the last before."""
        if name[0] != FRAMES:
            return self._node(name)
        if version:
            return self._version(name[1], version)
        return self._last_version(name, [one for one in self._last_said(name) if turn_of(one) < turn_of(said)])

    def _meant(self, namespace: str, name: str) -> _Name:
        """The node of a name; of a variable its last frame."""
        if namespace == FRAMES and (namespace, name) not in self._variables:
            return self._last_version((namespace, name), self._last_said((namespace, name)))
        return self._node((namespace, name))

    def _last_version(self, name: _Name, said: list[Said]) -> _Name:
        versions = [one.dataset_version for one in said if one.dataset_version and self._edges(one.edge_set)]
        return self._version(name[1], versions[-1]) if versions else self._node(name)

    def _version(self, variable: str, version: str) -> _Name:
        name = FRAMES, f"{variable}@{version}"
        self._variables[name] = FRAMES, variable
        return name

    def _node(self, name: _Name) -> _Name:
        if name not in self._nodes:
            row = node_row(self._index, *name)
            self._nodes[name] = name if row is None else (row[0], row[1])
        return self._nodes[name]

    def _names(self, dataset: _Name) -> list[_Name]:
        if dataset in self._variables:
            return [self._variables[dataset]]
        return self._neighbours.names_of(dataset)

    def _renamed(self, dataset: _Name, column: str | None, *, is_forward: bool) -> Iterator[ColumnStep]:
        for old, new in self._renames.get(dataset, ()):
            if old != new and dataset == (old if is_forward else new):
                other = Column(*(new if is_forward else old), column)
                yield ColumnStep(self._number(other), Transformation("DIRECT", RENAMED), None)

    def _chain(self, dataset: _Name) -> set[_Name]:
        """All names that a dataset had, one after the other."""
        found, pending = {dataset}, [dataset]
        while pending:
            for pair in self._renames.get(pending.pop(), ()):
                pending += set(pair) - found
                found |= set(pair)
        return found

    @cached_property
    def _renames(self) -> dict[_Name, set[tuple[_Name, _Name]]]:
        found: dict[_Name, set[tuple[_Name, _Name]]] = {}
        for old, new, _ in self._index.all_renames():
            pair = self._node(_name(old)), self._node(_name(new))
            for end in pair:
                found.setdefault(end, set()).add(pair)
        return found


def _name(key: str) -> _Name:
    _, namespace, name = key.split(BETWEEN_PARTS, 2)
    return namespace, name
