"""Tests of golden cases: events of the log and the expected table rows.

The cases are ingested as a stream. tests/laws compares batches with the reference, on the events of all cases at once.
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
from clew.pipeline.pipeline import Pipeline, open_pipeline

CASES = sorted(PIPELINE_CASES.iterdir())

pytestmark = pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)


def test_stream_with_duplicates_and_a_lost_checkpoint(case: Path, tmp_path: Path, spark: SparkSession) -> None:
    home = DataDir(tmp_path)
    write_log_with_duplicates(home.log, list(read_bodies(case)))
    with open_pipeline(home, spark=spark) as pipeline:
        ingest_in_three_batches(pipeline)
    shutil.rmtree(home.checkpoint)
    with open_pipeline(home, spark=spark) as pipeline:
        assert pipeline.run().events == 0
    assert select_columns(case, partial(read_table, Lake(home.lake)), home) == read_expected(case)


def ingest_in_three_batches(pipeline: Pipeline) -> None:
    size = sum(path.stat().st_size for path in pipeline.home.log.glob("*.ndjson"))
    assert replace(pipeline, bytes_per_trigger=size // 3 + 1).ingest_available().batches == 3


def read_bodies(case: Path) -> Iterator[bytes]:
    yield from (case / "events.ndjson").read_bytes().splitlines()


def write_log_with_duplicates(folder: Path, events: list[bytes]) -> None:
    """Write a log with every valid event twice, as if the first were outside the deduplication window."""
    folder.mkdir()
    now = datetime.now(UTC).isoformat()
    valid = [body for body in events if guess_stream(body) and is_json(body)]
    lines = [LogRecord(now, guess_stream(body), "case", event=Raw(body)) for body in valid * 2]
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


def read_expected(case: Path) -> dict[str, list[str]]:
    return {
        path.stem: normalize_table(json.loads(path.read_text())) for path in sorted((case / "expected").glob("*.json"))
    }


def select_columns(case: Path, read: Callable[[str], list[dict[str, Any]]], home: DataDir) -> dict[str, list[str]]:
    """Select the tables and columns of the case."""
    tables = {}
    for path in sorted((case / "expected").glob("*.json")):
        expected_rows = json.loads(path.read_text())
        table = read_stored_facets(home) if path.stem == "index_facets" else read(path.stem)
        columns = {column for row in expected_rows for column in row}
        tables[path.stem] = normalize_table([select_row(row, expected_rows, columns) for row in table])
    return tables


def select_row(row: dict[str, Any], expected_rows: list[dict[str, Any]], columns: set[str]) -> dict[str, Any]:
    """Select the columns of the first equal expected row, or else all columns of the case."""
    for expected_row in expected_rows:
        if all(column in row and normalize_value(row[column]) == expected_row[column] for column in expected_row):
            return {column: row[column] for column in expected_row}
    return {column: row.get(column) for column in columns}


def read_table(lake: Lake, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = lake.require_table(table).to_pyarrow_table().to_pylist()
    return rows


def read_stored_facets(home: DataDir) -> list[dict[str, Any]]:
    return [
        {"kind": row["kind"], "name": row["name"], "facet": json.loads(row["body"] or "null")}
        for row in index_facets(connect_reader(home.index_file))
    ]


def normalize_table(table: list[dict[str, Any]]) -> list[str]:
    return sorted(
        json.dumps({key: normalize_value(value) for key, value in row.items()}, sort_keys=True) for row in table
    )


def normalize_value(value: Any) -> Any:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
