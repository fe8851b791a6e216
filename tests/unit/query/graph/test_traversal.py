"""Tests of job graph traversal: direction, limits, aliases, as-of times, roll-up and paths."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from clew.query import context
from clew.query.context import QueryResources, sidecar_path
from clew.query.graph import traversal
from clew.query.graph.job_graph import JobGraph
from clew.query.graph.nodes import Node
from clew.query.graph.traversal import Direction, breadth_first, find_shortest_path, traverse
from clew.query.graph.view import JobGraphView, ViewOptions


def parse_node(node_text: str) -> Node:
    """Parse `job x`, or the name of a table in `db`."""
    kind, _, name = node_text.rpartition(" ")
    prefix, separator, rest = name.partition(":")
    namespace, name = (prefix, rest) if separator else ("jobs" if kind else "db", name)
    return Node("job" if kind else "dataset", namespace, name)


def node_text(node: Node) -> str:
    if node.kind == "job":
        return f"job {node.name}"
    return node.name if node.namespace == "db" else f"{node.namespace}:{node.name}"


def find_number(graph: JobGraph, name: str) -> int:
    number = graph.find(parse_node(name))
    assert number is not None
    return number


def load_graph(resources: QueryResources) -> JobGraph:
    with resources.reader() as index:
        return resources.get_job_graph(index)[1]


def distances(
    resources: QueryResources,
    start: str,
    direction: Direction = "both",
    options: ViewOptions | None = None,
    **bounds: Any,
) -> dict[str, int]:
    graph = load_graph(resources)
    result = traverse(JobGraphView(graph, options), find_number(graph, start), direction, **bounds)
    return {node_text(graph.node(node.number)): node.distance for node in result.nodes}


@pytest.fixture
def chain(scenario: Any) -> Any:
    """raw → load → orders → total → totals; orders → other → others."""
    scenario.run("load", "raw", "orders")
    scenario.run("total", "orders", "totals")
    scenario.run("other", "orders", "others")
    scenario.index_events()
    return scenario


@pytest.mark.parametrize(
    ("direction", "expected"),
    [
        ("upstream", {"totals": 0, "job total": -1, "orders": -2, "job load": -3, "raw": -4}),
        ("downstream", {"totals": 0}),
        ("both", {"totals": 0, "job total": -1, "orders": -2, "job load": -3, "raw": -4}),
    ],
)
def test_traverses_in_one_direction_without_siblings(
    chain: Any, resources: QueryResources, direction: Direction, expected: dict[str, int]
) -> None:
    assert chain.events
    assert distances(resources, "totals", direction) == expected


def test_limits_depth_and_counts_hidden_neighbours(chain: Any, resources: QueryResources) -> None:
    assert chain.events
    assert distances(resources, "totals", "upstream", depth=2) == {"totals": 0, "job total": -1, "orders": -2}
    graph = load_graph(resources)
    result = traverse(JobGraphView(graph), find_number(graph, "totals"), "upstream", depth=2)
    hidden = {
        node_text(graph.node(node.number)): (node.hidden_upstream, node.hidden_downstream) for node in result.nodes
    }
    assert hidden == {"totals": (0, 0), "job total": (0, 0), "orders": (1, 1)}
    assert not result.is_truncated
    truncated = traverse(JobGraphView(graph), find_number(graph, "totals"), limit=2)
    assert truncated.is_truncated
    assert len(truncated.nodes) == 2


def test_returns_edges_between_the_returned_nodes(chain: Any, resources: QueryResources) -> None:
    assert chain.events
    graph = load_graph(resources)
    result = traverse(JobGraphView(graph), find_number(graph, "orders"), depth=1)
    edges = {(node_text(graph.node(start)), node_text(graph.node(end))) for start, end in result.edges}
    assert edges == {("job load", "orders"), ("orders", "job total"), ("orders", "job other")}
    assert JobGraphView(graph).edge_kind(find_number(graph, "job load"), find_number(graph, "orders")) == "WRITE"


def test_limits_the_number_of_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each of 30 columns depends on all of 30 others.
    def expand(state: int, _: bool) -> Iterator[tuple[int, int, tuple[int, int]]]:
        if state < 30:
            yield from ((end, end, (state, end)) for end in range(30, 60))

    starts = {number: number for number in range(30)}
    assert len(breadth_first(starts, expand, "upstream", depth=5, limit=100).edges) == 900
    monkeypatch.setattr(traversal, "MAX_EDGES", 100)
    limited = breadth_first(starts, expand, "upstream", depth=5, limit=100)
    assert (len(limited.edges), limited.is_truncated) == (120, True)


def test_terminates_on_a_cycle(scenario: Any, resources: QueryResources) -> None:
    scenario.run("there", "a", "b")
    scenario.run("back", "b", "a")
    scenario.index_events()
    assert distances(resources, "a") == {"a": 0, "job back": -1, "job there": 1, "b": -2}


def test_a_cycle_of_symlinks_is_one_node(scenario: Any, resources: QueryResources) -> None:
    scenario.run("write", "raw", "path")
    scenario.run("read", "table", "report")
    for source, alias in (("path", "table"), ("table", "third"), ("third", "path")):
        scenario.symlink(source, alias)
    scenario.index_events()
    for name in ("path", "table", "third"):
        assert set(distances(resources, name).values()) == {0, -1, 1, -2, 2}


def test_follows_renames(scenario: Any, resources: QueryResources) -> None:
    scenario.run("write", "raw", "old")
    scenario.rename("old", "new")
    scenario.rename("new", "newest")
    scenario.run("read", "newest", "report")
    scenario.index_events()
    assert distances(resources, "report", "upstream") == {
        "report": 0,
        "job read": -1,
        "newest": -2,
        "new": -3,
        "old": -4,
        "job write": -5,
        "raw": -6,
    }


def test_as_of_ignores_later_assertions(scenario: Any, resources: QueryResources) -> None:
    scenario.run("build", "a", "out", minute=1)
    scenario.run("build", "a b", "out", minute=5)
    scenario.index_events()
    as_of = 1_767_261_600_000_000 + 60_000_000 * 3
    assert distances(resources, "out", options=ViewOptions(as_of=as_of)) == {"out": 0, "job build": -1, "a": -2}
    assert distances(resources, "out", options=ViewOptions(as_of=0)) == {"out": 0}
    assert "b" in distances(resources, "out")


def test_passes_through_in_memory_frames_by_default(scenario: Any, resources: QueryResources) -> None:
    scenario.run("read", "file:a.csv", "marimo:nb/df")
    scenario.run("write", "marimo:nb/df", "file:b.csv")
    scenario.index_events()
    assert distances(resources, "file:b.csv") == {"file:b.csv": 0, "job write": -1, "job read": -2, "file:a.csv": -3}
    assert distances(resources, "file:b.csv", options=ViewOptions(include_frames=True))["marimo:nb/df"] == -2


@pytest.mark.parametrize(
    ("roll_up", "expected"),
    [
        ("none", {"out", "job app.save", "mid", "job app.load", "raw"}),
        ("parent", {"out", "job app", "raw"}),
        ("root", {"out", "job dag", "raw"}),
    ],
)
def test_rolls_up_child_jobs(scenario: Any, resources: QueryResources, roll_up: Any, expected: set[str]) -> None:
    scenario.run("dag", run="dag")
    scenario.run("app", run="app", parent="dag")
    scenario.run("app.load", "raw", "mid", parent="app")
    scenario.run("app.save", "mid", "out", parent="app")
    scenario.index_events()
    names = distances(resources, "out", "upstream", ViewOptions(roll_up=roll_up))
    # A dataset that one job writes and reads again is internal to the job.
    assert set(names) - {"mid"} == expected - {"mid"}


def test_finds_a_shortest_path(scenario: Any, resources: QueryResources) -> None:
    for job, source, target in (("1", "a", "b"), ("2", "b", "c"), ("3", "c", "d"), ("4", "a", "c")):
        scenario.run(job, source, target)
    scenario.index_events()
    graph = load_graph(resources)
    path = find_shortest_path(JobGraphView(graph), find_number(graph, "a"), find_number(graph, "d"))
    assert path is not None
    assert [node_text(graph.node(number)) for number in path] == ["a", "job 4", "c", "job 3", "d"]
    assert find_shortest_path(JobGraphView(graph), find_number(graph, "d"), find_number(graph, "a")) is None


def test_graph_follows_the_index_and_is_cached_in_a_sidecar_file(scenario: Any, resources: QueryResources) -> None:
    scenario.run("load", "raw", "orders")
    scenario.index_events()
    assert set(distances(resources, "raw")) == {"raw", "job load", "orders"}
    scenario.run("total", "orders", "totals")
    scenario.index_events()
    assert "totals" in distances(resources, "raw")
    assert sidecar_path(scenario.index, "lineage").exists()
    with QueryResources(scenario.index) as other:
        assert "totals" in distances(other, "raw")


def test_rebuilds_a_large_graph_in_the_background(
    scenario: Any, resources: QueryResources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "_MAX_SYNC_EDGES", 0)
    scenario.run("load", "raw", "orders")
    scenario.index_events()
    assert set(distances(resources, "raw")) == {"raw", "job load", "orders"}
    scenario.run("total", "orders", "totals")
    scenario.index_events()
    assert "totals" not in distances(resources, "raw")
    for thread in threading.enumerate():
        if thread.name == "clew-graph":
            thread.join()
    assert "totals" in distances(resources, "raw")
