"""Lineage facets as column edges and lineage assertions: `columnLineage` and explicit `lineage`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import md5
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw, Struct

from clew.events.decoding import (
    decode_list,
    decode_members,
    decode_object,
    decode_optional,
    is_name,
    salvage_object,
)
from clew.events.facets import Name, decode_facet, get_objects, get_str, is_deleted
from clew.events.openlineage import Dataset, Event, parse_dataset_version


class ColumnEdge(Struct, frozen=True):
    """An edge from a source column to a column; `column` is None for edges to the whole dataset."""

    column: str | None
    source_namespace: str
    source_name: str
    source_column: str | None
    type: str
    subtype: str | None
    description: str | None
    masking: bool | None


class _Transformation(Struct):
    type: str | None = None
    subtype: str | None = None
    description: str | None = None
    masking: bool | None = None


class _InputField(Struct):
    namespace: str
    name: str
    field: str | None = None
    transformations: list[_Transformation] | None = None


class _OutputField(Struct, rename="camel"):
    input_fields: list[_InputField] | None = None
    # Before facet version 1-2-0 the transformation was a property of the column, not of each source.
    transformation_type: str | None = None
    transformation_description: str | None = None


class _ColumnLineage(Struct):
    fields: dict[str, _OutputField] | None = None
    dataset: list[_InputField] | None = None


_decode = msgspec.json.Decoder(_ColumnLineage).decode
_decode_input = msgspec.json.Decoder(_InputField).decode
_DIRECT = "DIRECT"
_MASKED = "MASKED"
# Transformation of a source that lists none: DIRECT, without a subtype.
_DEFAULT_TRANSFORMATIONS = [_Transformation()]


def parse_column_lineage(facet: bytes | str) -> Iterator[ColumnEdge]:
    """Yield the edges of a facet; malformed parts are skipped."""
    try:
        lineage = _decode(facet)
    except msgspec.ValidationError:
        lineage = _decode_lenient(Raw(facet))
    for column, output in (lineage.fields or {}).items():
        default = _column_transformations(output)
        for source in output.input_fields or ():
            yield from _source_edges(column, source, default)
    for source in lineage.dataset or ():
        yield from _source_edges(None, source, _DEFAULT_TRANSFORMATIONS)


def _decode_lenient(facet: Raw) -> _ColumnLineage:
    """Decode all valid sources of a malformed facet."""
    return salvage_object(_ColumnLineage, facet, {"fields": _outputs, "dataset": _inputs}) or _ColumnLineage()


def _outputs(raw: Raw) -> dict[str, _OutputField]:
    outputs = {
        column: salvage_object(_OutputField, output, {"input_fields": _inputs})
        for column, output in decode_object(raw).items()
    }
    return {column: output for column, output in outputs.items() if output is not None}


def _inputs(raw: Raw) -> list[_InputField]:
    return [source for item in decode_list(raw) if (source := decode_optional(item, _decode_input)) is not None]


def _column_transformations(output: _OutputField) -> list[_Transformation]:
    """Return the transformations of sources that list none themselves."""
    kind, description = output.transformation_type, output.transformation_description
    if not kind and not description:
        return _DEFAULT_TRANSFORMATIONS
    is_masked = kind == _MASKED
    return [_Transformation(None, None if is_masked else kind, description, True if is_masked else None)]


def _source_edges(column: str | None, source: _InputField, default: list[_Transformation]) -> Iterator[ColumnEdge]:
    if not (is_name(source.namespace) and is_name(source.name)):
        return
    for transformation in source.transformations or default:
        yield ColumnEdge(
            column,
            source.namespace,
            source.name,
            source.field,
            transformation.type or _DIRECT,
            transformation.subtype,
            transformation.description,
            transformation.masking,
        )


LINEAGE_FACET: Final = "lineage"
# A job's facet without this key has no lineage.
ENTRIES_KEY: Final = '"entries"'
DATASET: Final = "DATASET"
JOB: Final = "JOB"


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
    members = decode_members(Raw(facet))
    bodies = decode_optional(members.get("entries"), decode_list) or ()
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
            transformations = list(map(_explicit_transformation, get_objects(source, "transformations")))
            origin = _InputField(*_name_of(node), get_str(source, "field"), transformations)
            yield from _source_edges(column, origin, _DEFAULT_TRANSFORMATIONS)


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
    is_named = is_name(node.namespace or "") and is_name(node.name or "")
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


def _explicit_transformation(value: dict[str, Any]) -> _Transformation:
    masking = value.get("masking")
    return _Transformation(
        get_str(value, "type"),
        get_str(value, "subtype"),
        get_str(value, "description"),
        masking if isinstance(masking, bool) else None,
    )


COLUMN_LINEAGE: Final = "columnLineage"
ORIGIN_SEPARATOR: Final = " "
# Edge set id of a retracted assertion.
RETRACTED: Final = ""


class LineageAssertion(NamedTuple):
    """Lineage of one dataset; `body` is the facet, or an entry of it."""

    origin: str
    dataset_namespace: str
    dataset_name: str
    dataset_version: str | None
    body: bytes

    @property
    def tagged_body(self) -> bytes:
        """Body prefixed with its origin: the two facet types may have equal bodies, but different edges."""
        return f"{self.origin}{ORIGIN_SEPARATOR}".encode() + self.body


class LineageLink(NamedTuple):
    """An entry of a job's lineage facet: a dataset or a job with all its sources."""

    target: NodeRef
    sources: tuple[NodeRef, ...]

    @property
    def name(self) -> Name:
        """Namespace and name of the target."""
        return _name_of(self.target)


