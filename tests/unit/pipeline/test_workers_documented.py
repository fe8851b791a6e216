"""Tests that documented events are stored with their values, and that the tables can be read back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from tests.support.documented_events import DATAFRAME_EVENT, DOCUMENTED_EVENTS

from clew.data_dir import DataDir
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.notebook import DataFrameEvent
from clew.events.openlineage import parse_time
from clew.events.streams import Stream
from clew.index.queries.reader import IndexReader
from clew.lake.backfill_state import read_backfilled_ranges
from clew.lake.lake import Lake
from clew.lake.scan import plan_partitions
from clew.pipeline.ingest import IngestStats
from clew.pipeline.workers import read_lake_events

IngestLog = Callable[..., IngestStats]


@pytest.fixture
def lake(home: DataDir, ingest_log: IngestLog) -> Lake:
    """Ingest one event of each stream."""
    with LogWriter(home.log) as log:
        for stream, event in DOCUMENTED_EVENTS.items():
            log.append([IncomingEvent(Stream(stream), "test", json.dumps(event).encode())])
    stats = ingest_log()
    assert (stats.events, stats.rejected) == (3, 0)
    return Lake(home.lake)


def rows(lake: Lake, name: str) -> list[dict[str, Any]]:
    table = lake.table(name)
    assert table is not None
    result: list[dict[str, Any]] = table.to_pyarrow_table().to_pylist()
    return result


def test_events_are_stored_as_received(lake: Lake) -> None:
    tables = {"runtime": "runtime_events", "openlineage": "lineage_events", "dataframe": "dataframe_events"}
    for stream, event in DOCUMENTED_EVENTS.items():
        (row,) = rows(lake, tables[stream])
        assert json.loads(row["event"]) == event


def test_a_dataframe_event_has_the_time_received(lake: Lake, home: DataDir) -> None:
    (row,) = rows(lake, "dataframe_events")
    assert row["event_time"] == row["received_at"]
    assert row["operation_code"] == DATAFRAME_EVENT["operation_code"]
    with IndexReader(home.index) as index:
        (operation,) = index.operations("12c3604f")
    assert operation["event_time"] == round(row["received_at"].timestamp() * 1_000_000)


def test_a_rebuild_from_the_lake_has_the_same_time(lake: Lake) -> None:
    (row,) = rows(lake, "dataframe_events")
    partitions = plan_partitions(lake, 1)
    numbers = iter([pa.RecordBatch.from_pylist([{"index": number}]) for number in range(len(partitions))])
    events = [item.event for item in read_lake_events(numbers, partitions, read_backfilled_ranges(lake))]
    (event,) = (event for event in events if isinstance(event, DataFrameEvent))
    assert parse_time(event.timestamp) == row["received_at"]


def test_documented_facets_are_valid(lake: Lake) -> None:
    facets = [*rows(lake, "run_facets"), *rows(lake, "dataset_facets")]
    assert {facet["name"] for facet in facets} == {
        "performance",
        "marimoExecution",
        "schema",
        "dataSource",
        "columnMetrics",
        "columnLineage",
    }
    assert {facet["facet_error"] for facet in facets} == {None}
