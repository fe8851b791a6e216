"""Tests of reading events back: all of them, in the order of receipt, in partitions of limited size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clew.lake import scan
from clew.lake.data_files import FileWriter
from clew.lake.lake import BatchId, Lake
from clew.lake.scan import plan_partitions, read_stored_events, sample_facets
from clew.lake.schemas import FACET_TABLES, LARGE_COLUMNS, LINEAGE_EVENTS, REJECTED_EVENTS, TABLES_BY_NAME


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    new_lake = Lake(tmp_path / "lake")
    new_lake.create_or_validate()
    return new_lake


def append(lake: Lake, name: str, number: int, rows: list[dict[str, Any]]) -> None:
    table = TABLES_BY_NAME[name]
    writer = FileWriter(str(lake.root), LARGE_COLUMNS)
    files = [*writer.add({name: pa.RecordBatch.from_pylist(rows, schema=table.schema)}), *writer.flush()]
    assert lake.append(name, table.schema, files, BatchId("app", number))


def lineage(*seqs: int, text: str = "{}", **columns: Any) -> list[dict[str, Any]]:
    return [{"event_id": f"e{seq}", "seq": seq, "event": text, **columns} for seq in seqs]


def test_empty_lake_has_no_partitions(lake: Lake) -> None:
    assert plan_partitions(lake, 2) == []


def test_events_are_read_in_the_order_of_receipt(lake: Lake) -> None:
    append(lake, LINEAGE_EVENTS.name, 0, lineage(30, 10))
    append(lake, LINEAGE_EVENTS.name, 1, lineage(20, 5, is_raw_only=True))
    (partition,) = plan_partitions(lake, 2)
    events = list(read_stored_events(partition))
    assert [event.seq for event in events] == [5, 10, 20, 30]
    assert [event.is_raw_only for event in events] == [True, False, True, False]
    assert {bytes(event.body or b"") for event in events} == {b"{}"}


def test_partitions_are_limited_in_size(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        append(lake, LINEAGE_EVENTS.name, number, lineage(number, text="é" * 50_000))
    assert len(plan_partitions(lake, 2)) == 1
    monkeypatch.setattr(scan, "_MAX_PARTITION_BYTES", 1)
    partitions = plan_partitions(lake, 2)
    assert sorted(event.seq for partition in partitions for event in read_stored_events(partition)) == [0, 1, 2, 3]
    assert [len(partition) for partition in partitions] == [1, 1, 1, 1]


def test_rejected_events_are_read_without_body(lake: Lake) -> None:
    append(lake, REJECTED_EVENTS.name, 0, [{"event_id": "bad", "seq": 7, "body": b"\xff"}])
    (partition,) = plan_partitions(lake, 2)
    assert [(event.event_id, event.body) for event in read_stored_events(partition)] == [("bad", None)]


def test_reads_files_without_a_later_column(lake: Lake) -> None:
    append(lake, LINEAGE_EVENTS.name, 0, lineage(1))
    (path,) = lake.files(LINEAGE_EVENTS.name)
    pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["is_raw_only"]), path)
    append(lake, LINEAGE_EVENTS.name, 1, lineage(2, is_raw_only=True))
    (partition,) = plan_partitions(lake, 2)
    assert [event.is_raw_only for event in read_stored_events(partition)] == [False, True]


def test_sample_facets_covers_every_table(lake: Lake) -> None:
    assert sample_facets(lake) == []
    for number, table in enumerate(FACET_TABLES):
        facets = [{"uuid": f"u{row}", "facet": f"{table.name} {row}"} for row in range(5)]
        append(lake, table.name, number, [*facets, {"uuid": "large", "facet": None}])
    assert len(sample_facets(lake)) == 15
    assert len(sample_facets(lake, 3)) == 9


def test_partitions_decrease_in_size(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(40):
        append(lake, LINEAGE_EVENTS.name, number, lineage(number, text="é" * 5_000))
    (single_partition,) = plan_partitions(lake, 2)
    size = sum(group.bytes for group in single_partition)
    monkeypatch.setattr(scan, "_MAX_PARTITION_BYTES", size)
    monkeypatch.setattr(scan, "_MIN_PARTITION_BYTES", 1)
    counts = [len(partition) for partition in plan_partitions(lake, 2)]
    assert counts[0] == len(single_partition) // 4
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 1
    assert sum(counts) == len(single_partition)
