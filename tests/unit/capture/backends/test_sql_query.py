"""Tests of SQL that was run: databases, statements that write, and cursors of DB-API drivers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import ibis  # type: ignore[import-untyped]
import marimo
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sqlalchemy

import clew
from clew.capture.diagnostics import error_counts

# Its type hints say that a query may return None.
database: Any = duckdb


def edges(target: Any) -> set[str]:
    """Return the edges of a frame; `!` marks those that are not exact."""
    return {
        f"{edge.column} {edge.source}.{edge.source_column} {edge.subtype}{'!' if edge.opaque else ''}"
        for edge in clew.lineage(target).edges()
    }


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Return a connection to a SQLite database with two tables."""
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.executescript(
        "create table job(name text, Credits real); insert into job values('a', 1);"
        "create table work(person text, job text); insert into work values('p', 'a');"
    )
    yield connection
    connection.close()


JOB, WORK = "sqlite:{folder}/shop.db.job", "sqlite:{folder}/shop.db.work"
CASES = [
    (
        "select sum(credits) as total from job where name = 'a'",
        f"total {JOB}.Credits AGGREGATION, None {JOB}.name FILTER",
    ),
    (
        "select * from job join work on job.name = work.job",
        (
            f"name {JOB}.name IDENTITY, Credits {JOB}.Credits IDENTITY, person {WORK}.person IDENTITY, "
            f"job {WORK}.job IDENTITY, None {JOB}.name JOIN, None {WORK}.job JOIN"
        ),
    ),
    (
        "select person, count(*) as n from Work group by person having n >= 1",
        f"person {WORK}.person IDENTITY, None {WORK}.person GROUP_BY",
    ),
    ("select person, credits from main.work, job", f"person {WORK}.person IDENTITY, credits {JOB}.Credits IDENTITY"),
]


@pytest.mark.parametrize(
    "reader", ["read_sql", "read_sql_query", "engine", "connection", "mo.sql", "polars", "polars uri"]
)
@pytest.mark.parametrize(("text", "expected"), CASES)
def test_queries_are_read_with_the_schema(
    shop: sqlite3.Connection, tmp_path: Path, reader: str, text: str, expected: str
) -> None:
    engine: Any = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/shop.db")
    if reader == "engine":
        frame: Any = pd.read_sql(text, engine)
    elif reader == "connection":
        with engine.connect() as connection:
            frame = pd.read_sql(sqlalchemy.text(text), connection)
    elif reader == "mo.sql":
        frame = marimo.sql(text, engine=engine, output=False)
    elif reader.startswith("polars"):
        frame = pl.read_database(text, engine if reader == "polars" else shop)
    else:
        frame = getattr(pd, reader)(text, shop)
    engine.dispose()
    assert {item.lower() for item in edges(frame)} == {
        item.lower() for item in expected.format(folder=tmp_path).split(", ")
    }
    assert error_counts() == {}


def test_reading_the_schema_leaves_the_connection_as_it_was(shop: sqlite3.Connection, tmp_path: Path) -> None:
    shop.row_factory = lambda _, row: {"first": row[0]}
    shop.execute("insert into job values('b', 2)")
    pending = shop.execute("select name from job order by name")
    frame = pd.read_sql("select name from job", shop)
    assert [row["first"] for row in pending] == ["a", "b"]
    assert shop.in_transaction
    shop.rollback()
    assert edges(frame) == {f"name {JOB.format(folder=tmp_path)}.name IDENTITY"}


def test_tables_of_a_server_are_named_without_asking_it() -> None:
    """No connection is opened: unknown columns of a join are flagged."""
    from clew.capture.backends.sql_lineage import connection_database
    from clew.capture.backends.sql_query import Query

    engine = sqlalchemy.create_engine("postgresql+psycopg://user@db.example:5433/shop")
    found = connection_database(engine, "")
    exact = Query("select Total, sum(o.qty) as q from Orders o group by 1", {}, found)
    assert {source.dataset.label for source in exact.sources() if source.dataset} == {
        "postgres://db.example:5433/shop.public.orders"
    }
    fields = exact.fields(["total", "q"])
    assert [(label, {column for _, column in uses}) for label, uses in fields.items()] == [
        ("total", {"total"}),
        ("q", {"qty"}),
    ]
    joined = Query("select * from orders join people on orders.who = people.id", {}, found)
    assert all(flags > 512 for uses in joined.fields(["id", "name"]).values() for flags in uses.values())


