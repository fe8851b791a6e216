"""Tests that forgotten entities are removed from lake, log and files; index and derived tables need Spark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.erasure import ErasureKind, ErasureTarget
from clew.events.ids import event_id
from clew.events.streams import Stream
from clew.lake.lake import Lake, replace_files
from clew.lake.schemas import EVENT_TABLE_NAMES
from clew.lake.storage import open_storage
from clew.pipeline import forget as module
from clew.pipeline.checkpoint import BatchRecord, Checkpoint, append_batch_record, read_batch_records
from clew.pipeline.forget import ErasureCount, count_matches, forget, read_pending_target
from clew.pipeline.ingest import IngestStats
from clew.pipeline.locks import LockedError, acquire_lock

IngestLog = Callable[..., IngestStats]
SECRET = "salaries-of-2026"
DATASET = ErasureTarget(ErasureKind.DATASET, names=(("hr", SECRET),))
NAMESPACE = ErasureTarget(ErasureKind.NAMESPACE, "hr-department")
SESSION = ErasureTarget(ErasureKind.SESSION, "5e551041")


def make_event(number: int, *, is_secret: bool = False, namespace: str = "jobs", **members: Any) -> bytes:
    dataset = {"namespace": "n", "name": f"d{number}", "facets": {"doc": {"description": "x" * 100_000}}}
    secret = [{"namespace": "hr", "name": SECRET, "facets": {"schema": {"fields": [{"name": "pay"}]}}}]
    query = f"select * from {SECRET}" if is_secret else "select 1"
    event = {
        "eventTime": "2026-01-01T10:00:00Z",
        "eventType": "COMPLETE",
        "producer": "test",
        "run": {"runId": f"run-{number}"},
        "job": {"namespace": namespace, "name": "j", "facets": {"sql": {"query": query}}},
        "inputs": secret if is_secret else [],
        "outputs": [dataset],
        **members,
    }
    return json.dumps(event).encode()


CELL = {
    "event_type": "cell_execution_start",
    "session_id": "5e551041",
    "execution_id": "e1",
    "timestamp": "2026-01-01T10:00:00Z",
    "cell_source": f"read('{SECRET}')",
}
EVENTS = [
    (Stream.OPENLINEAGE, make_event(0)),
    (Stream.OPENLINEAGE, make_event(1, is_secret=True)),
    (Stream.OPENLINEAGE, make_event(2, namespace="hr-department")),
    (Stream.OPENLINEAGE, make_event(3, session_id="5e551041", execution_id="e1")),
    (Stream.OPENLINEAGE, b'{"eventTime": "never", "x": "%s"}' % SECRET.encode()),
    (Stream.OPENLINEAGE, b"no event"),
    (Stream.RUNTIME, json.dumps(CELL).encode()),
    (Stream.DATAFRAME, json.dumps({**CELL, "event_type": "dataframe_lineage"}).encode()),
]


@pytest.fixture
def ingested(home: DataDir, ingest_log: IngestLog, monkeypatch: pytest.MonkeyPatch) -> DataDir:
    """Ingest all events in two batches; index and derived tables are not rebuilt by `forget`."""

    @contextmanager
    def open_pipeline(home: DataDir, **options: object) -> Iterator[SimpleNamespace]:
        assert options["rebuild"]
        yield SimpleNamespace(lake=Lake(home.lake), refresh=lambda: None)

    monkeypatch.setattr("clew.pipeline.pipeline.open_pipeline", open_pipeline)
    for part in (EVENTS[:3], EVENTS[3:]):
        position = end_position(home.log)
        with LogWriter(home.log) as log:
            log.append(IncomingEvent(stream, "test", body) for stream, body in part)
        ingest_log(position)
    home.index_file.unlink()
    return home


def find_text(home: DataDir, text: str) -> list[str]:
    """List the files that contain a text, also compressed."""
    found = []
    for path in sorted(path for path in home.root.rglob("*") if path.is_file()):
        content = path.read_bytes()
        if path.suffix == ".parquet":
            content += repr(pq.ParquetFile(path).read().to_pylist()).encode()
        if text.encode() in content:
            found.append(str(path.relative_to(home.root)))
    return found


def read_rows(home: DataDir) -> dict[str, list[str]]:
    """Read all rows of events, with the events as JSON values: those in the log are padded."""
    tables = {name: Lake(home.lake).require_table(name).to_pyarrow_table().to_pylist() for name in EVENT_TABLE_NAMES}
    return {
        name: sorted(
            json.dumps({**row, **({"event": json.loads(row["event"])} if "event" in row else {})}, default=str)
            for row in rows
        )
        for name, rows in tables.items()
    }


def read_log(home: DataDir) -> list[bytes]:
    parts = split_ranges(home.log, 0, end_position(home.log), 1 << 30)
    return [decode_record(line).body for part in parts for _, line in read_lines(part)]


@pytest.mark.parametrize(
    ("target", "text", "lake"),
    [
        (DATASET, SECRET, ErasureCount(deleted=1, changed=3)),
        (NAMESPACE, "hr-department", ErasureCount(deleted=1)),
        (SESSION, "5e551041", ErasureCount(deleted=3)),
    ],
    ids=["dataset", "namespace", "session"],
)
def test_no_file_has_the_name_and_the_lake_equals_the_log(
    target: ErasureTarget, text: str, lake: ErasureCount, ingested: DataDir, ingest_log: IngestLog
) -> None:
    home, end = ingested, end_position(ingested.log)
    (home.root / "index.sqlite.search").write_text(text)
    assert len(find_text(home, text)) > 4
    assert count_matches(home, target).lake == lake
    receipt = forget(home, target)
    assert (receipt.lake, receipt.log) == (lake, lake)
    assert (receipt.remaining_mentions, receipt.deleted_files) == (0, [str(home.root / "index.sqlite.search")])
    assert find_text(home, text) == []
    assert (read_pending_target(home), Checkpoint(home.checkpoint).must_reindex) == (None, True)
    assert end_position(home.log) == end
    assert len(read_log(home)) == len(EVENTS) - lake.deleted
    before = read_rows(home)
    shutil.rmtree(home.lake_folder)
    Lake(home.lake).create_or_validate()
    ingest_log(0)
    assert read_rows(home) == before
    assert forget(home, target).is_empty


def test_changed_events_keep_their_ids(ingested: DataDir) -> None:
    forget(ingested, DATASET)
    rows = Lake(ingested.lake).require_table("lineage_events").to_pyarrow_table().to_pylist()
    event = next(json.loads(row["event"]) for row in rows if row["run_uuid"] == "run-1")
    assert event["inputs"] == []
    assert event["job"]["facets"]["sql"]["query"] == "select * from ***"
    assert {row["event_id"] for row in rows} == {event_id(body) for _, body in EVENTS[:4]}


@pytest.mark.parametrize("step", range(12))
def test_completes_after_an_interruption(step: int, ingested: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def interrupt(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == step + 1:
                raise KeyboardInterrupt
            return function(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        patch.setattr("clew.lake.compaction.replace_files", interrupt(replace_files))
        for name in ("overwrite_lines", "forget_log_tails", "purge_history", "_erase_from_streams", "_delete_caches"):
            patch.setattr(module, name, interrupt(getattr(module, name)))
        try:
            forget(ingested, DATASET)
        except KeyboardInterrupt:
            assert read_pending_target(ingested) == DATASET
            with pytest.raises(ClewError, match="was interrupted"):
                forget(ingested, NAMESPACE)
        else:
            assert step >= calls
    forget(ingested, DATASET)
    assert find_text(ingested, SECRET) == []
    assert len(read_log(ingested)) == len(EVENTS) - 1
    counts = Lake(ingested.lake).row_counts()
    assert (counts["lineage_events"], counts["rejected_events"]) == (4, 1)
    assert read_pending_target(ingested) is None


def test_the_log_does_not_seem_to_be_cut(ingested: DataDir) -> None:
    record = BatchRecord("app", 0, 0, 0.0, 1, 0, 0, {}, 10, log_tail=1)
    append_batch_record(ingested.checkpoint, record)
    forget(ingested, DATASET)
    assert [batch.log_tail for batch in read_batch_records(ingested.checkpoint)] == [None]


def test_event_files_of_notebooks_are_imported_and_erased(ingested: DataDir) -> None:
    for session in ("5e551041", "other"):
        folder = ingested.streams / session
        folder.mkdir(parents=True)
        body = make_event(9, is_secret=True, session_id=session)
        (folder / "marimo_lineage_events.jsonl").write_bytes(body + b"\n" + make_event(8) + b"\n")
    size = (folder / "marimo_lineage_events.jsonl").stat().st_size
    receipt = forget(ingested, DATASET)
    assert (receipt.log.changed, receipt.streams.deleted) == (5, 2)
    assert (folder / "marimo_lineage_events.jsonl").stat().st_size == size
    assert find_text(ingested, SECRET) == []
    forget(ingested, SESSION)
    assert [path.name for path in ingested.streams.iterdir()] == ["other"]
    assert find_text(ingested, "5e551041") == []


@pytest.mark.parametrize("session", ["..", ".", "a/../..", ""])
def test_a_session_named_like_a_path_deletes_no_other_folder(session: str, ingested: DataDir) -> None:
    with LogWriter(ingested.log) as log:
        log.append([IncomingEvent(Stream.RUNTIME, "test", json.dumps({**CELL, "session_id": session}).encode())])
    (ingested.streams / "a").mkdir(parents=True)
    other = ingested.streams / "5e551041" / "events.txt"
    other.parent.mkdir()
    other.write_text("{}")
    forget(ingested, ErasureTarget(ErasureKind.SESSION, session))
    assert other.exists()
    assert ingested.log.exists()


def test_is_refused_while_others_write(ingested: DataDir) -> None:
    before = read_rows(ingested)
    with acquire_lock(ingested.lake_folder / ".lock"), pytest.raises(LockedError, match="Another pipeline is running"):
        forget(ingested, DATASET)
    with LogWriter(ingested.log), pytest.raises(ClewError, match="Another process is writing to the log"):
        forget(ingested, DATASET)
    kernel_log = ingested.streams / "5e551041" / ".capture" / "5e551041.log"
    kernel_log.parent.mkdir(parents=True)
    kernel_log.touch()
    with pytest.raises(ClewError, match="is still running"):
        forget(ingested, SESSION)
    assert read_rows(ingested) == before
    assert read_pending_target(ingested) is None


def test_a_topic_is_reported_as_not_removed(ingested: DataDir) -> None:
    offsets = ingested.checkpoint / "log" / "offsets" / "0"
    offsets.parent.mkdir(parents=True)
    offset = '{"position":9999999,"topic":"events","topic_id":"t","partitions":{"0":1}}'
    offsets.write_text(f"v1\n{{}}\n{offset}")
    receipt = forget(ingested, DATASET)
    assert any("Kafka topic events" in place for place in receipt.not_removed)
    assert any("Backups" in place for place in receipt.not_removed)
    assert receipt.lake == ErasureCount(deleted=1, changed=3)


@pytest.mark.parametrize("home", ["bucket"], indirect=True)
def test_a_lake_in_a_bucket(ingested: DataDir) -> None:
    def read_objects() -> bytes:
        lake, content = Lake(ingested.lake), b""
        for table in (*EVENT_TABLE_NAMES, *(f"{name}/_delta_log" for name in EVENT_TABLE_NAMES)):
            storage = open_storage(ingested.lake / table)
            for file in storage.list_files():
                content += storage.read(file.name) or b""
                if file.name.endswith(".parquet"):
                    content += repr(pq.ParquetFile(storage.parquet_source(file.name)).read().to_pylist()).encode()
        assert lake.row_counts()["lineage_events"] == 4
        return content

    assert SECRET.encode() in read_objects()
    receipt = forget(ingested, DATASET)
    assert receipt.lake == ErasureCount(deleted=1, changed=3)
    assert SECRET.encode() not in read_objects()
    assert any("versioning" in place for place in receipt.not_removed)
