"""Tests of the consistency checks of a data directory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.segments import END_FILE, end_position, list_segments, segment_path, tail_checksum
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream
from clew.index.queries.reader import IndexReader
from clew.index.writer import IndexWriter
from clew.lake.lake import Lake
from clew.pipeline.checkpoint import BatchRecord, Checkpoint, append_batch_record, open_log
from clew.pipeline.ingest import IngestStats
from clew.pipeline.preflight import check_consistency, check_log_offsets, recover_index, repair_checkpoint

EVENT = json.dumps(
    {"eventTime": "2026-01-01T10:00:00Z", "run": {"runId": "r"}, "job": {"namespace": "n", "name": "j"}}
).encode()


@pytest.fixture
def filled_home(home: DataDir, ingest_log: Callable[..., IngestStats]) -> DataDir:
    """Create a data directory with one event that Spark has committed."""
    with LogWriter(home.log) as log:
        log.append([IncomingEvent(Stream.OPENLINEAGE, "test", EVENT)])
        position = log.position
    ingest_log()
    write_checkpoint(home, 0, position)
    run_checks(home)
    return home


def write_checkpoint(home: DataDir, number: int, position: int) -> None:
    """Write the files of a committed batch, as Spark does."""
    files = {"metadata": '{"id":"1"}', f"offsets/{number}": f'v1\n{{}}\n{{"position":{position}}}'}
    for name, text in {**files, f"commits/{number}": "v1\n{}"}.items():
        path = home.checkpoint / "log" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def run_checks(home: DataDir) -> None:
    lake = Lake(home.lake)
    lake.create_or_validate()
    with IndexWriter(home.index) as index:
        check_consistency(home, lake, index)


def replace_lake(home: DataDir) -> None:
    shutil.rmtree(home.lake_folder)
    Lake(home.lake).create_or_validate()


def delete_unread_events(home: DataDir) -> None:
    path = segment_path(home.log, 0)
    path.replace(segment_path(home.log, 10 * path.stat().st_size))


def empty_lake(home: DataDir) -> None:
    replace_lake(home)
    shutil.rmtree(home.checkpoint)


INCONSISTENCIES: dict[str, tuple[Callable[[DataDir], None], str]] = {
    "other lake": (
        replace_lake,
        r"checkpoint .* belongs to the lake [\w-]{36}, last seen at .*; .* is the lake .*--lake",
    ),
    "log without unread events": (delete_unread_events, r"begins at [\d,]+; events from \d+ on were not ingested"),
    "index ahead of the lake": (empty_lake, r"has 1 events, but the lake .* has 0\.\n.*Move the index away"),
}


@pytest.mark.parametrize(("change", "message"), INCONSISTENCIES.values(), ids=INCONSISTENCIES)
def test_rejects_inconsistent_parts(change: Callable[[DataDir], None], message: str, filled_home: DataDir) -> None:
    change(filled_home)
    with pytest.raises(ClewError, match=rf"(?s){message}"):
        run_checks(filled_home)


@pytest.mark.parametrize("has_end", [True, False])
def test_positions_are_not_used_again_after_the_log_was_deleted(*, has_end: bool, filled_home: DataDir) -> None:
    position = end_position(filled_home.log)
    for path in filled_home.log.iterdir():
        if path.name != END_FILE or not has_end:
            path.unlink()
    messages: list[str] = []
    check_log_offsets(filled_home, messages.append)
    assert f"was cut at 0: its events up to {position:,} are missing. All were ingested" in messages[0]
    with open_log(filled_home) as log:
        log.append([IncomingEvent(Stream.OPENLINEAGE, "test", b"{}")])
    assert [segment.base for segment in list_segments(filled_home.log)][-1] == position


def record_batch(home: DataDir, number: int) -> None:
    """Record a batch that ends at the end of the log, as a pipeline does."""
    checkpoint, end = Checkpoint(home.checkpoint), end_position(home.log)
    write_checkpoint(home, number, end)
    batch = BatchRecord(checkpoint.app_id, number, 0, 0, 1, 0, 0, {}, end, log_tail=tail_checksum(home.log, end))
    append_batch_record(checkpoint.root, batch)


@pytest.mark.parametrize("is_longer", [True, False])
@pytest.mark.parametrize("is_first_kept", [True, False])
def test_reads_the_log_again_if_positions_were_used_twice(
    *, is_longer: bool, is_first_kept: bool, filled_home: DataDir
) -> None:
    record_batch(filled_home, 0)
    path = segment_path(filled_home.log, 0)
    first = path.read_bytes()
    with LogWriter(filled_home.log) as log:
        log.append([IncomingEvent(Stream.OPENLINEAGE, "test", EVENT.replace(b'"r"', b'"lost"'))])
    record_batch(filled_home, 1)
    # The log was cut, and a collector without the checkpoint continued it.
    (filled_home.log / END_FILE).unlink()
    path.write_bytes(first if is_first_kept else b"")
    with LogWriter(filled_home.log) as log:
        for number in range(9 if is_longer else 1):
            body = EVENT.replace(b'"r"', b'"%d"' % number)[: None if is_longer else -2] + b"}" * (not is_longer)
            log.append([IncomingEvent(Stream.OPENLINEAGE, "t", body)])
    messages: list[str] = []
    repair_checkpoint(filled_home, Lake(filled_home.lake), messages.append)
    checkpoint = Checkpoint(filled_home.checkpoint)
    expected = len(first) if is_first_kept else 0
    assert "the log was cut and continued" in messages[0]
    assert (checkpoint.committed_offset, checkpoint.must_reindex) == (expected, True)
    repair_checkpoint(filled_home, Lake(filled_home.lake), messages.append)
    assert len(messages) == 1


def test_an_older_checkpoint_is_not_continued(filled_home: DataDir, ingest_log: Callable[..., IngestStats]) -> None:
    # The batches of the fixture have this id.
    (filled_home.checkpoint / "app").write_text("app")
    ingest_log()
    messages: list[str] = []
    with LogWriter(filled_home.log) as log:
        log.append([IncomingEvent(Stream.OPENLINEAGE, "test", EVENT.replace(b'"r"', b'"s"'))])
    ingest_log()
    repair_checkpoint(filled_home, Lake(filled_home.lake), messages.append)
    checkpoint = Checkpoint(filled_home.checkpoint)
    assert "older than the lake" in messages[0]
    assert checkpoint.app_id != "app"
    assert checkpoint.must_reindex


def test_reports_events_missing_within_the_log(filled_home: DataDir) -> None:
    start = segment_path(filled_home.log, 0).stat().st_size
    for number in range(3):
        with LogWriter(filled_home.log, segment_bytes=1) as log:
            log.append([IncomingEvent(Stream.OPENLINEAGE, "test", b"%d" % number)])
    (first, last) = sorted(filled_home.log.glob("*.ndjson"))[1:3]
    first.unlink()
    messages: list[str] = []
    check_log_offsets(filled_home, messages.append)
    missing = int(last.stem) - start
    assert len(messages) == 1
    assert f"{missing:,} bytes of events that were not ingested are lost" in messages[0]


@pytest.mark.parametrize(("ingest_all", "loss"), [(True, "All were ingested"), (False, "bytes of events that")])
def test_reports_events_missing_in_a_log_that_was_cut(ingest_all: bool, loss: str, filled_home: DataDir) -> None:
    if not ingest_all:
        with LogWriter(filled_home.log) as log:
            log.append([IncomingEvent(Stream.OPENLINEAGE, "test", b"{}")])
    segment_path(filled_home.log, 0).write_bytes(b"")
    messages: list[str] = []
    check_log_offsets(filled_home, messages.append)
    assert len(messages) == 1
    assert "was cut at 0" in messages[0]
    assert loss in messages[0]


@pytest.mark.parametrize("missing", ["checkpoint", "index.sqlite"])
def test_accepts_a_missing_checkpoint_or_index(missing: str, filled_home: DataDir) -> None:
    path = filled_home.root / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    run_checks(filled_home)


def test_accepts_a_moved_data_dir(filled_home: DataDir, tmp_path: Path) -> None:
    moved = DataDir(tmp_path / "moved")
    filled_home.root.rename(moved.root)
    run_checks(moved)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def overwrite_header(path: Path) -> None:
    path.write_bytes(b"x" * 100 + path.read_bytes()[100:])


def overwrite_pages(path: Path) -> None:
    content = path.read_bytes()
    page = 8 << 10
    path.write_bytes(content[:page] + b"\xa5" * (len(content) - 2 * page) + content[-page:])


@pytest.mark.parametrize("damage", [truncate, overwrite_header, overwrite_pages])
def test_a_damaged_index_is_set_aside_after_an_unclean_stop(
    damage: Callable[[Path], None], filled_home: DataDir
) -> None:
    with pytest.raises(RuntimeError, match="killed"), recover_index(filled_home, print):
        raise RuntimeError("killed")
    damage(filled_home.index_file)
    content = filled_home.index_file.read_bytes()
    messages: list[str] = []
    with recover_index(filled_home, messages.append):
        assert not filled_home.index_file.exists()
        with IndexWriter(filled_home.index) as index:
            assert index.event_count == 0
    assert filled_home.index_file.with_name("index.sqlite.damaged").read_bytes() == content
    assert [message for message in messages if "is rebuilt from the lake" in message] == messages != []
    # The new index was closed properly: it is not checked again.
    messages.clear()
    with recover_index(filled_home, messages.append):
        assert messages == []


def test_a_small_index_is_checked_at_any_start(filled_home: DataDir) -> None:
    with recover_index(filled_home, print):
        pass
    content = filled_home.index_file.read_bytes()
    filled_home.index_file.write_bytes(content[:30_000] + bytes(30_000) + content[60_000:])
    messages: list[str] = []
    with recover_index(filled_home, messages.append):
        assert not filled_home.index_file.exists()
    assert "is rebuilt from the lake" in messages[0]


def test_a_sound_index_is_kept_after_an_unclean_stop(filled_home: DataDir) -> None:
    with pytest.raises(RuntimeError), recover_index(filled_home, print):
        raise RuntimeError
    with recover_index(filled_home, print), IndexReader(filled_home.index) as index:
        assert index.meta("indexed_seq") is not None


def test_a_file_that_is_no_database_is_set_aside_at_any_start(filled_home: DataDir) -> None:
    overwrite_header(filled_home.index_file)
    with recover_index(filled_home, print):
        assert not filled_home.index_file.exists()
