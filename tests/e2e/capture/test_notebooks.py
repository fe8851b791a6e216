"""Tests of captured notebooks and scripts as processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.paths import ROOT

from clew.capture.emit.worker import expand_logs
from clew.capture.launch import CapturedRun, capture_notebook
from clew.errors import ClewError
from clew.events.streams import STREAM_FILES
from clew.events.validation import schema_violations

DEMO = ROOT / "src" / "clew" / "demo" / "orders.py"
RUNTIME, LINEAGE, DATAFRAME = "marimo_runtime.jsonl", "marimo_lineage_events.jsonl", "marimo_dataframe_lineage.jsonl"


def read_events(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> CapturedRun:
    folder = tmp_path_factory.mktemp("demo")
    return capture_notebook(
        DEMO,
        folder / "streams",
        env={**os.environ, "CLEW_DEMO_DATA": str(folder / "data"), "CLEW_PROJECT": str(DEMO.parent)},
    )


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory, notebook_source: str) -> CapturedRun:
    path = tmp_path_factory.mktemp("book") / "book.py"
    path.write_text(notebook_source)
    return capture_notebook(path, path.parent / "streams")


def test_every_event_of_the_demo_is_valid(demo: CapturedRun) -> None:
    for name in (RUNTIME, LINEAGE, DATAFRAME):
        events = read_events(demo.streams_dir, name)
        assert events
        assert [violation for event in events for violation in schema_violations(event, STREAM_FILES[name])] == []
        assert {event["session_id"] for event in events} == {demo.session_id}


def test_cells_after_a_failed_cell_are_captured(demo: CapturedRun) -> None:
    ends = {event["cell_name"]: event["event_type"] for event in read_events(demo.streams_dir, RUNTIME)}
    assert ends["check_margin"] == "cell_execution_error"
    assert ends["save"] == ends["best_days"] == "cell_execution_end"


def test_output_column_is_traced_to_the_input_files(demo: CapturedRun) -> None:
    """Follow the typed edges of the DataFrame stream from the written column to the files."""
    sources: dict[tuple[str, str, str], set[tuple[str, str, str]]] = {}
    for event in read_events(demo.streams_dir, DATAFRAME):
        versions = {frame["variable_name"]: frame["version"] for frame in event["input_dataframes"]}
        (output,) = event["output_dataframes"]
        for edge in event["column_lineage_edges"]:
            if edge["type"] == "DIRECT":
                key = (output["variable_name"], str(output["version"]), edge["column"])
                source = (edge["source"], str(versions[edge["source"]]), edge["source_column"])
                sources.setdefault(key, set()).add(source)
    (written,) = [key for key in sources if key[0].endswith("daily_revenue.parquet") and key[2] == "net_revenue"]
    reached, pending = set(), [written]
    while pending:
        for source in sources.get(pending.pop(), set()):
            if source not in reached:
                reached.add(source)
                pending.append(source)
    files = {(Path(name).name, column) for name, _, column in reached if name.startswith("file:")}
    assert files == {("orders.csv", "price"), ("orders.csv", "qty"), ("returns.csv", "refund")}


def test_session_is_closed_after_the_kernel_was_killed(demo: CapturedRun) -> None:
    last = read_events(demo.streams_dir, LINEAGE)[-1]
    assert (last["eventType"], last["job"]["name"]) == ("FAIL", "orders")


def test_setup_async_stopped_and_failing_cells(book: CapturedRun) -> None:
    cell_events = {event["cell_name"]: event for event in read_events(book.streams_dir, RUNTIME)}
    assert list(cell_events) == ["setup", "waits", "stops", "fails", "goes_on"]
    assert cell_events["stops"]["event_type"] == "cell_execution_end"
    assert cell_events["stops"]["stopped"] is True
    assert cell_events["fails"]["error_info"]["error_type"] == "KeyError"
    assert [cell_events[name]["cell_index"] for name in cell_events] == [1, 2, 3, 4, 5]


def test_operations_of_every_kind_of_cell(book: CapturedRun) -> None:
    operations = [
        (event["cell_name"], event["operation_method"], event["output_dataframes"][0]["variable_name"])
        for event in read_events(book.streams_dir, DATAFRAME)
    ]
    assert operations == [
        ("setup", "DataFrame", "base"),
        ("waits", "__getitem__", "big"),
        ("goes_on", "assign", "goes_on/_part"),
        ("goes_on", "sum", "total"),
    ]


def run_python(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_captures_a_script(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(
        "import sys\nimport pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})\n"
        "print(sys.argv[1:], __name__)\nout = df.head(1)\ndf.a = df.a * 2\n"
    )
    result = run_python("-m", "clew", "run", "--out", "streams", "job.py", "--flag", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "['--flag'] __main__\n")
    events = read_events(tmp_path / "streams", DATAFRAME)
    assert [(event["line"], event["operation_code"]) for event in events] == [
        (3, "pd.DataFrame({'a': [1, 2]})"),
        (5, "df.head(1)"),
        (6, "df.a = df.a * 2"),
    ]


@pytest.mark.parametrize(("end", "code", "kind"), [("", 0, "end"), ("out['nope']", 1, "error")])
def test_captures_a_script_that_calls_track(tmp_path: Path, end: str, code: int, kind: str) -> None:
    (tmp_path / "job.py").write_text(
        f"import clew\nclew.track()\nimport pandas as pd\nout = pd.DataFrame({{'a': [1]}}).head()\n{end}\n"
    )
    assert run_python("job.py", cwd=tmp_path, CLEW_OUT=str(tmp_path / "streams")).returncode == code
    assert [event["operation_method"] for event in read_events(tmp_path / "streams", DATAFRAME)] == [
        "DataFrame",
        "head",
    ]
    assert read_events(tmp_path / "streams", RUNTIME)[-1]["event_type"] == f"cell_execution_{kind}"


def test_notebook_run_as_a_script_has_the_same_exit_code(tmp_path: Path, notebook_source: str) -> None:
    (tmp_path / "book.py").write_text(notebook_source)
    plain = run_python("book.py", cwd=tmp_path)
    captured = run_python("-m", "clew", "run", "--out", "streams", "book.py", cwd=tmp_path)
    assert plain.returncode == captured.returncode == 1
    assert "KeyError: 'nope'" in captured.stderr
    assert read_events(tmp_path / "streams", RUNTIME)[-1]["event_type"] == "cell_execution_error"


def test_captures_the_setup_cell_of_a_notebook_run_as_a_script(tmp_path: Path, notebook_source: str) -> None:
    (tmp_path / "book.py").write_text(notebook_source)
    run_python("-m", "clew", "run", "--out", "streams", "book.py", cwd=tmp_path)
    operations = [
        (event["cell_name"], event["line"], event["output_dataframes"][0]["variable_name"])
        for event in read_events(tmp_path / "streams", DATAFRAME)
    ]
    assert operations == [("setup", 2, "base"), ("waits", 3, "big")]
    assert len({event["session_id"] for event in read_events(tmp_path / "streams", RUNTIME)}) == 1
    ends = {event["cell_name"]: event["event_type"] for event in read_events(tmp_path / "streams", RUNTIME)}
    assert ends["setup"] == "cell_execution_end"


SQL_NOTEBOOK = '''
import marimo
app = marimo.App()

@app.cell
def start():
    import marimo as mo
    import pandas as pd
    orders = pd.DataFrame({"k": ["a", "a", "b"], "v": [1.0, 2.0, 3.0]})
    return mo, orders

@app.cell
def sums(mo, orders):
    totals = mo.sql(
        f"""
        SELECT k, sum(v) AS total FROM orders WHERE v > 1 GROUP BY k
        """
    )
    return (totals,)

@app.cell
def best(mo, totals):
    best = mo.sql("select max(total) m from totals", output=False)
    return

if __name__ == "__main__":
    app.run()
'''


def test_sql_cells(tmp_path: Path) -> None:
    (tmp_path / "book.py").write_text(SQL_NOTEBOOK)
    result = run_python("-m", "clew", "run", "--out", "streams", "book.py", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    operations = [
        (event["cell_name"], event["operation_method"], event["column_lineage"])
        for event in read_events(tmp_path / "streams", DATAFRAME)
    ]
    assert operations[1:] == [
        ("sums", "sql", {"totals.k": ["orders.k"], "totals.total": ["orders.v"]}),
        ("best", "sql", {"best.m": ["totals.total"]}),
    ]


@pytest.mark.parametrize(
    "script",
    [
        "def fails():\n    return 1 / 0\n\ntry:\n    {}['a']\nexcept KeyError as error:\n    fails()\n",
        "def broken(:\n",
        "import sys\nprint(__file__, sys.argv, sys.path[0], __name__)\nsys.exit(3)\n",
        "raise KeyboardInterrupt\n",
    ],
    ids=["error", "syntax", "exit", "interrupt"],
)
def test_script_ends_as_without_capture(tmp_path: Path, script: str) -> None:
    (tmp_path / "job.py").write_text(script)
    plain = run_python("job.py", "a", cwd=tmp_path)
    captured = run_python("-m", "clew", "run", "--out", "streams", "job.py", "a", cwd=tmp_path)
    script_stderr = [line for line in captured.stderr.splitlines() if not line.startswith("clew: ")]
    # The exit code after a signal is that of shells.
    code = plain.returncode if plain.returncode >= 0 else 128 - plain.returncode
    assert (captured.returncode, captured.stdout, script_stderr) == (code, plain.stdout, plain.stderr.splitlines())


def test_full_disk_at_the_end_loses_no_events(tmp_path: Path) -> None:
    steps = "\n".join(f"d{number} = df.assign(b{number}=1)" for number in range(10))
    (tmp_path / "job.py").write_text(f"import pandas as pd\ndf = pd.DataFrame({{'a': [1]}})\n{steps}\nprint('done')\n")
    # The size limit fits the kernel's log but not the stream files.
    limit = (
        "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    result = run_python("-c", limit, sys.executable, "-m", "clew", "run", "--out", "streams", "job.py", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "done\n")
    assert "the captured log remains there" in result.stderr
    assert "Traceback" not in result.stderr
    expand_logs(tmp_path / "streams")
    assert len(read_events(tmp_path / "streams", DATAFRAME)) == 11


def test_clew_disabled_turns_capture_off(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import pandas as pd\nprint(hasattr(pd.DataFrame.merge, '__wrapped__'))\n")
    result = run_python("-m", "clew", "run", "--out", "streams", "job.py", cwd=tmp_path, CLEW_DISABLED="1")
    assert (result.returncode, result.stdout) == (0, "False\n")
    assert list((tmp_path / "streams").iterdir()) == []


def test_importing_clew_loads_nothing_heavy(tmp_path: Path) -> None:
    code = "import sys, clew; print(sorted({'pandas', 'numpy', 'marimo', 'msgspec', 'pyspark'} & set(sys.modules)))"
    assert run_python("-c", code, cwd=tmp_path).stdout == "[]\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "There is no notebook at"),
        ("import marimo\napp = marimo.App()\n", "is empty: it has no cells"),
        ("print(1)\n", "is not a marimo notebook"),
        ("def broken(:\n", "is not a marimo notebook"),
    ],
)
def test_rejects_an_invalid_notebook(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "book.py"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ClewError, match=message):
        capture_notebook(path, tmp_path / "streams")


def test_rejects_an_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ClewError, match="Cannot write into"):
        capture_notebook(DEMO, tmp_path / "file" / "streams")
