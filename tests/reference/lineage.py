"""Reference implementation: lineage assertions of events and the ones in effect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.reference.events import Event, Name, array_items, in_merge_order, object_members, parse_json, string_at

Row = dict[str, Any]
# The run, job or dataset that asserts lineage.
Author = tuple[str, ...]


@dataclass(frozen=True)
class LineageAssertion:
    """Lineage of one dataset asserted by one event; edges are None for a retraction."""

    author: Author
    origin: str
    target: Name
    version: str | None
    event: Event
    edges: list[Row] | None


@dataclass(frozen=True)
class Entry:
    """An entry of a job's lineage facet: one dataset or job and its sources as (type, namespace, name)."""

    event: Event
    target: tuple[str, str, str]
    sources: list[tuple[str, str, str]]


def author_key(event: Event) -> Author:
    if event.run:
        return ("run", event.run)
    if event.job:
        return ("job", *event.job)
    return ("dataset", *(event.subject.key if event.subject else ()))


def lineage_assertions(event: Event) -> Iterator[LineageAssertion]:
    """Yield the lineage assertions of one event in document order."""
    author = author_key(event)
    for dataset in [*event.outputs, *([event.subject] if event.subject and author[0] == "dataset" else [])]:
        if "lineage" in dataset.facets:
            edges = explicit_edges(parse_json(dataset.facets["lineage"]))
            yield LineageAssertion(author, "lineage", dataset.key, None, event, edges)
        if "columnLineage" in dataset.facets:
            edges = column_lineage_edges(parse_json(dataset.facets["columnLineage"]))
            yield LineageAssertion(author, "columnLineage", dataset.key, dataset.version, event, edges)
    for value in entry_values(event):
        target = parse_entity(value)
        edges = explicit_edges(value)
        if target is not None and target[0] == "DATASET" and edges is not None:
            yield LineageAssertion(author, "lineage", (str(target[1]), str(target[2])), None, event, edges)


def current_assertions(events: list[Event]) -> list[LineageAssertion]:
    """Return the last assertion per author, target and facet; a JobEvent replaces all that the job declared before.

    Explicit lineage has precedence over column lineage.
    """
    last: dict[tuple[Any, ...], LineageAssertion] = {}
    declared: dict[Author, tuple[int, ...]] = {}
    for event in in_merge_order(events):
        for assertion in lineage_assertions(event):
            last[assertion.author, assertion.target, assertion.version, assertion.origin] = assertion
        if not event.run and event.job and "lineage" in event.job_facets:
            declared[author_key(event)] = event.merge_key
    valid = [
        assertion
        for assertion in last.values()
        if assertion.edges is not None
        and not (assertion.origin == "lineage" and assertion.event.merge_key < declared.get(assertion.author, ()))
    ]
    explicit = {(assertion.author, assertion.target) for assertion in valid if assertion.origin == "lineage"}
    return [
        assertion
        for assertion in valid
        if assertion.origin == "lineage" or (assertion.author, assertion.target) not in explicit
    ]


def lineage_entries(event: Event) -> list[Entry]:
    """Return the entries of a job's lineage facet; a job without a name is the job of the event."""
    entries = []
    for value in entry_values(event):
        target = parse_entity(value)
        if target is not None and explicit_edges(value) is not None:
            sources = [source for _, input_ in explicit_inputs(value) if (source := parse_entity(input_)) is not None]
            entries.append(
                Entry(event, resolve_entity(target, event), [resolve_entity(source, event) for source in sources])
            )
    return entries


def implied_inputs(event: Event) -> set[Name]:
    """Return the source datasets of the event's lineage that are not listed as inputs."""
    sources = {source for assertion in lineage_assertions(event) for source in assertion_sources(assertion)}
    for entry in lineage_entries(event):
        if event.job and entry.target == ("JOB", *event.job):
            sources |= {(namespace, name) for kind, namespace, name in entry.sources if kind == "DATASET"}
    return sources - {dataset.key for dataset in event.inputs}


