"""Tests of the three event streams of notebook cells: content and validity."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np
import pandas as pd
import pytest

import clew
from clew.capture.diagnostics import error_counts
from clew.capture.emit.column_metrics import frame_metrics
from clew.events.streams import STREAM_FILES, Stream
from clew.events.validation import schema_violations

RUNTIME, LINEAGE, DATAFRAME = "marimo_runtime", "marimo_lineage_events", "marimo_dataframe_lineage"
Run = Callable[..., dict[str, list[dict[str, Any]]]]

LOAD = "df = pd.DataFrame({'name': ['Ann', 'Bob', 'Cid'], 'age': [31, 22, 45], 'pay': [7., 4., 9.]})"
ADULTS = """\
adults = df[df['age'] > 25]
adults = adults.assign(tax=adults['pay'] * 0.2)
adults['net'] = adults['pay'] - adults['tax']
"""


def test_every_event_is_valid(run_cells: Run) -> None:
    streams = run_cells(LOAD, ADULTS, "df['nope']", "out = df.groupby('name')['pay'].sum().reset_index()")
    for stem, events in streams.items():
        assert events
        assert [
            violation for event in events for violation in schema_violations(event, STREAM_FILES[f"{stem}.jsonl"])
        ] == []
    assert error_counts() == {}


def test_operation_events_have_code_line_names_and_versions(run_cells: Run) -> None:
    operations = [
        (
            event["cell_name"],
            event["line"],
            event["operation_type"],
            event["operation_method"],
            event["operation_code"],
            [(frame["variable_name"], frame["version"]) for frame in event["input_dataframes"]],
            [(frame["variable_name"], frame["version"]) for frame in event["output_dataframes"]],
        )
        for event in run_cells(LOAD, ADULTS)[DATAFRAME][1:]
    ]
    assert operations == [
        ("cell2", 1, "selection", "__getitem__", "df[df['age'] > 25]", [("df", "1")], [("adults", "1")]),
        (
            "cell2",
            2,
            "assignment",
            "assign",
            "adults.assign(tax=adults['pay'] * 0.2)",
            [("adults", "1")],
            [("adults", "2")],
        ),
        (
            "cell2",
            3,
            "assignment",
            "__setitem__",
            "adults['net'] = adults['pay'] - adults['tax']",
            [("adults", "2")],
            [("adults", "3")],
        ),
    ]


def test_column_lineage_of_a_filter(run_cells: Run) -> None:
    event = run_cells(LOAD, "adults = df[df['age'] > 25]")[DATAFRAME][-1]
    assert event["column_lineage"] == {f"adults.{name}": [f"df.{name}"] for name in ("name", "age", "pay")}
    assert event["column_lineage_edges"][-1] == {
        "output": "adults",
        "column": None,
        "source": "df",
        "source_column": "age",
        "type": "INDIRECT",
        "subtype": "FILTER",
    }


def test_starts_are_paired_with_ends_and_parents_exist(run_cells: Run) -> None:
    events = run_cells(LOAD, ADULTS, "df['nope']")[LINEAGE]
    by_run: dict[str, list[str]] = {}
    for event in events:
        by_run.setdefault(event["run"]["runId"], []).append(event["eventType"])
    assert all(kinds in (["START", "COMPLETE"], ["START", "FAIL"]) for kinds in by_run.values())
    parents = {event["run"]["facets"].get("parent", {}).get("run", {}).get("runId") for event in events}
    assert parents - {None} <= set(by_run)
    jobs = {event["job"]["name"]: event["eventType"] for event in events}
    assert jobs["book"] == jobs["book/cell3"] == jobs["book/cell3/dataframe_getitem"] == "FAIL"
    assert jobs["book/cell2"] == jobs["book/cell2/dataframe_assign"] == "COMPLETE"


def test_documented_operations_have_their_events_and_facets(run_cells: Run, tmp_path: Path) -> None:
    (tmp_path / "test_data.csv").write_text("id,x\n1,2\n2,3\n")
    streams = run_cells(
        f"df1 = pd.read_csv({str(tmp_path / 'test_data.csv')!r})",
        "df2 = pd.DataFrame({'id': [1, 2], 'y': [1.5, 2.5]})",
        "both = pd.merge(df1, df2, on='id')",
        "rows = pd.concat([df1, df1])",
        "top = both.head(1)",
        "less = both.drop(columns=['x'])",
    )
    cells = [(event["event_type"], event["execution_id"]) for event in streams[RUNTIME]]
    operations = [event for event in streams[LINEAGE] if event["job"]["name"].count("/") == 2]
    names = ["pandas_read_csv", "pandas_DataFrame", "pandas_merge", "pandas_concat", "dataframe_head", "dataframe_drop"]
    for number, name in enumerate(names):
        start, complete = (event for event in operations if event["job"]["name"].endswith(f"/{name}"))
        assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
        assert start["run"]["runId"] == complete["run"]["runId"]
        execution = complete["run"]["facets"]["marimo_execution"]
        assert cells[2 * number] == ("cell_execution_start", execution["executionId"])
        assert execution["sessionId"] == complete["session_id"]
        assert complete["run"]["facets"]["marimo_performance"]["durationMs"] >= 0
        (output,) = complete["outputs"]
        assert {"schema", "dataSource", "columnLineage", "dataQualityMetrics"} <= set(output["facets"])
        assert output["facets"]["dataSource"]["name"] == "pandas-dataframe"
        for used in complete["inputs"]:
            assert {"schema", "dataSource"} <= set(used["facets"])
            assert "dataQualityMetrics" in used["inputFacets"]
    merge = next(event for event in operations if event["job"]["name"].endswith("/pandas_merge") and event["outputs"])
    (source,) = merge["outputs"][0]["facets"]["columnLineage"]["fields"]["y"]["inputFields"]
    assert (source["name"], source["field"]) == ("book/df2", "y")


def test_names_are_equal_in_a_second_run(run_cells: Run) -> None:
    def names(streams: dict[str, list[dict[str, Any]]]) -> list[Any]:
        return [
            (
                event["job"]["name"],
                [(dataset["name"], dataset["facets"]["version"]) for dataset in (*event["inputs"], *event["outputs"])],
            )
            for event in streams[LINEAGE]
        ]

    first = names(run_cells(LOAD, ADULTS))
    assert names(run_cells(LOAD, ADULTS)) == first * 2


def test_versions_restart_in_the_defining_cell(run_cells: Run) -> None:
    events = run_cells("t = pd.DataFrame({'a': [1]})\nt['b'] = 1", "t['c'] = 2", "u = t.head()")[DATAFRAME]
    assert [event["output_dataframes"][0]["version"] for event in events] == ["1", "2", "3", "1"]


def test_unnamed_frame_has_the_name_of_its_operation(run_cells: Run) -> None:
    events = run_cells(LOAD, "out = df[['name', 'age']].head().head()")[DATAFRAME]
    labels = [event["output_dataframes"][0]["variable_name"] for event in events]
    assert labels == ["df", "cell2/dataframe_getitem", "cell2/dataframe_head", "out"]


def test_frame_of_a_function_has_the_name_of_the_global_variable(run_cells: Run) -> None:
    source = "def f(d):\n    t = d[d['age'] > 1]\n    return t.assign(x=1)\nout = f(df)"
    events = run_cells(LOAD, source)[DATAFRAME]
    assert [event["output_dataframes"][0]["variable_name"] for event in events] == [
        "df",
        "cell2/dataframe_getitem",
        "out",
    ]


def test_loop_gives_one_event_with_a_count(run_cells: Run) -> None:
    events = run_cells(LOAD, "for i in range(40):\n    top = df.head(2)")[DATAFRAME]
    assert [(event["operation_method"], event["count"]) for event in events] == [("DataFrame", 1), ("head", 40)]


def test_loop_over_files_gives_one_event_per_file(run_cells: Run, tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text("x\n1\n")
    events = run_cells(
        "parts = [pd.read_csv(f'{folder}/{name}.csv') for name in 'abc']", namespace={"folder": tmp_path}
    )[DATAFRAME]
    assert [Path(event["input_dataframes"][0]["variable_name"]).name for event in events] == ["a.csv", "b.csv", "c.csv"]


def test_metrics_of_files_without_a_named_frame(run_cells: Run, tmp_path: Path) -> None:
    source = (
        "df = pd.DataFrame({'n': [1, 2**53 + 1]})\ndf.to_csv(path, index=False)\ndf['n'] = 0\n"
        "total = pd.read_csv(path)['n'].sum()"
    )
    events = run_cells(source, namespace={"path": tmp_path / "f.csv"})[LINEAGE]
    complete = {event["job"]["name"].rsplit("/", 1)[-1]: event for event in events if event["eventType"] == "COMPLETE"}
    written = complete["dataframe_to_csv"]["outputs"][0]["facets"]["dataQualityMetrics"]
    read = complete["pandas_read_csv"]["inputs"][0]["inputFacets"]["dataQualityMetrics"]
    exact = {"nullCount": 0, "distinctCount": 2, "min": 1, "max": 2**53 + 1}
    assert written["columnMetrics"] == read["columnMetrics"] == {"n": exact}


def test_sql_table_name_includes_the_schema(run_cells: Run) -> None:
    with sqlite3.connect(":memory:") as connection:
        connection.execute("attach ':memory:' as sales")
        source = "pd.DataFrame({'a': [1]}).to_sql('orders', connection, schema='sales', index=False)"
        event = run_cells(source, namespace={"connection": connection})[DATAFRAME][-1]
    connection.close()
    # Databases in memory are numbered within a process.
    assert re.fullmatch(r"sqlite::memory:\d*\.sales\.orders", event["output_dataframes"][0]["variable_name"])


def test_all_frames_of_a_file_are_captured(run_cells: Run, tmp_path: Path) -> None:
    sheets = {"one": pd.DataFrame({"x": [1]}), "two": pd.DataFrame({"y": [1], "z": [2]}), "none": 3}
    pd.to_pickle(sheets, tmp_path / "book.pkl")
    read, selected = (
        event["column_lineage"]
        for event in run_cells(
            "sheets = pd.read_pickle(path)\nout = sheets['two'][['z']]", namespace={"path": tmp_path / "book.pkl"}
        )[DATAFRAME][1:]
    )
    assert list(read.values()) == [[f"file:{tmp_path}/book.pkl.y"], [f"file:{tmp_path}/book.pkl.z"]]
    assert selected == {"out.z": [f"{next(iter(read)).rsplit('.', 1)[0]}.z"]}


def test_metrics_of_named_frames(run_cells: Run) -> None:
    events = run_cells("df = pd.DataFrame({'n': [1, 2, None], 't': ['secret', 'words', 'secret']})")[LINEAGE]
    output = next(event["outputs"][0] for event in events if event["outputs"])
    metrics = output["facets"]["dataQualityMetrics"]
    assert (metrics["rowCount"], metrics["columnMetrics"]) == (
        3,
        {"n": {"nullCount": 1, "distinctCount": 2, "min": 1.0, "max": 2.0}, "t": {"nullCount": 0, "distinctCount": 2}},
    )


def test_metrics_of_small_and_large_frames_agree() -> None:
    small = pd.DataFrame(
        {"n": [3, 1, 3], "x": [0.5, None, np.inf], "t": ["a", None, "a"], "none": [np.nan] * 3, "flag": [True] * 3}
    )
    large = pd.concat([small] * 100)
    measured = [frame_metrics(frame, seconds=60.0)["columnMetrics"] for frame in (small, large)]
    for label, metrics in measured[0].items():
        assert {**metrics, "nullCount": metrics["nullCount"] * 100} == measured[1][label]


def test_metrics_of_many_rows(run_cells: Run) -> None:
    source = "big = pd.DataFrame({'n': range(200_000), 'x': [1.0, None] * 100_000, 't': ['u', None] * 100_000})"
    output = next(event["outputs"][0] for event in run_cells(source)[LINEAGE] if event["outputs"])
    metrics = output["facets"]["dataQualityMetrics"]
    counts = {
        name: (column_metrics["nullCount"], column_metrics.get("min"), column_metrics.get("max"))
        for name, column_metrics in metrics["columnMetrics"].items()
    }
    assert counts == {"n": (0, 0, 199_999), "x": (100_000, 1, 1), "t": (100_000, None, None)}
    # Counted, or estimated from a sample without repeated values.
    assert metrics["columnMetrics"]["n"]["distinctCount"] == 200_000


def test_columns_beyond_the_budget_are_listed_as_omitted(run_cells: Run) -> None:
    events = run_cells("wide = pd.DataFrame({f'c{i}': [i] for i in range(300)})")[LINEAGE]
    output = next(event["outputs"][0] for event in events if event["outputs"])
    metrics = output["facets"]["dataQualityMetrics"]
    assert {*metrics["columnMetrics"], *metrics["omitted"]} == {f"c{i}" for i in range(300)}
    assert len(metrics["omitted"]) >= 100


def test_secrets_are_not_written(run_cells: Run, tmp_path: Path) -> None:
    run_cells(
        "password = 'hunter2'\nurl = 'postgresql://ann:hunter2@db/shop'",
        "df = pd.DataFrame({'a': [1]})\nout = df.assign(b='password=hunter2 ')",
        "raise ValueError('cannot reach postgresql://ann:hunter2@db/shop')",
    )
    written = b"".join(file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file())
    assert written.count(b"ann:***@db/shop") > 1
    assert b"hunter2" not in written


def test_frame_has_the_name_of_its_variable_during_the_cell(run_cells: Run) -> None:
    captured: dict[str, Any] = {}
    run_cells(
        "df = pd.DataFrame({'a': [1, 2]})\npart = df[df['a'] > 1]\ncaptured['edges'] = clew.lineage(part).edges()",
        namespace={"clew": clew, "captured": captured},
    )
    assert {edge.source for edge in captured["edges"]} == {"df"}


@pytest.mark.parametrize(("setting", "keys"), [("counts", {"nullCount", "distinctCount"}), ("off", None)])
def test_metrics_can_be_turned_off(
    run_cells: Run, monkeypatch: pytest.MonkeyPatch, setting: str, keys: set[str] | None
) -> None:
    monkeypatch.setenv("CLEW_METRICS", setting)
    events = run_cells("df = pd.DataFrame({'n': [1, 2, None]})")[LINEAGE]
    facets = next(event["outputs"][0]["facets"] for event in events if event["outputs"])
    metrics = facets.get("dataQualityMetrics", {}).get("columnMetrics", {}).get("n")
    assert (set(metrics) if metrics is not None else None) == keys


def test_data_values_are_not_written(run_cells: Run, tmp_path: Path) -> None:
    values = ["Zanzibar", "Quetzal"]
    (tmp_path / "in.csv").write_text("city,n\n" + "\n".join(f"{value},{i}" for i, value in enumerate(values)))
    code = "df = pd.read_csv(path)\nkept = df[df['city'] == wanted]\nkept['up'] = kept['city'].str.upper()"
    run_cells(code, "df['city'].astype(int)", namespace={"path": tmp_path / "in.csv", "wanted": values[0]})
    written = "".join(
        re.sub(r'"error_(info|message)":.*', "", line)
        for file in (tmp_path / "out").iterdir()
        for line in file.read_text().splitlines()
        if "errorMessage" not in line
    )
    assert not [value for value in values if value.casefold() in written.casefold()]


def test_an_operation_without_source_has_its_method_as_code(run_cells: Run) -> None:
    events = run_cells(LOAD, 'exec("out = df.head()")')[DATAFRAME]
    assert [(event["operation_method"], event["operation_code"]) for event in events][1:] == [("head", "head")]
    assert [violation for event in events for violation in schema_violations(event, Stream.DATAFRAME)] == []


def test_unused_result_of_a_library_is_not_captured(run_cells: Run) -> None:
    library = compile("def shown(d):\n    return d.head(1).copy()", "/usr/lib/python3/dist-packages/lib.py", "exec")
    namespace: dict[str, Any] = {}
    exec(library, namespace)
    shown = {"shown": namespace["shown"]}
    assert len(run_cells(LOAD, "shown(df)", namespace=shown)[DATAFRAME]) == 1


def test_used_result_of_a_library_is_captured_with_its_operations(run_cells: Run) -> None:
    library = compile("def shown(d):\n    return d.head(1).copy()", "/usr/lib/python3/dist-packages/lib.py", "exec")
    namespace: dict[str, Any] = {}
    exec(library, namespace)
    events = run_cells(LOAD, "out = shown(df)[['name']]", namespace={"shown": namespace["shown"]})[DATAFRAME]
    assert [event["operation_method"] for event in events] == ["DataFrame", "head", "copy", "__getitem__"]


def test_read_only_folder_loses_events_but_not_the_cell(
    run_cells: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "out").mkdir()
    monkeypatch.setenv("CLEW_OUT", str(tmp_path / "file" / "streams"))
    assert run_cells(LOAD, ADULTS) == {}
    assert sum(error_counts().values()) > 0
    assert "events are being lost" in capsys.readouterr().err


def facets_of(events: list[dict[str, Any]], job: str, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        event["job"]["facets"] for event in events if event["job"]["name"] == job and event["eventType"] == kind
    )
    return found


def test_location_of_the_notebook_is_in_the_start_of_cell_and_session(run_cells: Run) -> None:
    events = run_cells("df = pd.DataFrame({'a': [1]})")[LINEAGE]
    for job in ("book", "book/cell1"):
        assert facets_of(events, job, "START")["sourceCodeLocation"]["url"].startswith(("file://", "https://"))
        assert "sourceCodeLocation" not in facets_of(events, job, "COMPLETE")


def test_query_is_in_the_sql_facet_of_its_operation_and_cell(run_cells: Run) -> None:
    name = "Jane Doe"
    source = "t = pd.DataFrame({'a': [1]})\nout = duckdb.sql(f\"select a, 'x' as x from t where '{name}' > 'b'\").df()"
    events = run_cells(source, namespace={"duckdb": duckdb, "name": name})[LINEAGE]
    query = "select a, 'x' as x from t where '***' > 'b'"
    assert facets_of(events, "book/cell1/dataframe_sql", "START")["sql"]["query"] == query
    assert facets_of(events, "book/cell1", "COMPLETE")["sql"]["query"] == query


def test_size_of_a_written_file(run_cells: Run, tmp_path: Path) -> None:
    events = run_cells(f"pd.DataFrame({{'a': [1]}}).to_csv({str(tmp_path / 'a.csv')!r})")[LINEAGE]
    (output,) = next(
        event["outputs"] for event in events if event["job"]["name"].endswith("to_csv") and event["outputs"]
    )
    assert output["outputFacets"]["outputStatistics"]["size"] == (tmp_path / "a.csv").stat().st_size


def test_descriptions_of_columns_are_in_the_schema(run_cells: Run, tmp_path: Path) -> None:
    source = (
        "df = pd.DataFrame({'a': [1], 'b': [2]})\ndf.attrs['descriptions'] = {'a': 'Identifier'}\n"
        f"df.to_csv({str(tmp_path / 'a.csv')!r}, index=False)"
    )
    outputs = [event["outputs"][0] for event in run_cells(source)[LINEAGE] if event["outputs"]]
    for output in outputs:
        fields = {field["name"]: field.get("description") for field in output["facets"]["schema"]["fields"]}
        assert fields == {"a": "Identifier", "b": None}


def test_loss_is_in_the_events_of_its_cell_and_session(run_cells: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        msg = "secret"
        raise ValueError(msg)

    monkeypatch.setattr("clew.capture.backends.pandas.joins.Join.rows", fail)
    streams = run_cells(
        "df = pd.DataFrame({'a': [1]})", "for _ in range(3):\n    out = df.merge(df, on='a')", "x = df.head()"
    )
    ends = {event["job"]["name"]: event for event in streams[LINEAGE] if event["eventType"] == "COMPLETE"}
    for job in ("book", "book/cell2"):
        facet = ends[job]["run"]["facets"]["extractionError"]
        assert facet["failedTasks"] == 3
        assert facet["errors"] == [
            {"errorMessage": "cell cell2, line 2: merge (ValueError), 3 times", "task": "df.merge(df, on='a')"}
        ]
    assert "extractionError" not in ends["book/cell3"]["run"]["facets"]
    losses = [event.get("capture_losses") for event in streams["marimo_runtime"] if event["cell_id"] == "id2"]
    assert losses[-1] == [
        {
            "operation": "merge",
            "error_type": "ValueError",
            "times": 3,
            "cell": "cell2",
            "line": 2,
            "code": "df.merge(df, on='a')",
        }
    ]


def test_query_that_cannot_be_parsed_is_a_loss_with_its_code(run_cells: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        msg = "syntax"
        raise ValueError(msg)

    monkeypatch.setattr("clew.capture.backends.sql_query.parse_query", fail)
    source = "t = pd.DataFrame({'a': [1]})\nout = duckdb.sql('select a from t').df()"
    events = run_cells(source, namespace={"duckdb": duckdb})[LINEAGE]
    end = next(event for event in events if event["job"]["name"] == "book/cell1" and event["eventType"] == "COMPLETE")
    (error,) = end["run"]["facets"]["extractionError"]["errors"]
    assert (error["errorMessage"], error["task"]) == (
        "cell cell1, line 2: query (ValueError)",
        "duckdb.sql('select a from t')",
    )


SIZES = {
    # A start without its source, of an operation on frames with five columns, and of an OpenLineage event.
    "marimo_runtime": (200, 400),
    "marimo_dataframe_lineage": (500, 2_000),
    LINEAGE: (1_200, 10_000),
}


def test_typical_events_have_the_documented_sizes(run_cells: Run, tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("id,customer,price,qty\n1,a,9.5,2\n2,b,3.0,0\n")
    streams = run_cells(
        f"orders = pd.read_csv({str(tmp_path / 'orders.csv')!r})",
        "sold = orders[orders['qty'] > 0]",
        "sold['amount'] = sold['price'] * sold['qty']",
        "totals = sold.groupby('customer')['amount'].sum().reset_index()",
        f"totals.to_csv({str(tmp_path / 'totals.csv')!r})",
    )
    for stream, (smallest, largest) in SIZES.items():
        for event in streams[stream]:
            source = event.get("cell_source", "")
            # Names of files are as long as the user chooses.
            text = msgspec.json.encode(event).replace(str(tmp_path).encode(), b"/data")
            size = len(text) - len(msgspec.json.encode(source))
            assert smallest <= size <= largest, (stream, size, event)
