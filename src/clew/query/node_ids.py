"""From the text that names a node to the node: `dataset:namespace:name`, and namespaces and names may hold colons."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from clew.errors import MalformedError
from clew.index.reader import IndexReader
from clew.query.graph.nodes import Column, Node
from clew.query.model import Dataset
from clew.query.names import UnknownNameError
from clew.query.schemas import column_names

DATASET: Final = "dataset"
JOB: Final = "job"
FIELD: Final = "datasetField"
RUN: Final = "run"
_FORMS = "dataset:NAMESPACE:NAME, job:NAMESPACE:NAME, datasetField:NAMESPACE:DATASET:FIELD or run:UUID"
# In a namespace such as postgres://host:5432 these colons part nothing.
_WITHIN = re.compile(r":(?=//|\d)")
_MOST_NAMES = 2_000
_MOST_SPLITS = 64


class MalformedNodeError(MalformedError):
    """A text that names no node, whatever is known."""

    @classmethod
    def of(cls, text: str) -> MalformedNodeError:
        """Say what it should look like."""
        return cls(f"{text[:200]!r} is no id of a node.", hint=f"Write {_FORMS}.")


def kind_of(text: str) -> str:
    """What kind of node a text names."""
    kind, mark, rest = text.partition(":")
    if kind not in {DATASET, JOB, FIELD, RUN} or not mark or not rest:
        raise MalformedNodeError.of(text)
    return kind


def find_node(index: IndexReader, text: str) -> Node:
    """The job or dataset that a text names."""
    kind = kind_of(text)
    if kind not in {DATASET, JOB}:
        raise MalformedNodeError.of(text)
    pairs = list(_pairs(_without_version(text).partition(":")[2]))
    if not pairs:
        raise MalformedNodeError.of(text)
    has = index.has_job if kind == JOB else index.has_dataset
    for namespace, name in pairs:
        if has(namespace, name):
            return Node(kind, namespace, name)  # type: ignore[arg-type]
    known = index.some_jobs(_MOST_NAMES) if kind == JOB else index.some_datasets(_MOST_NAMES)
    raise UnknownNameError.of(kind, text.partition(":")[2], [f"{namespace}:{name}" for namespace, name in known])


def find_field(index: IndexReader, text: str) -> Column:
    """The column that a text names; `dataset:` names the dataset as a whole."""
    kind = kind_of(text)
    if kind == DATASET:
        node = find_node(index, text)
        return Column(node.namespace, node.name)
    if kind != FIELD:
        raise MalformedNodeError.of(text)
    rest = _without_version(text).partition(":")[2]
    found: Node | None = None
    for cut in _places(rest):
        for namespace, name in _pairs(rest[:cut]):
            if rest[cut + 1 :] and index.has_dataset(namespace, name):
                found = found or Node("dataset", namespace, name)
                if rest[cut + 1 :] in column_names(index, Dataset(namespace, name)):
                    return Column(namespace, name, rest[cut + 1 :])
    if found is None:
        known = [f"{namespace}:{name}" for namespace, name in index.some_datasets(_MOST_NAMES)]
        raise UnknownNameError.of("dataset with such a field", rest, known)
    field = rest.removeprefix(f"{found.namespace}:{found.name}:")
    known = column_names(index, Dataset(found.namespace, found.name))
    raise UnknownNameError.of(f"column of {found.name}", field, known)


def _without_version(text: str) -> str:
    """A node id may end in the version that is meant: `#` and a UUID."""
    return re.sub(r"#[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$", "", text)


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """The ways to cut a text into namespace and name, the likeliest first."""
    for place in _places(text):
        if text[:place] and text[place + 1 :]:
            yield text[:place], text[place + 1 :]


def _places(text: str) -> list[int]:
    within = {found.start() for found in _WITHIN.finditer(text)}
    places = [place for place, character in enumerate(text) if character == ":"][:_MOST_SPLITS]
    return sorted(places, key=lambda place: (place in within, place))
