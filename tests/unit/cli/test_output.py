"""Tests of consoles and rendered text."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from clew.cli import output as screen
from clew.cli.render.lineage import upstream_tree
from clew.cli.render.runs import cell_table, run_summary
from clew.query.model import CellExecution, CellState, ColumnLineageEdge, DatasetName, LineageStep, NotebookRun

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def cell(name: str | None = None, source: str = "", state: CellState = "completed") -> CellExecution:
    return CellExecution("e", "MJUe", name, None, source, state, NOW, 5.0, None, None, None)


def run(*cells: CellExecution) -> NotebookRun:
    return NotebookRun("s", None, "nb.py", "RUNNING", NOW, None, cells, (), (), (), ())


def render(renderable: Any, capsys: pytest.CaptureFixture[str]) -> str:
    screen.stdout_console().print(renderable)
    return capsys.readouterr().out


@pytest.mark.parametrize("text", ["df[red]", "x[/bold]", "a = [1][0]", "d[:smile:]", "[link=x]"])
def test_markup_in_code_is_printed_literally(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert text in render(cell_table(run(cell(source=text))), capsys)
    assert text in render(text, capsys)


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("load", "x = 1", "load"),
        (None, "\n\nx = 1\ny = 2", "x = 1"),
        (None, "", "MJUe"),
        (None, "y" * 50, f"{'y' * 47}…"),
        ("_", "import pandas as pd\ndf = pd.read_csv('a.csv')", "df = pd.read_csv('a.csv')"),
        (None, "# Load the orders\ndf = 1", "Load the orders"),
        (None, "import os", "import os"),
        (None, 'mo.md(r"""\n    # Orders\n    Text.\n    """)', "Orders"),
        (None, "mo.md('one')", "one"),
        ("", "x", "x"),
    ],
)
def test_cell_name_falls_back_to_code(name: str | None, source: str, expected: str) -> None:
    assert cell(name, source).title == expected


@pytest.mark.parametrize(
    ("states", "outcome"),
    [
        (["completed", "stopped"], "all completed"),
        (["completed", "failed"], "1 failed"),
        (["running", "failed"], "1 failed, 1 running"),
        (["running"], "1 running"),
    ],
)
def test_run_summary_shows_outcome(states: list[CellState], outcome: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = render(run_summary(run(*(cell(state=state) for state in states))), capsys)
    assert f"· {outcome} ·" in text


def test_progress_is_printed_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with screen.show_progress() as progress:
        progress("Reading [this]")
    assert capsys.readouterr() == ("", "Reading [this] …\n")


@pytest.mark.parametrize(("is_dumb", "lines"), [(True, ["Reading …", "Writing …"]), (False, [])])
def test_dumb_terminal_has_no_spinner(is_dumb: bool, lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    environment = {"TERM": "dumb" if is_dumb else "xterm"}
    console = Console(file=output, force_terminal=True, _environ=environment)
    monkeypatch.setattr(screen, "stderr_console", lambda: console)
    with screen.show_progress() as progress:
        progress("Reading")
        progress("Writing")
    assert output.getvalue().splitlines()[:2] == lines or not is_dumb
    assert ("\x1b" in output.getvalue()) is not is_dumb


def source_step(source: str, run_uuid: str, *upstream: LineageStep) -> LineageStep:
    dataset = DatasetName("file", f"/{source}")
    edge = ColumnLineageEdge(
        DatasetName("n", "t"), None, "c", dataset, None, "x", "DIRECT", "IDENTITY", None, run_uuid, "job"
    )
    return LineageStep(dataset, None, "x", edge, None, None, upstream)


def test_upstream_tree_indents_only_at_branches(capsys: pytest.CaptureFixture[str]) -> None:
    chained_source = source_step("a", "1", source_step("b", "2"))
    chain = LineageStep(DatasetName("n", "t"), None, "c", None, None, None, (chained_source,))
    assert render(upstream_tree(chain), capsys).splitlines() == ["t.c  n", "├── a.x  identity", "└── b.x  identity"]
    two_jobs = LineageStep(DatasetName("n", "t"), None, "c", None, None, None, (chained_source, source_step("d", "3")))
    assert render(upstream_tree(two_jobs), capsys).splitlines() == [
        "t.c  n",
        "├── a.x  identity",
        "│   └── b.x  identity",
        "└── d.x  identity",
    ]


def test_long_lines_are_not_truncated_in_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    name = "n" * 200
    assert name in render(upstream_tree(LineageStep(DatasetName("n", name), None, "c", None, None, None, ())), capsys)
