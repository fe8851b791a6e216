"""Tests of worker reports: they are files, large changes are spilled, and each file is read once."""

from __future__ import annotations

from pathlib import Path

from clew.index.changes import ChangeSet, StaticLineageRow
from clew.pipeline.worker_reports import SpilledChanges, WorkerReport, encode_report, spill_changes

ROWS = [StaticLineageRow("author", 7)]


def spill(root: Path) -> list[str]:
    changes = ChangeSet(events=[(7, "e")], rejected=[(8, "r")], static_lineage=list(ROWS))
    report = WorkerReport()
    spill_changes(report, changes, str(root))
    assert report.changes == ChangeSet(events=[(7, "e")], rejected=[(8, "r")])
    return report.spilled


def test_spilled_changes_are_read_once(tmp_path: Path) -> None:
    paths = [*spill(tmp_path), *spill(tmp_path)]
    spilled = SpilledChanges(paths)
    assert len(spilled) == 2
    assert list(spilled) == [ChangeSet(static_lineage=ROWS)] * 2
    assert [path for path in paths if Path(path).exists()] == []


def test_deletes_spilled_changes(tmp_path: Path) -> None:
    report = WorkerReport()
    spill_changes(report, ChangeSet(static_lineage=ROWS), str(tmp_path))
    report.delete_spilled()
    assert [path for path in report.spilled if Path(path).exists()] == []


def test_an_empty_report_is_not_written(tmp_path: Path) -> None:
    assert encode_report(WorkerReport(), str(tmp_path)).num_rows == 0
    assert list(tmp_path.iterdir()) == []
    assert encode_report(WorkerReport(spilled=["a"]), str(tmp_path)).num_rows == 1
