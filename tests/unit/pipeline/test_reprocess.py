"""Facets that are filled in later: answers are the same before, meanwhile and afterwards, and nothing is doubled."""

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
from clew.index.writer import IndexWriter
from clew.lake import facets
from clew.lake.backfill_state import has_pending_backfill, read_backfilled_ranges
from clew.lake.compaction import compact_tables
from clew.lake.facets import TooManyRawEventsError, load_run_facets
from clew.lake.history import count_pending_backfill
from clew.lake.lake import Lake
from clew.lake.schemas import EVENT_TABLES, FACET_TABLES
from clew.pipeline.checkpoint import RawOnlyRanges
from clew.pipeline.ingest import BatchIngestor
from clew.pipeline.locks import BACKFILL_LOCK, acquire_lock
from clew.pipeline.reprocess import BackfillProgress, BackfillRunner, run_backfill

pytestmark = pytest.mark.slow

CASES = sorted((ROOT / "tests" / "cases" / "pipeline").glob("*/events.ndjson"))
GENERATE = runpy.run_path(str(ROOT / "bench" / "generate.py"))
ALL_RAW: RawOnlyRanges = ((0, 1 << 62),)
CHUNK_BYTES = 256 << 10

Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Rows:
    """Stands in for a DataFrame: what is mapped over it is called in this process, a partition at a time."""

    def __init__(self, partitions: list[list[pa.RecordBatch]]) -> None:
        self._partitions = partitions

    def mapInArrow(self, work: Work, _: object) -> Rows:  # noqa: N802  # as Spark names it
        return Rows([list(work(iter(partition))) for partition in self._partitions])

    def toArrow(self) -> pa.Table:  # noqa: N802  # as Spark names it
        return pa.Table.from_batches([batch for partition in self._partitions for batch in partition])


class HereSpark:
    """Stands in for a session of two workers."""

    sparkContext = SimpleNamespace(defaultParallelism=2)  # noqa: N815  # as Spark names it

    def range(self, start: int, end: int, step: int, _: int) -> Rows:
        places = range(start, end, step)
        return Rows([[pa.RecordBatch.from_pydict({"id": pa.array([place], pa.int64())})] for place in places])


def event(number: int, **more: Any) -> bytes:
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
    written = {**dataset, "facets": {**dataset["facets"], "columnLineage": lineage}}  # type: ignore[dict-item]
    job = {"namespace": "n", "name": f"j{number % 3}", "facets": {"jobType": {"jobType": "T", "integration": "I"}}}
    run = {"runId": f"run-{number // 4}", "facets": facets}
    body = {
        "eventTime": f"2026-01-01T10:{59 - number % 60:02}:00.123456Z",
        "eventType": ("START", "RUNNING", "OTHER", "COMPLETE")[number % 4],
        "run": run,
        "job": job,
        "inputs": [{**dataset, "outputFacets": {}, "inputFacets": {"dataQualityMetrics": {"rowCount": 1}}}],
        "outputs": [written],
        **more,
    }
    return json.dumps({key: value for key, value in body.items() if value is not None}).encode()


def special_events() -> list[bytes]:
    declared = [event(number, run=None, eventType=None) for number in range(3)]
    subjects = [event(number, run=None, job=None, inputs=None, outputs=None) for number in range(3)]
    dataset = {"namespace": "n", "name": "d0", "facets": {"schema": {"fields": []}, "symlinks": {"identifiers": []}}}
    subjects = [json.dumps({**json.loads(body), "dataset": dataset}).encode() for body in subjects]
    parent = {"run": {"runId": "run-0"}, "job": {"namespace": "n", "name": "j0"}}
    child = event(50, run={"runId": "child", "facets": {"parent": parent}})
    return [*(event(number) for number in range(24)), *declared, *subjects, child]


@pytest.fixture(scope="module")
def bodies() -> list[bytes]:
    cases = [body for case in CASES for body in case.read_bytes().splitlines()]
    return [*cases, *islice(GENERATE["events"](60, 3), 60), *special_events()]


