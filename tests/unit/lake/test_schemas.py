"""Tests of schema evolution: missing columns are added, unknown columns are kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.table import TableAlterer

from clew.lake.compaction import compact_tables
from clew.lake.data_files import DataFile, FileWriter
from clew.lake.lake import BatchId, Lake
from clew.lake.scan import ValueRange, scan_range
from clew.lake.schemas import LARGE_COLUMNS, RUN_FACETS, TABLES_BY_NAME

NAME = RUN_FACETS.name
NEW_COLUMNS = ("large_facet_bytes", "facet_error")
OLD_SCHEMA = pa.schema([field for field in RUN_FACETS.schema if field.name not in NEW_COLUMNS])
LATER_SCHEMA = RUN_FACETS.schema.append(pa.field("later", pa.string()))
OTHER_SCHEMA = OLD_SCHEMA.append(pa.field("later", pa.string()))


def write(lake: Lake, schema: pa.Schema, uuid: str, name: str = NAME, **values: Any) -> list[DataFile]:
    rows = pa.RecordBatch.from_pylist([{"uuid": uuid, "run_uuid": "r", "seq": 1, **values}], schema=schema)
    writer = FileWriter(str(lake.root), LARGE_COLUMNS)
    return [*writer.add({name: rows}), *writer.flush()]


def create_lake(schema: pa.Schema, root: Path) -> Lake:
    """Return a lake written with a schema."""
    lake = Lake(root)
    lake.append(NAME, schema, write(lake, schema, "theirs"), BatchId("app", 0))
    return lake


def columns(lake: Lake) -> list[str]:
    return [field.name for field in DeltaTable(str(lake.root / NAME)).schema().fields]


def rows(lake: Lake, *names: str) -> list[tuple[Any, ...]]:
    table = DeltaTable(str(lake.root / NAME)).to_pyarrow_table().to_pylist()
    return sorted(tuple(row[name] for name in ("uuid", *names)) for row in table)


@pytest.mark.parametrize(
    ("existing", "expected"),
    [
        (RUN_FACETS.schema, RUN_FACETS.schema.names),
        (OLD_SCHEMA, [*OLD_SCHEMA.names, *NEW_COLUMNS]),
        (LATER_SCHEMA, LATER_SCHEMA.names),
        (OTHER_SCHEMA, [*OTHER_SCHEMA.names, *NEW_COLUMNS]),
    ],
    ids=["same", "fewer columns", "more columns", "other columns"],
)
def test_append_to_a_table_with_another_schema(existing: pa.Schema, expected: list[str], tmp_path: Path) -> None:
    create_lake(existing, tmp_path)
    lake = Lake(tmp_path)
    for number in (1, 2):
        files = write(lake, RUN_FACETS.schema, f"ours {number}", facet_error="null")
        assert lake.append(NAME, RUN_FACETS.schema, files, BatchId("app", number))
    assert columns(lake) == expected
    assert rows(lake, "facet_error") == [("ours 1", "null"), ("ours 2", "null"), ("theirs", None)]
    compact_tables(lake)
    assert rows(lake, "facet_error") == [("ours 1", "null"), ("ours 2", "null"), ("theirs", None)]
    scanned = scan_range(lake, RUN_FACETS, ValueRange("seq", 1, 1)).to_table()
    assert scanned.schema.equals(RUN_FACETS.schema)
    assert sorted(scanned["uuid"].to_pylist()) == ["ours 1", "ours 2", "theirs"]


def test_scan_of_a_table_with_missing_columns(tmp_path: Path) -> None:
    lake = create_lake(OLD_SCHEMA, tmp_path)
    scanned = scan_range(lake, RUN_FACETS, ValueRange("run_uuid", "r", "r")).to_table()
    assert [(row["uuid"], row["facet_error"]) for row in scanned.to_pylist()] == [("theirs", None)]


def test_append_after_a_failure_between_alter_and_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = create_lake(OLD_SCHEMA, tmp_path)
    files = write(lake, RUN_FACETS.schema, "ours")
    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", fail)
        with pytest.raises(DeltaError, match="went down"):
            lake.append(NAME, RUN_FACETS.schema, files, BatchId("app", 1))
    assert rows(lake) == [("theirs",)]
    reopened = Lake(tmp_path)
    assert reopened.append(NAME, RUN_FACETS.schema, files, BatchId("app", 1))
    assert not reopened.append(NAME, RUN_FACETS.schema, files, BatchId("app", 1))
    assert rows(lake) == [("ours",), ("theirs",)]
    assert columns(lake) == [*OLD_SCHEMA.names, *NEW_COLUMNS]


def fail(*_: object, **__: object) -> None:
    raise DeltaError("the machine went down")


def test_concurrent_schema_changes(tmp_path: Path) -> None:
    create_lake(OLD_SCHEMA, tmp_path)
    lakes = [Lake(tmp_path) for _ in range(4)]
    for lake in lakes:
        assert lake.table(NAME) is not None

    def append(number: int) -> bool:
        files = write(lakes[number], RUN_FACETS.schema, f"ours {number}")
        return lakes[number].append(NAME, RUN_FACETS.schema, files, BatchId(f"app {number}", 0))

    with ThreadPoolExecutor(len(lakes)) as pool:
        assert list(pool.map(append, range(len(lakes)))) == [True] * len(lakes)
    assert len(rows(lakes[0])) == len(lakes) + 1


def test_schema_is_compared_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = create_lake(OLD_SCHEMA, tmp_path)
    lake.append(NAME, RUN_FACETS.schema, write(lake, RUN_FACETS.schema, "ours"), BatchId("app", 1))
    monkeypatch.setattr(TableAlterer, "add_columns", fail)
    monkeypatch.setattr(DeltaTable, "schema", fail)
    assert lake.append(NAME, RUN_FACETS.schema, write(lake, RUN_FACETS.schema, "more"), BatchId("app", 2))


@pytest.mark.parametrize(
    "existing", [OLD_SCHEMA, LATER_SCHEMA, OTHER_SCHEMA], ids=["fewer columns", "more columns", "other columns"]
)
def test_replace_changes_the_schema(existing: pa.Schema, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for number, schema in enumerate((existing, RUN_FACETS.schema)):
        lake.replace("runs", schema, write(lake, schema, str(number), "runs"), BatchId("derived", number))
    table = DeltaTable(str(tmp_path / "runs"))
    assert [field.name for field in table.schema().fields] == RUN_FACETS.schema.names
    assert table.to_pyarrow_table()["uuid"].to_pylist() == ["1"]


FACET_COLUMNS = "uuid created_at run_uuid lineage_event_time lineage_event_type name facet"
PROPOSED_COLUMNS = {
    "lineage_events": "run_uuid event_time event_type event job_name job_namespace producer",
    "dataset_facets": f"{FACET_COLUMNS} type",
    "job_facets": FACET_COLUMNS,
    "run_facets": FACET_COLUMNS,
}


@pytest.mark.parametrize(("table", "columns"), PROPOSED_COLUMNS.items())
def test_tables_have_the_proposed_columns(table: str, columns: str) -> None:
    schema = TABLES_BY_NAME[table].schema
    for column in columns.split():
        kind = schema.field(column).type
        is_time = column.endswith("_time") or column == "created_at"
        assert pa.types.is_timestamp(kind) if is_time else pa.types.is_string(kind)
