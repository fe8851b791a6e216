"""Walks over jobs and datasets: directed, bounded, by any name, as of a time."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from clew.query import context
from clew.query.context import QueryResources, sidecar_path
from clew.query.graph.job_graph import JobGraph
from clew.query.graph.nodes import Node
from clew.query.graph.traversal import Direction, find_shortest_path, traverse
from clew.query.graph.view import JobGraphView, ViewOptions


def node(text: str) -> Node:
    """`job x`, or a table of `db`."""
    kind, _, name = text.rpartition(" ")
    before, mark, own = name.partition(":")
    namespace, name = (before, own) if mark else ("jobs" if kind else "db", name)
    return Node("job" if kind else "dataset", namespace, name)


def text(one: Node) -> str:
    if one.kind == "job":
        return f"job {one.name}"
    return one.name if one.namespace == "db" else f"{one.namespace}:{one.name}"


def number(graph: JobGraph, name: str) -> int:
    found = graph.find(node(name))
    assert found is not None
    return found


def graph_of(holdings: QueryResources) -> JobGraph:
    with holdings.reader() as index:
        return holdings.get_job_graph(index)[1]


def walked(
    holdings: QueryResources, start: str, direction: Direction = "both", sight: ViewOptions | None = None, **bounds: Any
) -> dict[str, int]:
    graph = graph_of(holdings)
    found = traverse(JobGraphView(graph, sight), number(graph, start), direction, **bounds)
    return {text(graph.node(one.number)): one.distance for one in found.nodes}


@pytest.fixture
def chain(world: Any) -> Any:
    """raw → load → orders → total → totals; orders → other → others."""
    world.run("load", "raw", "orders")
    world.run("total", "orders", "totals")
    world.run("other", "orders", "others")
    world.tell()
    return world


@pytest.mark.parametrize(
    ("direction", "expected"),
    [
        ("upstream", {"totals": 0, "job total": -1, "orders": -2, "job load": -3, "raw": -4}),
        ("downstream", {"totals": 0}),
        ("both", {"totals": 0, "job total": -1, "orders": -2, "job load": -3, "raw": -4}),
    ],
)
def test_a_walk_goes_one_way_and_takes_no_siblings(
    chain: Any, holdings: QueryResources, direction: Direction, expected: dict[str, int]
) -> None:
    assert chain.events
    assert walked(holdings, "totals", direction) == expected


def test_bounds_leave_out_what_is_far_and_count_it(chain: Any, holdings: QueryResources) -> None:
    assert chain.events
    assert walked(holdings, "totals", "upstream", depth=2) == {"totals": 0, "job total": -1, "orders": -2}
    graph = graph_of(holdings)
    found = traverse(JobGraphView(graph), number(graph, "totals"), "upstream", depth=2)
    hidden = {text(graph.node(one.number)): (one.hidden_upstream, one.hidden_downstream) for one in found.nodes}
    assert hidden == {"totals": (0, 0), "job total": (0, 0), "orders": (1, 1)}
    assert not found.is_truncated
    cut = traverse(JobGraphView(graph), number(graph, "totals"), limit=2)
    assert cut.is_truncated
    assert len(cut.nodes) == 2


def test_edges_are_those_between_the_nodes_that_are_told(chain: Any, holdings: QueryResources) -> None:
    assert chain.events
    graph = graph_of(holdings)
    found = traverse(JobGraphView(graph), number(graph, "orders"), depth=1)
    edges = {(text(graph.node(start)), text(graph.node(end))) for start, end in found.edges}
    assert edges == {("job load", "orders"), ("orders", "job total"), ("orders", "job other")}
    assert JobGraphView(graph).edge_kind(number(graph, "job load"), number(graph, "orders")) == "WRITE"


def test_a_cycle_ends(world: Any, holdings: QueryResources) -> None:
    world.run("there", "a", "b")
    world.run("back", "b", "a")
    world.tell()
    assert walked(holdings, "a") == {"a": 0, "job back": -1, "job there": 1, "b": -2}


def test_symlinks_are_one_node_even_in_a_loop(world: Any, holdings: QueryResources) -> None:
    world.run("write", "raw", "path")
    world.run("read", "table", "report")
    for one, other in (("path", "table"), ("table", "third"), ("third", "path")):
        world.symlink(one, other)
    world.tell()
    for name in ("path", "table", "third"):
        assert set(walked(holdings, name).values()) == {0, -1, 1, -2, 2}


def test_a_walk_follows_renames(world: Any, holdings: QueryResources) -> None:
    world.run("write", "raw", "old")
    world.rename("old", "new")
    world.rename("new", "newest")
    world.run("read", "newest", "report")
    world.tell()
    assert walked(holdings, "report", "upstream") == {
        "report": 0,
        "job read": -1,
        "newest": -2,
        "new": -3,
        "old": -4,
        "job write": -5,
        "raw": -6,
    }


def test_as_of_a_time_only_what_was_said_by_then(world: Any, holdings: QueryResources) -> None:
    world.run("build", "a", "out", minute=1)
    world.run("build", "a b", "out", minute=5)
    world.tell()
    when = 1_767_261_600_000_000 + 60_000_000 * 3
    assert walked(holdings, "out", sight=ViewOptions(as_of=when)) == {"out": 0, "job build": -1, "a": -2}
    assert walked(holdings, "out", sight=ViewOptions(as_of=0)) == {"out": 0}
    assert "b" in walked(holdings, "out")


def test_frames_in_memory_are_passed_through_unless_asked_for(world: Any, holdings: QueryResources) -> None:
    world.run("read", "file:a.csv", "marimo:nb/df")
    world.run("write", "marimo:nb/df", "file:b.csv")
    world.tell()
    assert walked(holdings, "file:b.csv") == {"file:b.csv": 0, "job write": -1, "job read": -2, "file:a.csv": -3}
    assert walked(holdings, "file:b.csv", sight=ViewOptions(include_frames=True))["marimo:nb/df"] == -2


@pytest.mark.parametrize(
    ("roll_up", "expected"),
    [
        ("none", {"out", "job app.save", "mid", "job app.load", "raw"}),
        ("parent", {"out", "job app", "raw"}),
        ("root", {"out", "job dag", "raw"}),
    ],
)
def test_child_jobs_are_rolled_up(world: Any, holdings: QueryResources, roll_up: Any, expected: set[str]) -> None:
    world.run("dag", run="dag")
    world.run("app", run="app", parent="dag")
    world.run("app.load", "raw", "mid", parent="app")
    world.run("app.save", "mid", "out", parent="app")
    world.tell()
    found = walked(holdings, "out", "upstream", ViewOptions(roll_up=roll_up))
    # What one job writes and reads again is between its own runs.
    assert set(found) - {"mid"} == expected - {"mid"}


def test_a_path_is_a_shortest_one(world: Any, holdings: QueryResources) -> None:
    for job, source, target in (("1", "a", "b"), ("2", "b", "c"), ("3", "c", "d"), ("4", "a", "c")):
        world.run(job, source, target)
    world.tell()
    graph = graph_of(holdings)
    way = find_shortest_path(JobGraphView(graph), number(graph, "a"), number(graph, "d"))
    assert way is not None
    assert [text(graph.node(one)) for one in way] == ["a", "job 4", "c", "job 3", "d"]
    assert find_shortest_path(JobGraphView(graph), number(graph, "d"), number(graph, "a")) is None


def test_the_graph_follows_the_index_and_is_kept_beside_it(world: Any, holdings: QueryResources) -> None:
    world.run("load", "raw", "orders")
    world.tell()
    assert set(walked(holdings, "raw")) == {"raw", "job load", "orders"}
    world.run("total", "orders", "totals")
    world.tell()
    assert "totals" in walked(holdings, "raw")
    assert sidecar_path(world.index, "lineage").exists()
    with QueryResources(world.index) as other:
        assert "totals" in walked(other, "raw")


def test_a_large_graph_is_renewed_aside_while_the_one_before_answers(
    world: Any, holdings: QueryResources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "_MAX_SYNC_EDGES", 0)
    world.run("load", "raw", "orders")
    world.tell()
    assert set(walked(holdings, "raw")) == {"raw", "job load", "orders"}
    world.run("total", "orders", "totals")
    world.tell()
    assert "totals" not in walked(holdings, "raw")
    for thread in threading.enumerate():
        if thread.name == "clew-graph":
            thread.join()
    assert "totals" in walked(holdings, "raw")
