"""Lazy column graph as of a time. Such queries are rare, so there is no cached graph for them."""

from __future__ import annotations

from collections.abc import Iterator

from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.index.past import AsOfColumnEdges, AsOfEdge
from clew.index.reader import IndexReader
from clew.query.graph.columns import RENAME_SUBTYPE, AdjacentColumn, Transformation
from clew.query.graph.nodes import Column


class AsOfColumnGraph:
    """Column graph as of a time, read from the index as it is traversed."""

    def __init__(self, index: IndexReader, as_of: int) -> None:
        self._edges = AsOfColumnEdges(index, as_of, NOTEBOOK_NAMESPACE)
        self._numbers: dict[Column, int] = {}
        self._columns: list[Column] = []

    def find(self, column: Column) -> int:
        """Return the number of a column, by any name of its dataset."""
        if column not in self._numbers:
            node = Column(*self._edges.canonical_name(column.namespace, column.dataset), column.column)
            self._numbers[column] = self._numbers.setdefault(node, len(self._columns))
            if self._numbers[node] == len(self._columns):
                self._columns.append(node)
        return self._numbers[column]

    def find_column_or_dataset(self, column: Column) -> int:
        """Return the number of a column; every column has one."""
        return self.find(column)

    def column(self, number: int) -> Column:
        """Return the column with a number."""
        return self._columns[number]

    def columns_of(self, namespace: str, dataset: str) -> list[int]:
        """Return the dataset-level node; its edges include those of all columns."""
        return [self.find(Column(namespace, dataset))]

    def is_dataset_level(self, number: int) -> bool:
        """Check whether a node is dataset-level."""
        return self._columns[number].column is None

    def is_frame(self, number: int) -> bool:
        """Check whether a node belongs to an in-memory DataFrame."""
        return self._columns[number].namespace == NOTEBOOK_NAMESPACE

    def adjacent_columns(self, number: int, *, is_forward: bool) -> Iterator[AdjacentColumn]:
        """Yield the edges from a column (`is_forward`) or into it."""
        column = self._columns[number]
        dataset = column.namespace, column.dataset
        for edge in self._edges.edges(*dataset, column.column, is_forward=is_forward):
            yield AdjacentColumn(self.find(_other_end(edge, is_forward=is_forward)), _transformation(edge), edge.job)
        for name in self._edges.renames(*dataset, is_forward=is_forward):
            yield AdjacentColumn(
                self.find(Column(*name, column.column)), Transformation("DIRECT", RENAME_SUBTYPE), None
            )


def _other_end(edge: AsOfEdge, *, is_forward: bool) -> Column:
    return Column(*(edge.target if is_forward else edge.source))


def _transformation(edge: AsOfEdge) -> Transformation:
    masking = None if edge.masking is None else bool(edge.masking)
    return Transformation("INDIRECT" if edge.type == "INDIRECT" else "DIRECT", edge.subtype, edge.description, masking)
