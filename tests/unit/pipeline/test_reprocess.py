"""Tests of backfill and rebuild: results are the same as those of an ingest, without duplicates."""

from __future__ import annotations

import json
import runpy
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from tests.reference.facet_blobs import index_facets
from tests.support.paths import ROOT

from clew.collector.file_import import guess_stream
from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.segments import end_position, split_ranges
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.index.backends.sqlite import connect_reader
from clew.index.changes import ChangeSet
from clew.index.writer import IndexWriter
from clew.lake import backfill_state, facets
from clew.lake.backfill_state import has_pending_backfill, read_backfilled_ranges
from clew.lake.compaction import compact_tables
from clew.lake.facets import TooManyRawEventsError, load_run_facets
from clew.lake.history import count_pending_backfill
from clew.lake.lake import WORKER_REPORTS_DIR, Lake
from clew.lake.schemas import EVENT_TABLES, FACET_TABLES
from clew.pipeline import reprocess, workers
from clew.pipeline.checkpoint import RawOnlyRanges
from clew.pipeline.ingest import BatchIngestor
from clew.pipeline.locks import BACKFILL_LOCK, acquire_lock
from clew.pipeline.reprocess import BackfillProgress, BackfillRunner, load_index, run_backfill
from clew.pipeline.worker_reports import WorkerReport, spill_changes

pytestmark = pytest.mark.slow

CASES = sorted((ROOT / "tests" / "cases" / "pipeline").glob("*/events.ndjson"))
GENERATE = runpy.run_path(str(ROOT / "bench" / "generate.py"))
ALL_RAW_ONLY: RawOnlyRanges = ((0, 1 << 62),)
CHUNK_BYTES = 256 << 10

MapFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class LocalRows:
    """In-process stand-in for a DataFrame, evaluated one partition at a time."""

    def __init__(self, partitions: list[list[pa.RecordBatch]]) -> None:
        self._partitions = partitions

    def mapInArrow(self, function: MapFunction, _: object) -> LocalRows:  # noqa: N802  # Spark's name
        return LocalRows([list(function(iter(partition))) for partition in self._partitions])

    def toArrow(self) -> pa.Table:  # noqa: N802  # Spark's name
        return pa.Table.from_batches([batch for partition in self._partitions for batch in partition])


class LocalSpark:
    """Stand-in for a Spark session with two workers."""

    sparkContext = SimpleNamespace(defaultParallelism=2)  # noqa: N815  # Spark's name

    def range(self, start: int, end: int, step: int, _: int) -> LocalRows:
        ids = range(start, end, step)
        return LocalRows([[pa.RecordBatch.from_pydict({"id": pa.array([id_], pa.int64())})] for id_ in ids])


def make_event(number: int, **fields: Any) -> bytes:
    facets: dict[str, Any] = {"note": {"text": number}, "flawed": number}
    if number % 4 == 0:
        facets["plan"] = {"text": "x" * 100_000}
    if number % 5 == 0:
        facets["note"] = {"_deleted": True}
    dataset = {
        "namespace": "n",
        "name": f"d{number % 3}",
        "facets": {"version": {"datasetVersion": str(number % 2)}, "schema": {"fields": [{"name": f"c{number}"}]}},
        "outputFacets": {"outputStatistics": {"rowCount": number}},
    }
    lineage = {"fields": {"c": {"inputFields": [{"namespace": "n", "name": "s", "field": "c"}]}}}
    output = {**dataset, "facets": {**dataset["facets"], "columnLineage": lineage}}  # type: ignore[dict-item]
    job = {"namespace": "n", "name": f"j{number % 3}", "facets": {"jobType": {"jobType": "T", "integration": "I"}}}
    run = {"runId": f"run-{number // 4}", "facets": facets}
    body = {
        "eventTime": f"2026-01-01T10:{59 - number % 60:02}:00.123456Z",
        "eventType": ("START", "RUNNING", "OTHER", "COMPLETE")[number % 4],
        "run": run,
        "job": job,
        "inputs": [{**dataset, "outputFacets": {}, "inputFacets": {"dataQualityMetrics": {"rowCount": 1}}}],
        "outputs": [output],
        **fields,
    }
    return json.dumps({key: value for key, value in body.items() if value is not None}).encode()


