"""The index from whole tables: Spark reduces to the last value per entity first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import pyarrow as pa

from clew.index.bodies import Packer
from clew.index.changes import (
    CellRow,
    Changes,
    DatasetDeclarationRow,
    DatasetRow,
    EdgeRow,
    FacetRow,
    JobDeclarationRow,
    JobEdgeRow,
    JobLinksRow,
    JobRow,
    LineageDeclarationRow,
    MentionedJobRow,
    MentionedRunRow,
    OperationRow,
    RenameRow,
    RunIoRow,
    RunRow,
    SchemaRow,
    StatementRow,
    SymlinksRow,
)
from clew.index.keys import entity
from clew.index.observing.declarations import listed

RowT = TypeVar("RowT", RunRow, JobRow, DatasetRow, StatementRow)

_FACETS = ("current_run_facets", "current_job_facets", "current_dataset_facets")


def facets_in(tables: Mapping[str, pa.Table]) -> list[bytes]:
    """The bodies of all current facets."""
    return [facet.encode() for name in _FACETS if tables[name].num_rows for facet in tables[name]["facet"].to_pylist()]


def changes_of(tables: Mapping[str, pa.Table], dictionary: bytes | None) -> Changes:
    """Derived tables as changes of an empty index."""
    pack = Packer(dictionary).pack
    rows = {name: _rows(table) for name, table in tables.items()}
    return Changes(
        events=[(row["seq"], row["event_id"]) for row in rows["events"]],
        rejected=[(row["seq"], row["event_id"]) for row in rows["rejected"]],
        runs=[_cut(RunRow, row) for row in rows["runs"] if not row["is_placeholder"]],
        jobs=[_cut(JobRow, row) for row in rows["jobs"] if not row["is_placeholder"]],
        mentioned_runs=[MentionedRunRow(**row) for row in rows["mentioned_runs"]],
        mentioned_jobs=[MentionedJobRow(**row) for row in rows["mentioned_jobs"]],
        job_declarations=[_job_declaration(row) for row in rows["job_declarations"]],
        schemas=[SchemaRow(**row) for row in rows["schemas"]],
        dataset_declarations=[_dataset_declaration(row) for row in rows["dataset_declarations"]],
        datasets=[_cut(DatasetRow, row) for row in rows["datasets"]],
        renames=[RenameRow(**row) for row in rows["renames"]],
        symlinks=_symlinks(rows["symlinks"]),
        run_io=[RunIoRow(**{**row, "dataset_version": row["dataset_version"] or ""}) for row in rows["run_io"]],
        job_edges=[JobEdgeRow(**row) for row in rows["said_job_edges"]],
        statements=[_statement(row) for row in rows["statements"]],
        links=[_links(row) for row in rows["links"]],
        lineage_declarations=[LineageDeclarationRow(**row) for row in rows["lineage_declarations"]],
        edge_sets=[EdgeRow(**row) for row in rows["edge_sets"]],
        cell_executions=[CellRow(**{**row, "state": _stored_state(row["state"])}) for row in rows["cell_executions"]],
        operations=[_operation(row) for row in rows["operations"]],
        facets=[_facet(name, row, pack(row["facet"].encode())) for name in _FACETS for row in rows[name]],
    )


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows with times in microseconds, as the index has them."""
    columns = [_values(column) for column in table.columns]
    return [dict(zip(table.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    is_time = pa.types.is_timestamp(column.type)
    values: list[Any] = (column.cast(pa.timestamp("us")).cast(pa.int64()) if is_time else column).to_pylist()
    return values


def _cut(kind: type[RowT], row: dict[str, Any]) -> RowT:
    """A row without what the index finds out for itself."""
    return kind(**{name: row[name] for name in kind.__struct_fields__})


def _job_declaration(row: dict[str, Any]) -> JobDeclarationRow:
    datasets = {way: listed((one["namespace"], one["name"]) for one in row[way]) for way in ("inputs", "outputs")}
    return JobDeclarationRow(**{**row, **datasets})


def _dataset_declaration(row: dict[str, Any]) -> DatasetDeclarationRow:
    texts = {name: row[name] or "" for name in ("schema_id", "lifecycle_state")}
    return DatasetDeclarationRow(**{**row, **texts})


def _stored_state(state: str) -> str:
    """A cell's state as the index keeps it: whether it was lost is found out by whoever asks."""
    return "running" if state == "lost" else state


def _statement(row: dict[str, Any]) -> StatementRow:
    return _cut(StatementRow, {**row, "dataset_version": row["dataset_version"] or ""})


def _symlinks(rows: list[dict[str, Any]]) -> list[SymlinksRow]:
    """One row per dataset that bears other names."""
    others: dict[tuple[str, str, int], list[tuple[str, str]]] = {}
    for row in rows:
        found = others.setdefault((row["namespace"], row["name"], row["last_seq"]), [])
        if row["other_name"] is not None:
            found.append((row["other_namespace"], row["other_name"]))
    return [SymlinksRow(*key[:2], json.dumps(sorted(names)), key[2]) for key, names in others.items()]


def _links(row: dict[str, Any]) -> JobLinksRow:
    upstream = [(job["namespace"], job["name"]) for job in row["upstream"]]
    return JobLinksRow(**{**row, "upstream": json.dumps(upstream)})


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
