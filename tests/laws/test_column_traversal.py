"""Laws of walks over columns: what the arrays tell is what a plain search over what was said finds."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.event_generator import World

from clew.query.context import QueryResources
from clew.query.graph.column_graph import AsOfColumnGraph
from clew.query.graph.nodes import Column
from clew.query.graph.traversal import traverse_columns

COLUMNS = [f"{table}.{column}" for table in ("t0", "t1", "t2", "t3") for column in ("x", "y")]
sources = st.lists(st.sampled_from([*COLUMNS, *(f"{name}!FILTER" for name in COLUMNS)]), max_size=2).map(" ".join)
stated = st.dictionaries(st.sampled_from(["x", "y", ""]), sources, min_size=1, max_size=3)
runs = st.tuples(st.sampled_from(["j0", "j1", "j2"]), st.sampled_from(["t0", "t1", "t2", "t3"]), stated)

Edge = tuple[str, str, str]


def last_said(told: list[Any]) -> set[Edge]:
    """Source, target and type of all edges that count: a job's last word on a table, a whole table as its columns."""
    last = {(job, table): columns for job, table, columns in told}
    edges: set[Edge] = set()
    for (_, table), columns in last.items():
        for column, text in columns.items():
            for source in text.split():
                name, _, influence = source.partition("!")
                # What is said of a whole dataset is said without a column, whatever the transformation.
                targets = [f"{table}.{column}"] if column else [f"{table}.x", f"{table}.y", f"{table}."]
                edges |= {(name, target, "INDIRECT" if influence else "DIRECT") for target in targets}
    return edges


def upstream(edges: set[Edge], start: str) -> dict[str, str]:
    """Values all the way, and who had a say in any of them."""
    found, pending = {start: "DIRECT"}, [start]
    while pending:
        one = pending.pop()
        for source in (source for source, target, how in edges if target == one and how == "DIRECT"):
            if found.get(source) != "DIRECT":
                found[source] = "DIRECT"
                pending.append(source)
        for source in (source for source, target, how in edges if target == one and how == "INDIRECT"):
            found.setdefault(source, "INDIRECT")
    return found


@settings(max_examples=25)
@given(told=st.lists(runs, min_size=1, max_size=8))
def test_values_are_followed_as_a_plain_search_follows_them(told: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        world = World(Path(folder))
        for job, table, columns in told:
            world.run(job, "", table, columns={table: columns})
        edges = last_said(told)
        with QueryResources(world.tell()) as holdings, holdings.reader() as index:
            graph, past = holdings.get_column_graph(index)[1], AsOfColumnGraph(index, 2**62)
            for name in COLUMNS:
                column = Column("db", *name.split("."))
                expected = upstream(edges, name)
                for columns_then in (graph, past):
                    number = columns_then.find_column_or_dataset(column)
                    found = traverse_columns(columns_then, [] if number is None else [number]).columns[1:]
                    told_of = {columns_then.column(one.number): one.dependency_type for one in found}
                    assert {f"{one.dataset}.{one.column}": how for one, how in told_of.items()} == {
                        source: how for source, how in expected.items() if source != name
                    }
