"""Parser of the `lineage` facet of jobs and datasets: explicit lineage, grouped by target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw

from clew.events.column_lineage import ColumnEdge
from clew.events.documents import decode_optional
from clew.events.facet_values import decode_facet, get_objects, get_str

LINEAGE_FACET: Final = "lineage"
# A job's facet without this key has no lineage.
ENTRIES_KEY: Final = '"entries"'
DATASET: Final = "DATASET"
JOB: Final = "JOB"

_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_DIRECT = "DIRECT"
# Transformation of a source that lists none: DIRECT, without a subtype.
_DEFAULT_EXPLICIT_TRANSFORMATIONS: list[dict[str, Any]] = [{}]


class NodeRef(NamedTuple):
    """Reference to a dataset or a job; a job without a name is the event's own job."""

    type: str
    namespace: str | None
    name: str | None


class LineageEntry(NamedTuple):
    """The lineage of one target; `body` is the entry's JSON."""

    target: NodeRef
    body: bytes


def parse_entries(facet: bytes) -> list[LineageEntry]:
    """Parse the entries of a job's facet that have a target and lineage."""
    members = decode_optional(Raw(facet), _decode_object) or {}
    bodies = decode_optional(members.get("entries"), _decode_list) or ()
    return [entry for body in bodies if (entry := _parse_entry(bytes(body)))]


def has_lineage(body: bytes) -> bool:
    """Return True if an entry, or the facet of a dataset, has lineage.

    Spec: `inputs: []` asserts that nothing is upstream; without inputs and fields there is no lineage.
    """
    value = decode_facet(body)
    return isinstance(value.get("inputs"), list) or bool(_fields(value))


def parse_explicit_edges(body: bytes) -> Iterator[ColumnEdge]:
    """Yield the edges from datasets of an entry or of a dataset's facet."""
    for column, source in _explicit_inputs(decode_facet(body)):
        node = _parse_node_ref(source)
        if node is not None and node.type == DATASET:
            yield from _explicit_source_edges(column, node, source)


def parse_sources(body: bytes) -> list[NodeRef]:
    """Parse the distinct sources of the target, sorted."""
    nodes = (_parse_node_ref(source) for _, source in _explicit_inputs(decode_facet(body)))
    return sorted({node for node in nodes if node is not None}, key=lambda node: tuple(map(str, node)))


def _parse_entry(body: bytes) -> LineageEntry | None:
    target = _parse_node_ref(decode_facet(body))
    return LineageEntry(target, body) if target is not None and has_lineage(body) else None


def _parse_node_ref(value: dict[str, Any]) -> NodeRef | None:
    """Parse a target or a source; None if it has no valid type and name."""
    node = NodeRef((get_str(value, "type") or DATASET).upper(), get_str(value, "namespace"), get_str(value, "name"))
    is_named = None not in node
    is_own_job = node == (JOB, None, None)
    return node if node.type in {DATASET, JOB} and (is_named or is_own_job) else None


def _explicit_inputs(value: dict[str, Any]) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """Yield each source with its target column; None if the target is the whole dataset."""
    for source in get_objects(value, "inputs"):
        yield None, source
    for column, field in _fields(value).items():
        for source in get_objects(field, "inputs"):
            yield column, source


def _fields(value: dict[str, Any]) -> dict[str, dict[str, Any]]:
    fields = value.get("fields")
    items = fields.items() if isinstance(fields, dict) else ()
    return {column: field for column, field in items if isinstance(field, dict)}


def _explicit_source_edges(column: str | None, node: NodeRef, source: dict[str, Any]) -> Iterator[ColumnEdge]:
    for transformation in get_objects(source, "transformations") or _DEFAULT_EXPLICIT_TRANSFORMATIONS:
        masking = transformation.get("masking")
        yield ColumnEdge(
            column,
            node.namespace or "",
            node.name or "",
            get_str(source, "field"),
            get_str(transformation, "type") or _DIRECT,
            get_str(transformation, "subtype"),
            get_str(transformation, "description"),
            masking if isinstance(masking, bool) else None,
        )
