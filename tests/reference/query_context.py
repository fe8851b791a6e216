"""What a lake and an index really hold, in the oracle's form."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from tests.reference.expected import Rows, normal
from tests.reference.facet_blobs import index_facets
from tests.reference.lineage import Row

from clew.index.backends.base import Database
from clew.index.backends.sqlite import connect_reader

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Where the index keeps what the lake has under the table's name.
VIEWS = {"runs": "all_runs", "jobs": "all_jobs", "datasets": "dataset_states"}
# What the index does not keep beside the rest.
LEFT_OUT = {
    "jobs": {"current_version"},
    "datasets": {"description", "current_version", "canonical_namespace", "canonical_name"},
}
# An absent version is empty in the index, because it is part of keys.
VERSIONS = {"dataset_version", "source_version"}


def lake_tables(folder: Path, wanted: Rows) -> Rows:
    """Tables of the lake with the columns that the oracle speaks of; large facets are in their place again."""
    found = {name: DeltaTable(folder / name).to_pyarrow_table().to_pylist() for name in wanted}
    large = {row["uuid"]: row["facet"] for row in DeltaTable(folder / "large_facets").to_pyarrow_table().to_pylist()}
    for row in (row for table in found.values() for row in table if row.get("large_facet_bytes")):
        row["facet"] = large[row["uuid"]]
    return normal({name: [cut(row, columns(wanted[name])) for row in table] for name, table in found.items()})


def index_tables(path: Path, wanted: Rows) -> Rows:
    """The tables of an index, likewise; facets as the text that they came as."""
    with closing(connect_reader(path)) as index:
        return index_rows(index, wanted)


def index_rows(index: Database, wanted: Rows) -> Rows:
    found = {name: all_rows(index, VIEWS.get(name, name)) for name in wanted if name != "facets"}
    tables = {name: [cut(row, columns(wanted[name])) for row in table] for name, table in found.items()}
    return normal({**tables, "facets": standing_facets(index)})


def all_rows(index: Database, table: str) -> list[Row]:
    rows = index.execute(f"select * from {table}")
    names = [column[0] for column in rows.description or ()]
    return [dict(zip(names, row, strict=True)) for row in rows]


def kept_in_index(wanted: Rows) -> Rows:
    """What the oracle says, without what the index leaves out."""
    tables = {name: [json.loads(row) for row in rows] for name, rows in wanted.items()}
    return normal(
        {
            name: [{key: row[key] for key in row.keys() - LEFT_OUT.get(name, set())} for row in rows]
            for name, rows in tables.items()
        }
    )


def standing_facets(index: Database) -> list[Row]:
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


def columns(rows: list[str]) -> set[str]:
    return set(json.loads(rows[0])) if rows else set()


def cut(row: dict[str, Any], wanted: set[str]) -> Row:
    """A row with the columns asked for; a column that is missing does not pass for an empty one."""
    return {name: plain(name, row[name]) for name in wanted}


def plain(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - EPOCH) // timedelta(microseconds=1)
    if name == "masking" or name.startswith("is_"):
        return None if value is None else bool(value)
    if name in {"inputs", "outputs"} and isinstance(value, str):
        return json.loads(value)
    return value or None if name in VERSIONS else value
