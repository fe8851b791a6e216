"""Golden cases: what goes into the log, and what must then stand in the tables.

They are taken as a stream here; that batches lead to the same tables is seen on the events of all cases at once, where
the oracle is asked.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from pyspark.sql import SparkSession
from tests.reference.facet_blobs import index_facets
from tests.support.paths import PIPELINE_CASES

from clew.collector.file_import import guess_stream
from clew.data_dir import DataDir
from clew.eventlog.segments import LogRecord, segment_path
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.index.backends.sqlite import connect_reader
from clew.lake.lake import Lake
from clew.pipeline.derive import TableCatalog
from clew.pipeline.derive.refresh import table_catalog
from clew.pipeline.pipeline import Pipeline, open_pipeline
from clew.pipeline.spark.session import tuned_for

# Where some event tables are empty, all derived tables are written as well.
SPARSE = {"lost_cells", "rejected"}
CASES = sorted(PIPELINE_CASES.iterdir())

pytestmark = pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)


def test_a_stream_leads_to_the_expected_rows_though_events_repeat_and_its_checkpoint_is_lost(
    case: Path, tmp_path: Path, spark: SparkSession
) -> None:
    home = DataDir(tmp_path)
    write_log_with_every_event_twice(home.log, list(bodies(case)))
    with open_pipeline(home, spark=spark) as pipeline:
        take_in_triggers(pipeline)
    shutil.rmtree(home.checkpoint)
    with open_pipeline(home, spark=spark) as pipeline:
        assert pipeline.ingest_available().events == 0
        if case.name in SPARSE:
            pipeline.refresh()
    assert derived(case, home, spark) == expected(case)


def derived(case: Path, home: DataDir, spark: SparkSession) -> dict[str, list[str]]:
    """What the case speaks of, and nothing else: the oracle's test has all tables written, of all cases at once."""
    lake = Lake(home.lake)
    with tuned_for(spark, lake), table_catalog(spark, lake) as tables:
        return rows(case, partial(derived_rows, tables), home)


def take_in_triggers(pipeline: Pipeline) -> None:
    size = sum(path.stat().st_size for path in pipeline.home.log.glob("*.ndjson"))
    assert replace(pipeline, bytes_per_trigger=size // 3 + 1).ingest_available().batches == 3


def bodies(case: Path) -> Iterator[bytes]:
    yield from (case / "events.ndjson").read_bytes().splitlines()


def write_log_with_every_event_twice(folder: Path, events: list[bytes]) -> None:
    """As a log would be whose writer did not know the events it had stored long ago."""
    folder.mkdir()
    now = datetime.now(UTC).isoformat()
    sound = [body for body in events if guess_stream(body) and is_json(body)]
    lines = [LogRecord(now, guess_stream(body), "case", event=Raw(body)) for body in sound * 2]
    with LogWriter(folder) as log:
        log.append(IncomingEvent(guess_stream(body), "case", body) for body in events if not is_json(body))
    with segment_path(folder, 0).open("ab") as file:
        file.writelines(msgspec.json.encode(line) + b"\n" for line in lines)


def is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return b"NaN" not in body


def expected(case: Path) -> dict[str, list[str]]:
    return {path.stem: normal(json.loads(path.read_text())) for path in sorted((case / "expected").glob("*.json"))}


def rows(case: Path, read: Callable[[str], list[dict[str, Any]]], home: DataDir) -> dict[str, list[str]]:
    """The columns that the case speaks of, of the tables that it speaks of."""
    found = {}
    for path in sorted((case / "expected").glob("*.json")):
        wanted = json.loads(path.read_text())
        table = stored_facets(home) if path.stem == "index_facets" else read(path.stem)
        columns = {column for row in wanted for column in row}
        found[path.stem] = normal([fit(row, wanted, columns) for row in table])
    return found


def fit(row: dict[str, Any], wanted: list[dict[str, Any]], columns: set[str]) -> dict[str, Any]:
    """A row cut to the columns of an expected row that it agrees with, or to all columns spoken of."""
    for want in wanted:
        if all(column in row and plain(row[column]) == want[column] for column in want):
            return {column: row[column] for column in want}
    return {column: row.get(column) for column in columns}


def derived_rows(tables: TableCatalog, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tables[table].toArrow().to_pylist()
    return found


def stored_facets(home: DataDir) -> list[dict[str, Any]]:
    return [
        {"kind": row["kind"], "name": row["name"], "facet": json.loads(row["body"] or "null")}
        for row in index_facets(connect_reader(home.index_file))
    ]


def normal(table: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps({key: plain(value) for key, value in row.items()}, sort_keys=True) for row in table)


def plain(value: Any) -> Any:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