def test_whole_tables(shop: sqlite3.Connection, tmp_path: Path) -> None:
    job = JOB.format(folder=tmp_path)
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/shop.db")
    expected = {f"name {job}.name IDENTITY", f"Credits {job}.Credits IDENTITY"}
    assert edges(pd.read_sql_table("job", engine)) == expected
    assert edges(pd.read_sql("job", engine)) == expected
    engine.dispose()
    shop.execute("select 1")


def test_rows_of_cursors(shop: sqlite3.Connection, tmp_path: Path) -> None:
    job = JOB.format(folder=tmp_path)
    # Which column of the rows is which is unknown.
    labels, columns = ("name", "credits"), ("name", "Credits")
    expected = {f"{label} {job}.{column} TRANSFORMATION!" for label in labels for column in columns}
    rows = shop.execute("select name, credits from job").fetchall()
    assert edges(pd.DataFrame(rows, columns=["name", "credits"])) == expected
    cursor = shop.cursor()
    cursor.execute("select name, credits from job")
    assert edges(pd.DataFrame([dict(zip(("name", "credits"), row, strict=True)) for row in cursor])) == expected
    connection = database.connect()
    connection.register("people", pd.DataFrame({"who": ["x"]}))
    names = connection.execute("select who from people").fetchall()
    assert {edge.opaque for edge in clew.lineage(pd.DataFrame(names, columns=["who"])).edges()} == {True}
    assert error_counts() == {}


def test_inserted_parameters(shop: sqlite3.Connection) -> None:
    people = pd.DataFrame({"who": ["x"], "job": ["a"]})
    shop.executemany("insert into work values (?, ?)", people.to_numpy().tolist())
    frame = pd.read_sql("select person from work where person = 'x'", shop)
    assert {"person people.who TRANSFORMATION!", "person people.job TRANSFORMATION!"} <= edges(frame)


STATEMENTS = {
    "register": "con.register('t', tips)",
    "insert": "con.execute('create table t (tip double, bill double)'); con.execute('insert into t from tips')",
    "insert columns": "con.execute('create table t (bill double, tip double)')\n"
    "con.execute('insert into t (tip, bill) select tip, bill from tips')",
    "to_table": "con.sql('select * from tips').to_table('t')",
    "create_view": "con.sql('select * from tips').create_view('t')",
    "insert_into": "con.execute('create table t (tip double, bill double)')\ncon.sql('from tips').insert_into('t')",
    "append": "con.execute('create table t (tip double, bill double)')\ncon.append('t', tips)",
    "commented": "con.execute('-- the tips\\ncreate or replace temp table t as select * from tips')",
    "several": "con.execute('create table s as from tips; create view t as select * from s;')",
    "rename column": "con.execute('create table t as select tip as x, bill from tips; alter table t rename x to tip')",
    "rename": "con.execute('create table s as from tips'); con.execute('alter table s rename to t')",
    "macro": "con.execute('create macro twice(x) as x * 2'); con.execute('create table t as from tips')\n"
    "con.execute('create index by_tip on t (tip)')",
    "cursor": "con.cursor().execute('create table t as from tips')",
    "table": "con.execute('create table s as from tips'); con.table('s').to_table('t')",
    "arrow": "arrow = con.sql('from tips').to_arrow_table(); con.execute('create table t as from arrow')",
}


@pytest.mark.parametrize("code", STATEMENTS.values(), ids=STATEMENTS)
def test_tables_lead_to_the_frame(code: str) -> None:
    tips = pd.DataFrame({"tip": [1.0, 2.0], "bill": [10.0, 20.0]})
    start = clew.version(tips, name="tips")
    namespace: dict[str, Any] = {"con": database.connect(), "tips": tips}
    exec(code, namespace)
    out = namespace["con"].execute("select tip / bill as r from t").df()
    found = {(edge.source, edge.source_column, edge.opaque) for edge in clew.lineage(out, until=[start]).edges()}
    assert found == {("tips", "tip", False), ("tips", "bill", False)}
    assert error_counts() == {}


