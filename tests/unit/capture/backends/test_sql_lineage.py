"""Tests of SQL lineage: parsed queries, and DuckDB queries over frames, files and tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pytest

import clew
from clew.capture.backends.sql_lineage import Dependencies, parse_query
from clew.capture.diagnostics import error_counts
from clew.capture.lineage.transformations import INFERRED, transformations

# Its type hints say that a query may return None.
database: Any = duckdb
TABLES = {"orders": ["id", "cust", "price", "qty"], "cust": ["id", "name", "region"]}


def format_dependencies(uses: Dependencies) -> str:
    """Format dependencies as in the cases."""
    lines = [
        f"{table}.{column} {subtype}"
        for (table, column), flags in uses.items()
        for _, subtype in transformations(flags)
    ]
    return ", ".join(sorted(lines))


@pytest.mark.parametrize(
    ("query", "columns", "rows"),
    [
        ("select id from orders where qty > 0", {"id": "orders.id IDENTITY"}, "orders.qty FILTER"),
        # Functions as methods, variables of list comprehensions, and parts of values.
        ("select price::varchar.len() as n from orders", {"n": "orders.price TRANSFORMATION"}, ""),
        ("select price.round(1).abs() as p from orders", {"p": "orders.price TRANSFORMATION"}, ""),
        ("select [id + 1 for id in [price]][1] as p from orders", {"p": "orders.price TRANSFORMATION"}, ""),
        ("select {'a': price, 'b': qty}.a as p from orders", {"p": "orders.price IDENTITY"}, ""),
        ("select struct_extract({'a': price, 'b': qty}, 'b') as p from orders", {"p": "orders.qty IDENTITY"}, ""),
        ("select orders.cust.name.first as p from orders", {"p": "orders.cust TRANSFORMATION"}, ""),
        (
            "select price * qty as amount from orders order by amount limit 3",
            {"amount": "orders.price TRANSFORMATION, orders.qty TRANSFORMATION"},
            "orders.price SORT, orders.qty SORT",
        ),
        (
            "select c.region, sum(o.price) total, count(*) n from orders o join cust c on o.cust = c.id group by 1",
            {"region": "cust.region IDENTITY", "total": "orders.price AGGREGATION", "n": ""},
            "cust.id JOIN, cust.region GROUP_BY, orders.cust JOIN",
        ),
        (
            "select cust, sum(price) total from orders group by all order by all",
            {"cust": "orders.cust IDENTITY", "total": "orders.price AGGREGATION"},
            "orders.cust GROUP_BY, orders.cust SORT, orders.price SORT",
        ),
        # Not a position: a number beyond all floats.
        ("select id from orders order by 1e999", {"id": "orders.id IDENTITY"}, ""),
        # DuckDB accepts the pattern, Python does not.
        (
            r"select columns('\pL') from orders",
            {"*": ", ".join(f"orders.{name} IDENTITY" for name in sorted(TABLES["orders"]))},
            "",
        ),
        (
            "select cust from orders union all select id from cust order by all",
            {"cust": "cust.id IDENTITY, orders.cust IDENTITY"},
            "cust.id SORT, orders.cust SORT",
        ),
        (
            "select c.id, t.top from cust c, lateral (select max(price) as top from orders where cust = c.id) t",
            {"id": "cust.id IDENTITY", "top": "orders.price AGGREGATION"},
            "cust.id FILTER, orders.cust FILTER",
        ),
        (
            "with big as (select *, price * qty amount from orders where qty > 1) select max(amount) m from big",
            {"m": "orders.price AGGREGATION, orders.qty AGGREGATION"},
            "orders.qty FILTER",
        ),
        (
            "select case when qty > 1 then price else 0 end p, coalesce(cust, id) k from orders",
            {
                "p": "orders.price TRANSFORMATION, orders.qty CONDITIONAL",
                "k": "orders.cust CONDITIONAL, orders.cust TRANSFORMATION, "
                "orders.id CONDITIONAL, orders.id TRANSFORMATION",
            },
            "",
        ),
        (
            "select rank() over (partition by cust order by id) n, max(price) over (partition by cust) s from orders",
            {"n": "orders.cust WINDOW, orders.id WINDOW", "s": "orders.cust WINDOW, orders.price AGGREGATION"},
            "",
        ),
        (
            "select id from orders where cust in (select id from cust where region = 'eu')",
            {"id": "orders.id IDENTITY"},
            "cust.id FILTER, cust.region FILTER, orders.cust FILTER",
        ),
        ("select id from orders union all select id from cust", {"id": "cust.id IDENTITY, orders.id IDENTITY"}, ""),
        (
            "select id, qty from orders union all by name select id, name from cust",
            {"id": "cust.id IDENTITY, orders.id IDENTITY", "qty": "orders.qty IDENTITY", "name": "cust.name IDENTITY"},
            "",
        ),
        (
            "select id, (select max(name) from cust where cust.id = orders.cust) m from orders",
            {"id": "orders.id IDENTITY", "m": "cust.id FILTER, cust.name AGGREGATION, orders.cust FILTER"},
            "",
        ),
        (
            "select id from orders where exists (select 1 from cust where cust.id = orders.cust)",
            {"id": "orders.id IDENTITY"},
            "cust.id FILTER, orders.cust FILTER",
        ),
        (
            "select distinct on (cust) cust, price from orders",
            {"cust": "orders.cust IDENTITY", "price": "orders.price IDENTITY"},
            "orders.cust FILTER",
        ),
        ("select list(price order by id) l from orders", {"l": "orders.id SORT, orders.price AGGREGATION"}, ""),
        ("select distinct region from cust", {"region": "cust.region IDENTITY"}, "cust.region FILTER"),
        ("select id from orders join cust using (id)", {"id": "orders.id IDENTITY"}, "cust.id JOIN, orders.id JOIN"),
        (
            "select avg(price) filter (where qty > 1) a from orders",
            {"a": "orders.price AGGREGATION, orders.qty CONDITIONAL"},
            "",
        ),
        (
            "select a, b + 1 c from read_csv('x.csv')",
            {"a": "file:x.csv.a IDENTITY", "c": "file:x.csv.b TRANSFORMATION"},
            "",
        ),
        ("select * from 'data/y.parquet'", {"*": "file:data/y.parquet.* IDENTITY"}, ""),
    ],
)
def test_parse_query(query: str, columns: dict[str, str], rows: str) -> None:
    query_lineage = parse_query(query, TABLES)
    assert {name: format_dependencies(uses) for name, uses in query_lineage.columns} == columns
    assert format_dependencies(query_lineage.rows) == rows


def edges(target: Any, **frames: Any) -> set[str]:
    """Return the edges back to the current versions of frames."""
    tokens = [clew.version(frame, name=name) for name, frame in frames.items()]
    return {
        f"{edge.column} {edge.source}.{edge.source_column} {edge.subtype}"
        for edge in clew.lineage(target, until=tokens).edges()
    }


def test_query_over_pandas_and_polars_frames() -> None:
    orders = pd.DataFrame({"Price": [9.5, 3.0], "qty": [2, 0], "cust": [1, 1]})
    people = pl.DataFrame({"id": [1, 2], "name": ["a", "b"]})
    text = "select Price * qty as Amount, name from orders join people on cust = people.id where qty > 0"
    rows = {"None orders.qty FILTER", "None orders.cust JOIN", "None people.id JOIN"}
    expected = {
        "Amount orders.Price TRANSFORMATION",
        "Amount orders.qty TRANSFORMATION",
        "name people.name IDENTITY",
        *rows,
    }
    assert edges(database.sql(text).df(), orders=orders, people=people) == expected
    assert edges(database.sql(text).pl(), orders=orders, people=people) == expected
    assert edges(duckdb.connect().execute(text).df(), orders=orders, people=people) == expected
    assert error_counts() == {}


def test_query_over_a_relation() -> None:
    orders = pd.DataFrame({"id": [1, 2], "qty": [2, 0]})
    part = database.sql("select id, qty * 2 as double from orders where id > 1")
    assert part.shape == (1, 2)
    out = database.sql("select double + 1 as more from part").df()
    assert edges(out, orders=orders) == {"more orders.qty TRANSFORMATION", "None orders.id FILTER"}


ALL_COLUMNS = "k t.k IDENTITY, v t.v IDENTITY, w t.w IDENTITY"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("r.filter('v > 1')", f"{ALL_COLUMNS}, None t.v FILTER"),
        ("r.filter(duckdb.ColumnExpression('v') > duckdb.ConstantExpression(1))", f"{ALL_COLUMNS}, None t.v FILTER"),
        ("r.project('k, v * w as x')", "k t.k IDENTITY, x t.v TRANSFORMATION, x t.w TRANSFORMATION"),
        ("r.select('k', duckdb.ColumnExpression('w'))", "k t.k IDENTITY, w t.w IDENTITY"),
        ("r.aggregate('k, sum(v) as s', 'k')", "k t.k IDENTITY, s t.v AGGREGATION, None t.k GROUP_BY"),
        ("r.aggregate('k, sum(v) as s')", "k t.k IDENTITY, s t.v AGGREGATION, None t.k GROUP_BY"),
        ("r.order('w desc').limit(1).project('v')", "v t.v IDENTITY, None t.w SORT"),
        ("r.project('k').distinct()", "k t.k IDENTITY, None t.k FILTER"),
        ("r.project('k').union(s.project('x'))", "k t.k IDENTITY, k u.x IDENTITY"),
        ("r.join(s, 'k').project('v, x')", "v t.v IDENTITY, x u.x IDENTITY, None t.k JOIN, None u.k JOIN"),
        ("r.set_alias('a').filter('a.v > 1').project('k')", "k t.k IDENTITY, None t.v FILTER"),
        ("r.query('me', 'select w from me where k > 0')", "w t.w IDENTITY, None t.k FILTER"),
        ("duckdb.from_df(t).project('w + 1 as w')", "w t.w TRANSFORMATION"),
        ("r.project('v').sum('v')", "sum(v) t.v TRANSFORMATION"),
    ],
)
def test_relation_methods(expression: str, expected: str) -> None:
    t = pd.DataFrame({"k": [1, 2], "v": [2, 0], "w": [1, 1]})
    u = pd.DataFrame({"k": [1, 2], "x": [5, 6]})
    namespace = {"t": t, "duckdb": duckdb, "r": database.sql("select * from t"), "s": database.sql("select * from u")}
    assert edges(eval(expression, namespace).df(), t=t, u=u) == set(expected.split(", "))
    assert error_counts() == {}


def test_relation_methods_without_a_rule_are_opaque() -> None:
    t = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    u = pd.DataFrame({"a": [1, 2], "c": [3, 4]})
    start = [clew.version(t, name="t"), clew.version(u, name="u")]
    one, other = database.sql("select * from t").set_alias("one"), database.sql("select * from u").set_alias("other")
    for relation in (one.join(other, "one.a = other.a"), one.except_(one.filter("a > 1")), one.row_number("over ()")):
        relation_edges = clew.lineage(relation.df(), until=start).edges()
        assert relation_edges
        assert all(edge.opaque for edge in relation_edges if edge.column is not None)
    assert error_counts() == {}


def test_query_uses_the_frame_version_at_execution() -> None:
    orders = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    before = clew.version(orders, name="orders")
    out = database.sql("select a from orders").df()
    orders["a"] = orders["b"]
    assert {edge.source_column for edge in clew.lineage(out, until=[before]).edges()} == {"a"}


def test_tables_and_files(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,2\n")
    with duckdb.connect(tmp_path / "shop.db") as connection:
        connection.execute(
            f"create table kept as select a, b * 2 as double from read_csv('{tmp_path}/in.csv') where b > 0"
        )
        connection.execute(f"copy (select double from kept) to '{tmp_path}/out.parquet'")
        out = connection.sql("select * from kept").df()
    source = f"file:{tmp_path}/in.csv"
    rows = f"None {source}.b FILTER"
    assert edges(out) == {f"a {source}.a IDENTITY", f"double {source}.b TRANSFORMATION", rows}
    assert edges(str(tmp_path / "out.parquet")) == {f"double {source}.b TRANSFORMATION", rows}


def test_relations_read_and_write_files(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,2\n")
    relation = database.read_csv(str(tmp_path / "in.csv"))
    relation.filter("b > 0").write_parquet(str(tmp_path / "out.parquet"))
    source = f"file:{tmp_path}/in.csv"
    columns = {f"a {source}.a IDENTITY", f"b {source}.b IDENTITY"}
    assert edges(relation.df()) == columns
    assert edges(str(tmp_path / "out.parquet")) == columns | {f"None {source}.b FILTER"}


@pytest.mark.slow
def test_duckdb_objects_are_released_at_exit() -> None:
    """Some DuckDB releases report leaked objects on stderr at exit."""
    code = "import clew; clew.track(); import duckdb; one = duckdb.sql('select 1 as a'); duckdb.sql('from one').df()"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stderr == ""


def test_unparsable_statement_is_opaque() -> None:
    orders = pd.DataFrame({"a": [1, 2]})
    start = clew.version(orders, name="orders")
    out = database.sql("summarize orders").df()
    opaque_edges = clew.lineage(out, until=[start]).edges()
    assert {(edge.source, edge.source_column, edge.opaque) for edge in opaque_edges} == {("orders", "a", True)}


def test_duckdb_errors_are_unchanged() -> None:
    with pytest.raises(duckdb.CatalogException):
        database.sql("select * from no_such_table")


def test_queries_are_captured(run_cells: Any) -> None:
    streams = run_cells(
        "import duckdb\norders = pd.DataFrame({'k': [1, 1], 'v': [2, 3]})",
        "totals = duckdb.sql('select k, sum(v) as total from orders group by k').df()",
    )
    query, fetch = streams["marimo_dataframe_lineage"][1:]
    assert (query["operation_method"], query["operation_type"]) == ("sql", "aggregation")
    assert fetch["output_dataframes"][0]["variable_name"] == "totals"
    query_edges = {(edge["column"], edge["source_column"], edge["subtype"]) for edge in query["column_lineage_edges"]}
    assert query_edges == {("k", "k", "IDENTITY"), ("total", "v", "AGGREGATION"), (None, "k", "GROUP_BY")}
    assert error_counts() == {}


def test_fields_of_structs_are_inferred() -> None:
    frame = pd.DataFrame({"a": [1], "b": [2]})
    start = clew.version(frame, name="frame")
    packed = database.sql("select struct_pack(x := a, y := b) as s from frame")
    out = packed.project("s.x as x").df()
    edges = clew.lineage(out, until=[start]).edges()
    assert {(edge.source_column, edge.opaque) for edge in edges} == {("a", True), ("b", True)}
    lineage = parse_query("select s.x from 'shop.parquet'", {})
    assert format_dependencies(lineage.columns[0][1]) == "file:shop.parquet.s TRANSFORMATION"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select * from range(5)", set()),
        (
            "select lag(tip) over w as p from tips window w as (partition by day order by bill)",
            {("p", "tip", "TRANSFORMATION"), ("p", "day", "WINDOW"), ("p", "bill", "WINDOW")},
        ),
        ("select columns('t.*') from tips", {("tip", "tip", "IDENTITY")}),
    ],
)
def test_functions_windows_and_column_patterns(query: str, expected: set[tuple[str, str, str]]) -> None:
    tips = pd.DataFrame({"day": ["a", "b"], "tip": [1.0, 2.0], "bill": [3.0, 4.0]})
    start = clew.version(tips, name="tips")
    out = database.sql(query).df()
    found = clew.lineage(out, until=[start]).edges()
    assert {(edge.column, edge.source_column, edge.subtype) for edge in found} == expected


@pytest.mark.parametrize(
    ("query", "is_inferred"),
    [
        ("select [price, qty][1] as p from orders", True),
        ("select cust.name as p from orders", True),
        ("select (cust).name as p from orders", True),
        ("select cust[1] as p from orders", False),
    ],
)
def test_parts_of_values_are_inferred(query: str, is_inferred: bool) -> None:
    ((_, uses),) = parse_query(query, TABLES).columns
    assert {bool(flags & INFERRED) for flags in uses.values()} == {is_inferred}


def test_syntax_that_the_parser_does_not_know_is_no_loss() -> None:
    t = pd.DataFrame({"k": [1, 1], "g": ["a", "b"], "v": [1.0, 2.0]})
    out = database.sql("pivot (select k, g, v from t) on g using sum(v) group by k order by k").df()
    assert {(edge.source_column, edge.opaque) for edge in clew.lineage(out).edges()} >= {("v", True), ("g", True)}
    assert len(t) == 2
    assert error_counts() == {}
