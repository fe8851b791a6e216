"""Tests of recent batches and table sizes, read from the Delta log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from clew.lake.compaction import compact_tables
from clew.lake.data_files import FileWriter
from clew.lake.history import TableSize, read_table_sizes, recent_batches
from clew.lake.lake import BatchId, Lake
from clew.lake.schemas import LARGE_COLUMNS, SOURCE_TABLE_NAMES, TABLES_BY_NAME

NAMES = ("lineage_events", "rejected_events")


def append(lake: Lake, name: str, number: int, rows: int) -> None:
    table = TABLES_BY_NAME[name]
    batch = pa.RecordBatch.from_pylist([{"event_id": f"{number}.{row}"} for row in range(rows)], schema=table.schema)
    writer = FileWriter(str(lake.root), LARGE_COLUMNS)
    lake.append(name, table.schema, [*writer.add({name: batch}), *writer.flush()], BatchId("app", number))


def test_recent_batches_and_table_sizes(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.create_or_validate()
    for number in range(7):
        append(lake, "lineage_events", number, number + 1)
    append(lake, "rejected_events", 6, 2)
    compact_tables(lake)
    batches = recent_batches(tmp_path, NAMES, 3)
    assert [(batch.app_id, batch.number) for batch in batches] == [("app", 6), ("app", 5), ("app", 4)]
    assert [batch.rows for batch in batches] == [
        {"lineage_events": 7, "rejected_events": 2},
        {"lineage_events": 6},
        {"lineage_events": 5},
    ]
    assert batches[0].committed_at_ms >= batches[1].committed_at_ms > 0
    sizes = {size.name: size for size in read_table_sizes(tmp_path)}
    assert sorted(sizes) == sorted(SOURCE_TABLE_NAMES)
    files = [Path(file).stat().st_size for file in lake.files("lineage_events")]
    assert sizes["lineage_events"] == TableSize("lineage_events", 28, 1, sum(files))
    assert sizes["run_facets"] == TableSize("run_facets", 0, 0, 0)


def test_status_does_not_import_heavy_modules() -> None:
    code = (
        "import sys, clew.cli.commands.pipeline, clew.pipeline.status; print({'pyarrow', 'pyspark'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"