def assertion_sources(assertion: LineageAssertion) -> set[Name]:
    return {(edge["source_namespace"], edge["source_name"]) for edge in assertion.edges or []}


def entry_values(event: Event) -> list[Any]:
    facet = event.job_facets.get("lineage") if event.job else None
    return [parse_json(item) for item in array_items(object_members(facet).get("entries"))]


def is_deleted_value(value: Any) -> bool:
    return isinstance(value, dict) and value.get("_deleted") is True


def parse_entity(value: Any) -> tuple[str, str | None, str | None] | None:
    kind = (string_at(value, "type") or "DATASET").upper()
    namespace, name = string_at(value, "namespace"), string_at(value, "name")
    is_own_job = kind == "JOB" and namespace is None and name is None
    is_named = namespace is not None and name is not None
    return (kind, namespace, name) if kind in {"DATASET", "JOB"} and (is_named or is_own_job) else None


def resolve_entity(entity: tuple[str, str | None, str | None], event: Event) -> tuple[str, str, str]:
    job = event.job or ("", "")
    return (entity[0], *job) if entity[2] is None else (entity[0], str(entity[1]), str(entity[2]))


def explicit_inputs(value: Any) -> list[tuple[str | None, Row]]:
    """Return each source with its target column, or None for the whole dataset."""
    inputs: list[tuple[str | None, Row]] = [(None, source) for source in object_items(value.get("inputs"))]
    for column, field in column_fields(value).items():
        inputs += [(column, source) for source in object_items(field.get("inputs"))]
    return inputs


def explicit_edges(value: Any) -> list[Row] | None:
    """Return the edges; None without inputs and fields. `inputs: []` asserts that nothing is upstream."""
    if not isinstance(value, dict) or is_deleted_value(value):
        return None
    if not isinstance(value.get("inputs"), list) and not column_fields(value):
        return None
    return [
        edge
        for column, source in explicit_inputs(value)
        if (parse_entity(source) or (None,))[0] == "DATASET"
        for edge in build_edges(column, source, [{}])
    ]


def column_lineage_edges(value: Any) -> list[Row] | None:
    """Return the edges of a columnLineage facet; parts that violate the spec are ignored."""
    if is_deleted_value(value):
        return None
    facet = value if isinstance(value, dict) else {}
    edges: list[Row] = []
    for column, output in column_fields(facet).items():
        for source in object_items(output.get("inputFields")):
            edges += build_edges(column, source, [legacy_transformation(output)])
    for source in object_items(facet.get("dataset")):
        edges += build_edges(None, source, [{}])
    return edges


def legacy_transformation(output: Row) -> Row:
    """Return the transformation of an output column, the form before facet version 1-2-0."""
    kind, description = string_at(output, "transformationType"), string_at(output, "transformationDescription")
    if kind == "MASKED":
        return {"description": description, "masking": True}
    return {"subtype": kind or None, "description": description}


def build_edges(column: str | None, source: Row, default_transformations: list[Row]) -> list[Row]:
    namespace, name = string_at(source, "namespace"), string_at(source, "name")
    if namespace is None or name is None:
        return []
    return [
        {
            "column": column,
            "source_namespace": namespace,
            "source_name": name,
            "source_column": string_at(source, "field"),
            "type": string_at(transformation, "type") or "DIRECT",
            "subtype": string_at(transformation, "subtype"),
            "description": string_at(transformation, "description"),
            "masking": transformation.get("masking") if isinstance(transformation.get("masking"), bool) else None,
        }
        for transformation in object_items(source.get("transformations")) or default_transformations
    ]


def column_fields(value: Row) -> dict[str, Row]:
    fields = value.get("fields")
    candidates = fields if isinstance(fields, dict) else {}
    return {column: field for column, field in candidates.items() if isinstance(field, dict)}


def object_items(value: Any) -> list[Row]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
