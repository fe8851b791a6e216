"""Columns as they were said to be made up to some time: asked of the index step by step, since few ask for the past."""

from __future__ import annotations

from collections.abc import Iterator

from clew.events.notebook import FRAMES
from clew.index.past import PastEdge, PastIndex
from clew.index.reader import IndexReader
from clew.query.graph.columns import RENAMED, ColumnStep, Transformation
from clew.query.graph.nodes import Column


class PastColumns:
    """A graph of columns that is found as it is walked."""

    def __init__(self, index: IndexReader, as_of: int) -> None:
        self._past = PastIndex(index, as_of, FRAMES)
        self._numbers: dict[Column, int] = {}
        self._columns: list[Column] = []

    def find(self, column: Column) -> int:
        """The number of a column, whichever of its dataset's names is used."""
        if column not in self._numbers:
            node = Column(*self._past.node(column.namespace, column.dataset), column.column)
            self._numbers[column] = self._numbers.setdefault(node, len(self._columns))
            if self._numbers[node] == len(self._columns):
                self._columns.append(node)
        return self._numbers[column]

    def find_most(self, column: Column) -> int:
        """The number of a column: there is one for each."""
        return self.find(column)

    def column(self, number: int) -> Column:
        """The column of a number."""
        return self._columns[number]

    def columns_of(self, namespace: str, dataset: str) -> list[int]:
        """The number of the dataset as a whole: what is asked of it is asked of all its columns."""
        return [self.find(Column(namespace, dataset))]

    def is_whole(self, number: int) -> bool:
        """Whether a number is that of a dataset as a whole."""
        return self._columns[number].column is None

    def is_frame(self, number: int) -> bool:
        """Whether a number is that of a column that was only ever in memory."""
        return self._columns[number].namespace == FRAMES

    def steps(self, number: int, *, is_forward: bool) -> Iterator[ColumnStep]:
        """The edges from a column, or into it."""
        column = self._columns[number]
        dataset = column.namespace, column.dataset
        for edge in self._past.edges(*dataset, column.column, is_forward=is_forward):
            yield ColumnStep(self.find(_end(edge, is_forward=is_forward)), _how(edge), edge.job)
        for name in self._past.renamed(*dataset, is_forward=is_forward):
            yield ColumnStep(self.find(Column(*name, column.column)), Transformation("DIRECT", RENAMED), None)


def _end(edge: PastEdge, *, is_forward: bool) -> Column:
    return Column(*(edge.target if is_forward else edge.source))


def _how(edge: PastEdge) -> Transformation:
    masking = None if edge.masking is None else bool(edge.masking)
    return Transformation("INDIRECT" if edge.type == "INDIRECT" else "DIRECT", edge.subtype, edge.description, masking)
