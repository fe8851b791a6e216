"""What events say of where data comes from, in explicit lineage and in column lineage, and what of it counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.reference.events import Event, Name, in_turn, items, members, opened, said

Row = dict[str, Any]
# A run, a job or a dataset: whoever makes a statement.
Author = tuple[str, ...]


@dataclass(frozen=True)
class Statement:
    """What is said of one dataset; edges are None if it takes back what was said before."""

    author: Author
    origin: str
    target: Name
    version: str | None
    event: Event
    edges: list[Row] | None


@dataclass(frozen=True)
class Entry:
    """What a job's lineage facet says of one dataset or job: all that feeds it, as (type, namespace, name)."""

    event: Event
    target: tuple[str, str, str]
    sources: list[tuple[str, str, str]]


def author_of(event: Event) -> Author:
    if event.run:
        return ("run", event.run)
    if event.job:
        return ("job", *event.job)
    return ("dataset", *(event.subject.key if event.subject else ()))


def statements_of(event: Event) -> Iterator[Statement]:
    """All statements of one event, in the order in which they stand there."""
    author = author_of(event)
    for dataset in [*event.outputs, *([event.subject] if event.subject and author[0] == "dataset" else [])]:
        if "lineage" in dataset.facets:
            edges = explicit_edges(opened(dataset.facets["lineage"]))
            yield Statement(author, "lineage", dataset.key, None, event, edges)
        if "columnLineage" in dataset.facets:
            edges = column_lineage(opened(dataset.facets["columnLineage"]))
            yield Statement(author, "columnLineage", dataset.key, dataset.version, event, edges)
    for value in entry_values(event):
        target = entity(value)
        edges = explicit_edges(value)
        if target is not None and target[0] == "DATASET" and edges is not None:
            yield Statement(author, "lineage", (str(target[1]), str(target[2])), None, event, edges)


def counting(events: list[Event]) -> list[Statement]:
    """Of one author, target and facet the last; what a job declares without a run replaces all that it declared before.

    Explicit lineage goes before column lineage.
    """
    last: dict[tuple[Any, ...], Statement] = {}
    declared: dict[Author, tuple[int, ...]] = {}
    for event in in_turn(events):
        for one in statements_of(event):
            last[one.author, one.target, one.version, one.origin] = one
        if not event.run and event.job and "lineage" in event.job_facets:
            declared[author_of(event)] = event.turn
    sound = [
        one
        for one in last.values()
        if one.edges is not None and not (one.origin == "lineage" and one.event.turn < declared.get(one.author, ()))
    ]
    explicit = {(one.author, one.target) for one in sound if one.origin == "lineage"}
    return [one for one in sound if one.origin == "lineage" or (one.author, one.target) not in explicit]


def entries_of(event: Event) -> list[Entry]:
    """The entries of a job's lineage facet; a job without a name is the event's own."""
    found = []
    for value in entry_values(event):
        target = entity(value)
        if target is not None and explicit_edges(value) is not None:
            sources = [source for _, input_ in explicit_inputs(value) if (source := entity(input_)) is not None]
            found.append(Entry(event, own(target, event), [own(source, event) for source in sources]))
    return found


def implied_inputs(event: Event) -> set[Name]:
    """The datasets that the event's lineage comes from and that it does not list as inputs."""
    sources = {source for one in statements_of(event) for source in sources_of(one)}
    for entry in entries_of(event):
        if event.job and entry.target == ("JOB", *event.job):
            sources |= {(namespace, name) for kind, namespace, name in entry.sources if kind == "DATASET"}
    return sources - {dataset.key for dataset in event.inputs}


def sources_of(statement: Statement) -> set[Name]:
    return {(edge["source_namespace"], edge["source_name"]) for edge in statement.edges or []}


def entry_values(event: Event) -> list[Any]:
    facet = event.job_facets.get("lineage") if event.job else None
    return [opened(item) for item in items(members(facet).get("entries"))]


def is_deleted_value(value: Any) -> bool:
    return isinstance(value, dict) and value.get("_deleted") is True


def entity(value: Any) -> tuple[str, str | None, str | None] | None:
    kind = (said(value, "type") or "DATASET").upper()
    namespace, name = said(value, "namespace"), said(value, "name")
    is_own_job = kind == "JOB" and namespace is None and name is None
    is_named = namespace is not None and name is not None
    return (kind, namespace, name) if kind in {"DATASET", "JOB"} and (is_named or is_own_job) else None


def own(found: tuple[str, str | None, str | None], event: Event) -> tuple[str, str, str]:
    job = event.job or ("", "")
    return (found[0], *job) if found[2] is None else (found[0], str(found[1]), str(found[2]))


def explicit_inputs(value: Any) -> list[tuple[str | None, Row]]:
    """Each source with the column that it feeds, None if it feeds the whole."""
    found: list[tuple[str | None, Row]] = [(None, source) for source in objects(value.get("inputs"))]
    for column, field in columns_of(value).items():
        found += [(column, source) for source in objects(field.get("inputs"))]
    return found


def explicit_edges(value: Any) -> list[Row] | None:
    """None where neither inputs nor fields are given: that says nothing. `inputs: []` says that nothing is upstream."""
    if not isinstance(value, dict) or is_deleted_value(value):
        return None
    if not isinstance(value.get("inputs"), list) and not columns_of(value):
        return None
    return [
        edge
        for column, source in explicit_inputs(value)
        if (entity(source) or (None,))[0] == "DATASET"
        for edge in transformed(column, source, [{}])
    ]


def column_lineage(value: Any) -> list[Row] | None:
    """The edges of a columnLineage facet; parts that are not as the spec has them say nothing."""
    if is_deleted_value(value):
        return None
    facet = value if isinstance(value, dict) else {}
    found: list[Row] = []
    for column, output in columns_of(facet).items():
        for source in objects(output.get("inputFields")):
            found += transformed(column, source, [earlier_form(output)])
    for source in objects(facet.get("dataset")):
        found += transformed(None, source, [{}])
    return found


def earlier_form(output: Row) -> Row:
    """Before facet version 1-2-0 it was said of the column how it is made, not of each source."""
    kind, description = said(output, "transformationType"), said(output, "transformationDescription")
    if kind == "MASKED":
        return {"description": description, "masking": True}
    return {"subtype": kind or None, "description": description}


def transformed(column: str | None, source: Row, unsaid: list[Row]) -> list[Row]:
    namespace, name = said(source, "namespace"), said(source, "name")
    if namespace is None or name is None:
        return []
    return [
        {
            "column": column,
            "source_namespace": namespace,
            "source_name": name,
            "source_column": said(source, "field"),
            "type": said(how, "type") or "DIRECT",
            "subtype": said(how, "subtype"),
            "description": said(how, "description"),
            "masking": how.get("masking") if isinstance(how.get("masking"), bool) else None,
        }
        for how in objects(source.get("transformations")) or unsaid
    ]


def columns_of(value: Row) -> dict[str, Row]:
    fields = value.get("fields")
    found = fields if isinstance(fields, dict) else {}
    return {column: field for column, field in found.items() if isinstance(field, dict)}


def objects(value: Any) -> list[Row]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
