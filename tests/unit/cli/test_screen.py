"""What is printed, and how."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from clew.cli import screen
from clew.cli.hops import tree
from clew.cli.runs_text import cell_name, cell_table, summary
from clew.query.model import CellExecution, CellState, ColumnEdge, Dataset, Hop, NotebookRun

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def cell(name: str | None = None, source: str = "", state: CellState = "completed") -> CellExecution:
    return CellExecution("e", "MJUe", name, None, source, state, NOW, 5.0, None, None, None)


def run(*cells: CellExecution) -> NotebookRun:
    return NotebookRun("s", None, "nb.py", "RUNNING", NOW, None, cells, (), (), (), ())


def printed(renderable: Any, capsys: pytest.CaptureFixture[str]) -> str:
    screen.data().print(renderable)
    return capsys.readouterr().out


@pytest.mark.parametrize("text", ["df[red]", "x[/bold]", "a = [1][0]", "d[:smile:]", "[link=x]"])
def test_brackets_of_code_are_printed_as_they_are(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert text in printed(cell_table(run(cell(source=text))), capsys)
    assert text in printed(text, capsys)


@pytest.mark.parametrize(
    ("name", "source", "shown"),
    [
        ("load", "x = 1", "load"),
        (None, "\n\nx = 1\ny = 2", "x = 1"),
        (None, "", "MJUe"),
        (None, "y" * 50, "y" * 40),
        ("", "x", "x"),
    ],
)
def test_a_cell_without_a_name_is_called_by_its_code(name: str | None, source: str, shown: str) -> None:
    assert cell_name(cell(name, source)) == shown


@pytest.mark.parametrize(
    ("states", "outcome"),
    [
        (["completed", "stopped"], "all completed"),
        (["completed", "failed"], "1 failed"),
        (["running", "failed"], "1 failed, 1 not ended"),
        (["running"], "1 not ended"),
    ],
)
def test_a_summary_says_how_it_ended(states: list[CellState], outcome: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(summary(run(*(cell(state=state) for state in states))), capsys)
    assert f"· {outcome} ·" in shown


def test_talk_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with screen.progress() as say:
        say("Reading [this]")
    assert capsys.readouterr() == ("", "Reading [this] …\n")


@pytest.mark.parametrize(("is_dumb", "lines"), [(True, ["Reading …", "Writing …"]), (False, [])])
def test_a_spinner_turns_only_where_it_can(is_dumb: bool, lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    environment = {"TERM": "dumb" if is_dumb else "xterm"}
    console = Console(file=written, force_terminal=True, _environ=environment)
    monkeypatch.setattr(screen, "talk", lambda: console)
    with screen.progress() as say:
        say("Reading")
        say("Writing")
    assert written.getvalue().splitlines()[:2] == lines or not is_dumb
    assert ("\x1b" in written.getvalue()) is not is_dumb


def made(source: str, run_uuid: str, *upstream: Hop) -> Hop:
    dataset = Dataset("file", f"/{source}")
    edge = ColumnEdge(Dataset("n", "t"), None, "c", dataset, None, "x", "DIRECT", "IDENTITY", None, run_uuid, "job")
    return Hop(dataset, None, "x", edge, None, None, upstream)


def test_a_tree_grows_sideways_only_where_ways_part(capsys: pytest.CaptureFixture[str]) -> None:
    chain = Hop(Dataset("n", "t"), None, "c", None, None, None, (made("a", "1", made("b", "2")),))
    assert printed(tree(chain), capsys).splitlines() == ["t.c  n", "├── a.x  identity", "└── b.x  identity"]
    two_jobs = Hop(Dataset("n", "t"), None, "c", None, None, None, (made("a", "1", made("b", "2")), made("d", "3")))
    assert printed(tree(two_jobs), capsys).splitlines() == [
        "t.c  n",
        "├── a.x  identity",
        "│   └── b.x  identity",
        "└── d.x  identity",
    ]


def test_long_lines_are_not_cut_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    name = "n" * 200
    assert name in printed(tree(Hop(Dataset("n", name), None, "c", None, None, None, ())), capsys)
