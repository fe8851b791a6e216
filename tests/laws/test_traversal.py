"""Properties of traversal: it equals a plain search over the rows of the index."""

from __future__ import annotations

import sqlite3
from collections import deque
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from clew.query.context import QueryResources
from clew.query.graph.nodes import Node, StringTable
from clew.query.graph.traversal import Direction, find_shortest_path, traverse
from clew.query.graph.view import JobGraphView

tables = st.sampled_from([f"t{number}" for number in range(7)])
runs = st.tuples(st.sampled_from(["j0", "j1", "j2", "j3"]), st.lists(tables, max_size=3), st.lists(tables, max_size=2))
links = st.tuples(st.just("link"), tables, tables)
names = st.tuples(st.just("name"), tables, tables)


def read_edges(index: Path) -> dict[Node, set[Node]]:
    """Read the edges from the rows of the index."""
    with sqlite3.connect(index) as database:
        nodes = {row[:2]: row[2:] for row in database.execute("select * from dataset_aliases")}
        edges: dict[Node, set[Node]] = {}

        def dataset(*name: str) -> Node:
            return Node("dataset", *nodes.get(name, name))

        def add(start: Node, end: Node) -> None:
            if start != end:
                edges.setdefault(start, set()).add(end)

        columns = "job_namespace, job_name, direction, dataset_namespace, dataset_name"
        for space, name, direction, *table in database.execute(f"select {columns} from job_edges"):
            pair = dataset(*table), Node("job", space, name)
            add(*(pair if direction == "INPUT" else pair[::-1]))
        for row in database.execute("select namespace, name, to_namespace, to_name from renames"):
            add(dataset(*row[:2]), dataset(*row[2:]))
    database.close()
    return edges


def breadth_first(edges: dict[Node, set[Node]], start: Node, depth: int) -> dict[Node, int]:
    distances, queue = {start: 0}, deque([start])
    while queue:
        node = queue.popleft()
        for end in edges.get(node, ()):
            if end not in distances and distances[node] < depth:
                distances[end] = distances[node] + 1
                queue.append(end)
    return distances


def reverse_edges(edges: dict[Node, set[Node]]) -> dict[Node, set[Node]]:
    result: dict[Node, set[Node]] = {}
    for start, ends in edges.items():
        for end in ends:
            result.setdefault(end, set()).add(start)
    return result


@settings(max_examples=20)
@given(steps=st.lists(runs | links | names, min_size=1, max_size=12), depth=st.integers(0, 6))
def test_traverse_equals_breadth_first_search(scenario_class: Any, steps: list[Any], depth: int) -> None:
    with TemporaryDirectory() as folder:
        scenario = scenario_class(Path(folder))
        for kind, first, second in steps:
            if kind == "link":
                scenario.symlink(first, second)
            elif kind == "name":
                scenario.rename(first, second)
            else:
                scenario.run(kind, " ".join(first), " ".join(second))
        edges = read_edges(scenario.index_events())
        all_nodes = {*edges, *(end for ends in edges.values() for end in ends)}
        with QueryResources(scenario.index) as resources, resources.reader() as index:
            graph = resources.get_job_graph(index)[1]
            view = JobGraphView(graph)
            for start in all_nodes:
                number = graph.find(start)
                assert number is not None
                sides: list[tuple[Direction, Any]] = [("downstream", edges), ("upstream", reverse_edges(edges))]
                for direction, side in sides:
                    traversal = traverse(view, number, direction, depth=depth)
                    expected = breadth_first(side, start, depth)
                    assert {graph.node(visit.number): abs(visit.distance) for visit in traversal.nodes} == expected
                    between = {(start, end) for start in expected for end in edges.get(start, ()) if end in expected}
                    assert {(graph.node(start), graph.node(end)) for start, end in traversal.edges} == between
                distances = breadth_first(edges, start, 99)
                for end in all_nodes:
                    second = graph.find(end)
                    assert second is not None
                    path = find_shortest_path(view, number, second)
                    assert (None if path is None else len(path) - 1) == distances.get(end)


@given(st.sets(st.text(st.characters(exclude_categories=["Cs"]), max_size=5)), st.text(max_size=3))
def test_string_table_find_returns_position(texts: set[str], other: str) -> None:
    stored, _ = StringTable.from_mapping({text: number for number, text in enumerate(texts)})
    assert {stored[position] for position in range(len(stored))} == texts
    for text in texts:
        position = stored.find(text)
        assert position is not None
        assert stored[position] == text
    assert (stored.find(other) is None) == (other not in texts)
