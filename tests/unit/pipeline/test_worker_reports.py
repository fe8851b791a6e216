"""Reports of workers: what is too large to be held with others is put aside, and opened once."""

from __future__ import annotations

from pathlib import Path

from clew.index.changes import ChangeSet, StaticLineageRow
from clew.pipeline.worker_reports import SpilledChanges, spill_changes

ROWS = [StaticLineageRow("author", 7)]


def put(root: Path) -> list[str]:
    changes = ChangeSet(events=[(7, "e")], rejected=[(8, "r")], static_lineage=list(ROWS))
    told = spill_changes(changes, str(root))
    assert told.changes == ChangeSet(events=[(7, "e")], rejected=[(8, "r")])
    return told.spilled


def test_changes_that_are_put_aside_come_back_once(tmp_path: Path) -> None:
    paths = [*put(tmp_path), *put(tmp_path)]
    aside = SpilledChanges(paths)
    assert len(aside) == 2
    assert list(aside) == [ChangeSet(static_lineage=ROWS)] * 2
    assert [path for path in paths if Path(path).exists()] == []


def test_what_is_put_aside_can_be_discarded(tmp_path: Path) -> None:
    told = spill_changes(ChangeSet(static_lineage=ROWS), str(tmp_path))
    told.delete_spilled()
    assert [path for path in told.spilled if Path(path).exists()] == []
