"""Lazy graph of columns: loads the latest assertions of a dataset as it is visited."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.index.entities import find_canonical_name
from clew.index.keys import KEY_SEPARATOR
from clew.index.neighbours import NeighbourQueries
from clew.index.reader import IndexReader
from clew.index.said import AssertedEdge, LatestAssertion
from clew.query.graph.columns import (
    RENAME_SUBTYPE,
    AdjacentColumn,
    Transformation,
    assertion_order,
    latest_session_only,
    to_transformation,
)
from clew.query.graph.far import LookupBudget
from clew.query.graph.nodes import Column, column_key

_Name = tuple[str, str]
_EdgesByColumn = dict[str | None, list[AdjacentColumn]]


class LazyColumnGraph:
    """Lazy counterpart of `ColumnGraph`, which loads the edges of a dataset on first use."""

    def __init__(self, index: IndexReader, budget: LookupBudget | None = None) -> None:
        self._index, self._neighbours = index, NeighbourQueries(index, NOTEBOOK_NAMESPACE)
        self._budget = budget or LookupBudget()
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

    def find_column_or_dataset(self, column: Column) -> int | None:
        """Return the number of a column, or of its dataset-level node; its edges apply to each column."""
        number = self.find(column)
        return self.find(Column(column.namespace, column.dataset)) if number is None else number

    def column(self, number: int) -> Column:
        """Return the column with a number."""
        return self._columns[number]

    def columns_of(self, namespace: str, dataset: str) -> list[int]:
        """Return the numbers of all columns of a dataset, and of its dataset-level node."""
        resolved = self._resolve(namespace, dataset)
        names = sorted(self._columns_with_lineage(resolved), key=lambda name: (name or "").encode())
        return [self._number(Column(*resolved, name)) for name in names]

    def is_dataset_level(self, number: int) -> bool:
        """Check whether a node is dataset-level."""
        return self._columns[number].column is None

    def is_frame(self, number: int) -> bool:
        """Check whether a node belongs to an in-memory DataFrame."""
        return self._columns[number].namespace == NOTEBOOK_NAMESPACE

    def adjacent_columns(self, number: int, *, is_forward: bool) -> Iterator[AdjacentColumn]:
        """Yield the edges from a column (`is_forward`) or into it, including those of its dataset-level node."""
        column = self._columns[number]
        dataset = column.namespace, column.dataset
        for name in dict.fromkeys((column.column, None)):
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
                job = None if assertion.job_name is None else (assertion.job_namespace or "", assertion.job_name)
                for edge in self._edges(assertion.edge_set_id):
                    ends = Column(*self._source(assertion, edge), edge.source_column), Column(*target, edge.column)
                    own, other = ends if is_forward else ends[::-1]
                    if (own.namespace, own.dataset) == dataset:
                        neighbour = AdjacentColumn(self._number(other), to_transformation(edge), job)
                        adjacent.setdefault(own.column, []).append(neighbour)
        return self._adjacent[key]

    def _assertions_into(self, dataset: _Name) -> Iterator[LatestAssertion]:
        for name in self._aliases(dataset):
            yield from (assertion for assertion in self._latest_assertions(name) if self._target(assertion) == dataset)

    def _assertions_from(self, dataset: _Name) -> Iterator[LatestAssertion]:
        targets = {target for name in self._aliases(dataset) for target in self._neighbours.downstream_of(name)}
        for target in targets:
            yield from self._latest_assertions(target)

    def _latest_assertions(self, name: _Name) -> list[LatestAssertion]:
        """Return the latest assertion of each job on one name of a dataset; for a frame, of its latest session."""
        if name not in self._assertions:
            self._budget.spend()
            assertions = self._neighbours.latest_assertions(name)
            self._assertions[name] = latest_session_only(assertions) if name[0] == NOTEBOOK_NAMESPACE else assertions
        return self._assertions[name]

    def _edges(self, edge_set_id: str) -> list[AssertedEdge]:
        if edge_set_id not in self._edge_sets:
            self._edge_sets[edge_set_id] = list(self._index.asserted_edges(edge_set_id))
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
            row = find_canonical_name(self._index, *name)
            self._canonical_names[name] = name if row is None else (row[0], row[1])
        return self._canonical_names[name]

    def _aliases(self, dataset: _Name) -> list[_Name]:
        if dataset in self._variables:
            return [self._variables[dataset]]
        return self._neighbours.aliases_of(dataset)

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
        for old, new, _ in self._index.all_renames():
            pair = self._canonical(_parse_name(old)), self._canonical(_parse_name(new))
            for end in pair:
                renames.setdefault(end, set()).add(pair)
        return renames


def _parse_name(key: str) -> _Name:
    _, namespace, name = key.split(KEY_SEPARATOR, 2)
    return namespace, name
