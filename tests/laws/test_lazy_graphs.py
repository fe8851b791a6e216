"""What is asked of the index step by step is what the graph in arrays tells, to the order of the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.event_generator import World, lineage_of

from clew.index.queries.reader import IndexReader
from clew.query.context import QueryResources
from clew.query.graph.job_graph import BudgetExceededError, LazyJobGraph, LookupBudget
from clew.query.graph.nodes import Node
from clew.query.graph.traversal import Direction, traverse
from clew.query.graph.view import JobGraphView, ViewOptions
from clew.query.lineage import TraversalLimits, analyze_impact, find_path, traverse_lineage

TABLES = ["t0", "t1", "t2", "marimo:f0", "marimo:f1"]
COLUMNS = [f"{table}.{column}" for table in TABLES for column in ("x", "y")]
DIRECTIONS: list[Direction] = ["upstream", "downstream", "both"]
SIGHTS = [
    ViewOptions(),
    ViewOptions(include_frames=True),
    ViewOptions(roll_up="parent"),
    ViewOptions(roll_up="root"),
    ViewOptions(as_of=1),
]

tables = st.sampled_from(TABLES)
sources = st.lists(st.sampled_from([*COLUMNS, *(f"{name}!FILTER" for name in COLUMNS)]), max_size=2).map(" ".join)
stated = st.dictionaries(st.sampled_from(["x", "y", ""]), sources, max_size=2)
versions = st.dictionaries(tables, st.sampled_from(["1", "2"]), max_size=3)
runs = st.fixed_dictionaries(
    {
        "job": st.sampled_from(["j0", "j1", "j2"]),
        "inputs": st.lists(tables, max_size=2).map(" ".join),
        "output": tables,
        "columns": stated,
        "versions": versions,
        "parent": st.sampled_from([None, None, "j0", "j2", "p"]),
        "minute": st.integers(0, 3),
    }
)
named = st.sampled_from(["t0", "t1", "t2", "t3"])
others = st.tuples(st.sampled_from(["symlink", "rename"]), named, named) | st.tuples(st.just("said"), named, stated)


def tell(world: World, told: list[Any]) -> None:
    for one in told:
        if isinstance(one, dict):
            facets = {name: {"version": {"datasetVersion": version}} for name, version in one["versions"].items()}
            columns, minute = {one["output"]: one["columns"]}, one["minute"]
            about = {"columns": columns, "dataset_facets": facets, "parent": one["parent"], "minute": minute}
            world.run(one["job"], one["inputs"], one["output"], **about)
        elif one[0] == "said":
            world.dataset(one[1], columnLineage=lineage_of(one[2]))
        else:
            getattr(world, one[0])(*one[1:])
    world.tell()


def answers(holdings: QueryResources) -> Iterator[tuple[Any, ...]]:
    """All that can be asked of all that is known."""
    with holdings.reader() as index:
        datasets = [Node("dataset", *name).id for name in index.recent_datasets(20)]
        nodes = [*datasets, *(Node("job", *name).id for name in index.recent_jobs(20))]
        for node, direction, sight in product(nodes, DIRECTIONS, SIGHTS):
            for bounds in (TraversalLimits(), TraversalLimits(1, 3)):
                yield node, direction, sight, traverse_lineage(holdings, index, node, None, direction, bounds, sight)
        for start, end, sight in product(nodes, nodes, SIGHTS[::2]):
            yield start, end, sight, find_path(holdings, index, start, end, sight)
        for node in datasets:
            yield (
                node,
                analyze_impact(holdings, index, node),
                analyze_impact(holdings, index, node, include_frames=True),
            )
            for column, sight in product(index.columns(*node.split(":")[1:]), SIGHTS[:2]):
                yield node, column, sight, traverse_lineage(holdings, index, node, column, "both", None, sight)
                yield node, column, analyze_impact(holdings, index, node, column)


@settings(max_examples=12)
@given(before=st.lists(runs | others, min_size=1, max_size=5), since=st.lists(runs | others, min_size=1, max_size=4))
def test_step_by_step_is_as_in_arrays(before: list[Any], since: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        world = World(Path(folder))
        tell(world, before)
        with QueryResources(world.index) as holdings, holdings.reader() as index:
            holdings.get_job_graph(index), holdings.get_column_graph(index)
        tell(world, since)
        with QueryResources(world.index, is_one_shot=True) as brief:
            asked = list(answers(brief))
        with QueryResources(world.index) as holdings:
            for one, other in zip(asked, answers(holdings), strict=True):
                assert one == other


def test_step_by_step_is_as_in_arrays_in_every_database(world: World) -> None:
    world.run("load", "raw", "orders", columns={"orders": {"price": "raw.price", "": "raw.day!FILTER"}}, parent="dag")
    world.run(
        "total", "orders marimo:df", "totals", columns={"totals": {"sum": "orders.price marimo:df.x"}}, parent="dag"
    )
    world.run("frame", "orders", "marimo:df", columns={"marimo:df": {"x": "orders.price"}})
    world.symlink("totals", "hive.totals")
    world.rename("totals", "sums")
    world.run("show", "hive.totals sums", "report", columns={"report": {"sum": "hive.totals.sum", "all": "sums.sum"}})
    world.dataset("copy", columnLineage=lineage_of({"sum": "report.sum"}))
    world.tell()
    with QueryResources(world.index, is_one_shot=True) as brief:
        asked = list(answers(brief))
    with QueryResources(world.index) as holdings:
        assert asked == list(answers(holdings))


def test_a_question_that_goes_far_makes_the_graph(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        world.run(f"j{number}", f"t{number}", f"t{number + 1}")
    place = world.tell()
    with IndexReader(place) as index:
        lens = JobGraphView(LazyJobGraph(index, LookupBudget(3)))
        start = lens.graph.find(Node("dataset", "db", "t0"))
        assert start is not None
        with pytest.raises(BudgetExceededError):
            traverse(lens, start)
    monkeypatch.setattr("clew.query.graph.job_graph.MAX_LOOKUPS", 3)
    with QueryResources(place, is_one_shot=True) as holdings, holdings.reader() as index:
        assert len(traverse_lineage(holdings, index, "dataset:db:t0").nodes) == 11
        assert holdings.get_job_graph(index)[1].edge_count == 10
