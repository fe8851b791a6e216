"""What the page's views are drawn from, over two weeks of a small shop."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from clew.events.received import decode
from clew.events.stream import Stream
from clew.home import Place
from clew.index.browsing import Browser
from clew.index.observer import Observer
from clew.index.sink import IndexSink
from clew.query.holdings import Holdings
from clew.query.layout import Box
from clew.query.names import UnknownNameError
from clew.query.views import graph
from clew.query.views.column_edges import notebook_ways
from clew.query.views.dataset import dataset_view
from clew.query.views.job import job_view
from clew.query.views.lists import activity, dataset_list, job_list, run_list
from clew.query.views.model import Name
from clew.query.views.neighbours import Node
from clew.query.views.run import run_view
from clew.query.views.run_diff import run_diff
from clew.query.views.search import search

SHOP = runpy.run_path(str(Path(__file__).parents[2] / "e2e" / "page" / "shop.py"))
WAREHOUSE = SHOP["WAREHOUSE"]
MARGIN = Name(WAREHOUSE, "finance.margin")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    is_file = request.param == "sqlite"
    file = tmp_path_factory.mktemp("shop") / "index.sqlite"
    path: Place = file if is_file else request.getfixturevalue("postgres_places").empty("views")
    observer = Observer()
    for seq, event in enumerate(SHOP["events"]()):
        observer.note(decode(Stream.OPENLINEAGE, json.dumps(event).encode()), f"{seq:032x}", seq)
    with IndexSink(path) as sink:
        sink.apply("shop/0", observer.changes())
    return path


@pytest.fixture(scope="module")
def index(path: Place) -> Iterator[Browser]:
    with Browser(path) as opened:
        yield opened


@pytest.fixture(scope="module")
def holdings(path: Place) -> Iterator[Holdings]:
    with Holdings(path) as opened:
        yield opened


def _node(name: str) -> Node:
    return Node("dataset", Name(WAREHOUSE, name))


def _picture(found: graph.LineageGraph) -> dict[str, Box]:
    return {node.label: node.box for node in found.nodes}


def test_a_dataset_tells_where_each_column_comes_from(index: Browser) -> None:
    view = dataset_view(index, MARGIN)
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


def test_an_unknown_name_is_answered_with_what_was_meant(index: Browser) -> None:
    with pytest.raises(UnknownNameError, match=r"no dataset 'finance\.margn'") as fault:
        dataset_view(index, Name(WAREHOUSE, "finance.margn"))
    assert "finance.margin" in (fault.value.hint or "")


def test_a_job_and_its_runs(index: Browser) -> None:
    view = job_view(index, Name("airflow", "bi.refresh"))
    assert (view.run_total, [run.state for run in view.runs].count("FAILED")) == (14, 2)
    failed = run_view(index, next(run.run_uuid for run in view.runs if run.state == "FAILED"))
    assert failed.error == "relation bi.dashboard is locked"
    assert failed.previous is not None
    assert failed.previous.state == "COMPLETED"
    assert [one.dataset.name for one in failed.inputs] == ["finance.margin"]


def test_two_runs_of_a_job_differ_in_rows_and_columns(index: Browser) -> None:
    runs = job_view(index, Name("airflow", "finance.load_daily")).runs
    changes = run_diff(index, None, runs[5].run_uuid, runs[0].run_uuid).changes
    assert [(change.kind, change.label, change.added) for change in changes] == [
        ("rows", "finance.margin", ()),
        ("columns", "finance.margin", ("orders",)),
    ]


def test_lists_say_how_much_there_is(index: Browser) -> None:
    found = activity(index)
    assert (len(found.runs.items), found.runs.total) == (8, found.counts.runs)
    assert run_list(index, "", "FAILED", 50).total == 2
    assert job_list(index, "report", 3).total == 11
    assert [len(dataset_list(index, "", 5).items), dataset_list(index, "MARGIN", 5).total] == [5, 1]


def test_search_goes_by_name_then_by_what_mentions_it(index: Browser, holdings: Holdings) -> None:
    found = search(index, holdings, "margin").items
    assert [(one.kind, one.column or one.name.name) for one in found][:3] == [
        ("dataset", "finance.margin"),
        ("column", "margin_pct"),
        ("column", "margin_pct"),
    ]
    assert ("mention", "finance.load_daily") in [(one.kind, one.name.name) for one in found]
    assert search(index, holdings, "  ").items == ()


def test_the_graph_begins_with_one_hop_and_counts_the_rest(index: Browser) -> None:
    found = graph.lineage_graph(index, graph.Request(_node("finance.margin")))
    nodes = {node.label: node for node in found.nodes}
    assert {"erp.allocated", "shop.revenue", "finance.load_daily"} <= nodes.keys()
    assert "erp.costs" not in nodes
    assert (nodes["erp.allocated"].hidden_upstream, nodes["finance.margin"].hidden_downstream) == (1, 4)
    lit = {
        (nodes_of(found, edge.source.state), edge.source.column) for edge in found.edges if edge.target.column == "cost"
    }
    assert lit == {("erp.allocated", "cost")}


def nodes_of(found: graph.LineageGraph, place: int) -> str:
    return found.nodes[place].label


def test_opening_a_node_moves_nothing(index: Browser) -> None:
    before = graph.lineage_graph(index, graph.Request(_node("finance.margin")))
    openings = (graph.Opening("down", _node("finance.margin")), graph.Opening("up", _node("erp.allocated")))
    after = graph.lineage_graph(index, graph.Request(_node("finance.margin"), openings))
    assert _picture(before).items() <= _picture(after).items()
    assert {"erp.costs", "bi.dashboard", "report.out_00"} <= _picture(after).keys()
    assert all(node.hidden_upstream == node.hidden_downstream == 0 for node in after.nodes)


def test_as_of_a_time_only_what_was_known_is_there(index: Browser) -> None:
    whole = graph.lineage_graph(index, graph.Request(_node("finance.margin"), depth=20))
    assert whole.span.first is not None
    early = whole.span.first + timedelta(minutes=6)
    found = graph.lineage_graph(index, graph.Request(_node("finance.margin"), depth=20, as_of=early))
    assert {node.label for node in found.nodes} == {
        "erp.costs",
        "erp.allocate",
        "erp.allocated",
        "shop.revenue",
        "finance.load_daily",
        "finance.margin",
    }


def test_the_path_between_two_has_nothing_else(index: Browser, holdings: Holdings) -> None:
    names = ["erp.costs", "erp.allocate", "erp.allocated", "finance.load_daily", "finance.margin", "bi.refresh"]
    there = graph.path_graph(index, holdings, _node("erp.costs"), _node("bi.dashboard"))
    back = graph.path_graph(index, holdings, _node("bi.dashboard"), _node("erp.costs"))
    assert sorted(_picture(there)) == sorted(_picture(back)) == sorted([*names, "bi.dashboard"])
    with pytest.raises(UnknownNameError, match="Nothing leads"):
        graph.path_graph(index, holdings, _node("erp.costs"), _node("wide.target"))


@pytest.mark.parametrize("name", [*SHOP["NAMES"].values(), "a/b:c?d&e=f %2F", ""], ids=repr)
def test_a_node_is_one_text_and_back(name: str) -> None:
    node = Node("job", Name(name, name or "x"))
    assert Node.of(node.id) == node


def test_a_notebook_carries_columns_from_file_to_file() -> None:
    sample = runpy.run_path(str(Path(__file__).parents[2] / "e2e" / "page" / "orders_run.py"))
    ways = notebook_ways(sample["orders_run"](), Name("marimo", "orders"))
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
