"""Tests of notebook sessions read from the index."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from clew.errors import UsageError
from clew.query.model import CellError, CellExecution, CellState, NotebookOperation, NotebookRun, from_epoch_micros
from clew.query.names import EmptyIndexError
from clew.query.notebooks.reports import peak_memory_mb, slowest_cell, total_ms
from clew.query.notebooks.session import split_script
from clew.query.service import LineageService


def load_latest_run(notebook_events: Any) -> NotebookRun:
    with LineageService.open(notebook_events.index) as service:
        return service.find_session()


def test_a_run_has_its_cells_operations_files_and_edges(orders: Any) -> None:
    run = load_latest_run(orders)
    assert (run.session_id, run.notebook, run.state) == ("aaaa1111", "orders.py", "FAILED")
    assert [cell.name for cell in run.cells] == ["load", "keep", "total", "save", "fail"]
    assert [cell.state for cell in run.cells] == ["completed"] * 4 + ["failed"]
    assert [operation.job_name for operation in run.operations][:2] == [
        "orders/load/dataframe_load",
        "orders/keep/dataframe_keep",
    ]
    assert [state.dataset.name for state in run.reads] == ["/data/orders.csv"]
    assert [(state.dataset.name, state.row_count) for state in run.writes] == [("/data/totals.parquet", 7)]
    assert [field.name for field in run.writes[0].fields] == ["sum"]
    assert len(run.edges) == 8
    assert run.started_at is not None
    assert run.ended_at is not None
    assert run.started_at < run.ended_at


def test_a_failed_cell_has_its_error(orders: Any) -> None:
    error = load_latest_run(orders).cells[-1].error
    assert error is not None
    assert (error.type, error.message) == ("KeyError", "'prise'")


def test_an_operation_has_its_input_and_output_versions(orders: Any) -> None:
    keep = load_latest_run(orders).operations[1]
    assert [(state.dataset.name, state.version) for state in keep.inputs] == [("orders/df", "1")]
    assert [(state.dataset.name, state.version) for state in keep.outputs] == [("orders/df", "2")]


def test_durations_and_memory(orders: Any) -> None:
    run = load_latest_run(orders)
    slowest = slowest_cell(run)
    assert slowest is not None
    assert (slowest.name, slowest.duration_ms) == ("load", 90.0)
    assert total_ms(run) == 130.0
    assert peak_memory_mb(run) == 120.0


def test_durations_and_memory_without_cells() -> None:
    run = NotebookRun("s", None, "nb", "NEW", None, None, (), (), (), (), ())
    assert (slowest_cell(run), total_ms(run), peak_memory_mb(run)) == (None, 0, None)


def test_lists_runs_newest_first(notebook_events: Any) -> None:
    first, second, third = (notebook_events.session(f"{letter * 4}0000", f"book_{letter}") for letter in "bca")
    first.operation("load", "df@1", {}, error="boom")
    second.run("START")
    second.operation("load", "df@1", {})
    second.run("COMPLETE")
    third.operation("load", "df@1", {})
    third.operation("keep", "df@2", {})
    notebook_events.index_events([third, first, second])
    with LineageService.open(notebook_events.index) as service:
        runs = service.list_sessions()
    keys = ("session_id", "notebook", "state", "cell_count", "failed_cell_count")
    assert [tuple(getattr(run, key) for key in keys) for run in runs] == [
        ("aaaa0000", "book_a.py", "RUNNING", 2, 0),
        ("cccc0000", "book_c.py", "COMPLETED", 1, 0),
        ("bbbb0000", "book_b.py", "FAILED", 1, 1),
    ]
    assert [run.ended_at is None for run in runs] == [True, False, True]


def test_summary_matches_the_run(orders: Any) -> None:
    run = load_latest_run(orders)
    with LineageService.open(orders.index) as service:
        (summary,) = service.list_sessions()
    for name in ("session_id", "notebook", "state", "started_at", "ended_at"):
        assert getattr(summary, name) == getattr(run, name)
    assert (summary.cell_count, summary.failed_cell_count) == (5, 1)


def test_rejects_an_unknown_session(orders: Any) -> None:
    with (
        LineageService.open(orders.index) as service,
        pytest.raises(UsageError, match="no notebook session 'aaaa1112'") as error,
    ):
        service.get_session("aaaa1112")
    assert error.value.hint == "Did you mean aaaa1111?"


def test_an_index_without_sessions_has_no_latest_run(notebook_events: Any) -> None:
    notebook_events.index_events()
    with LineageService.open(notebook_events.index) as service:
        with pytest.raises(EmptyIndexError):
            service.find_session()
        assert service.list_sessions() == []


@pytest.mark.parametrize(
    ("microseconds", "expected"),
    [
        (None, None),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (-1, datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
        (253402300799999999, datetime.max.replace(tzinfo=UTC)),
        (1767261600123457, datetime(2026, 1, 1, 10, 0, 0, 123457, UTC)),
    ],
)
def test_converts_microseconds_exactly(microseconds: int | None, expected: datetime | None) -> None:
    assert from_epoch_micros(microseconds) == expected


SCRIPT = """import os
import pandas as pd

# Load
df = pd.read_csv("a.csv")
total = 0
print(total)
df["b"] = (
    df["a"] * 2
)
df["nope"]
"""


def script_run(traceback: str | None = None, name: str = "eda") -> NotebookRun:
    error = None if traceback is None else CellError("KeyError", "nope", traceback)
    state: CellState = "failed" if error else "completed"
    cell = CellExecution("e1", name, name, 1, SCRIPT, state, None, None, None, None, error)
    operations = [
        NotebookOperation(f"r{line}", "", "e1", "eda", "", "", "", line, None, 2.0, "COMPLETED", (), ())
        for line in (5, 8, 11)
    ]
    return NotebookRun("s", None, "shop/eda.py", "COMPLETED", None, None, (cell,), tuple(operations), (), (), ())


def test_a_script_is_split_into_statements() -> None:
    run = split_script(script_run())
    assert [(cell.label, cell.source.count("\n") + 1) for cell in run.cells] == [
        ("1 import os", 2),
        ("2 Load", 3),
        ("3 total = 0", 2),
        ('4 df["b"] = (', 3),
        ('5 df["nope"]', 1),
    ]
    # Lines are relative to the part.
    assert [(operation.execution_id, operation.line) for operation in run.operations] == [
        ("e1:3", 3),
        ("e1:8", 1),
        ("e1:11", 1),
    ]
    assert {cell.state for cell in run.cells} == {"completed"}


def test_the_statement_that_failed_is_the_last_part() -> None:
    run = split_script(script_run('File "eda.py", line 9, in <module>'))
    assert [(cell.index, cell.state, cell.error is not None) for cell in run.cells[-2:]] == [
        (3, "completed", False),
        (4, "failed", True),
    ]


def test_a_notebook_is_not_split() -> None:
    run = script_run(name="load")
    assert split_script(run) is run
