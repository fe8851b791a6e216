"""Tests of a kernel that is killed during a cell: all but the last second is captured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

# The cell kills its kernel once the log contains its operations.
NOTEBOOK = """
import marimo
app = marimo.App()

@app.cell
def endless():
    import os, signal, time
    from pathlib import Path
    import pandas as pd

    orders = pd.DataFrame({"id": [1, 2], "qty": [0, 3]})
    for _ in range(3):
        sold = orders[orders["qty"] > 0]
    log = next(Path("streams/.capture").glob("*.log"))
    while b'"__getitem__"' not in log.read_bytes():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    app.run()
"""


def test_operations_before_the_kill_are_captured(tmp_path: Path) -> None:
    (tmp_path / "book.py").write_text(NOTEBOOK)
    command = [sys.executable, "-m", "clew", "run", "--out", "streams", "book.py"]
    environment = {**os.environ, "CLEW_PROJECT": str(tmp_path)}
    assert subprocess.run(command, cwd=tmp_path, env=environment, check=False, timeout=60).returncode != 0
    lines = (tmp_path / "streams" / "marimo_lineage_events.jsonl").read_text().splitlines()
    events = [(event["eventType"], event["job"]["name"]) for event in map(json.loads, lines)]
    # START of an operation is written while it runs, which may be before the end of the one before.
    assert sorted(events) == sorted(
        [
            ("START", "book"),
            ("START", "book/endless"),
            ("START", "book/endless/pandas_DataFrame"),
            ("COMPLETE", "book/endless/pandas_DataFrame"),
            ("START", "book/endless/dataframe_getitem"),
            ("COMPLETE", "book/endless/dataframe_getitem"),
            ("ABORT", "book/endless"),
            ("ABORT", "book"),
        ]
    )
    (creation, selection) = map(
        json.loads, (tmp_path / "streams" / "marimo_dataframe_lineage.jsonl").read_text().splitlines()
    )
    assert (creation["output_dataframes"][0]["variable_name"], selection["count"]) == ("orders", 3)
    assert selection["operation_code"] == 'orders[orders["qty"] > 0]'
