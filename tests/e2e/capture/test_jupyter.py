"""Tests of capture in a Jupyter kernel."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.paths import ROOT

from clew.capture.emit.worker import expand_logs

CELLS = [
    "import clew; clew.track()",
    "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})",
    "import asyncio\nawait asyncio.sleep(0)\nbig = df[df['a'] > 1]",
    "big['nope']",
    "!echo shell",
    "low = 1\nout = df.query('a > @low')\nout",
]

# Starts a kernel, runs the cells, ends the kernel by the given means and prints its output.
DRIVER = """
import json, sys
from jupyter_client.manager import start_new_kernel

manager, client = start_new_kernel()
shown = []
for cell in json.loads(sys.argv[1]):
    client.execute_interactive(cell, timeout=60, output_hook=lambda message: shown.append(message))
client.stop_channels()
manager.shutdown_kernel(now=sys.argv[2] == "kill")
print(json.dumps([message["content"] for message in shown if message["msg_type"] in ("stream", "error")]))
"""


@pytest.fixture(scope="module")
def python(make_environment: Callable[..., Path]) -> Path:
    return make_environment("pandas", "ipykernel", "jupyter_client")


@pytest.mark.parametrize("end", ["shutdown", "kill"])
def test_captures_cells_of_a_kernel(python: Path, tmp_path: Path, end: str) -> None:
    result = subprocess.run(
        [python, "-c", DRIVER, json.dumps(CELLS), end],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "CLEW_OUT": str(tmp_path / "streams"),
            "JPY_SESSION_NAME": str(tmp_path / "orders.ipynb"),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    outputs = [content.get("text") or content["ename"] for content in json.loads(result.stdout)]
    assert [text.strip() for text in outputs] == ["KeyError", "shell"]
    expand_logs(tmp_path / "streams")

    def read_events(stream: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in (tmp_path / "streams" / stream).read_text().splitlines()]

    ends = [event for event in read_events("marimo_runtime.jsonl") if event["event_type"] != "cell_execution_start"]
    assert [(event["cell_index"], event["event_type"], event["notebook"]) for event in ends] == [
        (2, "cell_execution_end", "orders.ipynb"),
        (3, "cell_execution_end", "orders.ipynb"),
        (4, "cell_execution_error", "orders.ipynb"),
        (5, "cell_execution_end", "orders.ipynb"),
        (6, "cell_execution_end", "orders.ipynb"),
    ]
    assert [event["operation_code"] for event in read_events("marimo_dataframe_lineage.jsonl")] == [
        "pd.DataFrame({'a': [1, 2]})",
        "df[df['a'] > 1]",
        "df.query('a > @low')",
    ]
