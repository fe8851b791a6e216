"""Reference implementation: the current facets of each entity after a list of events."""

from __future__ import annotations

from collections.abc import Iterator

from tests.reference.events import Event, Facets, in_merge_order, is_deleted, parse_json, string_at
from tests.reference.lineage import Row, object_items

# Names of the first notebook format.
ALIASES = {
    "marimoExecution": "marimo_execution",
    "performance": "marimo_performance",
    "columnMetrics": "dataQualityMetrics",
}
IDENTITIES = {
    "run": ("run_uuid",),
    "job": ("job_namespace", "job_name"),
    "dataset": ("dataset_namespace", "dataset_name"),
}


def current_facets(events: list[Event]) -> list[Row]:
    """Return one row per current facet of an entity, without deleted ones."""
    rows: dict[tuple[str | None, ...], str] = {}
    for event in in_merge_order(events):
        for kind, entity, facets in entity_facets(event):
            for name, facet in facets.items():
                rows[kind, *entity, ALIASES.get(name, name)] = facet
    return [
        {"kind": kind, "entity": entity, "name": name, "facet": facet}
        for (kind, *entity, name), facet in rows.items()
        if not is_deleted(facet)
    ]


def entity_facets(event: Event) -> Iterator[tuple[str, tuple[str | None, ...], Facets]]:
    """Yield each entity of an event with its facets; input and output facets belong to the run as well."""
    if event.run:
        yield "run", (event.run,), event.run_facets
    if event.job:
        yield "job", event.job, event.job_facets
    for dataset in event.datasets:
        yield "dataset", (*dataset.key, dataset.version), dataset.facets
        yield "input", (event.run, *dataset.key, dataset.version), dataset.input_facets
        yield "output", (event.run, *dataset.key, dataset.version), dataset.output_facets


def tags(events: list[Event]) -> list[Row]:
    """Return the tags of runs, jobs and datasets by their last facet."""
    return [
        {**identity, "seq": seq, **{name: string_at(tag, name) for name in ("key", "field", "value", "source")}}
        for identity, seq, value in current_labels(events, "tags")
        for tag in object_items(value.get("tags"))
        if string_at(tag, "key") is not None
    ]


def owners(events: list[Event]) -> list[Row]:
    """Return the owners of jobs and datasets by their last facet."""
    return [
        {**without_run(identity), "seq": seq, "owner": string_at(owner, "name"), "type": string_at(owner, "type")}
        for identity, seq, value in current_labels(events, "ownership")
        for owner in object_items(value.get("owners"))
        if string_at(owner, "name") is not None and identity["kind"] != "RUN"
    ]


def without_run(identity: Row) -> Row:
    return {name: value for name, value in identity.items() if name != "run_uuid"}


def current_labels(events: list[Event], name: str) -> Iterator[tuple[Row, int, Row]]:
    """Yield identity columns, position and value of each current facet of a name."""
    last: dict[tuple[str, ...], tuple[int, str]] = {}
    for event in in_merge_order(events):
        for kind, entity, facets in entity_facets(event):
            if name in facets and kind in {"run", "job", "dataset"}:
                last[kind, *map(str, entity[:2])] = event.seq, facets[name]
    for (kind, *entity_key), (seq, facet) in last.items():
        value = parse_json(facet)
        if isinstance(value, dict) and not is_deleted(facet):
            yield identity_columns(kind, entity_key), seq, value


def identity_columns(kind: str, entity: list[str]) -> Row:
    absent = dict.fromkeys(name for columns in IDENTITIES.values() for name in columns)
    return {"kind": kind.upper(), **absent, **dict(zip(IDENTITIES[kind], entity, strict=True))}
