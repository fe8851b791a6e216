"""Reference implementation: the current facets of each entity after a list of events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.reference.events import Event, Facets, in_merge_order, is_deleted, parse_json, string_at
from tests.reference.lineage import Row, object_items

# Names of the first notebook format and of early OpenLineage clients.
ALIASES = {
    "parentRun": "parent",
    "marimoExecution": "marimo_execution",
    "performance": "marimo_performance",
    "columnMetrics": "dataQualityMetrics",
}
TEST_FIELDS = (
    *("assertion", "column", "name", "occurrence", "success", "severity", "description"),
    *("expected", "actual", "content", "content_type", "params"),
)
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


def quality_facets(events: list[Event]) -> dict[tuple[str, ...], tuple[Event, str | None, list[Row]]]:
    """Return deciding event, dataset version and parsed tests by asserter, dataset and kind of facet."""
    last: dict[tuple[str, ...], tuple[Event, str | None, list[Row]]] = {}
    for event in in_merge_order(events):
        for dataset in event.datasets:
            kinds = {"DATASET": dataset.facets, "INPUT": dataset.input_facets, "OUTPUT": dataset.output_facets}
            for kind, facets in kinds.items():
                if "dataQualityAssertions" in facets:
                    key = (asserter(event), *dataset.key, kind)
                    last[key] = event, dataset.version, parse_tests(facets["dataQualityAssertions"])
    return last


def asserter(event: Event) -> str:
    if event.run:
        return event.run
    if event.job:
        return "\x1f".join(event.job)
    return "\x1f".join((*event.subject.key, "")) if event.subject else ""


def parse_tests(facet: str) -> list[Row]:
    value = parse_json(facet)
    items = object_items(value.get("assertions")) if isinstance(value, dict) and not is_deleted(facet) else []
    rows: list[Row] = []
    for item in items:
        texts = {
            name: text_of(item.get(camel))
            for name, camel in {
                **{name: name for name in ("assertion", "column", "name", "severity", "description")},
                **{name: name for name in ("expected", "actual", "content", "params")},
                "content_type": "contentType",
            }.items()
        }
        texts["assertion"] = texts["assertion"] or texts["name"]
        if texts["assertion"]:
            success = item.get("success")
            rows.append({**texts, "success": success if isinstance(success, bool) else None})
    return rows


def text_of(value: object) -> str | None:
    if value in (None, {}, ""):
        return None
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def numbered(tests: list[Row]) -> list[tuple[Row, int]]:
    """Return the tests with the number of equal ones before."""
    identities = [(test["assertion"], test["column"], test["name"]) for test in tests]
    return [(test, identities[:i].count(identities[i])) for i, test in enumerate(tests)]


def quality_assertions(events: list[Event]) -> list[Row]:
    """Return one row per test of a dataset by an asserter, with its latest result."""
    rows: dict[tuple[Any, ...], tuple[tuple[Any, ...], Row]] = {}
    for (asserted_by, namespace, name, kind), (event, version, tests) in quality_facets(events).items():
        for test, number in numbered(tests):
            key = asserted_by, namespace, name, test["assertion"], test["column"], test["name"], number
            position = *event.merge_key, event.seq, kind
            row = {
                "asserted_by": asserted_by,
                "dataset_namespace": namespace,
                "dataset_name": name,
                "dataset_version": version,
                "run_uuid": event.run,
                "job_namespace": event.job[0] if event.job else None,
                "job_name": event.job[1] if event.job else None,
                "event_time": event.at,
                "seq": event.seq,
                **test,
            }
            if key not in rows or rows[key][0] < position:
                rows[key] = position, row
    return [row for _, row in rows.values()]


def quality_facet_rows(events: list[Event]) -> list[Row]:
    """Return one row per facet with results of tests, as the index has them."""
    return [
        {
            "asserted_by": asserted_by,
            "dataset_namespace": namespace,
            "dataset_name": name,
            "facet_type": kind,
            "dataset_version": version,
            "run_uuid": event.run,
            "seq": event.seq,
            "assertions": [[test.get(field, seen) for field in TEST_FIELDS] for test, seen in numbered(tests)],
        }
        for (asserted_by, namespace, name, kind), (event, version, tests) in quality_facets(events).items()
    ]
