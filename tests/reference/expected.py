"""All that must be known after the lines of a log, by table: one row per thing, in a form that can be compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from tests.reference import datasets, facets, names, queries, runs
from tests.reference.events import Event, lineage_events
from tests.reference.lineage import Row

Tables = dict[str, Callable[[list[Event]], list[Row]]]


def nodes(events: list[Event]) -> list[Row]:
    return [
        {"namespace": name[0], "name": name[1], "canonical_namespace": node[0], "canonical_name": node[1]}
        for name, node in names.nodes(events).items()
    ]


BOTH: Tables = {
    "runs": runs.runs,
    "jobs": runs.jobs,
    "job_versions": runs.job_versions,
    "datasets": datasets.datasets,
    "dataset_versions": datasets.dataset_versions,
    "schemas": datasets.schemas,
    "run_io": queries.run_io,
    "job_dependencies": queries.job_links,
    "dataset_aliases": nodes,
}
# The lake names nodes, which the index resolves when it is asked.
LAKE: Tables = {
    **BOTH,
    "job_edges": datasets.job_edges,
    "column_edges": datasets.column_edges,
    "dataset_edges": datasets.dataset_edges,
    "tags": facets.tags,
    "owners": facets.owners,
}
INDEX: Tables = {
    **BOTH,
    "job_edges": queries.said_job_edges,
    "column_edges": queries.said_column_edges,
    "facets": facets.current_facets,
}
Rows = dict[str, list[str]]


def expected(lines: Iterable[tuple[int, bytes]], tables: Tables, *, is_by_time: bool = False) -> Rows:
    """The rows of each table."""
    events = lineage_events(lines, is_by_time=is_by_time)
    return normal({name: table(events) for name, table in tables.items()})


def normal(tables: dict[str, list[Row]]) -> Rows:
    return {name: sorted(map(comparable, rows)) for name, rows in tables.items()}


def comparable(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, default=str)


def differences(found: Rows, wanted: Rows) -> dict[str, dict[str, list[str]]]:
    """Where both disagree: by table, the rows that only one of them has."""
    unlike = {name for name in {*found, *wanted} if found.get(name) != wanted.get(name)}
    return {
        name: {
            "not wanted": sorted(set(found.get(name, [])) - set(wanted.get(name, []))) or ["rows are doubled"],
            "missing": sorted(set(wanted.get(name, [])) - set(found.get(name, []))),
        }
        for name in sorted(unlike)
    }