CHANGES = {
    "update t set tip = bill * 2 where bill > 1": {"tip tips.tip", "tip tips.bill"},
    "delete from t where bill > 100": {"tip tips.tip", "None tips.bill"},
    "insert into t values (1, 2)": {"tip tips.tip"},
    "insert into t select bill, tip from tips": {"tip tips.tip", "tip tips.bill"},
    "drop table t; create table t as select bill as tip from tips": {"tip tips.bill"},
}


@pytest.mark.parametrize(("text", "expected"), CHANGES.items())
def test_changed_tables(text: str, expected: set[str]) -> None:
    tips = pd.DataFrame({"tip": [1.0, 2.0], "bill": [10.0, 20.0]})
    start, connection = clew.version(tips, name="tips"), database.connect()
    connection.execute("create table t as select tip, bill from tips")
    connection.execute(text)
    found = clew.lineage(connection.execute("select tip from t").df(), until=[start]).edges()
    assert {f"{edge.column} {edge.source}.{edge.source_column}" for edge in found} == expected
    assert error_counts() == {}


def test_rows_of_parameters_and_appenders_are_inferred() -> None:
    tips = pd.DataFrame({"tip": [1.0, 2.0]})
    start, connection = clew.version(tips, name="tips"), database.connect()
    for name, code in {
        "executemany": "con.executemany('insert into executemany values (?)', tips.to_numpy().tolist())",
        "appended": "new = con.appender('appended')\nnew.append_row(float(tips['tip'].max()))\nnew.flush()",
    }.items():
        connection.execute(f"create table {name} (tip double)")
        exec(compile(code, "<cell>", "exec"), {"con": connection, "tips": tips})
        found = clew.lineage(connection.sql(f"select tip from {name}").df(), until=[start]).edges()
        assert {(edge.source, edge.source_column, edge.opaque) for edge in found} == {("tips", "tip", True)}, name


def test_a_table_hides_a_variable_of_the_same_name() -> None:
    other = pd.DataFrame({"a": [1]})
    tips = pd.DataFrame({"a": [2]})
    start, connection = [clew.version(other, name="other"), clew.version(tips, name="tips")], database.connect()
    connection.execute("create table tips as select a from other")
    found = clew.lineage(connection.execute("select a from tips").df(), until=start).edges()
    assert {edge.source for edge in found} == {"other"}


def test_tables_in_memory_belong_to_their_connection() -> None:
    for number in (1, 2):
        connection = database.connect()
        connection.register("frame", pd.DataFrame({f"v{number}": [number]}))
        connection.execute("create table t as from frame")
        assert {edge.source_column for edge in clew.lineage(connection.sql("from t").df()).edges()} == {f"v{number}"}
    empty = database.connect()
    empty.execute("create table t (v int)")
    first, second = (database.connect().execute("create table t (v int)") for _ in range(2))
    sources = {edge.source for con in (first, second) for edge in clew.lineage(con.sql("from t").df()).edges()}
    assert len(sources) == 2


def test_a_database_file_is_one_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("shop.db") as connection:
        connection.execute("create table Orders as select 1 as id")
    names = set()
    for path in ("shop.db", str(tmp_path / "shop.db")):
        with database.connect(path, read_only=True) as connection:
            names |= {version.dataset for version in connection_sources(connection)}
    assert names == {("duckdb", f"{tmp_path}/shop.db.orders")}


def connection_sources(connection: Any) -> Any:
    from clew.capture.backends.sql_lineage import connection_database
    from clew.capture.backends.sql_query import Query

    text = "select id from main.Orders"
    return Query(text, {}, connection_database(connection, text)).sources()