@pytest.fixture(scope="module")
def whole(bodies: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> DataDir:
    """A home that has taken everything in at once."""
    home = DataDir(tmp_path_factory.mktemp("whole"))
    with LogWriter(home.log) as log:
        log.append(IncomingEvent(guess_stream(body), "test", body) for body in bodies)
    take(home)
    return home


@pytest.fixture
def raw(whole: DataDir, tmp_path: Path) -> DataDir:
    """A home that has taken the same log in raw."""
    home = DataDir(tmp_path / "raw")
    shutil.copytree(whole.log, home.log)
    take(home, ALL_RAW)
    return home


def take(home: DataDir, raw_spans: RawOnlyRanges = (), batches: int = 3) -> None:
    lake = Lake(home.create().lake)
    lake.create_or_validate()
    end = end_position(home.log)
    cuts = [end * number // batches for number in range(batches + 1)]
    with IndexWriter(home.index) as index, BatchIngestor(lake, index, "app", raw_only_ranges=raw_spans) as ingest:
        for number, (start, stop) in enumerate(pairwise(cuts)):
            parts = [
                pa.RecordBatch.from_pylist([asdict(part)]) for part in split_ranges(home.log, start, stop, 1 << 20)
            ]
            rows: Any = Rows([parts])
            ingest(rows, number)


def fill(
    home: DataDir, chunk_bytes: int = CHUNK_BYTES, report: Callable[[BackfillProgress], None] = lambda _: None
) -> BackfillProgress:
    spark: Any = HereSpark()
    with IndexWriter(home.index) as index:
        return BackfillRunner(spark, Lake(home.lake), index, chunk_bytes=chunk_bytes, on_progress=report)()


def runs(home: DataDir) -> list[str]:
    index = connect_reader(home.index_file)
    names = [row["run_uuid"] for row in index.execute("select run_uuid from runs order by run_uuid")]
    index.close()
    return names


def answers(home: DataDir, names: list[str]) -> dict[str, bytes]:
    lake = Lake(home.lake)
    return {name: msgspec.json.encode(load_run_facets(lake, name)) for name in names}


def record(home: DataDir) -> dict[str, list[str]]:
    """All rows of event tables and index, but for what says how they came in."""
    lake = Lake(home.lake)
    found = {}
    for table in EVENT_TABLES:
        delta = lake.table(table.name)
        rows = [] if delta is None else delta.to_pyarrow_table().to_pylist()
        found[table.name] = sorted(str({**row, "is_raw_only": None}) for row in rows)
    index = connect_reader(home.index_file)
    names = [row["name"] for row in index.execute("select name from sqlite_master where type in ('table', 'view')")]
    for name in set(names) - {"meta", "batches", "zstd_dictionaries"}:
        rows = (
            index_facets(index) if name == "facets" else [dict(row) for row in index.execute(f"select * from {name}")]
        )
        found[f"index.{name}"] = sorted(str({**row, "batch": None}) for row in rows)
    index.close()
    return found


def test_answers_are_the_same_before_meanwhile_and_afterwards(whole: DataDir, raw: DataDir) -> None:
    names = runs(whole)
    expected = answers(whole, names)
    assert sum(len(msgspec.json.decode(body)["facets"]) for body in expected.values()) > 100
    assert not any(Lake(raw.lake).row_counts()[table.name] for table in FACET_TABLES)
    assert answers(raw, names) == expected
    left = []

    def look(done: BackfillProgress) -> None:
        left.append(done.remaining)
        some = names[len(left) :: 16]
        assert answers(raw, some) == {name: expected[name] for name in some}

    done = fill(raw, report=look)
    assert done.chunks == len(left) > 3
    assert done.events == len(record(raw)["lineage_events"])
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0
    assert answers(raw, names) == expected


def test_a_filled_lake_and_its_index_are_as_if_all_had_been_taken_in_at_once(whole: DataDir, raw: DataDir) -> None:
    assert record(raw) != record(whole)
    fill(raw)
    found, expected = record(raw), record(whole)
    assert found.keys() == expected.keys()
    for name, rows in expected.items():
        assert found[name] == rows, name


def test_a_filled_lake_is_known_to_be_filled(raw: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(raw.lake)
    events = lake.row_counts()["lineage_events"]
    assert has_pending_backfill(lake, read_backfilled_ranges(lake))
    assert count_pending_backfill(raw.lake) == events
    told: list[bool] = []
    fill(raw, report=lambda done: told.append(count_pending_backfill(raw.lake) == done.remaining))
    assert all(told)
    assert not has_pending_backfill(lake, read_backfilled_ranges(lake))
    assert count_pending_backfill(raw.lake) == 0
    assert fill(raw).chunks == 0
    monkeypatch.setattr(facets, "find_pending_positions", None)
    assert load_run_facets(lake, "run-1").facets


def test_merged_files_are_filled_alike(whole: DataDir, raw: DataDir) -> None:
    compact_tables(Lake(raw.lake))
    fill(raw)
    assert record(raw) == record(whole)


@pytest.mark.parametrize("call", range(1, 13))
def test_an_interrupted_backfill_goes_on(
    call: int, whole: DataDir, raw: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing_at(call, monkeypatch), pytest.raises(OSError, match="went down"):
        fill(raw)
    names = runs(whole)[::32]
    assert answers(raw, names) == answers(whole, names)
    # Other settings than before: what was begun is done as it was begun.
    fill(raw, chunk_bytes=10 * CHUNK_BYTES)
    assert record(raw) == record(whole)


@contextmanager
def failing_at(call: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Die before the n-th write to a table or to the index."""
    left = [call]

    def failing(write: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*arguments: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                raise OSError("the machine went down")
            return write(*arguments)

        return wrapped

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "append", failing(Lake.append))
        patch.setattr(IndexWriter, "apply", failing(IndexWriter.apply))
        yield


def test_events_that_come_in_meanwhile_are_filled_too(whole: DataDir, raw: DataDir) -> None:
    later = [event(number, session_id="later") for number in range(100, 108)]
    for home in (copied(whole, raw.root.parent / "twin"), raw):
        with LogWriter(home.log) as log:
            log.append(IncomingEvent(guess_stream(body), "test", body) for body in later)
    twin = DataDir(raw.root.parent / "twin")
    start = end_position(whole.log)
    take_more(twin, start, ())
    is_told = False

    def bring(_: BackfillProgress) -> None:
        nonlocal is_told
        if not is_told:
            is_told = True
            take_more(raw, start, ALL_RAW)

    fill(raw, report=bring)
    names = [name for name in runs(twin) if name.startswith("run-2")]
    assert answers(raw, names) == answers(twin, names)
    assert len(record(raw)["run_facets"]) == len(record(twin)["run_facets"])


def copied(home: DataDir, root: Path) -> DataDir:
    shutil.copytree(home.root, root)
    return DataDir(root)


def take_more(home: DataDir, start: int, raw_spans: RawOnlyRanges) -> None:
    parts = [
        pa.RecordBatch.from_pylist([asdict(part)])
        for part in split_ranges(home.log, start, end_position(home.log), 1 << 20)
    ]
    rows: Any = Rows([parts])
    with (
        IndexWriter(home.index) as index,
        BatchIngestor(Lake(home.lake), index, "app", raw_only_ranges=raw_spans) as ingest,
    ):
        ingest(rows, 99)


@pytest.mark.parametrize(
    ("name", "bound", "what"),
    [("MAX_RAW_EVENTS", 3, "has 4 events"), ("MAX_RAW_BYTES", 1 << 10, "more than 0 MB of events")],
)
def test_a_run_with_too_many_raw_events_asks_for_a_backfill(
    name: str, bound: int, what: str, raw: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facets, name, bound)
    with pytest.raises(TooManyRawEventsError, match=what) as raised:
        load_run_facets(Lake(raw.lake), "run-1")
    assert raised.value.hint is not None
    assert "clew pipeline backfill" in raised.value.hint
    fill(raw)
    assert load_run_facets(Lake(raw.lake), "run-1").facets


def test_a_second_backfill_is_told_who_is_at_work(raw: DataDir) -> None:
    with (
        acquire_lock(raw.lake / BACKFILL_LOCK, "backfill"),
        pytest.raises(ClewError, match="Another backfill is running"),
    ):
        run_backfill(raw)
