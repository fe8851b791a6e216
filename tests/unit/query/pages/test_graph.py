"""Tests of the documents of the web UI's views, with two weeks of sample events."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.support.event_generator import column_lineage
from tests.support.paths import PAGE_TESTS

from clew.data_dir import IndexLocation
from clew.events.streams import Stream, decode_event
from clew.index.extract.extractor import ChangeExtractor
from clew.index.queries.reader import IndexReader
from clew.index.writer import IndexWriter
from clew.query.context import QueryResources
from clew.query.graph.nodes import Node
from clew.query.layout import Box
from clew.query.names import UnknownNameError
from clew.query.pages import graph
from clew.query.pages.entities import build_dataset_view, build_job_view, build_run_changes, build_run_view
from clew.query.pages.lists import EntityName, build_activity, list_datasets, list_jobs, list_runs, search_all

SHOP = runpy.run_path(str(PAGE_TESTS / "shop.py"))
WAREHOUSE = SHOP["WAREHOUSE"]
MARGIN = EntityName(WAREHOUSE, "finance.margin")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def index_location(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> IndexLocation:
    is_file = request.param == "sqlite"
    file = tmp_path_factory.mktemp("shop") / "index.sqlite"
    index_location: IndexLocation = file if is_file else request.getfixturevalue("postgres_schemas").empty("views")
    extractor = ChangeExtractor()
    for seq, event in enumerate(SHOP["events"]()):
        extractor.add(decode_event(Stream.OPENLINEAGE, json.dumps(event).encode()), f"{seq:032x}", seq)
    with IndexWriter(index_location) as writer:
        writer.apply("shop/0", extractor.changes())
    return index_location


@pytest.fixture(scope="module")
def index(index_location: IndexLocation) -> Iterator[IndexReader]:
    with IndexReader(index_location) as queries:
        yield queries


@pytest.fixture(scope="module")
def resources(index_location: IndexLocation) -> Iterator[QueryResources]:
    with QueryResources(index_location) as query_resources:
        yield query_resources


def _node(name: str) -> Node:
    return Node("dataset", WAREHOUSE, name)


def _boxes_by_label(view: graph.LineageGraphView) -> dict[str, Box]:
    return {node.label: node.box for node in view.nodes}


def test_dataset_view_has_the_sources_of_each_column(index: IndexReader) -> None:
    view = build_dataset_view(index, MARGIN)
    origins = {column.name: [(item.dataset.name, item.column) for item in column.sources] for column in view.columns}
    assert origins["margin_pct"] == [
        ("erp.allocated", "cost"),
        ("shop.revenue", "revenue"),
        ("shop.revenue", "day"),
    ]
    assert origins["orders"] == []
    assert [item.node.name for item in view.producers] == ["finance.load_daily"]
    assert len(view.consumers) == 12
    assert [item.has_new_schema for item in view.versions].count(True) == 1
    assert {item.name: len(item.points) for item in view.series} == {
        "rows": 14,
        "bytes": 14,
        "nulls in margin_pct": 14,
        "failed tests": 14,
    }
    assert "schema" in view.facets


def test_suggests_a_similar_name_for_an_unknown_dataset(index: IndexReader) -> None:
    with pytest.raises(UnknownNameError, match=r"no dataset 'finance\.margn'") as error:
        build_dataset_view(index, EntityName(WAREHOUSE, "finance.margn"))
    assert "finance.margin" in (error.value.hint or "")


def test_job_and_run_views(index: IndexReader) -> None:
    view = build_job_view(index, EntityName("airflow", "bi.refresh"))
    assert (view.run_total, [run.state for run in view.runs].count("FAILED")) == (14, 2)
    failed = build_run_view(index, next(run.run_uuid for run in view.runs if run.state == "FAILED"))
    assert failed.error == "relation bi.dashboard is locked"
    assert failed.previous is not None
    assert failed.previous.state == "COMPLETED"
    assert [use.dataset.name for use in failed.inputs] == ["finance.margin"]


def test_two_runs_of_a_job_differ_in_rows_and_columns(index: IndexReader) -> None:
    runs = build_job_view(index, EntityName("airflow", "finance.load_daily")).runs
    changes = build_run_changes(index, None, runs[5].run_uuid, runs[0].run_uuid).changes
    assert [(change.kind, change.label, change.added) for change in changes] == [
        ("rows", "finance.margin", ()),
        ("columns", "finance.margin", ("orders",)),
    ]


def test_lists_have_totals(index: IndexReader) -> None:
    activity = build_activity(index)
    assert (len(activity.runs.items), activity.runs.total) == (8, activity.counts.runs)
    assert list_runs(index, "", "FAILED", 50).total == 2
    assert list_jobs(index, "report", 3).total == 11
    assert [len(list_datasets(index, "", 5).items), list_datasets(index, "MARGIN", 5).total] == [5, 1]


def test_search_ranks_names_before_text_matches(index: IndexReader, resources: QueryResources) -> None:
    results = search_all(index, resources, "margin")
    items = results.items
    assert results.is_complete
    assert [(item.kind, item.column or item.name.name) for item in items][:3] == [
        ("dataset", "finance.margin"),
        ("column", "margin_pct"),
        ("column", "margin_pct"),
    ]
    assert ("text_match", "finance.load_daily") in [(item.kind, item.name.name) for item in items]
    assert search_all(index, resources, "  ").items == ()


def test_graph_starts_with_one_hop_and_counts_hidden_nodes(index: IndexReader) -> None:
    view = graph.build_lineage_graph(index, graph.GraphRequest(_node("finance.margin")))
    nodes = {node.label: node for node in view.nodes}
    assert {"erp.allocated", "shop.revenue", "finance.load_daily"} <= nodes.keys()
    assert "erp.costs" not in nodes
    assert (nodes["erp.allocated"].hidden_upstream, nodes["finance.margin"].hidden_downstream) == (1, 4)
    sources = {
        (_label_at(view, edge.source.state), edge.source.column) for edge in view.edges if edge.target.column == "cost"
    }
    assert sources == {("erp.allocated", "cost")}


def _label_at(view: graph.LineageGraphView, position: int) -> str:
    return view.nodes[position].label


def test_expanding_a_node_moves_nothing(index: IndexReader) -> None:
    before = graph.build_lineage_graph(index, graph.GraphRequest(_node("finance.margin")))
    expansions = (graph.Expansion("down", _node("finance.margin")), graph.Expansion("up", _node("erp.allocated")))
    after = graph.build_lineage_graph(index, graph.GraphRequest(_node("finance.margin"), expansions))
    assert _boxes_by_label(before).items() <= _boxes_by_label(after).items()
    assert {"erp.costs", "bi.dashboard", "report.out_00"} <= _boxes_by_label(after).keys()
    assert all(node.hidden_upstream == node.hidden_downstream == 0 for node in after.nodes)


def test_as_of_excludes_later_events(index: IndexReader) -> None:
    full = graph.build_lineage_graph(index, graph.GraphRequest(_node("finance.margin"), depth=20))
    assert full.time_range.first is not None
    early = full.time_range.first + timedelta(minutes=6)
    view = graph.build_lineage_graph(index, graph.GraphRequest(_node("finance.margin"), depth=20, as_of=early))
    assert {node.label for node in view.nodes} == {
        "erp.costs",
        "erp.allocate",
        "erp.allocated",
        "shop.revenue",
        "finance.load_daily",
        "finance.margin",
    }


def test_path_graph_has_only_the_path(index: IndexReader) -> None:
    names = ["erp.costs", "erp.allocate", "erp.allocated", "finance.load_daily", "finance.margin", "bi.refresh"]
    forward = graph.build_path_graph(index, _node("erp.costs"), _node("bi.dashboard"))
    backward = graph.build_path_graph(index, _node("bi.dashboard"), _node("erp.costs"))
    assert sorted(_boxes_by_label(forward)) == sorted(_boxes_by_label(backward)) == sorted([*names, "bi.dashboard"])
    with pytest.raises(UnknownNameError, match="No path between"):
        graph.build_path_graph(index, _node("erp.costs"), _node("wide.target"))


@pytest.mark.parametrize("name", [*SHOP["NAMES"].values(), "a/b:c?d&e=f %2F", ""], ids=repr)
def test_node_id_round_trip(name: str) -> None:
    node = Node("job", name, name or "x")
    assert graph.parse_node_id(graph.format_node_id(node)) == node


def test_notebook_edges_connect_input_and_output_files(notebook_events: Any) -> None:
    session = notebook_events.session()
    session.operation("load", "df@1", {"price": [("orders.csv", "price")], "qty": [("orders.csv", "qty")]})
    sources = [("df@1", "price", "TRANSFORMATION"), ("df@1", "qty", "TRANSFORMATION", "inferred")]
    session.operation(
        "compute", "paid@1", {"total": sources, None: [("df@1", "qty", "FILTER")]}, code="paid = df.price * df.qty"
    )
    session.operation("save", "totals.csv", {"total": [("paid@1", "total")]}, code="paid.to_csv(path)")
    with IndexReader(notebook_events.index_events()) as index:
        view = graph.build_lineage_graph(index, graph.GraphRequest(Node("dataset", "file", "/data/totals.csv")))
    assert [node.label for node in view.nodes] == ["orders.csv", "orders", "totals.csv"]
    assert {(view.nodes[edge.source.state].label, view.nodes[edge.job or 0].label) for edge in view.edges} == {
        ("orders.csv", "orders")
    }
    assert {(edge.source.column, edge.target.column, edge.subtype, edge.flag) for edge in view.edges} == {
        ("price", "total", "TRANSFORMATION", None),
        ("qty", "total", "TRANSFORMATION", "inferred"),
        ("qty", "total", "FILTER", None),
    }
    assert {edge.code for edge in view.edges} == {("paid = df.price * df.qty",)}


def test_graph_links_a_renamed_dataset_and_lineage_without_a_job(scenario: Any) -> None:
    scenario.run("load", "raw", "old", columns={"old": {"x": "raw.x"}})
    scenario.rename("old", "new")
    scenario.dataset("copy", columnLineage=column_lineage({"x": "new.x"}))
    with IndexReader(scenario.index_events()) as index:
        request = graph.GraphRequest(Node("dataset", "db", "copy"), depth=3)
        view = graph.build_lineage_graph(index, request)
    assert [(link.source.rsplit("/", 1)[-1], link.target.rsplit("/", 1)[-1]) for link in view.links] == [
        ("raw", "load"),
        ("load", "old"),
        ("old", "new"),
        ("new", "copy"),
    ]