def test_events_name_tables_in_memory_by_session(run_cells: Any) -> None:
    code = "import duckdb\ncon = duckdb.connect()\n_ = con.execute('create table t as select 1 as v')"
    streams = run_cells(code, "out = con.sql('select v from t').df()")
    names = {
        (item["namespace"], item["name"])
        for event in streams["marimo_lineage_events"]
        for item in (*event["inputs"], *event["outputs"])
        if item["name"].endswith(".t")
    }
    assert len(names) == 1
    [(namespace, name)] = names
    assert name.startswith("book/duckdb::memory:")
    assert namespace != "duckdb"


def test_file_names_keep_their_case(tmp_path: Path) -> None:
    (tmp_path / "Data").mkdir()
    path = tmp_path / "Data" / "Tips.csv"
    path.write_text("Tip,bill\n1,2\n")
    for text in (f"from '{path}'", f"select Tip, bill from read_csv('{path}')", f"select tip, bill from '{path}'"):
        frame = database.sql(text).df()
        assert edges(frame) == {f"Tip file:{path}.Tip IDENTITY", f"bill file:{path}.bill IDENTITY"}, text


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_ibis_on_duckdb(tmp_path: Path) -> None:
    (tmp_path / "tips.csv").write_text("tip,bill\n1,10\n")
    connection = ibis.duckdb.connect()
    table = connection.read_csv(tmp_path / "tips.csv")
    frame = table.filter(table.bill > 5).mutate(r=table.tip / table.bill).select("r")
    source = f"file:{tmp_path}/tips.csv"
    expected = {f"r {source}.tip TRANSFORMATION", f"r {source}.bill TRANSFORMATION", f"None {source}.bill FILTER"}
    assert edges(frame.execute()) == expected
    assert edges(frame.to_pandas()) == expected
    assert edges(frame.to_polars()) == expected
    people = pd.DataFrame({"who": ["x"]})
    assert edges(ibis.memtable(people).execute()) == {"who people.who IDENTITY"}
    connection.disconnect()


def test_scalars_of_fetched_rows_are_sources() -> None:
    tips = pd.DataFrame({"tip": [1.0, 2.0], "bill": [3.0, 4.0]})
    start = clew.version(tips, name="tips")
    mean: Any = database.sql("select avg(tip) as mean from tips").fetchall()[0][0]
    out = tips.assign(z=tips["bill"] - mean)[["z"]]
    found = {(edge.source_column, edge.opaque) for edge in clew.lineage(out, until=[start]).edges()}
    assert found == {("bill", False), ("tip", True)}


def test_results_keep_the_tables_of_their_time(tmp_path: Path) -> None:
    first, second = pd.DataFrame({"v": [1, 2]}), pd.DataFrame({"w": [3, 4]})
    stops = [clew.version(first, name="first"), clew.version(second, name="second")]
    file = str(tmp_path / "v.csv")
    first.to_csv(file, index=False)
    connection: Any = duckdb.connect()
    connection.execute("create table t as select v from first")
    connection.execute("create view seen as select v from t")
    before, read = connection.execute("select v from t").df(), connection.execute(f"select v from '{file}'").df()
    connection.execute("create or replace table t as select w as v from second")
    second.rename(columns={"w": "v"}).to_csv(file, index=False)
    after, seen = connection.execute("select v from t").df(), connection.execute("select v from seen").df()
    connection.execute("create table u as select v from t; drop table t")
    copied = connection.execute("select v from u").df()

    def sources(frame: pd.DataFrame) -> list[tuple[str, Any, bool]]:
        return [(edge.source, edge.source_column, edge.opaque) for edge in clew.lineage(frame, until=stops).edges()]

    assert sources(before) == sources(read) == [("first", "v", False)]
    assert sources(after) == sources(seen) == sources(copied) == [("second", "w", False)]


def test_rows_keep_the_table_of_their_time_in_sqlite() -> None:
    first, second = pd.DataFrame({"v": [1, 2]}), pd.DataFrame({"v": [3, 4]})
    stops = [clew.version(first, name="first"), clew.version(second, name="second")]
    connection = sqlite3.connect(":memory:")
    first.to_sql("t", connection, index=False)
    read = pd.read_sql("select v from t", connection)
    second.to_sql("t", connection, index=False, if_exists="replace")
    assert [edge.source for edge in clew.lineage(read, until=stops).edges()] == ["first"]
    connection.close()


