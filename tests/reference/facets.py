"""Which facets count after a list of events: of one entity and name the last one, whole."""

from __future__ import annotations

from collections.abc import Iterator

from tests.reference.events import Event, Facets, in_turn, is_deleted, opened, said
from tests.reference.lineage import Row, objects

# Names of an older notebook format.
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
    """One row per facet that an entity has; what was deleted is not there."""
    rows: dict[tuple[str | None, ...], str] = {}
    for event in in_turn(events):
        for kind, entity, facets in bearers(event):
            for name, facet in facets.items():
                rows[kind, *entity, ALIASES.get(name, name)] = facet
    return [
        {"kind": kind, "entity": entity, "name": name, "facet": facet}
        for (kind, *entity, name), facet in rows.items()
        if not is_deleted(facet)
    ]


def bearers(event: Event) -> Iterator[tuple[str, tuple[str | None, ...], Facets]]:
    """Whom an event gives which facets; what it says of an input or an output belongs to its run as well."""
    if event.run:
        yield "run", (event.run,), event.run_facets
    if event.job:
        yield "job", event.job, event.job_facets
    for dataset in event.datasets:
        yield "dataset", (*dataset.key, dataset.version), dataset.facets
        yield "input", (event.run, *dataset.key, dataset.version), dataset.input_facets
        yield "output", (event.run, *dataset.key, dataset.version), dataset.output_facets


def tags(events: list[Event]) -> list[Row]:
    """The tags of runs, jobs and datasets, by the facet that each of them got last."""
    return [
        {**identity, "seq": seq, **{name: said(tag, name) for name in ("key", "field", "value", "source")}}
        for identity, seq, value in labels(events, "tags")
        for tag in objects(value.get("tags"))
        if said(tag, "key") is not None
    ]


def owners(events: list[Event]) -> list[Row]:
    """The owners of jobs and datasets, likewise."""
    return [
        {**without_run(identity), "seq": seq, "owner": said(owner, "name"), "type": said(owner, "type")}
        for identity, seq, value in labels(events, "ownership")
        for owner in objects(value.get("owners"))
        if said(owner, "name") is not None and identity["kind"] != "RUN"
    ]


def without_run(identity: Row) -> Row:
    return {name: value for name, value in identity.items() if name != "run_uuid"}


def labels(events: list[Event], name: str) -> Iterator[tuple[Row, int, Row]]:
    """Whose label it is, since when, and what the facet says."""
    last: dict[tuple[str, ...], tuple[int, str]] = {}
    for event in in_turn(events):
        for kind, entity, facets in bearers(event):
            if name in facets and kind in {"run", "job", "dataset"}:
                last[kind, *map(str, entity[:2])] = event.seq, facets[name]
    for (kind, *named), (seq, facet) in last.items():
        value = opened(facet)
        if isinstance(value, dict) and not is_deleted(facet):
            yield identity_of(kind, named), seq, value


def identity_of(kind: str, entity: list[str]) -> Row:
    absent = dict.fromkeys(name for columns in IDENTITIES.values() for name in columns)
    return {"kind": kind.upper(), **absent, **dict(zip(IDENTITIES[kind], entity, strict=True))}
