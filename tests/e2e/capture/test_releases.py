"""Tests of capture with other releases of marimo and pandas, each in its own environment."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.paths import ROOT

from clew.capture.launch import capture_notebook

# The oldest supported release, those around changes of marimo's internals, and the newest.
MARIMO = ("marimo==0.17.8", "marimo==0.19.11", "marimo==0.22.5", "marimo==0.23.8", "marimo==0.23.9", "marimo")
NEWEST_PANDAS_2 = "pandas==2.3.3"

MakeEnvironment = Callable[..., Path]


@pytest.mark.parametrize("marimo", MARIMO)
def test_every_release_captures_the_same_events(
    tmp_path: Path, make_environment: MakeEnvironment, notebook_source: str, marimo: str
) -> None:
    python = make_environment(marimo, "pandas")
    (tmp_path / "book.py").write_text(notebook_source)
    run = capture_notebook(
        tmp_path / "book.py",
        tmp_path / "streams",
        python=str(python),
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )

    def read_events(stream: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in (run.streams_dir / stream).read_text().splitlines()]

    ends = [event for event in read_events("marimo_runtime.jsonl") if event["event_type"] != "cell_execution_start"]
    assert [(event["cell_name"], event["event_type"], bool(event.get("stopped"))) for event in ends] == [
        ("setup", "cell_execution_end", False),
        ("waits", "cell_execution_end", False),
        ("stops", "cell_execution_end", True),
        ("fails", "cell_execution_error", False),
        ("goes_on", "cell_execution_end", False),
    ]
    assert [
        (event["cell_name"], event["operation_code"]) for event in read_events("marimo_dataframe_lineage.jsonl")
    ] == [
        ("setup", 'pd.DataFrame({"a": [1, 2, 3]})'),
        ("waits", 'base[base["a"] > 1]'),
        ("goes_on", 'big.assign(b=lambda d: d["a"] * 2)'),
        ("goes_on", '_part["b"].sum()'),
    ]
    assert "clew: " not in run.output


def test_lineage_and_warnings_with_pandas_2(make_environment: MakeEnvironment) -> None:
    # The last three are imported by the fixtures of all tests.
    packages = "pyarrow pytest pytest-timeout hypothesis pyyaml sqlglot zstandard obstore confluent-kafka deltalake"
    python = make_environment(NEWEST_PANDAS_2, *packages.split())
    tests = ROOT / "tests" / "unit" / "capture" / "backends" / "pandas"
    result = subprocess.run(
        [
            python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            tests / "test_patching.py",
            tests / "test_methods.py",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-3000:]
