"""Laws of walks: what the arrays tell is what a plain search over the index's rows finds."""

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

tables = st.sampled_from([f"t{place}" for place in range(7)])
runs = st.tuples(st.sampled_from(["j0", "j1", "j2", "j3"]), st.lists(tables, max_size=3), st.lists(tables, max_size=2))
links = st.tuples(st.just("link"), tables, tables)
names = st.tuples(st.just("name"), tables, tables)


def naive(index: Path) -> dict[Node, set[Node]]:
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


def reached(edges: dict[Node, set[Node]], start: Node, depth: int) -> dict[Node, int]:
    found, queue = {start: 0}, deque([start])
    while queue:
        one = queue.popleft()
        for end in edges.get(one, ()):
            if end not in found and found[one] < depth:
                found[end] = found[one] + 1
                queue.append(end)
    return found


def turned(edges: dict[Node, set[Node]]) -> dict[Node, set[Node]]:
    found: dict[Node, set[Node]] = {}
    for start, ends in edges.items():
        for end in ends:
            found.setdefault(end, set()).add(start)
    return found


@settings(max_examples=20)
@given(told=st.lists(runs | links | names, min_size=1, max_size=12), depth=st.integers(0, 6))
def test_a_walk_finds_what_a_plain_search_finds(world_in: Any, told: list[Any], depth: int) -> None:
    with TemporaryDirectory() as folder:
        world = world_in(Path(folder))
        for what, one, other in told:
            if what == "link":
                world.symlink(one, other)
            elif what == "name":
                world.rename(one, other)
            else:
                world.run(what, " ".join(one), " ".join(other))
        edges = naive(world.tell())
        everything = {*edges, *(end for ends in edges.values() for end in ends)}
        with QueryResources(world.index) as holdings, holdings.reader() as index:
            graph = holdings.get_job_graph(index)[1]
            lens = JobGraphView(graph)
            for start in everything:
                number = graph.find(start)
                assert number is not None
                sides: list[tuple[Direction, Any]] = [("downstream", edges), ("upstream", turned(edges))]
                for direction, side in sides:
                    found = traverse(lens, number, direction, depth=depth)
                    expected = reached(side, start, depth)
                    assert {graph.node(one.number): abs(one.distance) for one in found.nodes} == expected
                    between = {(start, end) for start in expected for end in edges.get(start, ()) if end in expected}
                    assert {(graph.node(start), graph.node(end)) for start, end in found.edges} == between
                whole = reached(edges, start, 99)
                for end in everything:
                    other = graph.find(end)
                    assert other is not None
                    way = find_shortest_path(lens, number, other)
                    assert (None if way is None else len(way) - 1) == whole.get(end)


@given(st.sets(st.text(st.characters(exclude_categories=["Cs"]), max_size=5)), st.text(max_size=3))
def test_texts_are_found_where_they_are(texts: set[str], other: str) -> None:
    stored = StringTable.from_strings(texts)
    assert {stored[place] for place in range(len(stored))} == texts
    for text in texts:
        place = stored.find(text)
        assert place is not None
        assert stored[place] == text
    assert (stored.find(other) is None) == (other not in texts)
