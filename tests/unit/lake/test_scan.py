"""The events of a lake, read back: all of them, in the order received, in parts that fit into memory."""

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
    made = Lake(tmp_path / "lake")
    made.create_or_validate()
    return made


def append(lake: Lake, name: str, number: int, rows: list[dict[str, Any]]) -> None:
    table = TABLES_BY_NAME[name]
    writer = FileWriter(str(lake.root), LARGE_COLUMNS)
    files = [*writer.add({name: pa.RecordBatch.from_pylist(rows, schema=table.schema)}), *writer.flush()]
    assert lake.append(name, table.schema, files, BatchId("app", number))


def lineage(*seqs: int, text: str = "{}", **more: Any) -> list[dict[str, Any]]:
    return [{"event_id": f"e{seq}", "seq": seq, "event": text, **more} for seq in seqs]


def test_an_empty_lake_has_none(lake: Lake) -> None:
    assert plan_partitions(lake, 2) == []


def test_events_come_in_the_order_received(lake: Lake) -> None:
    append(lake, LINEAGE_EVENTS.name, 0, lineage(30, 10))
    append(lake, LINEAGE_EVENTS.name, 1, lineage(20, 5, is_raw_only=True))
    (part,) = plan_partitions(lake, 2)
    found = list(read_stored_events(part))
    assert [event.seq for event in found] == [5, 10, 20, 30]
    assert [event.is_raw_only for event in found] == [True, False, True, False]
    assert {bytes(event.body or b"") for event in found} == {b"{}"}


def test_many_small_files_are_one_part_and_large_ones_are_several(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        append(lake, LINEAGE_EVENTS.name, number, lineage(number, text="é" * 50_000))
    assert len(plan_partitions(lake, 2)) == 1
    monkeypatch.setattr(scan, "_MAX_PARTITION_BYTES", 1)
    parts = plan_partitions(lake, 2)
    assert sorted(event.seq for part in parts for event in read_stored_events(part)) == [0, 1, 2, 3]
    assert [len(part) for part in parts] == [1, 1, 1, 1]


def test_of_a_rejected_event_only_its_name_is_read(lake: Lake) -> None:
    append(lake, REJECTED_EVENTS.name, 0, [{"event_id": "bad", "seq": 7, "body": b"\xff"}])
    (part,) = plan_partitions(lake, 2)
    assert [(event.event_id, event.body) for event in read_stored_events(part)] == [("bad", None)]


def test_a_file_may_be_older_than_a_column(lake: Lake) -> None:
    append(lake, LINEAGE_EVENTS.name, 0, lineage(1))
    (path,) = lake.files(LINEAGE_EVENTS.name)
    pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["is_raw_only"]), path)
    append(lake, LINEAGE_EVENTS.name, 1, lineage(2, is_raw_only=True))
    (part,) = plan_partitions(lake, 2)
    assert [event.is_raw_only for event in read_stored_events(part)] == [False, True]


def test_facets_are_sampled_from_every_table(lake: Lake) -> None:
    assert sample_facets(lake) == []
    for number, table in enumerate(FACET_TABLES):
        facets = [{"uuid": f"u{place}", "facet": f"{table.name} {place}"} for place in range(5)]
        append(lake, table.name, number, [*facets, {"uuid": "large", "facet": None}])
    assert len(sample_facets(lake)) == 15
    assert len(sample_facets(lake, 3)) == 9


def test_parts_become_smaller_towards_the_end(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(40):
        append(lake, LINEAGE_EVENTS.name, number, lineage(number, text="é" * 5_000))
    (whole,) = plan_partitions(lake, 2)
    size = sum(group.bytes for group in whole)
    monkeypatch.setattr(scan, "_MAX_PARTITION_BYTES", size)
    monkeypatch.setattr(scan, "_MIN_PARTITION_BYTES", 1)
    counts = [len(part) for part in plan_partitions(lake, 2)]
    assert counts[0] == len(whole) // 4
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 1
    assert sum(counts) == len(whole)
