"""Tests of ingesting the corpus of real events through the pipeline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.reference import stored
from tests.reference.events import lineage_events, log_lines
from tests.reference.expected import Tables, differences, expected_tables
from tests.reference.query_context import lake_tables

from clew.data_dir import DataDir
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream
from clew.pipeline.ingest import IngestStats

EVENT_TABLES: Tables = {
    "lineage_events": stored.lineage_events,
    "run_facets": stored.run_facets,
    "job_facets": stored.job_facets,
    "dataset_facets": stored.dataset_facets,
}


def test_stores_the_corpus_byte_for_byte(home: DataDir, ingest_log: Callable[..., IngestStats], shared: Path) -> None:
    files = sorted((shared / "corpus").rglob("*.jsonl"))
    bodies = [line for file in files for line in file.read_bytes().splitlines()]
    with LogWriter(home.log) as log:
        log.append(IncomingEvent(Stream.OPENLINEAGE, "corpus", body) for body in bodies)
    stats = ingest_log()
    lines = list(log_lines(home.log))
    tables = expected_tables(lines, EVENT_TABLES)
    assert differences(lake_tables(home.lake_folder, tables), tables) == {}
    # A RunEvent without a run id is rejected.
    valid = {body.strip() for body in bodies if b'"run": {}' not in body}
    assert (stats.events, stats.rejected) == (len(valid), len(set(bodies)) - len(valid))
    assert {event.text.encode() for event in lineage_events(lines)} == valid
