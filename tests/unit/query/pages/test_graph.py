"""What the page's views are drawn from, over two weeks of a small shop."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from datetime import timedelta

import pytest
from tests.support.paths import PAGE_TESTS

from clew.data_dir import IndexLocation
from clew.events.streams import Stream, decode_event
from clew.index.extract.extractor import ChangeExtractor
from clew.index.queries.lists import PageQueries
from clew.index.writer import IndexWriter
from clew.query.context import QueryResources
from clew.query.layout import Box
from clew.query.names import UnknownNameError
from clew.query.pages import graph
from clew.query.pages.entities import build_dataset_view, build_job_view, build_run_changes, build_run_view
from clew.query.pages.graph import GraphNodeRef, edges_through_notebook
from clew.query.pages.lists import EntityName, build_activity, list_datasets, list_jobs, list_runs, search_all

SHOP = runpy.run_path(str(PAGE_TESTS / "shop.py"))
WAREHOUSE = SHOP["WAREHOUSE"]
MARGIN = EntityName(WAREHOUSE, "finance.margin")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> IndexLocation:
    is_file = request.param == "sqlite"
    file = tmp_path_factory.mktemp("shop") / "index.sqlite"
    path: IndexLocation = file if is_file else request.getfixturevalue("postgres_places").empty("views")
    observer = ChangeExtractor()
    for seq, event in enumerate(SHOP["events"]()):
        observer.add(decode_event(Stream.OPENLINEAGE, json.dumps(event).encode()), f"{seq:032x}", seq)
    with IndexWriter(path) as sink:
        sink.apply("shop/0", observer.changes())
    return path


@pytest.fixture(scope="module")
def index(path: IndexLocation) -> Iterator[PageQueries]:
    with PageQueries(path) as opened:
        yield opened


@pytest.fixture(scope="module")
def holdings(path: IndexLocation) -> Iterator[QueryResources]:
    with QueryResources(path) as opened:
        yield opened


def _node(name: str) -> GraphNodeRef:
    return GraphNodeRef("dataset", EntityName(WAREHOUSE, name))


def _picture(found: graph.LineageGraphView) -> dict[str, Box]:
    return {node.label: node.box for node in found.nodes}


def test_a_dataset_tells_where_each_column_comes_from(index: PageQueries) -> None:
    view = build_dataset_view(index, MARGIN)
    origins = {column.name: [(one.dataset.name, one.column) for one in column.sources] for column in view.columns}
    assert origins["margin_pct"] == [
        ("erp.allocated", "cost"),
        ("shop.revenue", "revenue"),
        ("shop.revenue", "day"),
    ]
    assert origins["orders"] == []
    assert [one.node.name for one in view.producers] == ["finance.load_daily"]
    assert len(view.consumers) == 12
    assert [one.has_new_schema for one in view.versions].count(True) == 1
    assert {one.name: len(one.points) for one in view.series} == {"rows": 14, "bytes": 14, "nulls in margin_pct": 14}
    assert "schema" in view.facets


def test_an_unknown_name_is_answered_with_what_was_meant(index: PageQueries) -> None:
    with pytest.raises(UnknownNameError, match=r"no dataset 'finance\.margn'") as fault:
        build_dataset_view(index, EntityName(WAREHOUSE, "finance.margn"))
    assert "finance.margin" in (fault.value.hint or "")


def test_a_job_and_its_runs(index: PageQueries) -> None:
    view = build_job_view(index, EntityName("airflow", "bi.refresh"))
    assert (view.run_total, [run.state for run in view.runs].count("FAILED")) == (14, 2)
    failed = build_run_view(index, next(run.run_uuid for run in view.runs if run.state == "FAILED"))
    assert failed.error == "relation bi.dashboard is locked"
    assert failed.previous is not None
    assert failed.previous.state == "COMPLETED"
    assert [one.dataset.name for one in failed.inputs] == ["finance.margin"]


def test_two_runs_of_a_job_differ_in_rows_and_columns(index: PageQueries) -> None:
    runs = build_job_view(index, EntityName("airflow", "finance.load_daily")).runs
    changes = build_run_changes(index, None, runs[5].run_uuid, runs[0].run_uuid).changes
    assert [(change.kind, change.label, change.added) for change in changes] == [
        ("rows", "finance.margin", ()),
        ("columns", "finance.margin", ("orders",)),
    ]


def test_lists_say_how_much_there_is(index: PageQueries) -> None:
    found = build_activity(index)
    assert (len(found.runs.items), found.runs.total) == (8, found.counts.runs)
    assert list_runs(index, "", "FAILED", 50).total == 2
    assert list_jobs(index, "report", 3).total == 11
    assert [len(list_datasets(index, "", 5).items), list_datasets(index, "MARGIN", 5).total] == [5, 1]


def test_search_goes_by_name_then_by_what_mentions_it(index: PageQueries, holdings: QueryResources) -> None:
    found = search_all(index, holdings, "margin").items
    assert [(one.kind, one.column or one.name.name) for one in found][:3] == [
        ("dataset", "finance.margin"),
        ("column", "margin_pct"),
        ("column", "margin_pct"),
    ]
    assert ("text_match", "finance.load_daily") in [(one.kind, one.name.name) for one in found]
    assert search_all(index, holdings, "  ").items == ()


def test_the_graph_begins_with_one_hop_and_counts_the_rest(index: PageQueries) -> None:
    found = graph.build_lineage_graph(index, graph.GraphRequest(_node("finance.margin")))
    nodes = {node.label: node for node in found.nodes}
    assert {"erp.allocated", "shop.revenue", "finance.load_daily"} <= nodes.keys()
    assert "erp.costs" not in nodes
    assert (nodes["erp.allocated"].hidden_upstream, nodes["finance.margin"].hidden_downstream) == (1, 4)
    lit = {
        (nodes_of(found, edge.source.state), edge.source.column) for edge in found.edges if edge.target.column == "cost"
    }
    assert lit == {("erp.allocated", "cost")}


def nodes_of(found: graph.LineageGraphView, place: int) -> str:
    return found.nodes[place].label


def test_opening_a_node_moves_nothing(index: PageQueries) -> None:
    before = graph.build_lineage_graph(index, graph.GraphRequest(_node("finance.margin")))
    openings = (graph.Expansion("down", _node("finance.margin")), graph.Expansion("up", _node("erp.allocated")))
    after = graph.build_lineage_graph(index, graph.GraphRequest(_node("finance.margin"), openings))
    assert _picture(before).items() <= _picture(after).items()
    assert {"erp.costs", "bi.dashboard", "report.out_00"} <= _picture(after).keys()
    assert all(node.hidden_upstream == node.hidden_downstream == 0 for node in after.nodes)


def test_as_of_a_time_only_what_was_known_is_there(index: PageQueries) -> None:
    whole = graph.build_lineage_graph(index, graph.GraphRequest(_node("finance.margin"), depth=20))
    assert whole.time_range.first is not None
    early = whole.time_range.first + timedelta(minutes=6)
    found = graph.build_lineage_graph(index, graph.GraphRequest(_node("finance.margin"), depth=20, as_of=early))
    assert {node.label for node in found.nodes} == {
        "erp.costs",
        "erp.allocate",
        "erp.allocated",
        "shop.revenue",
        "finance.load_daily",
        "finance.margin",
    }


def test_the_path_between_two_has_nothing_else(index: PageQueries, holdings: QueryResources) -> None:
    names = ["erp.costs", "erp.allocate", "erp.allocated", "finance.load_daily", "finance.margin", "bi.refresh"]
    there = graph.build_path_graph(index, holdings, _node("erp.costs"), _node("bi.dashboard"))
    back = graph.build_path_graph(index, holdings, _node("bi.dashboard"), _node("erp.costs"))
    assert sorted(_picture(there)) == sorted(_picture(back)) == sorted([*names, "bi.dashboard"])
    with pytest.raises(UnknownNameError, match="No path between"):
        graph.build_path_graph(index, holdings, _node("erp.costs"), _node("wide.target"))


@pytest.mark.parametrize("name", [*SHOP["NAMES"].values(), "a/b:c?d&e=f %2F", ""], ids=repr)
def test_a_node_is_one_text_and_back(name: str) -> None:
    node = GraphNodeRef("job", EntityName(name, name or "x"))
    assert GraphNodeRef.parse(node.id) == node


def test_a_notebook_carries_columns_from_file_to_file() -> None:
    sample = runpy.run_path(str(PAGE_TESTS / "orders_run.py"))
    ways = edges_through_notebook(sample["orders_run"](), EntityName("marimo", "orders"))
    revenue = [way for way in ways if way.column == "net_revenue"]
    direct = {(way.source.name.rsplit("/", 1)[-1], way.source_column) for way in revenue if way.type == "DIRECT"}
    assert {("orders.csv", "price"), ("orders.csv", "qty")} <= direct
    assert any('paid["price"] * paid["qty"]' in way.code for way in revenue)
    assert {way.subtype for way in revenue if way.type == "INDIRECT"} <= {
        "FILTER",
        "JOIN",
        "GROUP_BY",
        "CONDITIONAL",
        "SORT",
    }