def make_special_events() -> list[bytes]:
    job_events = [make_event(number, run=None, eventType=None) for number in range(3)]
    dataset_events = [make_event(number, run=None, job=None, inputs=None, outputs=None) for number in range(3)]
    dataset = {"namespace": "n", "name": "d0", "facets": {"schema": {"fields": []}, "symlinks": {"identifiers": []}}}
    dataset_events = [json.dumps({**json.loads(body), "dataset": dataset}).encode() for body in dataset_events]
    parent = {"run": {"runId": "run-0"}, "job": {"namespace": "n", "name": "j0"}}
    child = make_event(50, run={"runId": "child", "facets": {"parent": parent}})
    return [*(make_event(number) for number in range(24)), *job_events, *dataset_events, child]


@pytest.fixture(scope="module")
def bodies() -> list[bytes]:
    cases = [body for case in CASES for body in case.read_bytes().splitlines()]
    return [*cases, *islice(GENERATE["generate_events"](60, 3), 60), *make_special_events()]


@pytest.fixture(scope="module")
def full_home(bodies: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> DataDir:
    """Create a data directory with all events fully ingested."""
    home = DataDir(tmp_path_factory.mktemp("whole"))
    with LogWriter(home.log) as log:
        log.append(IncomingEvent(guess_stream(body), "test", body) for body in bodies)
    ingest_log(home)
    return home


@pytest.fixture
def raw_home(full_home: DataDir, tmp_path: Path) -> DataDir:
    """Create a data directory with the same log, ingested raw-only."""
    home = DataDir(tmp_path / "raw")
    shutil.copytree(full_home.log, home.log)
    ingest_log(home, ALL_RAW_ONLY)
    return home


def ingest_log(home: DataDir, raw_only_ranges: RawOnlyRanges = (), batches: int = 3) -> None:
    lake = Lake(home.create().lake)
    lake.create_or_validate()
    end = end_position(home.log)
    cuts = [end * number // batches for number in range(batches + 1)]
    with (
        IndexWriter(home.index, lake.facet_order) as index,
        BatchIngestor(lake, index, "app", raw_only_ranges=raw_only_ranges) as ingestor,
    ):
        for number, (start, stop) in enumerate(pairwise(cuts)):
            batches_of_ranges = [
                pa.RecordBatch.from_pylist([asdict(range_)]) for range_ in split_ranges(home.log, start, stop, 1 << 20)
            ]
            rows: Any = LocalRows([batches_of_ranges])
            ingestor(rows, number)


def backfill(
    home: DataDir, chunk_bytes: int = CHUNK_BYTES, on_progress: Callable[[BackfillProgress], None] = lambda _: None
) -> BackfillProgress:
    spark: Any = LocalSpark()
    lake = Lake(home.lake)
    with IndexWriter(home.index, lake.facet_order) as index:
        return BackfillRunner(spark, lake, index, chunk_bytes=chunk_bytes, on_progress=on_progress)()


def read_run_ids(home: DataDir) -> list[str]:
    index = connect_reader(home.index_file)
    names = [row["run_uuid"] for row in index.execute("select run_uuid from runs order by run_uuid")]
    index.close()
    return names


def load_facets(home: DataDir, names: list[str]) -> dict[str, bytes]:
    lake = Lake(home.lake)
    return {name: msgspec.json.encode(load_run_facets(lake, name)) for name in names}


def read_tables(home: DataDir) -> dict[str, list[str]]:
    """Read all rows of event tables and index, without the columns that depend on how they were ingested."""
    lake = Lake(home.lake)
    tables = {}
    for table in EVENT_TABLES:
        delta = lake.table(table.name)
        rows = [] if delta is None else delta.to_pyarrow_table().to_pylist()
        tables[table.name] = sorted(str({**row, "is_raw_only": None}) for row in rows)
    index = connect_reader(home.index_file)
    names = [row["name"] for row in index.execute("select name from sqlite_master where type in ('table', 'view')")]
    for name in set(names) - {"meta", "batches", "zstd_dictionaries"}:
        rows = (
            index_facets(index) if name == "facets" else [dict(row) for row in index.execute(f"select * from {name}")]
        )
        tables[f"index.{name}"] = sorted(str({**row, "batch": None}) for row in rows)
    index.close()
    return tables


def test_facets_are_the_same_before_during_and_after(full_home: DataDir, raw_home: DataDir) -> None:
    names = read_run_ids(full_home)
    expected = load_facets(full_home, names)
    assert sum(len(msgspec.json.decode(body)["facets"]) for body in expected.values()) > 100
    assert not any(Lake(raw_home.lake).row_counts()[table.name] for table in FACET_TABLES)
    assert load_facets(raw_home, names) == expected
    remaining = []

    def check_sample(progress: BackfillProgress) -> None:
        remaining.append(progress.remaining)
        sample = names[len(remaining) :: 16]
        assert load_facets(raw_home, sample) == {name: expected[name] for name in sample}

    progress = backfill(raw_home, on_progress=check_sample)
    assert progress.chunks == len(remaining) > 3
    assert progress.events == len(read_tables(raw_home)["lineage_events"])
    assert remaining == sorted(remaining, reverse=True)
    assert remaining[-1] == 0
    assert load_facets(raw_home, names) == expected


@pytest.fixture(params=[False, True], ids=["small", "large"])
def are_events_large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Process events as they are, or each as a large one whose changes are spilled."""
    if request.param:
        for limit in ("LARGE_EVENT_BYTES", "BYTES_PER_BATCH", "MAX_LARGE_EVENTS_BYTES"):
            monkeypatch.setattr(workers, limit, 1)
    return bool(request.param)


@pytest.mark.usefixtures("are_events_large")
def test_result_equals_a_full_ingest(full_home: DataDir, raw_home: DataDir) -> None:
    assert read_tables(raw_home) != read_tables(full_home)
    backfill(raw_home)
    actual, expected = read_tables(raw_home), read_tables(full_home)
    assert actual.keys() == expected.keys()
    for name, rows in expected.items():
        assert actual[name] == rows, name


def test_rebuilt_index_equals_the_index_of_the_ingest(
    full_home: DataDir, tmp_path: Path, are_events_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = DataDir(tmp_path / "rebuilt")
    shutil.copytree(full_home.lake_folder, home.create().lake_folder, dirs_exist_ok=True)
    monkeypatch.setattr(reprocess, "map_ordered", lambda run, items, _: map(run, items))
    spilled: list[str] = []

    def record_spill(report: WorkerReport, changes: ChangeSet, root: str) -> None:
        spill_changes(report, changes, root)
        spilled.extend(report.spilled)

    monkeypatch.setattr(workers, "spill_changes", record_spill)
    spark: Any = LocalSpark()
    with IndexWriter(home.index) as index:
        load_index(spark, Lake(home.lake), index)
    assert read_tables(home) == read_tables(full_home)
    assert bool(spilled) is are_events_large
    assert list((home.lake_folder / WORKER_REPORTS_DIR).iterdir()) == []


def test_records_that_nothing_is_pending(raw_home: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(raw_home.lake)
    events = lake.row_counts()["lineage_events"]
    assert has_pending_backfill(lake, read_backfilled_ranges(lake))
    assert count_pending_backfill(raw_home.lake) == events
    matches: list[bool] = []
    backfill(
        raw_home,
        on_progress=lambda progress: matches.append(count_pending_backfill(raw_home.lake) == progress.remaining),
    )
    assert all(matches)
    assert not has_pending_backfill(lake, read_backfilled_ranges(lake))
    assert count_pending_backfill(raw_home.lake) == 0
    assert backfill(raw_home).chunks == 0
    monkeypatch.setattr(facets, "read_pending_events", None)
    assert load_run_facets(lake, "run-1").facets


def test_backfills_compacted_files(full_home: DataDir, raw_home: DataDir) -> None:
    compact_tables(Lake(raw_home.lake))
    backfill(raw_home)
    assert read_tables(raw_home) == read_tables(full_home)


@pytest.mark.parametrize("call", range(1, 13))
def test_resumes_after_an_interruption(
    call: int, full_home: DataDir, raw_home: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fail_at(call, monkeypatch), pytest.raises(OSError, match="went down"):
        backfill(raw_home)
    names = read_run_ids(full_home)[::32]
    assert load_facets(raw_home, names) == load_facets(full_home, names)
    # With another chunk size: a started chunk is finished unchanged.
    backfill(raw_home, chunk_bytes=10 * CHUNK_BYTES)
    assert read_tables(raw_home) == read_tables(full_home)


@contextmanager
def fail_at(call: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Raise an error before the n-th write to a table or to the index."""
    remaining_calls = [call]

    def count_calls(write: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*arguments: object) -> object:
            remaining_calls[0] -= 1
            if remaining_calls[0] == 0:
                raise OSError("the machine went down")
            return write(*arguments)

        return wrapped

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "append", count_calls(Lake.append))
        patch.setattr(IndexWriter, "apply", count_calls(IndexWriter.apply))
        yield


def test_backfills_events_that_arrive_during_it(full_home: DataDir, raw_home: DataDir) -> None:
    new_events = [make_event(number, session_id="later") for number in range(100, 108)]
    for home in (copy_home(full_home, raw_home.root.parent / "twin"), raw_home):
        with LogWriter(home.log) as log:
            log.append(IncomingEvent(guess_stream(body), "test", body) for body in new_events)
    reference = DataDir(raw_home.root.parent / "twin")
    start = end_position(full_home.log)
    ingest_batch(reference, start, ())
    is_ingested = False

    def ingest_once(_: BackfillProgress) -> None:
        nonlocal is_ingested
        if not is_ingested:
            is_ingested = True
            ingest_batch(raw_home, start, ALL_RAW_ONLY)

    backfill(raw_home, on_progress=ingest_once)
    names = [name for name in read_run_ids(reference) if name.startswith("run-2")]
    assert load_facets(raw_home, names) == load_facets(reference, names)
    assert len(read_tables(raw_home)["run_facets"]) == len(read_tables(reference)["run_facets"])


def copy_home(home: DataDir, root: Path) -> DataDir:
    shutil.copytree(home.root, root)
    return DataDir(root)


def ingest_batch(home: DataDir, start: int, raw_only_ranges: RawOnlyRanges) -> None:
    batches = [
        pa.RecordBatch.from_pylist([asdict(range_)])
        for range_ in split_ranges(home.log, start, end_position(home.log), 1 << 20)
    ]
    rows: Any = LocalRows([batches])
    with (
        IndexWriter(home.index) as index,
        BatchIngestor(Lake(home.lake), index, "app", raw_only_ranges=raw_only_ranges) as ingestor,
    ):
        ingestor(rows, 99)


@pytest.mark.parametrize(("name", "limit"), [("MAX_RAW_EVENTS", 3), ("MAX_RAW_BYTES", 1 << 10)])
def test_error_of_a_run_with_too_many_raw_events_names_the_backfill(
    name: str, limit: int, raw_home: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill_state, name, limit)
    with pytest.raises(TooManyRawEventsError, match="run run-1 are not backfilled yet") as raised:
        load_run_facets(Lake(raw_home.lake), "run-1")
    assert raised.value.hint is not None
    assert "clew pipeline backfill" in raised.value.hint
    backfill(raw_home)
    assert load_run_facets(Lake(raw_home.lake), "run-1").facets


def test_rejects_a_second_backfill(raw_home: DataDir) -> None:
    with (
        acquire_lock(raw_home.lake / BACKFILL_LOCK, "backfill"),
        pytest.raises(ClewError, match="Another backfill is running"),
    ):
        run_backfill(raw_home)
