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
from clew.index.writer import IndexWriter
from clew.lake.lake import Lake
from clew.pipeline.ingest import IngestStats
from clew.pipeline.preflight import check_consistency

EVENT = json.dumps({"eventTime": "2026-01-01T10:00:00Z", "run": {"runId": "r"}}).encode()


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


@pytest.mark.parametrize("missing", ["checkpoint", "index.sqlite"])
def test_accepts_a_missing_checkpoint_or_index(missing: str, filled_home: DataDir) -> None:
    path = filled_home.root / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    run_checks(filled_home)


def test_accepts_a_moved_data_dir(filled_home: DataDir, tmp_path: Path) -> None:
    moved = DataDir(tmp_path / "moved")
    filled_home.root.rename(moved.root)
    run_checks(moved)
