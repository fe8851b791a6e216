"""Graph of columns: cached arrays, or lazy reads, also as of a time."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from msgspec import Struct

from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.index.encoding import KEY_SEPARATOR, entity_key
from clew.index.queries.lineage import (
    NOW,
    LatestAssertion,
    all_latest_assertions,
    latest_assertions,
)
from clew.index.queries.reader import IndexReader
from clew.index.queries.records import AssertedEdge
from clew.query.graph.job_graph import LookupBudget
from clew.query.graph.nodes import (
    ArrayGraph,
    Column,
    Numbers,
    StringTable,
    build_adjacency,
    column_key,
    parse_column_key,
)
from clew.query.model import Transformation, to_edge_type

_Name = tuple[str, str]
RENAME_SUBTYPE = "RENAME"
# The key of a dataset-level node ends with the separator that a column name would follow.
_DATASET_KEY_END = ord(KEY_SEPARATOR)


class AdjacentColumn(Struct, frozen=True):
    """An edge seen from one of its ends: the other end, the transformation, and the job.

    `origin` identifies what asserted the edge, if the graph knows it. `via`: the edges over hidden columns that this
    edge stands for, nearest first.
    """

    end: int
    transformation: Transformation
    job: _Name | None
    origin: Any = None
    via: tuple[AdjacentColumn, ...] = ()


@dataclass(frozen=True)
class ColumnGraph(ArrayGraph):
    """All columns with lineage and their edges, one per job and transformation."""

    jobs: StringTable
    transformations: tuple[Transformation, ...]
    dataset_node_of: Numbers
    job_of: Numbers
    transformation_of: Numbers
    aliases: dict[_Name, _Name]

    def find(self, column: Column) -> int | None:
        """Return the number of a column; None if it has no lineage."""
        namespace, dataset = self.aliases.get((column.namespace, column.dataset), (column.namespace, column.dataset))
        return self.names.find(column_key(namespace, dataset, column.column))

    def column(self, number: int) -> Column:
        """Return the column with a number."""
        return parse_column_key(self.names[number])

    def columns_of(self, namespace: str, dataset: str) -> range:
        """Return the numbers of all columns of a dataset, and of its dataset-level node."""
        return self.names.prefix_range(column_key(*self.aliases.get((namespace, dataset), (namespace, dataset)), None))

    def is_dataset_level(self, number: int) -> bool:
        """Check whether a node is dataset-level."""
        return self.dataset_node_of[number] == number and self.names.last_byte(number) == _DATASET_KEY_END

    def is_frame(self, number: int) -> bool:
        """Check whether a node belongs to an in-memory DataFrame."""
        return number in self._frames

    @cached_property
    def _frames(self) -> range:
        return self.names.prefix_range(f"{NOTEBOOK_NAMESPACE}{KEY_SEPARATOR}")

    def adjacent_columns(self, number: int, *, is_forward: bool) -> Iterator[AdjacentColumn]:
        """Yield the edges from a column (`is_forward`) or into it, including those of its dataset-level node."""
        adjacency = self.forward if is_forward else self.backward
        for node in self._nodes_with_edges(number, is_forward=is_forward):
            for end, edge in zip(adjacency.ends_of(node), adjacency.edges_of(node), strict=True):
                job = self.job_of[edge]
                job_name = None if job == len(self.jobs) else _parse_job(self.jobs[job])
                yield AdjacentColumn(end, self.transformations[self.transformation_of[edge]], job_name)

    def _nodes_with_edges(self, number: int, *, is_forward: bool) -> Iterable[int]:
        dataset_node = self.dataset_node_of[number]
        if dataset_node != number:
            return (number, dataset_node)
        if not is_forward or not self.is_dataset_level(number):
            return (number,)
        column = self.column(number)
        return self.columns_of(column.namespace, column.dataset)


def build_column_graph(index: IndexReader) -> ColumnGraph:
    """Build the graph of the latest lineage assertions of each job on each dataset."""
    builder = _GraphBuilder({_parse_name(name): _parse_name(node) for name, node in index.canonical_names()})
    frame_assertions = []
    for assertion in all_latest_assertions(index):
        if assertion.dataset_namespace == NOTEBOOK_NAMESPACE:
            frame_assertions.append(assertion)
        else:
            builder.add_assertion(index, assertion)
    for assertion in sorted(frame_assertions, key=assertion_order):
        builder.add_assertion(index, assertion)
    builder.add_renames([(_parse_name(old), _parse_name(new)) for old, new, _ in index.all_renames()])
    return builder.build()


def assertion_order(assertion: LatestAssertion) -> tuple[Any, ...]:
    """Sort key of assertions: those of notebooks, then those on frames come last, by time."""
    is_frame, is_in_session = assertion.dataset_namespace == NOTEBOOK_NAMESPACE, assertion.session_id is not None
    time_key = (assertion.event_time, assertion.dataset_version) if is_frame else ()
    return (
        is_frame,
        *time_key,
        is_in_session,
        assertion.job_namespace or "",
        assertion.job_name or "",
        assertion.dataset_namespace,
        assertion.dataset_name,
        assertion.dataset_version,
    )


def to_transformation(edge: AssertedEdge) -> Transformation:
    """Convert an asserted edge to its transformation."""
    masking = None if edge.masking is None else bool(edge.masking)
    return Transformation(to_edge_type(edge.type), edge.subtype, edge.description, masking)


def _parse_name(key: str) -> _Name:
    _, namespace, name = key.split(KEY_SEPARATOR, 2)
    return namespace, name


def _parse_job(key: str) -> _Name:
    namespace, name = key.split(KEY_SEPARATOR, 1)
    return namespace, name


class _GraphBuilder:
    """Collects edges between names; columns and jobs are numbered at the end."""

    def __init__(self, aliases: dict[_Name, _Name]) -> None:
        self._aliases = aliases
        self._columns: dict[str, int] = {}
        self._jobs: dict[str, int] = {}
        self._transformations: dict[Transformation, int] = {}
        self._starts, self._ends = array("I"), array("I")
        self._job_numbers, self._transformation_numbers = array("i"), array("I")

    def add_assertion(self, index: IndexReader, assertion: LatestAssertion) -> None:
        """Add the edges of an assertion; it has none if the lineage was removed."""
        edges = list(index.asserted_edges([assertion.edge_set_id]))
        sources = [self._source(index, assertion, edge) for edge in edges]
        dataset = assertion.dataset_namespace, assertion.dataset_name
        # Each version of a frame variable is a dataset; the bare name is an alias of the latest version.
        if edges and assertion.dataset_namespace == NOTEBOOK_NAMESPACE and assertion.dataset_version:
            self._aliases[dataset] = NOTEBOOK_NAMESPACE, f"{assertion.dataset_name}@{assertion.dataset_version}"
        target = self._canonical(*dataset)
        job = -1
        if edges and assertion.job_name is not None:
            job = self._jobs.setdefault(entity_key(assertion.job_namespace, assertion.job_name), len(self._jobs))
        for source, edge in zip(sources, edges, strict=True):
            self._add((*source, edge.source_column), (*target, edge.column), to_transformation(edge), job)

    def _source(self, index: IndexReader, assertion: LatestAssertion, edge: AssertedEdge) -> _Name:
        is_frame = edge.source_namespace == NOTEBOOK_NAMESPACE and assertion.run_uuid is not None
        version = (
            index.input_version(assertion.run_uuid or "", NOTEBOOK_NAMESPACE, edge.source_name) if is_frame else ""
        )
        if version:
            return NOTEBOOK_NAMESPACE, f"{edge.source_name}@{version}"
        return self._canonical(edge.source_namespace, edge.source_name)

    def add_renames(self, renames: Iterable[tuple[_Name, _Name]]) -> None:
        """Add an edge from each column of a renamed dataset to the column of the same name under the new name."""
        pairs = {(self._canonical(*old), self._canonical(*new)) for old, new in renames}
        columns: dict[_Name, set[str | None]] = {name: set() for pair in pairs for name in pair}
        for key in self._columns:
            column = parse_column_key(key)
            if (column.namespace, column.dataset) in columns:
                columns[column.namespace, column.dataset].add(column.column)
        # Renames can chain: propagate the columns until all names have the same set.
        is_stable = False
        while not is_stable:
            is_stable = True
            for old, new in pairs:
                if columns[old] != columns[new]:
                    columns[old] = columns[new] = columns[old] | columns[new]
                    is_stable = False
        transformation = Transformation("DIRECT", RENAME_SUBTYPE)
        for old, new in pairs - {(name, name) for name in columns}:
            for name in columns[old]:
                self._add((*old, name), (*new, name), transformation, -1)

    def build(self) -> ColumnGraph:
        names, column_numbers = StringTable.from_mapping(self._columns)
        jobs, job_numbers = StringTable.from_mapping(self._jobs)
        starts, ends = (array("I", map(column_numbers.__getitem__, numbers)) for numbers in (self._starts, self._ends))
        # Edges without a job have job number -1, which maps to the number after the last.
        job_of = [*job_numbers, len(jobs)]
        self._columns.clear()
        return ColumnGraph(
            names=names,
            jobs=jobs,
            transformations=tuple(self._transformations),
            dataset_node_of=_dataset_nodes(names),
            forward=build_adjacency(len(names), starts, ends),
            backward=build_adjacency(len(names), ends, starts),
            job_of=array("I", map(job_of.__getitem__, self._job_numbers)),
            transformation_of=self._transformation_numbers,
            aliases=self._aliases,
        )

    def _canonical(self, namespace: str, name: str) -> _Name:
        return self._aliases.get((namespace, name), (namespace, name))

    def _add(
        self,
        source: tuple[str, str, str | None],
        target: tuple[str, str, str | None],
        transformation: Transformation,
        job: int,
    ) -> None:
        columns = self._columns
        start = columns.setdefault(column_key(*source), len(columns))
        end = columns.setdefault(column_key(*target), len(columns))
        self._starts.append(start)
        self._ends.append(end)
        self._job_numbers.append(job)
        self._transformation_numbers.append(
            self._transformations.setdefault(transformation, len(self._transformations))
        )


def _dataset_nodes(names: StringTable) -> array[int]:
    """Return the dataset-level node of each column, or the column itself if there is none."""
    dataset_nodes = array("I", range(len(names)))
    current = None
    for number in range(len(names)):
        column = parse_column_key(names[number])
        if column.column is None:
            current = number, (column.namespace, column.dataset)
        elif current is not None and current[1] == (column.namespace, column.dataset):
            dataset_nodes[number] = current[0]
    return dataset_nodes


_EdgesByColumn = dict[str | None, list[AdjacentColumn]]


class LazyColumnGraph:
    """Lazy counterpart of `ColumnGraph`, which loads the edges of a dataset on first use.

    `as_of`, in epoch microseconds: only assertions and renames by then.
    """

    def __init__(self, index: IndexReader, as_of: int | None = None, *, budget: LookupBudget | None = None) -> None:
        self._index = index
        self._before = NOW if as_of is None else (as_of + 1, 0)
        self._budget = budget or LookupBudget(sys.maxsize)
        self._numbers: dict[Column, int] = {}
        self._columns: list[Column] = []
        self._canonical_names: dict[_Name, _Name] = {}
        self._assertions: dict[_Name, list[LatestAssertion]] = {}
        self._edge_sets: dict[str, list[AssertedEdge]] = {}
        # The variable of each frame version.
        self._variables: dict[_Name, _Name] = {}
        self._adjacent: dict[tuple[_Name, bool], _EdgesByColumn] = {}

    def find(self, column: Column) -> int | None:
        """Return the number of a column; None if it has no lineage."""
        dataset = self._resolve(column.namespace, column.dataset)
        return (
            self._number(Column(*dataset, column.column))
            if column.column in self._columns_with_lineage(dataset)
            else None
        )

    def column(self, number: int) -> Column:
        """Return the column with a number."""
        return self._columns[number]

    def columns_of(self, namespace: str, dataset: str) -> list[int]:
        """Return the numbers of all columns of a dataset, and of its dataset-level node."""
        resolved = self._resolve(namespace, dataset)
        return [self._number(Column(*resolved, name)) for name in self._sorted_columns(resolved)]

    def is_frame(self, number: int) -> bool:
        """Check whether a node belongs to an in-memory DataFrame."""
        return self._columns[number].namespace == NOTEBOOK_NAMESPACE

    def adjacent_columns(self, number: int, *, is_forward: bool) -> Iterator[AdjacentColumn]:
        """Yield the edges from a column (`is_forward`) or into it, including those of its dataset-level node."""
        column = self._columns[number]
        dataset = column.namespace, column.dataset
        names: Iterable[str | None] = dict.fromkeys((column.column, None))
        if is_forward and column.column is None:
            names = self._sorted_columns(dataset)
        for name in names:
            adjacent = [*self._asserted_edges(dataset, is_forward=is_forward).get(name, ())]
            if dataset in self._renames and name in self._columns_with_lineage(dataset):
                adjacent += self._rename_edges(dataset, name, is_forward=is_forward)
            yield from sorted(adjacent, key=lambda edge: self._sort_key(edge.end))

    def _sort_key(self, number: int) -> bytes:
        column = self._columns[number]
        return column_key(column.namespace, column.dataset, column.column).encode()

    def _number(self, column: Column) -> int:
        number = self._numbers.setdefault(column, len(self._columns))
        if number == len(self._columns):
            self._columns.append(column)
        return number

    def _sorted_columns(self, dataset: _Name) -> list[str | None]:
        return sorted(self._columns_with_lineage(dataset), key=lambda name: (name or "").encode())

    def _columns_with_lineage(self, dataset: _Name) -> set[str | None]:
        """Return the columns with lineage, under all current and former names of the dataset."""
        names = self._rename_chain(dataset)
        return {
            column
            for name in names
            for is_forward in (True, False)
            for column in self._asserted_edges(name, is_forward=is_forward)
        }

    def _asserted_edges(self, dataset: _Name, *, is_forward: bool) -> _EdgesByColumn:
        """Return the asserted edges of a dataset by column."""
        key = dataset, is_forward
        if key not in self._adjacent:
            self._budget.spend()
            adjacent = self._adjacent[key] = {}
            assertions = self._assertions_from(dataset) if is_forward else self._assertions_into(dataset)
            for assertion in sorted(assertions, key=assertion_order):
                target = self._target(assertion)
                for edge in self._edges(assertion.edge_set_id):
                    ends = Column(*self._source(assertion, edge), edge.source_column), Column(*target, edge.column)
                    own, other = ends if is_forward else ends[::-1]
                    if (own.namespace, own.dataset) == dataset:
                        neighbour = AdjacentColumn(
                            self._number(other), to_transformation(edge), assertion.job, assertion.run_uuid
                        )
                        adjacent.setdefault(own.column, []).append(neighbour)
        return self._adjacent[key]

    def _assertions_into(self, dataset: _Name) -> Iterator[LatestAssertion]:
        name = self._variables.get(dataset, dataset)
        yield from (assertion for assertion in self._latest_assertions(name) if self._target(assertion) == dataset)

    def _assertions_from(self, dataset: _Name) -> Iterator[LatestAssertion]:
        names = self._aliases(self._variables.get(dataset, dataset))
        targets = {self._canonical(target) for name in names for target in self._index.targets_of(name)}
        for target in targets:
            yield from self._latest_assertions(target)

    def _latest_assertions(self, dataset: _Name) -> list[LatestAssertion]:
        """Return the latest assertion of each job on a dataset."""
        if dataset not in self._assertions:
            self._budget.spend()
            assertions = latest_assertions(self._index, self._aliases(dataset), self._before)
            self._assertions[dataset] = sorted(assertions, key=assertion_order)
        return self._assertions[dataset]

    def _edges(self, edge_set_id: str) -> list[AssertedEdge]:
        if edge_set_id not in self._edge_sets:
            self._edge_sets[edge_set_id] = list(self._index.asserted_edges([edge_set_id]))
        return self._edge_sets[edge_set_id]

    def _target(self, assertion: LatestAssertion) -> _Name:
        return self._version_at(
            (assertion.dataset_namespace, assertion.dataset_name), assertion.dataset_version, assertion
        )

    def _source(self, assertion: LatestAssertion, edge: AssertedEdge) -> _Name:
        name, version = (edge.source_namespace, edge.source_name), ""
        if edge.source_namespace == NOTEBOOK_NAMESPACE and assertion.run_uuid is not None:
            version = self._index.input_version(assertion.run_uuid, *name)
        return self._version_at(name, version, assertion)

    def _version_at(self, name: _Name, version: str, assertion: LatestAssertion) -> _Name:
        """Resolve a name in an assertion; a frame without a version is the latest one before the assertion."""
        if name[0] != NOTEBOOK_NAMESPACE:
            return self._canonical(name)
        if version:
            return self._frame_version(name[1], version)
        order = assertion_order(assertion)
        return self._latest_version(
            name, [other for other in self._latest_assertions(name) if assertion_order(other) < order]
        )

    def _resolve(self, namespace: str, name: str) -> _Name:
        """Return the canonical name of a dataset; for a variable, its latest frame."""
        variable, _, version = name.rpartition("@")
        if namespace == NOTEBOOK_NAMESPACE and version.isdecimal():
            return self._frame_version(variable, version)
        if namespace == NOTEBOOK_NAMESPACE and (namespace, name) not in self._variables:
            return self._latest_version((namespace, name), self._latest_assertions((namespace, name)))
        return self._canonical((namespace, name))

    def _latest_version(self, name: _Name, assertions: list[LatestAssertion]) -> _Name:
        versions = [
            assertion.dataset_version
            for assertion in assertions
            if assertion.dataset_version and self._edges(assertion.edge_set_id)
        ]
        return self._frame_version(name[1], versions[-1]) if versions else self._canonical(name)

    def _frame_version(self, variable: str, version: str) -> _Name:
        name = NOTEBOOK_NAMESPACE, f"{variable}@{version}"
        self._variables[name] = NOTEBOOK_NAMESPACE, variable
        return name

    def _canonical(self, name: _Name) -> _Name:
        if name not in self._canonical_names:
            self._canonical_names[name] = self._index.find_canonical_name(name) or name
        return self._canonical_names[name]

    def _aliases(self, dataset: _Name) -> tuple[_Name, ...]:
        return (dataset,) if dataset[0] == NOTEBOOK_NAMESPACE else self._index.aliases_of(dataset)

    def _rename_edges(self, dataset: _Name, column: str | None, *, is_forward: bool) -> Iterator[AdjacentColumn]:
        for old, new in self._renames.get(dataset, ()):
            if old != new and dataset == (old if is_forward else new):
                other = Column(*(new if is_forward else old), column)
                yield AdjacentColumn(self._number(other), Transformation("DIRECT", RENAME_SUBTYPE), None)

    def _rename_chain(self, dataset: _Name) -> set[_Name]:
        """Return all names that a dataset has had."""
        names, pending = {dataset}, [dataset]
        while pending:
            for pair in self._renames.get(pending.pop(), ()):
                pending += set(pair) - names
                names |= set(pair)
        return names

    @cached_property
    def _renames(self) -> dict[_Name, set[tuple[_Name, _Name]]]:
        renames: dict[_Name, set[tuple[_Name, _Name]]] = {}
        for old, new, renamed_at in self._index.all_renames():
            pair = self._canonical(_parse_name(old)), self._canonical(_parse_name(new))
            for end in pair if renamed_at < self._before[0] else ():
                renames.setdefault(end, set()).add(pair)
        return renames
