"""Tests of upstream column lineage in notebooks."""

from __future__ import annotations

from typing import Any

import pytest

from clew.errors import UsageError
from clew.query.service import LineageService


def upstream_lines(notebook_events: Any, format_lineage: Any, column: str, **options: Any) -> list[str]:
    with LineageService.open(notebook_events.index) as service:
        lines: list[str] = format_lineage(service.trace_column(column, **options))
    return lines


def test_traces_a_chain_back_to_the_file(orders: Any, format_lineage: Any) -> None:
    assert upstream_lines(orders, format_lineage, "totals.parquet.sum") == [
        "totals.parquet.sum",
        "  totals@1.sum IDENTITY",
        "    df@2.price AGGREGATION",
        "      df@1.price IDENTITY",
        "        orders.csv.price IDENTITY",
        "      df@1.id FILTER",
        "    df@2.id GROUP_BY",
    ]


def test_each_step_has_its_operation_and_cell(orders: Any) -> None:
    with LineageService.open(orders.index) as service:
        step = service.trace_column("totals.parquet.sum").upstream[0]
    assert step.operation is not None
    assert step.cell is not None
    assert (step.operation.code, step.operation.line, step.cell.name) == ("totals.to_parquet(path)", 1, "save")


@pytest.mark.parametrize(("depth", "count"), [(1, 2), (2, 4), (3, 6), (4, 7), (50, 7), (9999, 7)])
def test_limits_the_depth(orders: Any, format_lineage: Any, depth: int, count: int) -> None:
    assert len(upstream_lines(orders, format_lineage, "totals.parquet.sum", depth=depth)) == count


@pytest.mark.parametrize("depth", [0, -1])
def test_rejects_a_depth_below_one(orders: Any, depth: int) -> None:
    with LineageService.open(orders.index) as service, pytest.raises(UsageError, match=f"Invalid depth: {depth}"):
        service.trace_column("totals.parquet.sum", depth=depth)


def test_a_source_column_has_no_upstream(orders: Any, format_lineage: Any) -> None:
    assert upstream_lines(orders, format_lineage, "orders.csv.price") == ["orders.csv.price"]


def test_a_join_has_two_sources_and_its_join_keys(notebook_events: Any, format_lineage: Any) -> None:
    session = notebook_events.session()
    session.operation("left", "a@1", {"k": [("a.csv", "k")], "x": [("a.csv", "x")]})
    session.operation("right", "b@1", {"k": [("b.csv", "k")], "y": [("b.csv", "y")]})
    keys = [("a@1", "k", "JOIN"), ("b@1", "k", "JOIN")]
    sources = [("a@1", "x", "TRANSFORMATION"), ("b@1", "y", "TRANSFORMATION")]
    session.operation("join", "c@1", {"z": sources, None: keys})
    notebook_events.index_events()
    assert upstream_lines(notebook_events, format_lineage, "c.z") == [
        "c@1.z",
        "  a@1.x TRANSFORMATION",
        "    a.csv.x IDENTITY",
        "  b@1.y TRANSFORMATION",
        "    b.csv.y IDENTITY",
        "  a@1.k JOIN",
        "  b@1.k JOIN",
    ]


def test_follows_a_column_with_two_paths_once(notebook_events: Any, format_lineage: Any) -> None:
    session = notebook_events.session()
    session.operation("load", "a@1", {"x": [("a.csv", "x")]})
    session.operation("split", "b@1", {"y": [("a@1", "x")], "z": [("a@1", "x", "TRANSFORMATION")]})
    session.operation("meet", "c@1", {"w": [("b@1", "y"), ("b@1", "z")]})
    notebook_events.index_events()
    assert upstream_lines(notebook_events, format_lineage, "c.w") == [
        "c@1.w",
        "  b@1.y IDENTITY",
        "    a@1.x IDENTITY",
        "      a.csv.x IDENTITY",
        "  b@1.z IDENTITY",
        "    a@1.x TRANSFORMATION again",
    ]


def test_terminates_on_a_cycle(notebook_events: Any, format_lineage: Any) -> None:
    session = notebook_events.session()
    for _ in range(3):
        session.operation("there", "a.csv", {"x": [("b.csv", "x")]})
        session.operation("back", "b.csv", {"x": [("a.csv", "x")]})
        session.operation("self", "a.csv", {"x": [("a.csv", "x", "TRANSFORMATION")]})
    notebook_events.index_events()
    lines = upstream_lines(notebook_events, format_lineage, "a.csv.x")
    assert lines[0] == "a.csv.x"
    assert {"  b.csv.x IDENTITY", "  a.csv.x TRANSFORMATION again"} <= set(lines)
    assert len(lines) < 8


