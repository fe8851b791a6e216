"""Reports of workers: what is too large to be held with others is put aside, and opened once."""

from __future__ import annotations

from pathlib import Path

from clew.index.changes import Changes, LineageDeclarationRow
from clew.pipeline.telling import Aside, put_aside

ROWS = [LineageDeclarationRow("author", 7)]


def put(root: Path) -> list[str]:
    changes = Changes(events=[(7, "e")], rejected=[(8, "r")], lineage_declarations=list(ROWS))
    told = put_aside(changes, str(root))
    assert told.changes == Changes(events=[(7, "e")], rejected=[(8, "r")])
    return told.aside


def test_changes_that_are_put_aside_come_back_once(tmp_path: Path) -> None:
    paths = [*put(tmp_path), *put(tmp_path)]
    aside = Aside(paths)
    assert len(aside) == 2
    assert list(aside) == [Changes(lineage_declarations=ROWS)] * 2
    assert [path for path in paths if Path(path).exists()] == []


def test_what_is_put_aside_can_be_discarded(tmp_path: Path) -> None:
    told = put_aside(Changes(lineage_declarations=ROWS), str(tmp_path))
    told.discard()
    assert [path for path in told.aside if Path(path).exists()] == []
