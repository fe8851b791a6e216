"""Nodes of the graphs (jobs, datasets, columns) and their text keys."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from clew.index.keys import KEY_SEPARATOR

NodeKind = Literal["dataset", "job"]


class Node(Struct, frozen=True, order=True):
    """A job or a dataset."""

    kind: NodeKind
    namespace: str
    name: str

    @property
    def id(self) -> str:
        """Marquez node id: `dataset:namespace:name`."""
        return f"{self.kind}:{self.namespace}:{self.name}"


class Column(Struct, frozen=True, order=True):
    """A column of a dataset; without a column name, the dataset-level node."""

    namespace: str
    dataset: str
    column: str | None = None

    @property
    def id(self) -> str:
        """Marquez node id: `datasetField:namespace:dataset:column`."""
        if self.column is None:
            return f"dataset:{self.namespace}:{self.dataset}"
        return f"datasetField:{self.namespace}:{self.dataset}:{self.column}"


def node_key(kind: str, namespace: str, name: str) -> str:
    """Return the key of a job or a dataset."""
    return f"{kind}{KEY_SEPARATOR}{namespace}{KEY_SEPARATOR}{name}"


def parse_node_key(key: str) -> Node:
    """Parse the key of a job or a dataset."""
    kind, namespace, name = key.split(KEY_SEPARATOR, 2)
    return Node("job" if kind == "job" else "dataset", namespace, name)


def column_key(namespace: str, dataset: str, column: str | None) -> str:
    """Return the key of a column. Keys of one dataset sort together, its dataset-level node first."""
    return f"{namespace}{KEY_SEPARATOR}{dataset}{KEY_SEPARATOR}{column or ''}"


def parse_column_key(key: str) -> Column:
    """Parse the key of a column."""
    namespace, dataset, column = key.split(KEY_SEPARATOR, 2)
    return Column(namespace, dataset, column or None)
