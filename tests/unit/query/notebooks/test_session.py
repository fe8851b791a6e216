"""A session of a notebook, put together from the index."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from clew.errors import UsageError
from clew.query.model import NotebookRun, from_epoch_micros
from clew.query.notebooks.reports import peak_memory_mb, slowest_cell, total_ms
from clew.query.service import NotebookService


def only_run(story: Any) -> NotebookRun:
    with NotebookService(story.index) as answers:
        run = answers.latest_run()
    assert run is not None
    return run


def test_a_run_has_its_cells_operations_files_and_edges(orders: Any) -> None:
    run = only_run(orders)
    assert (run.session_id, run.notebook, run.state) == ("aaaa1111", "orders.py", "FAILED")
    assert [cell.name for cell in run.cells] == ["load", "keep", "total", "save", "fail"]
    assert [cell.state for cell in run.cells] == ["completed"] * 4 + ["failed"]
    assert [one.job_name for one in run.operations][:2] == ["orders/load/dataframe_load", "orders/keep/dataframe_keep"]
    assert [state.dataset.name for state in run.reads] == ["/data/orders.csv"]
    assert [(state.dataset.name, state.row_count) for state in run.writes] == [("/data/totals.parquet", 7)]
    assert [field.name for field in run.writes[0].fields] == ["sum"]
    assert len(run.edges) == 8
    assert run.started_at is not None
    assert run.ended_at is not None
    assert run.started_at < run.ended_at


def test_a_failed_cell_says_why(orders: Any) -> None:
    error = only_run(orders).cells[-1].error
    assert error is not None
    assert (error.type, error.message) == ("KeyError", "'prise'")


def test_an_operation_has_the_versions_that_it_used(orders: Any) -> None:
    keep = only_run(orders).operations[1]
    assert [(state.dataset.name, state.version) for state in keep.inputs] == [("orders/df", "1")]
    assert [(state.dataset.name, state.version) for state in keep.outputs] == [("orders/df", "2")]


def test_what_it_cost(orders: Any) -> None:
    run = only_run(orders)
    slowest = slowest_cell(run)
    assert slowest is not None
    assert (slowest.name, slowest.duration_ms) == ("load", 90.0)
    assert total_ms(run) == 130.0
    assert peak_memory_mb(run) == 120.0


def test_a_run_without_cells_cost_nothing() -> None:
    run = NotebookRun("s", None, "nb", "NEW", None, None, (), (), (), (), ())
    assert (slowest_cell(run), total_ms(run), peak_memory_mb(run)) == (None, 0, None)


def test_runs_are_listed_the_newest_first(story: Any) -> None:
    first, second, third = (story.session(f"{letter * 4}0000", f"book_{letter}") for letter in "bca")
    first.operation("load", "df@1", {}, error="boom")
    second.run("START")
    second.operation("load", "df@1", {})
    second.run("COMPLETE")
    third.operation("load", "df@1", {})
    third.operation("keep", "df@2", {})
    story.tell([third, first, second])
    with NotebookService(story.index) as answers:
        runs = answers.runs()
    keys = ("session_id", "notebook", "state", "cell_count", "failed_cell_count")
    assert [tuple(getattr(run, key) for key in keys) for run in runs] == [
        ("aaaa0000", "book_a.py", "RUNNING", 2, 0),
        ("cccc0000", "book_c.py", "COMPLETED", 1, 0),
        ("bbbb0000", "book_b.py", "FAILED", 1, 1),
    ]
    assert [run.ended_at is None for run in runs] == [True, False, True]


def test_the_list_and_the_run_tell_the_same(orders: Any) -> None:
    run = only_run(orders)
    with NotebookService(orders.index) as answers:
        (summary,) = answers.runs()
    for name in ("session_id", "notebook", "state", "started_at", "ended_at"):
        assert getattr(summary, name) == getattr(run, name)
    assert (summary.cell_count, summary.failed_cell_count) == (5, 1)


def test_an_unknown_session_is_a_usage_error(orders: Any) -> None:
    with (
        NotebookService(orders.index) as answers,
        pytest.raises(UsageError, match="no notebook session 'aaaa1112'") as fault,
    ):
        answers.run("aaaa1112")
    assert fault.value.hint == "Did you mean aaaa1111?"


def test_an_index_without_sessions_has_no_latest(story: Any) -> None:
    story.tell()
    with NotebookService(story.index) as answers:
        assert answers.latest_run() is None
        assert answers.runs() == []
        assert answers.indexed_at() is not None


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
def test_moments_are_exact(microseconds: int | None, expected: datetime | None) -> None:
    assert from_epoch_micros(microseconds) == expected
