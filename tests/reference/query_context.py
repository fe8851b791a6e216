"""Actual contents of a lake and an index, in the form of the reference implementation."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from tests.reference.expected import Rows, normalize
from tests.reference.facet_blobs import index_facets
from tests.reference.lineage import Row

from clew.index.backends.base import Database
from clew.index.backends.sqlite import connect_reader

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Views of the index that correspond to tables of the lake.
VIEWS = {"runs": "all_runs", "jobs": "all_jobs", "datasets": "dataset_states"}
# Columns that the index does not store.
NOT_IN_INDEX = {
    "jobs": {"current_version"},
    "datasets": {"description", "current_version", "canonical_namespace", "canonical_name"},
}
# An absent version is empty in the index, because it is part of keys.
VERSIONS = {"dataset_version", "source_version"}


def lake_tables(folder: Path, expected: Rows) -> Rows:
    """Read tables of the lake with the expected columns; large facets are inlined."""
    actual = {name: DeltaTable(folder / name).to_pyarrow_table().to_pylist() for name in expected}
    large = {row["uuid"]: row["facet"] for row in DeltaTable(folder / "large_facets").to_pyarrow_table().to_pylist()}
    for row in (row for table in actual.values() for row in table if row.get("large_facet_bytes")):
        row["facet"] = large[row["uuid"]]
    return normalize(
        {name: [select_columns(row, column_names(expected[name])) for row in table] for name, table in actual.items()}
    )


def index_tables(path: Path, expected: Rows) -> Rows:
    """Read tables of an index with the expected columns; facets as their original text."""
    with closing(connect_reader(path)) as index:
        return index_rows(index, expected)


def index_rows(index: Database, expected: Rows) -> Rows:
    actual = {name: all_rows(index, VIEWS.get(name, name)) for name in expected if name != "facets"}
    tables = {
        name: [select_columns(row, column_names(expected[name])) for row in table] for name, table in actual.items()
    }
    return normalize({**tables, "facets": current_index_facets(index)})


def all_rows(index: Database, table: str) -> list[Row]:
    rows = index.execute(f"select * from {table}")
    names = [column[0] for column in rows.description or ()]
    return [dict(zip(names, row, strict=True)) for row in rows]


def restrict_to_index(expected: Rows) -> Rows:
    """Return the expected rows without the columns that the index does not store."""
    tables = {name: [json.loads(row) for row in rows] for name, rows in expected.items()}
    return normalize(
        {
            name: [{key: row[key] for key in row.keys() - NOT_IN_INDEX.get(name, set())} for row in rows]
            for name, rows in tables.items()
        }
    )


def current_index_facets(index: Database) -> list[Row]:
    return [
        {
            "kind": row["kind"],
            "entity": [part or None for part in row["entity_key"].split("\x1f")],
            "name": row["name"],
            "facet": row["body"],
        }
        for row in index_facets(index)
        if row["body"]
    ]


def column_names(rows: list[str]) -> set[str]:
    return set(json.loads(rows[0])) if rows else set()


def select_columns(row: dict[str, Any], expected: set[str]) -> Row:
    """Select columns of a row; a missing column is an error, not null."""
    return {name: normalize_value(name, row[name]) for name in expected}


def normalize_value(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - EPOCH) // timedelta(microseconds=1)
    if name == "masking" or name.startswith("is_"):
        return None if value is None else bool(value)
    if name in {"inputs", "outputs", "assertions"} and isinstance(value, str):
        return json.loads(value)
    return value or None if name in VERSIONS else value
