"""Expected tables after the lines of a log: one row per entity in a comparable form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from tests.reference import datasets, facets, names, queries, runs
from tests.reference.events import Event, lineage_events
from tests.reference.lineage import Row

Tables = dict[str, Callable[[list[Event]], list[Row]]]


def alias_rows(events: list[Event]) -> list[Row]:
    return [
        {"namespace": name[0], "name": name[1], "canonical_namespace": canonical[0], "canonical_name": canonical[1]}
        for name, canonical in names.canonical_names(events).items()
    ]


COMMON: Tables = {
    "runs": runs.runs,
    "jobs": runs.jobs,
    "job_versions": runs.job_versions,
    "datasets": datasets.datasets,
    "dataset_versions": datasets.dataset_versions,
    "schemas": datasets.schemas,
    "run_io": queries.run_io,
    "job_dependencies": queries.job_dependencies,
    "dataset_aliases": alias_rows,
}
# The lake contains canonical names; the index resolves them at query time.
LAKE: Tables = {
    **COMMON,
    "job_edges": datasets.job_edges,
    "column_edges": datasets.column_edges,
    "dataset_edges": datasets.dataset_edges,
    "tags": facets.tags,
    "owners": facets.owners,
    "data_quality_assertions": facets.quality_assertions,
}
INDEX: Tables = {
    **COMMON,
    "job_edges": queries.reported_job_edges,
    "column_edges": queries.reported_column_edges,
    "quality_assertions": facets.quality_facet_rows,
    "facets": facets.current_facets,
}
Rows = dict[str, list[str]]


def expected_tables(lines: Iterable[tuple[int, bytes]], tables: Tables, *, is_by_time: bool = False) -> Rows:
    """Return the expected rows of each table."""
    events = lineage_events(lines, is_by_time=is_by_time)
    return normalize({name: table(events) for name, table in tables.items()})


def normalize(tables: dict[str, list[Row]]) -> Rows:
    return {name: sorted(map(serialize_row, rows)) for name, rows in tables.items()}


def serialize_row(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, default=str)


def differences(actual: Rows, expected: Rows) -> dict[str, dict[str, list[str]]]:
    """Return the rows that only one side has, by table."""
    differing = {name for name in {*actual, *expected} if actual.get(name) != expected.get(name)}
    return {
        name: {
            "unexpected": sorted(set(actual.get(name, [])) - set(expected.get(name, []))) or ["duplicate rows"],
            "missing": sorted(set(expected.get(name, [])) - set(actual.get(name, []))),
        }
        for name in sorted(differing)
    }
