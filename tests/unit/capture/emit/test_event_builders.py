"""Cells in, three streams out: what stands in them, and that it is valid."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import clew
from clew.capture.diagnostics import error_counts
from clew.capture.emit.column_metrics import frame_metrics
from clew.events.validation import SCHEMA_STREAM_FILES, schema_violations

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
            fault for event in events for fault in schema_violations(event, SCHEMA_STREAM_FILES[f"{stem}.jsonl"])
        ] == []
    assert error_counts() == {}


def test_operations_tell_code_line_names_and_versions(run_cells: Run) -> None:
    told = [
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
    assert told == [
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


def test_edges_of_the_documents_own_example(run_cells: Run) -> None:
    event = run_cells(LOAD, "adults = df[df['age'] > 25]")[DATAFRAME][-1]
    assert event["column_lineage"] == {f"adults.{name}": [f"df.{name}"] for name in ("name", "age", "pay")}
    assert event["column_lineage_edges"][-1] == {
        "output": "adults",
        "column": None,
        "source": "df",
        "source_column": "age",
        "type": "INDIRECT",
        "subtype": "FILTER",
        "opaque": False,
        "inferred": False,
    }


def test_starts_are_paired_with_ends_and_parents_lead_to_the_session(run_cells: Run) -> None:
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


def test_the_same_notebook_run_again_has_the_same_names(run_cells: Run) -> None:
    def names(streams: dict[str, list[dict[str, Any]]]) -> list[Any]:
        return [
            (
                event["job"]["name"],
                [(each["name"], each["facets"]["version"]) for each in (*event["inputs"], *event["outputs"])],
            )
            for event in streams[LINEAGE]
        ]

    first = names(run_cells(LOAD, ADULTS))
    assert names(run_cells(LOAD, ADULTS)) == first * 2


def test_versions_start_anew_with_the_defining_cell(run_cells: Run) -> None:
    told = run_cells("t = pd.DataFrame({'a': [1]})\nt['b'] = 1", "t['c'] = 2", "u = t.head()")[DATAFRAME]
    assert [event["output_dataframes"][0]["version"] for event in told] == ["1", "2", "3", "1"]


def test_a_frame_without_a_name_is_called_by_its_operation(run_cells: Run) -> None:
    told = run_cells(LOAD, "out = df[['name', 'age']].head().head()")[DATAFRAME]
    labels = [event["output_dataframes"][0]["variable_name"] for event in told]
    assert labels == ["df", "cell2/dataframe_getitem", "cell2/dataframe_head", "out"]


def test_a_frame_made_in_a_function_is_named_by_who_holds_it(run_cells: Run) -> None:
    source = "def f(d):\n    t = d[d['age'] > 1]\n    return t.assign(x=1)\nout = f(df)"
    told = run_cells(LOAD, source)[DATAFRAME]
    assert [event["output_dataframes"][0]["variable_name"] for event in told] == [
        "df",
        "cell2/dataframe_getitem",
        "out",
    ]


def test_a_loop_is_told_once_with_its_count(run_cells: Run) -> None:
    told = run_cells(LOAD, "for i in range(40):\n    top = df.head(2)")[DATAFRAME]
    assert [(event["operation_method"], event["count"]) for event in told] == [("DataFrame", 1), ("head", 40)]


def test_a_loop_over_files_is_told_file_by_file(run_cells: Run, tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text("x\n1\n")
    told = run_cells("parts = [pd.read_csv(f'{folder}/{name}.csv') for name in 'abc']", namespace={"folder": tmp_path})[
        DATAFRAME
    ]
    assert [Path(event["input_dataframes"][0]["variable_name"]).name for event in told] == ["a.csv", "b.csv", "c.csv"]


def test_metrics_of_files_whose_frames_no_variable_holds(run_cells: Run, tmp_path: Path) -> None:
    source = (
        "df = pd.DataFrame({'n': [1, 2**53 + 1]})\ndf.to_csv(path, index=False)\ndf['n'] = 0\n"
        "total = pd.read_csv(path)['n'].sum()"
    )
    told = run_cells(source, namespace={"path": tmp_path / "f.csv"})[LINEAGE]
    complete = {event["job"]["name"].rsplit("/", 1)[-1]: event for event in told if event["eventType"] == "COMPLETE"}
    written = complete["dataframe_to_csv"]["outputs"][0]["facets"]["dataQualityMetrics"]
    read = complete["pandas_read_csv"]["inputs"][0]["inputFacets"]["dataQualityMetrics"]
    exact = {"nullCount": 0, "distinctCount": 2, "min": 1, "max": 2**53 + 1}
    assert written["columnMetrics"] == read["columnMetrics"] == {"n": exact}


def test_a_table_is_named_with_its_schema(run_cells: Run) -> None:
    with sqlite3.connect(":memory:") as connection:
        connection.execute("attach ':memory:' as sales")
        source = "pd.DataFrame({'a': [1]}).to_sql('orders', connection, schema='sales', index=False)"
        told = run_cells(source, namespace={"connection": connection})[DATAFRAME][-1]
    connection.close()
    assert told["output_dataframes"][0]["variable_name"] == "sqlite::memory:.sales.orders"


def test_every_frame_of_a_file_is_told(run_cells: Run, tmp_path: Path) -> None:
    sheets = {"one": pd.DataFrame({"x": [1]}), "two": pd.DataFrame({"y": [1], "z": [2]}), "none": 3}
    pd.to_pickle(sheets, tmp_path / "book.pkl")
    read, cut = (
        event["column_lineage"]
        for event in run_cells(
            "sheets = pd.read_pickle(path)\nout = sheets['two'][['z']]", namespace={"path": tmp_path / "book.pkl"}
        )[DATAFRAME][1:]
    )
    assert list(read.values()) == [[f"file:{tmp_path}/book.pkl.y"], [f"file:{tmp_path}/book.pkl.z"]]
    assert cut == {"out.z": [f"{next(iter(read)).rsplit('.', 1)[0]}.z"]}


def test_metrics_of_named_frames(run_cells: Run) -> None:
    events = run_cells("df = pd.DataFrame({'n': [1, 2, None], 't': ['secret', 'words', 'secret']})")[LINEAGE]
    output = next(event["outputs"][0] for event in events if event["outputs"])
    metrics = output["facets"]["dataQualityMetrics"]
    assert (metrics["rowCount"], metrics["columnMetrics"]) == (
        3,
        {"n": {"nullCount": 1, "distinctCount": 2, "min": 1.0, "max": 2.0}, "t": {"nullCount": 0, "distinctCount": 2}},
    )


def test_metrics_of_few_rows_are_those_of_many() -> None:
    few = pd.DataFrame(
        {"n": [3, 1, 3], "x": [0.5, None, np.inf], "t": ["a", None, "a"], "none": [np.nan] * 3, "flag": [True] * 3}
    )
    many = pd.concat([few] * 100)
    deadline = time.perf_counter() + 60
    measured = [frame_metrics(frame, deadline)["columnMetrics"] for frame in (few, many)]
    for label, metrics in measured[0].items():
        assert {**metrics, "nullCount": metrics["nullCount"] * 100} == measured[1][label]


def test_metrics_of_many_rows_are_sampled_and_say_so(run_cells: Run) -> None:
    source = "big = pd.DataFrame({'n': range(200_000), 'x': [1.0, None] * 100_000, 't': ['u', None] * 100_000})"
    output = next(event["outputs"][0] for event in run_cells(source)[LINEAGE] if event["outputs"])
    metrics = output["facets"]["dataQualityMetrics"]
    assert metrics["sampled"] is True
    counted = {
        name: (one["nullCount"], one.get("min"), one.get("max")) for name, one in metrics["columnMetrics"].items()
    }
    assert counted == {"n": (0, 0, 199_999), "x": (100_000, 1, 1), "t": (100_000, None, None)}
    # Every twentieth row was looked at.
    assert metrics["columnMetrics"]["n"]["distinctCount"] == 10_000


def test_columns_beyond_the_budget_are_named(run_cells: Run) -> None:
    events = run_cells("wide = pd.DataFrame({f'c{i}': [i] for i in range(300)})")[LINEAGE]
    output = next(event["outputs"][0] for event in events if event["outputs"])
    metrics = output["facets"]["dataQualityMetrics"]
    assert {*metrics["columnMetrics"], *metrics["omitted"]} == {f"c{i}" for i in range(300)}
    assert len(metrics["omitted"]) >= 100


def test_nothing_secret_is_left_on_disk(run_cells: Run, tmp_path: Path) -> None:
    run_cells(
        "password = 'hunter2'\nurl = 'postgresql://ann:hunter2@db/shop'",
        "df = pd.DataFrame({'a': [1]})\nout = df.assign(b='password=hunter2 ')",
        "raise ValueError('cannot reach postgresql://ann:hunter2@db/shop')",
    )
    written = b"".join(file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file())
    assert written.count(b"ann:***@db/shop") > 1
    assert b"hunter2" not in written


def test_a_frame_is_called_by_its_variable_before_its_cell_has_ended(run_cells: Run) -> None:
    asked: dict[str, Any] = {}
    run_cells(
        "df = pd.DataFrame({'a': [1, 2]})\npart = df[df['a'] > 1]\nasked['edges'] = clew.lineage(part).edges()",
        namespace={"clew": clew, "asked": asked},
    )
    assert {edge.source for edge in asked["edges"]} == {"df"}


@pytest.mark.parametrize(("setting", "keys"), [("counts", {"nullCount", "distinctCount"}), ("off", None)])
def test_metrics_can_be_turned_off(
    run_cells: Run, monkeypatch: pytest.MonkeyPatch, setting: str, keys: set[str] | None
) -> None:
    monkeypatch.setenv("CLEW_METRICS", setting)
    events = run_cells("df = pd.DataFrame({'n': [1, 2, None]})")[LINEAGE]
    facets = next(event["outputs"][0]["facets"] for event in events if event["outputs"])
    found = facets.get("dataQualityMetrics", {}).get("columnMetrics", {}).get("n")
    assert (set(found) if found is not None else None) == keys


def test_no_value_of_the_data_is_told(run_cells: Run, tmp_path: Path) -> None:
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


def test_a_library_at_work_is_told_only_if_its_result_is_used(run_cells: Run) -> None:
    library = compile("def shown(d):\n    return d.head(1).copy()", "/usr/lib/python3/dist-packages/lib.py", "exec")
    namespace: dict[str, Any] = {}
    exec(library, namespace)
    shown = {"shown": namespace["shown"]}
    assert len(run_cells(LOAD, "shown(df)", namespace=shown)[DATAFRAME]) == 1


def test_a_librarys_result_that_is_used_brings_its_operations(run_cells: Run) -> None:
    library = compile("def shown(d):\n    return d.head(1).copy()", "/usr/lib/python3/dist-packages/lib.py", "exec")
    namespace: dict[str, Any] = {}
    exec(library, namespace)
    told = run_cells(LOAD, "out = shown(df)[['name']]", namespace={"shown": namespace["shown"]})[DATAFRAME]
    assert [event["operation_method"] for event in told] == ["DataFrame", "head", "copy", "__getitem__"]


def test_a_read_only_folder_costs_events_not_the_cell(
    run_cells: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "out").mkdir()
    monkeypatch.setenv("CLEW_OUT", str(tmp_path / "file" / "streams"))
    assert run_cells(LOAD, ADULTS) == {}
    assert sum(error_counts().values()) > 0
    assert "events are being lost" in capsys.readouterr().err