def test_uses_only_the_latest_session(notebook_events: Any, format_lineage: Any) -> None:
    first, last = notebook_events.session("aaaa1111"), notebook_events.session("bbbb2222")
    first.operation("load", "df@1", {"x": [("old.csv", "x")]})
    first.operation("renamed", "df@2", {"x": [("df@1", "x")]})
    last.operation("load", "df@1", {"x": [("new.csv", "x")]})
    last.operation("keep", "df@2", {"x": [("df@1", "x", "TRANSFORMATION")]})
    notebook_events.index_events()
    assert upstream_lines(notebook_events, format_lineage, "df.x") == [
        "df@2.x",
        "  df@1.x TRANSFORMATION",
        "    new.csv.x IDENTITY",
    ]


@pytest.mark.parametrize("is_received_in_order", [True, False])
def test_follows_a_file_into_another_notebook(
    notebook_events: Any, format_lineage: Any, is_received_in_order: bool
) -> None:
    writer, reader = notebook_events.session("bbbb2222", "writing"), notebook_events.session("aaaa1111", "orders")
    writer.operation("make", "t@1", {"x": [("raw.csv", "x")]})
    writer.operation("save", "t.parquet", {"x": [("t@1", "x")]})
    reader.operation("load", "df@1", {"x": [("t.parquet", "x")]})
    # Overwritten from another source after the read.
    writer.operation("save", "t.parquet", {"x": [("other.csv", "x")]})
    notebook_events.index_events([writer, reader] if is_received_in_order else [reader, writer])
    assert upstream_lines(notebook_events, format_lineage, "df.x") == [
        "df@1.x",
        "  t.parquet.x IDENTITY",
        "    writing/t@1.x IDENTITY",
        "      raw.csv.x IDENTITY",
    ]


def test_traces_operations_without_cells(notebook_events: Any, format_lineage: Any) -> None:
    notebook_events.session().operation("load", "df@1", {"x": [("a.csv", "x")]}, has_cell=False)
    notebook_events.index_events()
    assert upstream_lines(notebook_events, format_lineage, "df.x") == ["df@1.x", "  a.csv.x IDENTITY"]


def test_collapses_intermediate_frames(notebook_events: Any, format_lineage: Any) -> None:
    session = notebook_events.session()
    session.operation("load", "df@1", {"g": [("a.csv", "g")], "x": [("a.csv", "x")]})
    session.operation(
        "pick", "c/dataframe_at", {"g": [("df@1", "g")], "x": [("df@1", "x")], None: [("df@1", "g", "FILTER")]}
    )
    session.operation(
        "sum",
        "c/dataframe_sum",
        {"x": [("c/dataframe_at", "x", "AGGREGATION")], None: [("c/dataframe_at", "g", "GROUP_BY")]},
    )
    session.operation("head", "out@1", {"x": [("c/dataframe_sum", "x")]})
    notebook_events.index_events()
    assert upstream_lines(notebook_events, format_lineage, "out.x") == [
        "out@1.x",
        "  df@1.x AGGREGATION",
        "    a.csv.x IDENTITY",
        "  df@1.g FILTER",
        "  df@1.g GROUP_BY",
    ]
    assert upstream_lines(notebook_events, format_lineage, "out.x", is_collapsed=False) == [
        "out@1.x",
        "  c/dataframe_sum@1.x IDENTITY",
        "    c/dataframe_at@1.x AGGREGATION",
        "      df@1.x IDENTITY",
        "        a.csv.x IDENTITY",
        "      df@1.g FILTER",
        "    c/dataframe_at@1.g GROUP_BY",
        "      df@1.g IDENTITY",
    ]
    assert len(upstream_lines(notebook_events, format_lineage, "out.x", depth=1)) == 4


def test_a_long_chain_of_calls_stays_small(notebook_events: Any, format_lineage: Any) -> None:
    session = notebook_events.session()
    session.operation("load", "df@1", {"x": [("a.csv", "x")], "y": [("a.csv", "y")]})
    previous = "df@1"
    for number in range(40):
        sources = [(previous, "x", "TRANSFORMATION"), (previous, "y", "TRANSFORMATION")]
        keys = [(previous, "x", "FILTER"), (previous, "y", "FILTER")]
        session.operation("step", f"c/pandas_step.{number}".replace(".", "_"), {"x": sources, "y": sources, None: keys})
        previous = f"c/pandas_step_{number}"
    session.operation("last", "out@1", {"x": [(previous, "x")]})
    notebook_events.index_events()
    lines = upstream_lines(notebook_events, format_lineage, "out.x")
    assert {"  df@1.x TRANSFORMATION", "  df@1.y TRANSFORMATION", "  df@1.x FILTER"} <= set(lines)
    assert len(lines) < 12
    assert len(upstream_lines(notebook_events, format_lineage, "out.x", is_collapsed=False)) < 1000
