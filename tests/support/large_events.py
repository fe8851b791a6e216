"""Large events of several kinds, of any size."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final


def make_event(name: str, **fields: Any) -> bytes:
    """Make an event of a run of a job."""
    event = {
        "eventType": "COMPLETE",
        "eventTime": "2026-01-01T10:00:00Z",
        "run": {"runId": f"run-{name}"},
        "job": {"namespace": "n", "name": name},
    }
    return json.dumps({**event, **fields}).encode()


def make_datasets(prefix: str, size: int) -> list[dict[str, Any]]:
    """Make inputs or outputs with a version and a schema."""
    facets = {"version": {"datasetVersion": "1"}, "schema": {"fields": [{"name": "a", "type": "int"}]}}
    return [{"namespace": "db", "name": f"{prefix}{number}", "facets": dict(facets)} for number in range(size)]


def make_replication(size: int) -> list[bytes]:
    """Make an event with many inputs and outputs, without lineage."""
    inputs, outputs = make_datasets("replication.in", size), make_datasets("replication.out", size)
    return [make_event("replication", inputs=inputs, outputs=outputs)]


def make_explicit_lineage(size: int) -> list[bytes]:
    """Make an event with many inputs and outputs, each output with one source."""
    entries = [
        {
            "namespace": "db",
            "name": f"explicit.out{number}",
            "type": "DATASET",
            "inputs": [{"namespace": "db", "name": f"explicit.in{number}", "type": "DATASET"}],
        }
        for number in range(size)
    ]
    job = {"namespace": "n", "name": "explicit", "facets": {"lineage": {"entries": entries}}}
    inputs, outputs = make_datasets("explicit.in", size), make_datasets("explicit.out", size)
    return [make_event("explicit", job=job, inputs=inputs, outputs=outputs)]


def make_columns(size: int) -> list[bytes]:
    """Make an event whose output has many columns; each depends on one column, and all on many others."""
    source = {"namespace": "db", "name": "columns.in0"}
    direct, indirect = [{"type": "DIRECT", "subtype": "IDENTITY"}], [{"type": "INDIRECT", "subtype": "FILTER"}]
    columns = [{**source, "field": f"c{number}"} for number in range(size)]
    lineage = {
        "fields": {column["field"]: {"inputFields": [{**column, "transformations": direct}]} for column in columns},
        "dataset": [{**column, "transformations": indirect} for column in columns],
    }
    schema = {"fields": [{"name": column["field"], "type": "int"} for column in columns]}
    output = {"namespace": "db", "name": "columns.out0", "facets": {"schema": schema, "columnLineage": lineage}}
    return [make_event("columns", inputs=[{**source, "facets": {"schema": schema}}], outputs=[output])]


def make_symlink_cycle(size: int) -> list[bytes]:
    """Make an event whose outputs are aliases of each other: a cycle."""
    outputs = make_datasets("cycle", size)
    for number, output in enumerate(outputs):
        identifier = {"namespace": "db", "name": f"cycle{(number + 1) % size}", "type": "TABLE"}
        output["facets"]["symlinks"] = {"identifiers": [identifier]}
    return [make_event("cycle", outputs=outputs)]


def make_parents(size: int) -> list[bytes]:
    """Make one event per run; each run is the parent of the previous one."""
    root = {"run": {"runId": f"parent-{size}"}, "job": {"namespace": "n", "name": f"parent-{size}"}}
    events = []
    for number in range(size):
        job = {"namespace": "n", "name": f"parent-{number + 1}"}
        parent = {"run": {"runId": f"parent-{number + 1}"}, "job": job, "root": root}
        run = {"runId": f"parent-{number}", "facets": {"parent": parent}}
        events.append(make_event(f"parent-{number}", run=run))
    return events


LARGE_EVENTS: Final[dict[str, Callable[[int], list[bytes]]]] = {
    "replication": make_replication,
    "explicit": make_explicit_lineage,
    "columns": make_columns,
    "symlinks": make_symlink_cycle,
    "parents": make_parents,
}
