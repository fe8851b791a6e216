"""Tests of column graph traversal: DIRECT and INDIRECT edges, renames, symlinks and frames."""

from __future__ import annotations

from typing import Any

import pytest

from clew.query.context import QueryResources
from clew.query.graph.nodes import Column
from clew.query.graph.traversal import Direction, IndirectPolicy, traverse_columns
from clew.query.service import LineageService


def column_text(column: Column) -> str:
    return f"{column.dataset}.{column.column or '*'}"


def distances(
    resources: QueryResources,
    start: str,
    direction: Direction = "upstream",
    indirect: IndirectPolicy = "report",
    *,
    include_frames: bool = False,
    depth: int = 20,
) -> dict[str, tuple[int, str]]:
    table, _, name = start.rpartition(".")
    namespace, separator, own_name = table.partition(":")
    with resources.reader() as index:
        graph = resources.get_column_graph(index)[1]
    number = graph.find(Column(*((namespace, own_name) if separator else ("db", table)), name))
    assert number is not None
    is_hidden = None if include_frames else graph.is_frame
    result = traverse_columns(graph, [number], direction, indirect=indirect, is_hidden=is_hidden, depth=depth)
    return {column_text(graph.column(node.number)): (node.distance, node.dependency_type[0]) for node in result.columns}


@pytest.fixture
def shop(scenario: Any) -> Any:
    scenario.run("load", "raw", "orders", columns={"orders": {"id": "raw.id", "price": "raw.price", "day": "raw.day"}})
    columns = {"totals": {"sum": "orders.price", "": "orders.day!GROUP_BY"}}
    scenario.run("total", "orders", "totals", columns=columns)
    scenario.run("show", "totals", "report", columns={"report": {"total": "totals.sum"}})
    scenario.index_events()
    return scenario


def test_follows_direct_edges_and_reports_indirect_edges(shop: Any, resources: QueryResources) -> None:
    assert shop.events
    assert distances(resources, "report.total") == {
        "report.total": (0, "D"),
        "totals.sum": (-1, "D"),
        "orders.price": (-2, "D"),
        "orders.day": (-2, "I"),
        "raw.price": (-3, "D"),
    }


@pytest.mark.parametrize(
    ("indirect", "expected"),
    [
        ("report", {"raw.day": (0, "D"), "orders.day": (1, "D"), "totals.*": (2, "I")}),
        ("follow", {"raw.day": (0, "D"), "orders.day": (1, "D"), "totals.*": (2, "I"), "report.total": (3, "I")}),
    ],
)
def test_indirect_policy_reports_or_follows_indirect_edges(
    shop: Any, resources: QueryResources, indirect: IndirectPolicy, expected: dict[str, tuple[int, str]]
) -> None:
    assert shop.events
    assert distances(resources, "raw.day", "downstream", indirect) == expected


def test_follows_renames(scenario: Any, resources: QueryResources) -> None:
    scenario.run("load", "raw", "old", columns={"old": {"id": "raw.id"}})
    scenario.rename("old", "new")
    scenario.rename("new", "newest")
    scenario.index_events()
    assert distances(resources, "newest.id") == {
        "newest.id": (0, "D"),
        "new.id": (-1, "D"),
        "old.id": (-2, "D"),
        "raw.id": (-3, "D"),
    }


def test_symlinked_columns_are_one_node(scenario: Any, resources: QueryResources) -> None:
    scenario.run("write", "raw", "path", columns={"path": {"id": "raw.id"}})
    scenario.run("read", "table", "report", columns={"report": {"id": "table.id"}})
    scenario.symlink("path", "table")
    scenario.index_events()
    assert set(distances(resources, "report.id")) == {"report.id", "path.id", "raw.id"}
    assert distances(resources, "table.id") == distances(resources, "path.id")


def test_uses_only_the_latest_assertion_of_a_job(scenario: Any, resources: QueryResources) -> None:
    scenario.run("build", "a", "out", columns={"out": {"x": "a.x"}}, minute=1)
    scenario.run("build", "b", "out", columns={"out": {"x": "b.x"}}, minute=2)
    scenario.run("late", "a", "out", columns={"out": {"x": "c.x"}}, minute=0)
    scenario.index_events()
    assert set(distances(resources, "out.x")) == {"out.x", "b.x", "c.x"}


def test_does_not_mix_versions_of_a_variable(orders: Any) -> None:
    with QueryResources(orders.index) as resources:
        assert distances(resources, "file:/data/totals.parquet.sum") == {
            "/data/totals.parquet.sum": (0, "D"),
            "/data/orders.csv.price": (-1, "D"),
            "/data/orders.csv.id": (-1, "I"),
        }
        with_frames = distances(resources, "file:/data/totals.parquet.sum", include_frames=True)
    assert with_frames["orders/totals@1.sum"] == (-1, "D")
    assert with_frames["orders/df@1.price"] == (-3, "D")


def test_terminates_on_a_cycle(scenario: Any, resources: QueryResources) -> None:
    scenario.run("there", "a", "b", columns={"b": {"x": "a.x"}})
    scenario.run("back", "b", "a", columns={"a": {"x": "b.x"}})
    scenario.index_events()
    assert distances(resources, "a.x", "both", "follow") == {"a.x": (0, "D"), "b.x": (-1, "D")}


def test_a_column_without_own_edges_has_those_of_its_dataset(scenario: Any, resources: QueryResources) -> None:
    scenario.run("load", "raw", "out", columns={"out": {"x": "raw.x", "": "raw.day!FILTER"}})
    scenario.run("show", "out", "report", columns={"report": {"x": "out.x"}})
    scenario.dataset("out", schema={"fields": [{"name": "x"}, {"name": "other"}]})
    scenario.index_events()
    with resources.reader() as index:
        service = LineageService(resources, index)
        upstream, downstream = (service.traverse("out.other", side) for side in ("upstream", "downstream"))
    assert [node.id for node in upstream.nodes] == ["datasetField:db:out:other", "datasetField:db:raw:day"]
    assert [(edge.start, edge.end) for edge in upstream.edges] == [
        ("datasetField:db:raw:day", "datasetField:db:out:other")
    ]
    assert [node.id for node in downstream.nodes] == ["datasetField:db:out:other"]
