"""Walks over columns: values are followed, influences named; renames, frames and whole datasets included."""

from __future__ import annotations

from typing import Any

import pytest

from clew.query.context import QueryResources
from clew.query.graph.nodes import Column
from clew.query.graph.traversal import Direction, IndirectPolicy, traverse_columns


def text(column: Column) -> str:
    return f"{column.dataset}.{column.column or '*'}"


def walked(
    holdings: QueryResources,
    start: str,
    direction: Direction = "upstream",
    influence: IndirectPolicy = "report",
    *,
    has_frames: bool = False,
    depth: int = 20,
) -> dict[str, tuple[int, str]]:
    table, _, name = start.rpartition(".")
    before, mark, own = table.partition(":")
    with holdings.reader() as index:
        graph = holdings.get_column_graph(index)[1]
    number = graph.find(Column(*((before, own) if mark else ("db", table)), name))
    assert number is not None
    found = traverse_columns(graph, [number], direction, indirect=influence, include_frames=has_frames, depth=depth)
    return {text(graph.column(one.number)): (one.distance, one.dependency_type[0]) for one in found.columns}


@pytest.fixture
def shop(world: Any) -> Any:
    world.run("load", "raw", "orders", columns={"orders": {"id": "raw.id", "price": "raw.price", "day": "raw.day"}})
    columns = {"totals": {"sum": "orders.price", "": "orders.day!GROUP_BY"}}
    world.run("total", "orders", "totals", columns=columns)
    world.run("show", "totals", "report", columns={"report": {"total": "totals.sum"}})
    world.tell()
    return world


def test_values_are_followed_upstream_and_influences_named(shop: Any, holdings: QueryResources) -> None:
    assert shop.events
    assert walked(holdings, "report.total") == {
        "report.total": (0, "D"),
        "totals.sum": (-1, "D"),
        "orders.price": (-2, "D"),
        "orders.day": (-2, "I"),
        "raw.price": (-3, "D"),
    }


@pytest.mark.parametrize(
    ("influence", "expected"),
    [
        ("report", {"raw.day": (0, "D"), "orders.day": (1, "D"), "totals.*": (2, "I")}),
        ("follow", {"raw.day": (0, "D"), "orders.day": (1, "D"), "totals.*": (2, "I"), "report.total": (3, "I")}),
    ],
)
def test_an_influence_breaks_what_takes_values_from_what_it_had_a_say_in(
    shop: Any, holdings: QueryResources, influence: IndirectPolicy, expected: dict[str, tuple[int, str]]
) -> None:
    assert shop.events
    assert walked(holdings, "raw.day", "downstream", influence) == expected


def test_a_renamed_column_is_the_same(world: Any, holdings: QueryResources) -> None:
    world.run("load", "raw", "old", columns={"old": {"id": "raw.id"}})
    world.rename("old", "new")
    world.rename("new", "newest")
    world.tell()
    assert walked(holdings, "newest.id") == {
        "newest.id": (0, "D"),
        "new.id": (-1, "D"),
        "old.id": (-2, "D"),
        "raw.id": (-3, "D"),
    }


def test_a_column_of_another_name_is_the_same_node(world: Any, holdings: QueryResources) -> None:
    world.run("write", "raw", "path", columns={"path": {"id": "raw.id"}})
    world.run("read", "table", "report", columns={"report": {"id": "table.id"}})
    world.symlink("path", "table")
    world.tell()
    assert set(walked(holdings, "report.id")) == {"report.id", "path.id", "raw.id"}
    assert walked(holdings, "table.id") == walked(holdings, "path.id")


def test_only_what_a_job_said_last_counts(world: Any, holdings: QueryResources) -> None:
    world.run("build", "a", "out", columns={"out": {"x": "a.x"}}, minute=1)
    world.run("build", "b", "out", columns={"out": {"x": "b.x"}}, minute=2)
    world.run("late", "a", "out", columns={"out": {"x": "c.x"}}, minute=0)
    world.tell()
    assert set(walked(holdings, "out.x")) == {"out.x", "b.x", "c.x"}


def test_a_variable_used_again_does_not_mix_what_it_held(orders: Any) -> None:
    with QueryResources(orders.index) as holdings:
        assert walked(holdings, "file:/data/totals.parquet.sum") == {
            "/data/totals.parquet.sum": (0, "D"),
            "/data/orders.csv.price": (-1, "D"),
            "/data/orders.csv.id": (-1, "I"),
        }
        told = walked(holdings, "file:/data/totals.parquet.sum", has_frames=True)
    assert told["orders/totals@1.sum"] == (-1, "D")
    assert told["orders/df@1.price"] == (-3, "D")


def test_columns_in_a_circle_end(world: Any, holdings: QueryResources) -> None:
    world.run("there", "a", "b", columns={"b": {"x": "a.x"}})
    world.run("back", "b", "a", columns={"a": {"x": "b.x"}})
    world.tell()
    assert walked(holdings, "a.x", "both", "follow") == {"a.x": (0, "D"), "b.x": (-1, "D")}
