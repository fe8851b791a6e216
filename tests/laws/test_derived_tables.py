"""By batch, by stream, rebuilt: whichever way events take, tables and index are as a naive program says."""

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
from tests.integration.pipeline.records import write_here
from tests.reference.contradictions import contradictory_events
from tests.reference.events import log_lines
from tests.reference.expected import INDEX, LAKE, differences, expected
from tests.reference.query_context import index_tables, kept_in_index, lake_tables
from tests.support.paths import ROOT

from clew.collector.file_import import guess_stream
from clew.data_dir import DataDir
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.facets import FacetOrder
from clew.lake import facet_columns
from clew.lake.lake import Lake
from clew.pipeline import ingest, workers
from clew.pipeline.pipeline import Pipeline, open_pipeline
from clew.pipeline.reprocess import rebuild_index

pytestmark = pytest.mark.spark

TRIGGERS = 4
GENERATED_EVENTS = 200
CONTRADICTIONS = 80


def corpus(request: pytest.FixtureRequest) -> list[bytes]:
    files = sorted((request.getfixturevalue("shared") / "corpus").rglob("*.jsonl"))
    return [line for file in files for line in file.read_bytes().splitlines()]


def made(_: pytest.FixtureRequest) -> list[bytes]:
    """The events of the golden cases, generated ones, and ones that contradict each other."""
    files = sorted((ROOT / "tests" / "cases" / "pipeline").glob("*/events.ndjson"))
    golden = [line for file in files for line in file.read_bytes().splitlines()]
    generate = runpy.run_path(str(ROOT / "bench" / "generate.py"))
    generated = islice(generate["events"](10_000, seed=5), GENERATED_EVENTS)
    return [*golden, *generated, *contradictory_events(CONTRADICTIONS)]


def shuffled(request: pytest.FixtureRequest) -> list[bytes]:
    """The same, each once or twice, in an order that nobody meant."""
    events = made(request)
    return Random(3).sample(events * 2, len(events) * 3 // 2)


ORIGINS: dict[str, Callable[[pytest.FixtureRequest], list[bytes]]] = {
    found.__name__: found for found in (corpus, made, shuffled)
}


def in_triggers(pipeline: Pipeline) -> None:
    size = sum(path.stat().st_size for path in pipeline.home.log.glob("*.ndjson"))
    taken = replace(pipeline, bytes_per_trigger=size // TRIGGERS + 1).run()
    assert taken.batches == TRIGGERS


def with_all_facets_apart(pipeline: Pipeline) -> None:
    """As if every facet and every event were large: a changed limit is changed in this process only."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(facet_columns, "MAX_INLINE_BYTES", 0)
        changed.setattr(workers, "LARGE_EVENT_BYTES", 0)
        for limit in ("BYTES_PER_BATCH", "MAX_LARGE_EVENTS_BYTES"):
            changed.setattr(workers, limit, 10_000)
        changed.setattr(ingest, "write_events", write_here)
        pipeline.ingest_available()
    assert pipeline.lake.row_counts()["large_facets"] > len(ORIGINS)
    pipeline.refresh()
    current = DeltaTable(str(pipeline.lake.root / "current_dataset_facets")).to_pyarrow_table()
    assert current["facet"].null_count == current.num_rows > 0, "they stay apart"


MODES: dict[str, Callable[[Pipeline], object]] = {
    "batch": Pipeline.run,
    "stream": in_triggers,
    "apart": with_all_facets_apart,
}


@pytest.mark.parametrize(
    ("mode", "origin", "order"),
    [
        ("batch", "corpus", FacetOrder.RECEIVED),
        ("batch", "made", FacetOrder.RECEIVED),
        ("stream", "corpus", FacetOrder.RECEIVED),
        ("stream", "made", FacetOrder.RECEIVED),
        ("stream", "shuffled", FacetOrder.RECEIVED),
        ("stream", "shuffled", FacetOrder.EVENT_TIME),
        ("apart", "corpus", FacetOrder.RECEIVED),
        ("apart", "shuffled", FacetOrder.EVENT_TIME),
    ],
)
def test_tables_and_index_are_as_the_oracle_says(
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
    of_lake = expected(lines, LAKE, is_by_time=is_by_time)
    of_index = kept_in_index(expected(lines, INDEX, is_by_time=is_by_time))
    assert differences(lake_tables(home.lake_folder, of_lake), of_lake) == {}
    assert differences(index_tables(home.index_file, of_index), of_index) == {}
    if mode == "stream":
        assert differences(index_tables(rebuilt(home, spark), of_index), of_index) == {}


def rebuilt(home: DataDir, spark: SparkSession) -> Path:
    path = home.root / "rebuilt.sqlite"
    rebuild_index(spark, Lake(home.lake), path)
    return path
