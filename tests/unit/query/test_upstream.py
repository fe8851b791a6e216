"""Where a column came from, over small notebooks."""

from __future__ import annotations

from typing import Any

import pytest

from clew.errors import UsageError
from clew.query.service import NotebookService


def ancestry(story: Any, lines_of: Any, column: str, **how: Any) -> list[str]:
    with NotebookService(story.index) as answers:
        found: list[str] = lines_of(answers.upstream(column, **how))
    return found


def test_a_chain_leads_back_to_the_file(orders: Any, lines_of: Any) -> None:
    assert ancestry(orders, lines_of, "totals.parquet.sum") == [
        "totals.parquet.sum",
        "  totals@1.sum IDENTITY",
        "    df@2.price AGGREGATION",
        "      df@1.price IDENTITY",
        "        orders.csv.price IDENTITY",
        "      df@1.id FILTER",
        "    df@2.id GROUP_BY",
    ]


def test_every_hop_has_its_operation_and_cell(orders: Any) -> None:
    with NotebookService(orders.index) as answers:
        hop = answers.upstream("totals.parquet.sum").upstream[0]
    assert hop.operation is not None
    assert hop.cell is not None
    assert (hop.operation.code, hop.operation.line, hop.cell.name) == ("totals.to_parquet(path)", 1, "save")


@pytest.mark.parametrize(("depth", "count"), [(1, 2), (2, 4), (3, 6), (4, 7), (50, 7), (9999, 7)])
def test_a_walk_is_as_deep_as_was_asked(orders: Any, lines_of: Any, depth: int, count: int) -> None:
    assert len(ancestry(orders, lines_of, "totals.parquet.sum", depth=depth)) == count


@pytest.mark.parametrize("depth", [0, -1])
def test_no_depth_is_a_usage_error(orders: Any, depth: int) -> None:
    with NotebookService(orders.index) as answers, pytest.raises(UsageError, match=f"Invalid depth: {depth}"):
        answers.upstream("totals.parquet.sum", depth=depth)


def test_a_column_that_nobody_made_has_no_ancestry(orders: Any, lines_of: Any) -> None:
    assert ancestry(orders, lines_of, "orders.csv.price") == ["orders.csv.price"]


def test_a_join_has_two_ancestries_and_tells_what_it_was_joined_on(story: Any, lines_of: Any) -> None:
    session = story.session()
    session.operation("left", "a@1", {"k": [("a.csv", "k")], "x": [("a.csv", "x")]})
    session.operation("right", "b@1", {"k": [("b.csv", "k")], "y": [("b.csv", "y")]})
    keys = [("a@1", "k", "JOIN"), ("b@1", "k", "JOIN")]
    both = [("a@1", "x", "TRANSFORMATION"), ("b@1", "y", "TRANSFORMATION")]
    session.operation("join", "c@1", {"z": both, None: keys})
    story.tell()
    assert ancestry(story, lines_of, "c.z") == [
        "c@1.z",
        "  a@1.x TRANSFORMATION",
        "    a.csv.x IDENTITY",
        "  b@1.y TRANSFORMATION",
        "    b.csv.y IDENTITY",
        "  a@1.k JOIN",
        "  b@1.k JOIN",
    ]


def test_a_column_that_two_ways_lead_to_is_followed_once(story: Any, lines_of: Any) -> None:
    session = story.session()
    session.operation("load", "a@1", {"x": [("a.csv", "x")]})
    session.operation("split", "b@1", {"y": [("a@1", "x")], "z": [("a@1", "x", "TRANSFORMATION")]})
    session.operation("meet", "c@1", {"w": [("b@1", "y"), ("b@1", "z")]})
    story.tell()
    assert ancestry(story, lines_of, "c.w") == [
        "c@1.w",
        "  b@1.y IDENTITY",
        "    a@1.x IDENTITY",
        "      a.csv.x IDENTITY",
        "  b@1.z IDENTITY",
        "    a@1.x TRANSFORMATION again",
    ]


def test_a_table_that_feeds_itself_ends(story: Any, lines_of: Any) -> None:
    session = story.session()
    for _ in range(3):
        session.operation("there", "a.csv", {"x": [("b.csv", "x")]})
        session.operation("back", "b.csv", {"x": [("a.csv", "x")]})
        session.operation("self", "a.csv", {"x": [("a.csv", "x", "TRANSFORMATION")]})
    story.tell()
    found = ancestry(story, lines_of, "a.csv.x")
    assert found[0] == "a.csv.x"
    assert {"  b.csv.x IDENTITY", "  a.csv.x TRANSFORMATION again"} <= set(found)
    assert len(found) < 8


