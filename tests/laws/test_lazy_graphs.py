"""Properties of lazy graphs: lookups in the index give the answers of the in-memory graph, in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.event_generator import Scenario, column_lineage

from clew.index.queries.reader import IndexReader
from clew.query.context import QueryResources
from clew.query.graph.job_graph import BudgetExceededError, LazyJobGraph, LookupBudget
from clew.query.graph.nodes import Node
from clew.query.graph.traversal import Direction, traverse
from clew.query.graph.view import JobGraphView, ViewOptions
from clew.query.lineage import TraversalLimits
from clew.query.service import LineageService

TABLES = ["t0", "t1", "t2", "marimo:f0", "marimo:f1"]
COLUMNS = [f"{table}.{column}" for table in TABLES for column in ("x", "y")]
DIRECTIONS: list[Direction] = ["upstream", "downstream", "both"]
VIEW_OPTIONS = [
    ViewOptions(),
    ViewOptions(include_frames=True),
    ViewOptions(roll_up="parent"),
    ViewOptions(roll_up="root"),
    ViewOptions(as_of=1),
]

tables = st.sampled_from(TABLES)
sources = st.lists(st.sampled_from([*COLUMNS, *(f"{name}!FILTER" for name in COLUMNS)]), max_size=2).map(" ".join)
column_maps = st.dictionaries(st.sampled_from(["x", "y", ""]), sources, max_size=2)
versions = st.dictionaries(tables, st.sampled_from(["1", "2"]), max_size=3)
runs = st.fixed_dictionaries(
    {
        "job": st.sampled_from(["j0", "j1", "j2"]),
        "inputs": st.lists(tables, max_size=2).map(" ".join),
        "output": tables,
        "columns": column_maps,
        "versions": versions,
        "parent": st.sampled_from([None, None, "j0", "j2", "p"]),
        "minute": st.integers(0, 3),
    }
)
table_names = st.sampled_from(["t0", "t1", "t2", "t3"])
dataset_events = st.tuples(st.sampled_from(["symlink", "rename"]), table_names, table_names) | st.tuples(
    st.just("assertion"), table_names, column_maps
)


def add_events(scenario: Scenario, steps: list[Any]) -> None:
    for step in steps:
        if isinstance(step, dict):
            facets = {name: {"version": {"datasetVersion": version}} for name, version in step["versions"].items()}
            columns, minute = {step["output"]: step["columns"]}, step["minute"]
            arguments = {"columns": columns, "dataset_facets": facets, "parent": step["parent"], "minute": minute}
            scenario.run(step["job"], step["inputs"], step["output"], **arguments)
        elif step[0] == "assertion":
            scenario.dataset(step[1], columnLineage=column_lineage(step[2]))
        else:
            getattr(scenario, step[0])(*step[1:])
    scenario.index_events()


def all_answers(resources: QueryResources) -> Iterator[tuple[Any, ...]]:
    """Yield the answers of all lineage queries on all nodes."""
    with resources.reader() as index:
        service = LineageService(resources, index)
        datasets = [Node("dataset", *name).id for name in index.recent_names("dataset", 20)]
        nodes = [*datasets, *(Node("job", *name).id for name in index.recent_names("job", 20))]
        for node, direction, options in product(nodes, DIRECTIONS, VIEW_OPTIONS):
            for limits in (TraversalLimits(), TraversalLimits(1, 3)):
                yield node, direction, options, service.traverse(node, direction, limits, options)
        for start, end, options in product(nodes, nodes, VIEW_OPTIONS[::2]):
            yield start, end, options, service.find_path(start, end, options)
        for node in datasets:
            yield node, service.analyze_impact(node), service.analyze_impact(node, include_frames=True)
            for name, options in product(index.columns(*node.split(":")[1:]), VIEW_OPTIONS[:2]):
                column = f"datasetField:{node.removeprefix('dataset:')}:{name}"
                yield column, options, service.traverse(column, "both", view_options=options)
                yield column, service.analyze_impact(column)


@settings(max_examples=12)
@given(
    before=st.lists(runs | dataset_events, min_size=1, max_size=5),
    later=st.lists(runs | dataset_events, min_size=1, max_size=4),
)
def test_lazy_graph_equals_in_memory_graph(before: list[Any], later: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        scenario = Scenario(Path(folder))
        add_events(scenario, before)
        with QueryResources(scenario.index) as resources, resources.reader() as index:
            resources.get_job_graph(index), resources.get_column_graph(index)
        add_events(scenario, later)
        with QueryResources(scenario.index, is_one_shot=True) as lazy_resources:
            lazy_answers = list(all_answers(lazy_resources))
        with QueryResources(scenario.index) as resources:
            for lazy_answer, answer in zip(lazy_answers, all_answers(resources), strict=True):
                assert lazy_answer == answer


def test_lazy_graph_equals_in_memory_graph_in_both_databases(scenario: Scenario) -> None:
    scenario.run(
        "load", "raw", "orders", columns={"orders": {"price": "raw.price", "": "raw.day!FILTER"}}, parent="dag"
    )
    scenario.run(
        "total", "orders marimo:df", "totals", columns={"totals": {"sum": "orders.price marimo:df.x"}}, parent="dag"
    )
    scenario.run("frame", "orders", "marimo:df", columns={"marimo:df": {"x": "orders.price"}})
    scenario.symlink("totals", "hive.totals")
    scenario.rename("totals", "sums")
    scenario.run(
        "show", "hive.totals sums", "report", columns={"report": {"sum": "hive.totals.sum", "all": "sums.sum"}}
    )
    scenario.dataset("copy", columnLineage=column_lineage({"sum": "report.sum"}))
    scenario.index_events()
    with QueryResources(scenario.index, is_one_shot=True) as lazy_resources:
        lazy_answers = list(all_answers(lazy_resources))
    with QueryResources(scenario.index) as resources:
        assert lazy_answers == list(all_answers(resources))


def test_exceeding_the_lookup_budget_builds_the_graph(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        scenario.run(f"j{number}", f"t{number}", f"t{number + 1}")
    location = scenario.index_events()
    with IndexReader(location) as index:
        view = JobGraphView(LazyJobGraph(index, LookupBudget(3)))
        start = view.graph.find(Node("dataset", "db", "t0"))
        assert start is not None
        with pytest.raises(BudgetExceededError):
            traverse(view, start)
    monkeypatch.setattr("clew.query.graph.job_graph.MAX_LOOKUPS", 3)
    with QueryResources(location, is_one_shot=True) as resources, resources.reader() as index:
        assert len(LineageService(resources, index).traverse("dataset:db:t0").nodes) == 11
        assert resources.get_job_graph(index)[1].edge_count == 10
