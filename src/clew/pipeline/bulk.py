"""The index from whole tables: Spark reduces to the last value per entity first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from clew.events.timestamps import microseconds
from clew.index.bodies import Packer
from clew.index.changes import (
    CellRow,
    Changes,
    DatasetRow,
    EdgeRow,
    FacetRow,
    JobEdgeRow,
    JobRow,
    OperationRow,
    RunIoRow,
    RunRow,
    StatementRow,
)
from clew.index.keys import entity

_FACETS = ("current_run_facets", "current_job_facets", "current_dataset_facets")


def facets_in(tables: Mapping[str, pa.Table]) -> list[bytes]:
    """The bodies of all current facets."""
    return [facet.encode() for name in _FACETS if tables[name].num_rows for facet in tables[name]["facet"].to_pylist()]


def changes_of(tables: Mapping[str, pa.Table], dictionary: bytes | None) -> Changes:
    """Derived tables as changes of an empty index."""
    pack = Packer(dictionary).pack
    rows = {name: list(_rows(table)) for name, table in tables.items()}
    return Changes(
        events=[(row["seq"], row["event_id"]) for row in rows["events"]],
        rejected=[(row["seq"], row["event_id"]) for row in rows["rejected"]],
        runs=[RunRow(**row) for row in rows["runs"]],
        jobs=[JobRow(**row) for row in rows["jobs"]],
        datasets=[DatasetRow(**row) for row in rows["datasets"]],
        run_io=[RunIoRow(**{**row, "dataset_version": row["dataset_version"] or ""}) for row in rows["run_io"]],
        job_edges=[JobEdgeRow(**row) for row in rows["job_edges"]],
        statements=[_statement(row) for row in rows["column_edges"] if row["ordinal"] == 0],
        edge_sets=[_edge(row) for row in rows["column_edges"]],
        cell_executions=[CellRow(**row) for row in rows["cell_executions"]],
        operations=[_operation(row) for row in rows["operations"]],
        facets=[_facet(name, row, pack(row["facet"].encode())) for name in _FACETS for row in rows[name]],
    )


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for row in table.to_pylist():
        yield {name: _number(value) if isinstance(value, datetime) else value for name, value in row.items()}


def _number(moment: datetime) -> int:
    return microseconds(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _statement(row: dict[str, Any]) -> StatementRow:
    author = row["run_uuid"] or entity(row["job_namespace"], row["job_name"])
    values = {name: row[name] for name in StatementRow.__struct_fields__ if name in row}
    return StatementRow(**{**values, "author": author, "dataset_version": row["dataset_version"] or ""})


def _edge(row: dict[str, Any]) -> EdgeRow:
    return EdgeRow(**{name: row[name] for name in EdgeRow.__struct_fields__})


def _operation(row: dict[str, Any]) -> OperationRow:
    frames = {
        "inputs": json.dumps(row["input_dataframes"] or []),
        "outputs": json.dumps(row["output_dataframes"] or []),
    }
    values = {name: row[name] for name in OperationRow.__struct_fields__ if name in row}
    return OperationRow(**{**values, **frames})


def _facet(table: str, row: dict[str, Any], body: bytes) -> FacetRow:
    return FacetRow(*_facet_entity(table, row), row["name"], row["seq"], row["event_time"], body)


def _facet_entity(table: str, row: dict[str, Any]) -> tuple[str, str]:
    if table == "current_run_facets":
        return "run", entity(row["run_uuid"])
    if table == "current_job_facets":
        return "job", entity(row["job_namespace"], row["job_name"])
    key = row["dataset_namespace"], row["dataset_name"], row["dataset_version"], row["of_run_uuid"]
    return row["type"].lower(), entity(*key)
