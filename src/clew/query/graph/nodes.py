"""What stands in the graph: jobs, datasets and columns by their names, and how each is written as one text."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from clew.index.keys import BETWEEN_PARTS

NodeKind = Literal["dataset", "job"]


class Node(Struct, frozen=True, order=True):
    """A job or a dataset."""

    kind: NodeKind
    namespace: str
    name: str

    @property
    def id(self) -> str:
        """As Marquez writes it: `dataset:namespace:name`."""
        return f"{self.kind}:{self.namespace}:{self.name}"


class Column(Struct, frozen=True, order=True):
    """A column of a dataset; without a name, the dataset as a whole."""

    namespace: str
    dataset: str
    column: str | None = None

    @property
    def id(self) -> str:
        """As Marquez writes it: `datasetField:namespace:dataset:column`."""
        if self.column is None:
            return f"dataset:{self.namespace}:{self.dataset}"
        return f"datasetField:{self.namespace}:{self.dataset}:{self.column}"


def key_of(kind: str, namespace: str, name: str) -> str:
    """A job or a dataset as one text."""
    return f"{kind}{BETWEEN_PARTS}{namespace}{BETWEEN_PARTS}{name}"


def node_of(key: str) -> Node:
    """The job or dataset of a key."""
    kind, namespace, name = key.split(BETWEEN_PARTS, 2)
    return Node("job" if kind == "job" else "dataset", namespace, name)


def column_key(namespace: str, dataset: str, column: str | None) -> str:
    """A column as one text. Those of one dataset stand together, the dataset as a whole before them."""
    return f"{namespace}{BETWEEN_PARTS}{dataset}{BETWEEN_PARTS}{column or ''}"


def column_of(key: str) -> Column:
    """The column of a key."""
    namespace, dataset, column = key.split(BETWEEN_PARTS, 2)
    return Column(namespace, dataset, column or None)
