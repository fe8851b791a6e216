"""Properties of column traversal: it equals a plain search over the asserted edges."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.event_generator import Scenario

from clew.query.context import QueryResources
from clew.query.graph.column_graph import LazyColumnGraph
from clew.query.graph.nodes import Column
from clew.query.graph.traversal import locate_columns, traverse_columns

COLUMNS = [f"{table}.{column}" for table in ("t0", "t1", "t2", "t3") for column in ("x", "y")]
sources = st.lists(st.sampled_from([*COLUMNS, *(f"{name}!FILTER" for name in COLUMNS)]), max_size=2).map(" ".join)
column_maps = st.dictionaries(st.sampled_from(["x", "y", ""]), sources, min_size=1, max_size=3)
runs = st.tuples(st.sampled_from(["j0", "j1", "j2"]), st.sampled_from(["t0", "t1", "t2", "t3"]), column_maps)

Edge = tuple[str, str, str]


def current_edges(assertions: list[Any]) -> set[Edge]:
    """Return source, target and type of the current edges: the last assertion per job and table."""
    latest = {(job, table): columns for job, table, columns in assertions}
    edges: set[Edge] = set()
    for (_, table), columns in latest.items():
        for column, text in columns.items():
            for source in text.split():
                name, _, indirect_subtype = source.partition("!")
                # An edge to a whole dataset applies to all its columns, whatever the transformation.
                targets = [f"{table}.{column}"] if column else [f"{table}.x", f"{table}.y", f"{table}."]
                edges |= {(name, target, "INDIRECT" if indirect_subtype else "DIRECT") for target in targets}
    return edges


def upstream(edges: set[Edge], start: str) -> dict[str, str]:
    """Return the DIRECT ancestors, and the columns that are INDIRECT sources of one of them."""
    result, pending = {start: "DIRECT"}, [start]
    while pending:
        column = pending.pop()
        for source in (source for source, target, kind in edges if target == column and kind == "DIRECT"):
            if result.get(source) != "DIRECT":
                result[source] = "DIRECT"
                pending.append(source)
        for source in (source for source, target, kind in edges if target == column and kind == "INDIRECT"):
            result.setdefault(source, "INDIRECT")
    return result


@settings(max_examples=25)
@given(assertions=st.lists(runs, min_size=1, max_size=8))
def test_traverse_columns_equals_plain_search(assertions: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        scenario = Scenario(Path(folder))
        for job, table, columns in assertions:
            scenario.run(job, "", table, columns={table: columns})
        edges = current_edges(assertions)
        with QueryResources(scenario.index_events()) as resources, resources.reader() as index:
            graph, as_of_graph = resources.get_column_graph(index)[1], LazyColumnGraph(index, 2**62)
            for name in COLUMNS:
                column = Column("db", *name.split("."))
                expected = upstream(edges, name)
                for column_graph in (graph, as_of_graph):
                    located, numbers = locate_columns(column_graph, column)
                    visits = traverse_columns(located, numbers).columns[1:]
                    types = {located.column(visit.number): visit.dependency_type for visit in visits}
                    assert {f"{visit.dataset}.{visit.column}": kind for visit, kind in types.items()} == {
                        source: kind for source, kind in expected.items() if source != name
                    }