@pytest.mark.parametrize("star", ["* like 't%'", "* ilike 'T%'", "tips.* similar to 't.*'", "* not like 'b%'"])
def test_columns_selected_by_a_pattern(star: str) -> None:
    tips = pd.DataFrame({"tip": [1.0], "bill": [2.0]})
    start = clew.version(tips, name="tips")
    found = clew.lineage(database.sql(f"select {star} from tips").df(), until=[start]).edges()
    assert [(edge.column, edge.source_column, edge.opaque) for edge in found] == [("tip", "tip", False)]


ARROW = {
    "to_pandas": ("table.to_pandas()", False),
    "derived table": ("table.select(['tip']).to_pandas()", True),
    "to_pydict": ("pd.DataFrame(table.to_pydict())", True),
    "to_pylist": ("pl.DataFrame(table.to_pylist())", True),
    "column": ("pd.DataFrame({'tip': table['tip'].to_pylist()})", True),
    "from_pandas": ("pa.Table.from_pandas(tips).to_pandas()", True),
    "from_pandas batch": ("pa.RecordBatch.from_pandas(tips.set_index('bill')).to_pandas()", True),
    "from_pandas to polars": ("pl.from_arrow(pa.Table.from_pandas(tips))", True),
}


@pytest.mark.parametrize(("code", "is_inferred"), ARROW.values(), ids=ARROW)
def test_arrow_tables_are_followed(code: str, *, is_inferred: bool) -> None:
    tips = pd.DataFrame({"tip": [1.0], "bill": [2.0]})
    start = clew.version(tips, name="tips")
    names = {"pd": pd, "pl": pl, "pa": pa, "tips": tips, "con": duckdb.connect()}
    exec(f"table = con.sql('select tip, bill from tips').to_arrow_table()\nout = {code}", names)
    found = [edge for edge in clew.lineage(names["out"], until=[start]).edges() if edge.column == "tip"]
    assert {edge.source for edge in found} == {"tips"}
    assert "tip" in {edge.source_column for edge in found}
    assert {edge.opaque for edge in found} == {is_inferred}


def test_arrow_tables_of_literals_are_origins() -> None:
    out = pa.table({"a": [1]}).to_pandas()
    assert [(edge.source_column, edge.subtype) for edge in clew.lineage(out).edges()] == [("a", "IDENTITY")]


TIP = {("tip", "tips", "tip", False)}
INFERRED_TIP = {("tip", "tips", "tip", True)}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("duckdb.sql(\"select tip from query_table('tips')\")", TIP),
        ("duckdb.sql(\"select t.tip from query_table(['tips']) t\")", TIP),
        ("duckdb.sql(\"from query('select tip from tips')\")", TIP),
        ("duckdb.query_df(tips, 'view', 'select tip from view')", TIP),
        ("duckdb.execute('select ? as tip', [top]).df()", INFERRED_TIP),
        ("duckdb.sql('select $top + 1 as tip', params={'top': top})", INFERRED_TIP),
        ("duckdb.execute('select ? as tip', [5]).df()", set()),
        ("duckdb.sql('select tip from arrow')", INFERRED_TIP),
        ("duckdb.from_arrow(arrow).project('tip')", INFERRED_TIP),
    ],
)
def test_sources_outside_of_the_text_are_followed(code: str, expected: set[tuple[str, str, str, bool]]) -> None:
    tips = pd.DataFrame({"tip": [1.5]})
    start = clew.version(tips, name="tips")
    names = {"pd": pd, "pa": pa, "duckdb": duckdb, "tips": tips}
    exec(f"top = tips['tip'].max()\narrow = pa.Table.from_pandas(tips)\nbill = 2\nout = {code}", names)
    edges = clew.lineage(names["out"], until=[start]).edges()
    assert {
        (edge.column, edge.source, edge.source_column, edge.opaque) for edge in edges if edge.column is not None
    } == expected
