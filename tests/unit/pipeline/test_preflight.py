"""Tests of the consistency checks of a data directory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.segments import segment_path
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream
from clew.index.queries.reader import IndexReader
from clew.index.writer import IndexWriter
from clew.lake.lake import Lake
from clew.pipeline.ingest import IngestStats
from clew.pipeline.preflight import check_consistency, check_log_offsets, recover_index

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
    for name in ("offsets", "commits"):
        path = home.checkpoint / "log" / name / "0"
        path.parent.mkdir(parents=True)
        path.write_text(f'v1\n{{}}\n{{"position":{position}}}')
    run_checks(home)
    return home


def run_checks(home: DataDir) -> None:
    lake = Lake(home.lake)
    lake.create_or_validate()
    with IndexWriter(home.index) as index:
        check_consistency(home, lake, index)


def replace_lake(home: DataDir) -> None:
    shutil.rmtree(home.lake_folder)
    Lake(home.lake).create_or_validate()


def delete_log(home: DataDir) -> None:
    shutil.rmtree(home.log)


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
    "shorter log": (
        delete_log,
        r"The log .* ends at 0, before the offset \d+ that was already ingested\.\nRestore",
    ),
    "log without unread events": (delete_unread_events, r"begins at [\d,]+; events from \d+ on were not ingested"),
    "index ahead of the lake": (empty_lake, r"has 1 events, but the lake .* has 0\.\n.*Move the index away"),
}


@pytest.mark.parametrize(("change", "message"), INCONSISTENCIES.values(), ids=INCONSISTENCIES)
def test_rejects_inconsistent_parts(change: Callable[[DataDir], None], message: str, filled_home: DataDir) -> None:
    change(filled_home)
    with pytest.raises(ClewError, match=rf"(?s){message}"):
        run_checks(filled_home)


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


def test_a_sound_index_is_kept_after_an_unclean_stop(filled_home: DataDir) -> None:
    with pytest.raises(RuntimeError), recover_index(filled_home, print):
        raise RuntimeError
    with recover_index(filled_home, print), IndexReader(filled_home.index) as index:
        assert index.meta("indexed_seq") is not None


def test_a_file_that_is_no_database_is_set_aside_at_any_start(filled_home: DataDir) -> None:
    overwrite_header(filled_home.index_file)
    with recover_index(filled_home, print):
        assert not filled_home.index_file.exists()
