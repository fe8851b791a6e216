"""Resolve node ids such as `dataset:namespace:name`; namespaces and names may contain colons."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from clew.errors import MalformedError
from clew.index.reader import IndexReader
from clew.query.graph.nodes import Column, Node
from clew.query.model import DatasetName
from clew.query.names import UnknownNameError
from clew.query.schemas import column_names

DATASET: Final = "dataset"
JOB: Final = "job"
FIELD: Final = "datasetField"
RUN: Final = "run"
_FORMS = "dataset:NAMESPACE:NAME, job:NAMESPACE:NAME, datasetField:NAMESPACE:DATASET:FIELD or run:UUID"
# In a namespace such as postgres://host:5432 these colons are not separators.
_INNER_COLON = re.compile(r":(?=//|\d)")
_MAX_NAMES = 2_000
_MAX_SPLITS = 64


class MalformedNodeIdError(MalformedError):
    """The text is not a node id."""

    @classmethod
    def of(cls, text: str) -> MalformedNodeIdError:
        """Build the error with the valid forms."""
        return cls(f"{text[:200]!r} is not a node id.", hint=f"Valid forms: {_FORMS}.")


def node_kind(text: str) -> str:
    """Return the kind prefix of a node id."""
    kind, separator, rest = text.partition(":")
    if kind not in {DATASET, JOB, FIELD, RUN} or not separator or not rest:
        raise MalformedNodeIdError.of(text)
    return kind


def resolve_node_id(index: IndexReader, text: str) -> Node:
    """Find the job or dataset with a node id."""
    kind = node_kind(text)
    if kind not in {DATASET, JOB}:
        raise MalformedNodeIdError.of(text)
    pairs = list(_namespace_name_pairs(_without_version(text).partition(":")[2]))
    if not pairs:
        raise MalformedNodeIdError.of(text)
    exists = index.has_job if kind == JOB else index.has_dataset
    for namespace, name in pairs:
        if exists(namespace, name):
            return Node(kind, namespace, name)  # type: ignore[arg-type]
    existing = index.recent_jobs(_MAX_NAMES) if kind == JOB else index.recent_datasets(_MAX_NAMES)
    raise UnknownNameError.of(kind, text.partition(":")[2], [f"{namespace}:{name}" for namespace, name in existing])


def resolve_field_id(index: IndexReader, text: str) -> Column:
    """Find the column with a node id; a `dataset:` id is the whole dataset."""
    kind = node_kind(text)
    if kind == DATASET:
        node = resolve_node_id(index, text)
        return Column(node.namespace, node.name)
    if kind != FIELD:
        raise MalformedNodeIdError.of(text)
    rest = _without_version(text).partition(":")[2]
    match: Node | None = None
    for position in _split_positions(rest):
        for namespace, name in _namespace_name_pairs(rest[:position]):
            if rest[position + 1 :] and index.has_dataset(namespace, name):
                match = match or Node("dataset", namespace, name)
                if rest[position + 1 :] in column_names(index, DatasetName(namespace, name)):
                    return Column(namespace, name, rest[position + 1 :])
    if match is None:
        existing = [f"{namespace}:{name}" for namespace, name in index.recent_datasets(_MAX_NAMES)]
        raise UnknownNameError.of("dataset with such a field", rest, existing)
    field = rest.removeprefix(f"{match.namespace}:{match.name}:")
    existing = column_names(index, DatasetName(match.namespace, match.name))
    raise UnknownNameError.of(f"column of {match.name}", field, existing)


def _without_version(text: str) -> str:
    """Strip a version suffix (`#` and a UUID) from a node id."""
    return re.sub(r"#[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$", "", text)


def _namespace_name_pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield the possible splits into namespace and name, most likely first."""
    for position in _split_positions(text):
        if text[:position] and text[position + 1 :]:
            yield text[:position], text[position + 1 :]


def _split_positions(text: str) -> list[int]:
    inner = {match.start() for match in _INNER_COLON.finditer(text)}
    positions = [position for position, character in enumerate(text) if character == ":"][:_MAX_SPLITS]
    return sorted(positions, key=lambda position: (position in inner, position))
