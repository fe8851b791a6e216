"""Parts of different homes are not worked on together."""

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
def filled(home: DataDir, take: Callable[..., IngestStats]) -> DataDir:
    """A home with one event, of which Spark has noted that it was taken in."""
    with LogWriter(home.log) as log:
        log.append([IncomingEvent(Stream.OPENLINEAGE, "test", EVENT)])
        position = log.position
    take()
    for name in ("offsets", "commits"):
        path = home.checkpoint / "log" / name / "0"
        path.parent.mkdir(parents=True)
        path.write_text(f'v1\n{{}}\n{{"position":{position}}}')
    look(home)
    return home


def look(home: DataDir) -> None:
    lake = Lake(home.lake)
    lake.create_or_validate()
    with IndexWriter(home.index) as index:
        check_consistency(home, lake, index)


def another_lake(home: DataDir) -> None:
    shutil.rmtree(home.lake_folder)
    Lake(home.lake).create_or_validate()


def another_log(home: DataDir) -> None:
    shutil.rmtree(home.log)


def unread_events_deleted(home: DataDir) -> None:
    path = segment_path(home.log, 0)
    path.replace(segment_path(home.log, 10 * path.stat().st_size))


def an_emptied_lake(home: DataDir) -> None:
    another_lake(home)
    shutil.rmtree(home.checkpoint)


DISAGREEMENTS: dict[str, tuple[Callable[[DataDir], None], str]] = {
    "another lake": (
        another_lake,
        r"checkpoint .* belongs to the lake [\w-]{36}, last seen at .*; .* is the lake .*--lake",
    ),
    "a shorter log": (
        another_log,
        r"The log .* ends at 0, before the offset \d+ that was already ingested\.\nRestore",
    ),
    "a log without what was unread": (unread_events_deleted, r"begins at [\d,]+; events from \d+ on were not ingested"),
    "an index that knows more": (an_emptied_lake, r"has 1 events, but the lake .* has 0\.\n.*Move the index away"),
}


@pytest.mark.parametrize(("change", "sentence"), DISAGREEMENTS.values(), ids=DISAGREEMENTS)
def test_what_does_not_belong_together_is_refused(
    change: Callable[[DataDir], None], sentence: str, filled: DataDir
) -> None:
    change(filled)
    with pytest.raises(ClewError, match=rf"(?s){sentence}"):
        look(filled)


@pytest.mark.parametrize("lost", ["checkpoint", "index.sqlite"])
def test_what_can_be_made_anew_may_be_gone(lost: str, filled: DataDir) -> None:
    path = filled.root / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    look(filled)


def test_a_home_that_was_moved_still_belongs_together(filled: DataDir, tmp_path: Path) -> None:
    moved = DataDir(tmp_path / "moved")
    filled.root.rename(moved.root)
    look(moved)
