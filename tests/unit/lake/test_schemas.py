"""Tables made by another clew: columns that are missing are added, columns that are not known are left alone."""

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
from clew.lake.schemas import LARGE_COLUMNS, RUN_FACETS

NAME = RUN_FACETS.name
NEW = ("large_facet_bytes", "facet_error")
OLD = pa.schema([field for field in RUN_FACETS.schema if field.name not in NEW])
LATER = RUN_FACETS.schema.append(pa.field("later", pa.string()))
OTHER = OLD.append(pa.field("later", pa.string()))


def write(lake: Lake, schema: pa.Schema, uuid: str, name: str = NAME, **values: Any) -> list[DataFile]:
    rows = pa.RecordBatch.from_pylist([{"uuid": uuid, "run_uuid": "r", "seq": 1, **values}], schema=schema)
    writer = FileWriter(str(lake.root), LARGE_COLUMNS)
    return [*writer.add({name: rows}), *writer.flush()]


def made_with(schema: pa.Schema, root: Path) -> Lake:
    """A lake as a clew with that schema has left it."""
    lake = Lake(root)
    lake.append(NAME, schema, write(lake, schema, "theirs"), BatchId("app", 0))
    return lake


def columns(lake: Lake) -> list[str]:
    return [field.name for field in DeltaTable(str(lake.root / NAME)).schema().fields]


def rows(lake: Lake, *names: str) -> list[tuple[Any, ...]]:
    found = DeltaTable(str(lake.root / NAME)).to_pyarrow_table().to_pylist()
    return sorted(tuple(row[name] for name in ("uuid", *names)) for row in found)


@pytest.mark.parametrize(
    ("theirs", "then"),
    [
        (RUN_FACETS.schema, RUN_FACETS.schema.names),
        (OLD, [*OLD.names, *NEW]),
        (LATER, LATER.names),
        (OTHER, [*OTHER.names, *NEW]),
    ],
    ids=["the same", "fewer", "more", "others"],
)
def test_a_table_of_another_clew_takes_our_rows(theirs: pa.Schema, then: list[str], tmp_path: Path) -> None:
    made_with(theirs, tmp_path)
    lake = Lake(tmp_path)
    for number in (1, 2):
        files = write(lake, RUN_FACETS.schema, f"ours {number}", facet_error="null")
        assert lake.append(NAME, RUN_FACETS.schema, files, BatchId("app", number))
    assert columns(lake) == then
    assert rows(lake, "facet_error") == [("ours 1", "null"), ("ours 2", "null"), ("theirs", None)]
    compact_tables(lake)
    assert rows(lake, "facet_error") == [("ours 1", "null"), ("ours 2", "null"), ("theirs", None)]
    found = scan_range(lake, RUN_FACETS, ValueRange("seq", 1, 1)).to_table()
    assert found.schema.equals(RUN_FACETS.schema)
    assert sorted(found["uuid"].to_pylist()) == ["ours 1", "ours 2", "theirs"]


def test_an_old_table_is_read_before_anything_is_added(tmp_path: Path) -> None:
    lake = made_with(OLD, tmp_path)
    found = scan_range(lake, RUN_FACETS, ValueRange("run_uuid", "r", "r")).to_table()
    assert [(row["uuid"], row["facet_error"]) for row in found.to_pylist()] == [("theirs", None)]


def test_a_death_between_the_columns_and_the_rows_is_made_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = made_with(OLD, tmp_path)
    files = write(lake, RUN_FACETS.schema, "ours")
    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", dying)
        with pytest.raises(DeltaError, match="went down"):
            lake.append(NAME, RUN_FACETS.schema, files, BatchId("app", 1))
    assert rows(lake) == [("theirs",)]
    again = Lake(tmp_path)
    assert again.append(NAME, RUN_FACETS.schema, files, BatchId("app", 1))
    assert not again.append(NAME, RUN_FACETS.schema, files, BatchId("app", 1))
    assert rows(lake) == [("ours",), ("theirs",)]
    assert columns(lake) == [*OLD.names, *NEW]


def dying(*_: object, **__: object) -> None:
    raise DeltaError("the machine went down")


def test_two_that_widen_a_table_at_once_both_get_in(tmp_path: Path) -> None:
    made_with(OLD, tmp_path)
    lakes = [Lake(tmp_path) for _ in range(4)]
    for lake in lakes:
        assert lake.table(NAME) is not None

    def append(place: int) -> bool:
        files = write(lakes[place], RUN_FACETS.schema, f"ours {place}")
        return lakes[place].append(NAME, RUN_FACETS.schema, files, BatchId(f"app {place}", 0))

    with ThreadPoolExecutor(len(lakes)) as pool:
        assert list(pool.map(append, range(len(lakes)))) == [True] * len(lakes)
    assert len(rows(lakes[0])) == len(lakes) + 1


def test_columns_are_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = made_with(OLD, tmp_path)
    lake.append(NAME, RUN_FACETS.schema, write(lake, RUN_FACETS.schema, "ours"), BatchId("app", 1))
    monkeypatch.setattr(TableAlterer, "add_columns", dying)
    monkeypatch.setattr(DeltaTable, "schema", dying)
    assert lake.append(NAME, RUN_FACETS.schema, write(lake, RUN_FACETS.schema, "more"), BatchId("app", 2))


@pytest.mark.parametrize("theirs", [OLD, LATER, OTHER], ids=["fewer", "more", "others"])
def test_a_derived_table_gets_its_new_columns_with_its_new_rows(theirs: pa.Schema, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for number, schema in enumerate((theirs, RUN_FACETS.schema)):
        lake.replace("runs", schema, write(lake, schema, str(number), "runs"), BatchId("derived", number))
    table = DeltaTable(str(tmp_path / "runs"))
    assert [field.name for field in table.schema().fields] == RUN_FACETS.schema.names
    assert table.to_pyarrow_table()["uuid"].to_pylist() == ["1"]