def parse_assertions(event: Event) -> list[LineageAssertion]:
    """Parse the assertions of an event; explicit ones precede those of columnLineage facets."""
    assertions: list[LineageAssertion] = []
    for output in event.outputs or ():
        if output.facets:
            assertions += _dataset_assertions(output)
    if event.job is not None and event.job.facets and LINEAGE_FACET in event.job.facets:
        assertions += parse_explicit_assertions(bytes(event.job.facets[LINEAGE_FACET]))
    if event.dataset is not None and event.dataset.facets and event.kind == "DATASET":
        assertions += _dataset_assertions(event.dataset)
    return assertions


def parse_explicit_assertions(facet: bytes) -> Iterator[LineageAssertion]:
    """Yield the assertions on datasets in a job's lineage facet."""
    for entry in parse_entries(facet):
        if entry.target.type == DATASET:
            # An entry has no dataset version; the output of the run has it.
            yield LineageAssertion(LINEAGE_FACET, *_name_of(entry.target), None, entry.body)


def parse_links(facet: bytes, own_job: Name) -> list[LineageLink]:
    """Parse the entries of a job's lineage facet, with the name of the event's own job filled in."""
    return [
        LineageLink(
            _with_own_job(entry.target, own_job),
            tuple(sorted({_with_own_job(source, own_job) for source in parse_sources(entry.body)})),
        )
        for entry in parse_entries(facet)
    ]


def compute_edge_set_id(tagged_body: bytes) -> str:
    """Return the id of a set of edges: a hash of its content, as most runs of a job assert the same edges."""
    # MD5 because Spark has it too.
    return md5(tagged_body, usedforsecurity=False).hexdigest()


def parse_asserted_edges(tagged_body: bytes) -> list[ColumnEdge] | None:
    """Parse the edges of an assertion; None if it is a retraction."""
    origin, _, body = tagged_body.partition(ORIGIN_SEPARATOR.encode())
    if origin == LINEAGE_FACET.encode():
        return list(parse_explicit_edges(body)) if has_lineage(body) else None
    return None if is_deleted(body) else list(parse_column_lineage(body))


def source_datasets(edges: Iterable[ColumnEdge]) -> tuple[Name, ...]:
    """Return the distinct source datasets of edges, sorted."""
    return tuple(sorted({(edge.source_namespace, edge.source_name) for edge in edges}))


def find_implied_inputs(event: Event) -> set[Name]:
    """Return the source datasets of an event's lineage that are not among its inputs."""
    bodies = [assertion.tagged_body for assertion in parse_assertions(event)]
    sources = {source for body in bodies for source in source_datasets(parse_asserted_edges(body) or ())}
    sources |= _declared_inputs(event)
    return sources - {(dataset.namespace, dataset.name) for dataset in event.inputs or ()}


def _declared_inputs(event: Event) -> set[Name]:
    """Return the datasets that the lineage facet lists as sources of the event's own job."""
    if event.job is None or not event.job.facets or LINEAGE_FACET not in event.job.facets:
        return set()
    own = event.job.namespace, event.job.name
    links = parse_links(bytes(event.job.facets[LINEAGE_FACET]), own)
    return {name for link in links if link.target == (JOB, *own) for name in filter_datasets(link.sources)}


def filter_datasets(nodes: Iterable[NodeRef]) -> list[Name]:
    """Return the names of the datasets."""
    return [_name_of(node) for node in nodes if node.type == DATASET]


def filter_jobs(nodes: Iterable[NodeRef]) -> list[Name]:
    """Return the names of the jobs."""
    return [_name_of(node) for node in nodes if node.type == JOB]


def _dataset_assertions(dataset: Dataset) -> Iterator[LineageAssertion]:
    facets = dataset.facets or {}
    # Spec: in a RunEvent the lineage facet belongs to the job; on an output it is accepted as well.
    if LINEAGE_FACET in facets:
        yield LineageAssertion(LINEAGE_FACET, dataset.namespace, dataset.name, None, bytes(facets[LINEAGE_FACET]))
    if COLUMN_LINEAGE in facets:
        body = bytes(facets[COLUMN_LINEAGE])
        yield LineageAssertion(COLUMN_LINEAGE, dataset.namespace, dataset.name, parse_dataset_version(facets), body)


def _name_of(node: NodeRef) -> Name:
    return node.namespace or "", node.name or ""


def _with_own_job(node: NodeRef, own_job: Name) -> NodeRef:
    return NodeRef(JOB, *own_job) if node.type == JOB and node.name is None else node