def test_the_last_session_counts_and_sessions_do_not_mix(story: Any, lines_of: Any) -> None:
    first, last = story.session("aaaa1111"), story.session("bbbb2222")
    first.operation("load", "df@1", {"x": [("old.csv", "x")]})
    first.operation("renamed", "df@2", {"x": [("df@1", "x")]})
    last.operation("load", "df@1", {"x": [("new.csv", "x")]})
    last.operation("keep", "df@2", {"x": [("df@1", "x", "TRANSFORMATION")]})
    story.tell()
    assert ancestry(story, lines_of, "df.x") == ["df@2.x", "  df@1.x TRANSFORMATION", "    new.csv.x IDENTITY"]


@pytest.mark.parametrize("is_received_in_order", [True, False])
def test_a_file_leads_from_one_notebook_to_the_other(story: Any, lines_of: Any, is_received_in_order: bool) -> None:
    writer, reader = story.session("bbbb2222", "writing"), story.session("aaaa1111", "orders")
    writer.operation("make", "t@1", {"x": [("raw.csv", "x")]})
    writer.operation("save", "t.parquet", {"x": [("t@1", "x")]})
    reader.operation("load", "df@1", {"x": [("t.parquet", "x")]})
    # Written again, from elsewhere, after it was read.
    writer.operation("save", "t.parquet", {"x": [("other.csv", "x")]})
    story.tell([writer, reader] if is_received_in_order else [reader, writer])
    assert ancestry(story, lines_of, "df.x") == [
        "df@1.x",
        "  t.parquet.x IDENTITY",
        "    writing/t@1.x IDENTITY",
        "      raw.csv.x IDENTITY",
    ]


def test_events_without_cells_still_have_lineage(story: Any, lines_of: Any) -> None:
    story.session().operation("load", "df@1", {"x": [("a.csv", "x")]}, has_cell=False)
    story.tell()
    assert ancestry(story, lines_of, "df.x") == ["df@1.x", "  a.csv.x IDENTITY"]


def test_frames_that_no_variable_held_are_folded(story: Any, lines_of: Any) -> None:
    session = story.session()
    session.operation("load", "df@1", {"g": [("a.csv", "g")], "x": [("a.csv", "x")]})
    session.operation(
        "pick", "c/getitem", {"g": [("df@1", "g")], "x": [("df@1", "x")], None: [("df@1", "g", "FILTER")]}
    )
    session.operation(
        "sum", "c/sum", {"x": [("c/getitem", "x", "AGGREGATION")], None: [("c/getitem", "g", "GROUP_BY")]}
    )
    session.operation("head", "out@1", {"x": [("c/sum", "x")]})
    story.tell()
    assert ancestry(story, lines_of, "out.x") == [
        "out@1.x",
        "  df@1.x AGGREGATION",
        "    a.csv.x IDENTITY",
        "  df@1.g FILTER",
        "  df@1.g GROUP_BY",
    ]
    assert ancestry(story, lines_of, "out.x", is_collapsed=False) == [
        "out@1.x",
        "  c/sum@1.x IDENTITY",
        "    c/getitem@1.x AGGREGATION",
        "      df@1.x IDENTITY",
        "        a.csv.x IDENTITY",
        "      df@1.g FILTER",
        "    c/getitem@1.g GROUP_BY",
        "      df@1.g IDENTITY",
    ]
    assert len(ancestry(story, lines_of, "out.x", depth=1)) == 4


def test_a_long_chain_of_calls_does_not_grow_without_bounds(story: Any, lines_of: Any) -> None:
    session = story.session()
    session.operation("load", "df@1", {"x": [("a.csv", "x")], "y": [("a.csv", "y")]})
    before = "df@1"
    for number in range(40):
        both = [(before, "x", "TRANSFORMATION"), (before, "y", "TRANSFORMATION")]
        keys = [(before, "x", "FILTER"), (before, "y", "FILTER")]
        session.operation("step", f"c/step.{number}".replace(".", "_"), {"x": both, "y": both, None: keys})
        before = f"c/step_{number}"
    session.operation("last", "out@1", {"x": [(before, "x")]})
    story.tell()
    found = ancestry(story, lines_of, "out.x")
    assert {"  df@1.x TRANSFORMATION", "  df@1.y TRANSFORMATION", "  df@1.x FILTER"} <= set(found)
    assert len(found) < 12
    assert len(ancestry(story, lines_of, "out.x", is_collapsed=False)) < 1000
