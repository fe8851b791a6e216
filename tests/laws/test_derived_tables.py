"""Properties of derived tables: in batch, streaming and rebuild, lake and index equal the reference implementation."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.integration.pipeline.records import write_events_locally
from tests.reference.contradictions import contradictory_events
from tests.reference.events import log_lines
from tests.reference.expected import INDEX, LAKE, differences, expected_tables, serialize_row
from tests.reference.query_context import index_tables, lake_tables, restrict_to_index
from tests.support.paths import ROOT

from clew.collector.file_import import guess_stream
from clew.data_dir import DataDir
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.facets import FacetOrder
from clew.lake import facet_columns
from clew.lake.lake import Lake
from clew.lake.schemas import DERIVED_TABLE_NAMES
from clew.pipeline import ingest, workers
from clew.pipeline.derive import refresh
from clew.pipeline.derive.refresh import refresh_derived_tables
from clew.pipeline.pipeline import Pipeline, open_pipeline
from clew.pipeline.reprocess import rebuild_index

pytestmark = pytest.mark.spark

TRIGGERS = 4
REFRESHES = 4
GENERATED_EVENTS = 200
CONTRADICTORY_LOGS = 80


def load_corpus(request: pytest.FixtureRequest) -> list[bytes]:
    files = sorted((request.getfixturevalue("shared") / "corpus").rglob("*.jsonl"))
    return [line for file in files for line in file.read_bytes().splitlines()]


def generate_events(_: pytest.FixtureRequest) -> list[bytes]:
    """Return the events of the golden cases, generated events and contradictory events."""
    files = sorted((ROOT / "tests" / "cases" / "pipeline").glob("*/events.ndjson"))
    golden = [line for file in files for line in file.read_bytes().splitlines()]
    generate = runpy.run_path(str(ROOT / "bench" / "generate.py"))
    generated = islice(generate["generate_events"](10_000, seed=5), GENERATED_EVENTS)
    return [*golden, *generated, *contradictory_events(CONTRADICTORY_LOGS)]


def shuffle_events(request: pytest.FixtureRequest) -> list[bytes]:
    """Return the generated events, each once or twice, in random order."""
    events = generate_events(request)
    return Random(3).sample(events * 2, len(events) * 3 // 2)


ORIGINS: dict[str, Callable[[pytest.FixtureRequest], list[bytes]]] = {
    "corpus": load_corpus,
    "generated": generate_events,
    "shuffled": shuffle_events,
}


def run_in_triggers(pipeline: Pipeline) -> None:
    size = sum(path.stat().st_size for path in pipeline.home.log.glob("*.ndjson"))
    result = replace(pipeline, bytes_per_trigger=size // TRIGGERS + 1).run()
    assert result.batches == TRIGGERS


def run_with_large_facets(pipeline: Pipeline) -> None:
    """Run with limits that make every facet and event large; the limits are changed in this process only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(facet_columns, "MAX_INLINE_BYTES", 0)
        patch.setattr(workers, "LARGE_EVENT_BYTES", 0)
        for limit in ("BYTES_PER_BATCH", "MAX_LARGE_EVENTS_BYTES"):
            patch.setattr(workers, limit, 10_000)
        patch.setattr(ingest, "write_events", write_events_locally)
        pipeline.ingest_available()
    assert pipeline.lake.row_counts()["large_facets"] > len(ORIGINS)
    pipeline.refresh()
    current = DeltaTable(str(pipeline.lake.root / "current_dataset_facets")).to_pyarrow_table()
    assert current["facet"].null_count == current.num_rows > 0, "facets must stay in large_facets"


MODES: dict[str, Callable[[Pipeline], object]] = {
    "batch": Pipeline.run,
    "stream": run_in_triggers,
    "large_facets": run_with_large_facets,
}


@pytest.mark.parametrize(
    ("mode", "origin", "order"),
    [
        ("batch", "corpus", FacetOrder.RECEIVED),
        ("batch", "generated", FacetOrder.RECEIVED),
        ("stream", "corpus", FacetOrder.RECEIVED),
        ("stream", "generated", FacetOrder.RECEIVED),
        ("stream", "shuffled", FacetOrder.RECEIVED),
        ("stream", "shuffled", FacetOrder.EVENT_TIME),
        ("large_facets", "corpus", FacetOrder.RECEIVED),
        ("large_facets", "shuffled", FacetOrder.EVENT_TIME),
    ],
)
def test_lake_and_index_equal_reference_implementation(
    mode: str, origin: str, order: FacetOrder, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    home = DataDir(tmp_path)
    with LogWriter(home.log) as log:
        for body in ORIGINS[origin](request):
            log.append_duplicates([IncomingEvent(guess_stream(body), origin, body)])
    with open_pipeline(home, spark=spark, facet_order=order) as pipeline:
        MODES[mode](pipeline)
    lines = list(log_lines(home.log))
    is_by_time = order is FacetOrder.EVENT_TIME
    expected_lake = expected_tables(lines, LAKE, is_by_time=is_by_time)
    expected_index = restrict_to_index(expected_tables(lines, INDEX, is_by_time=is_by_time))
    assert differences(lake_tables(home.lake_folder, expected_lake), expected_lake) == {}
    assert differences(index_tables(home.index_file, expected_index), expected_index) == {}
    if mode == "stream":
        assert differences(index_tables(rebuild(home, spark), expected_index), expected_index) == {}


@pytest.mark.parametrize("order", FacetOrder)
def test_incremental_refreshes_equal_a_rebuild(
    order: FacetOrder,
    spark: SparkSession,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home, events = DataDir(tmp_path), shuffle_events(request)
    # Rebuilds only at the first refresh.
    monkeypatch.setattr(refresh, "_MAX_NEW_SHARE", 1.0)
    with LogWriter(home.log) as log, open_pipeline(home, spark=spark, facet_order=order) as pipeline:
        for number in range(REFRESHES):
            for body in events[number::REFRESHES]:
                log.append_duplicates([IncomingEvent(guess_stream(body), "shuffled", body)])
            pipeline.run()
        refreshed = {name: read_rows(pipeline.lake, name) for name in DERIVED_TABLE_NAMES}
        assert refresh_derived_tables(spark, pipeline.lake, is_full=True)
        rebuilt = {name: read_rows(pipeline.lake, name) for name in DERIVED_TABLE_NAMES}
    assert differences(refreshed, rebuilt) == {}
    expected = expected_tables(list(log_lines(home.log)), LAKE, is_by_time=order is FacetOrder.EVENT_TIME)
    assert differences(lake_tables(home.lake_folder, expected), expected) == {}


def read_rows(lake: Lake, name: str) -> list[str]:
    return sorted(map(serialize_row, lake.require_table(name).to_pyarrow_table().to_pylist()))


def rebuild(home: DataDir, spark: SparkSession) -> Path:
    path = home.root / "rebuilt.sqlite"
    rebuild_index(spark, Lake(home.lake), path)
    return path
