"""Tests that a captured program prints the same as a plain one: tracebacks, warnings, exit codes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

# Every snippet fails. The traceback is caught and formatted by the program.
ERRORS = {
    "column": "df['nope']",
    "attribute": "df.nope",
    "method": "df.merge(df, on='nope')",
    "nested": "df.groupby('k').apply(lambda group: group['nope'])",
    "function": "pd.concat([])",
    "reader": "pd.read_csv('missing.csv')",
    "assignment": "df['x'] = [1, 2, 3]",
    "callback": "df.assign(y=lambda d: d['nope'])",
    "key callback": "df[lambda d: d['nope']]",
    "condition callback": "df.where(lambda d: d['nope'], 0)",
    "indexer": "df.loc[lambda d: d['nope'] > 0]",
    "indexer assignment": "df.loc[9, 'nope', 'nope'] = 1",
    "series": "df['x'].astype('datetime64[bad]')",
    "series operator": "df['x'] + 'text'",
    "generator": "pd.concat(frame for frame in [df, 1 / 0])",
    "query": "df.query('nope > 1')",
    "index": "pd.Index(3)",
    "row": "[row['nope'] for _, row in df.iterrows()]",
    "polars": "pl.DataFrame({'a': [1]}).select('nope')",
    "polars expression": "pl.DataFrame({'a': [1]}).lazy().filter(pl.col('nope') > 1).collect()",
    "polars series": "pl.Series(['x']).str.to_date('%Y', strict=True)",
    "polars group": "pl.DataFrame({'a': [1]}).group_by('nope').agg(pl.len())",
    "duckdb": "duckdb.sql('select nope from missing_table')",
    "duckdb connection": "duckdb.connect().execute('select nope from missing_table')",
    "duckdb relation": "duckdb.sql('select 1 as a').filter('nope > 1').df()",
    "cause": "raise_from(df)",
    "library": "json.loads('{')",
}
ERROR_SCRIPT = """
import json, sys, traceback
import duckdb
import pandas as pd
import polars as pl

df = pd.DataFrame({{"k": ["a", "b"], "x": [1, 2]}})


def raise_from(frame):
    try:
        frame["nope"]
    except KeyError as error:
        raise RuntimeError("no column") from error


{functions}

for case in [{names}]:
    try:
        case()
    except Exception:
        print(traceback.format_exc(), file=sys.stderr)
"""

# Scripts that end with an uncaught exception, or print warnings.
PROGRAMS = {
    "uncaught": "import pandas as pd\npd.DataFrame({'a': [1]}).drop(columns='nope')\n",
    "syntax": "import pandas as pd\nx = = 1\n",
    "exit": "import sys\nsys.exit(3)\n",
    "message": "raise SystemExit('stop')\n",
    "interrupt": "raise KeyboardInterrupt\n",
    "own hook": "import sys\nsys.excepthook = lambda *error: print(error[2].tb_lineno, file=sys.stderr)\n1 / 0\n",
    "thread": "import threading\nimport pandas as pd\nthread = threading.Thread(target=lambda: pd.Series([1])['a'])\n"
    "thread.start()\nthread.join()\n",
    "context": "import pandas as pd\ntry:\n    pd.Series([1])['a']\nexcept KeyError:\n    1 / 0\n",
    "logging": "import logging\nimport pandas as pd\ntry:\n    pd.Series([1])['a']\nexcept KeyError:\n"
    "    logging.exception('failed')\n",
    "chained": "import pandas as pd\ndf = pd.DataFrame({'x': [1.0, None]})\ndf['x'][0] = 9\n"
    "df['x'].fillna(0, inplace=True)\ndf[df['x'] > 0]['y'] = 1\ndf.loc[df['x'] > 0]['x'] = 1\n",
    "stack level": "import warnings\nimport pandas as pd\nwarnings.simplefilter('always')\n"
    "df = pd.DataFrame({'x': [1, 2], 'd': ['2020-01-01', '01/02/2020']})\n"
    "df.apply(lambda row: warnings.warn('from a callback', stacklevel=1), axis=1)\n"
    "class Frame(pd.DataFrame):\n    def total(self):\n        warnings.warn('from a method', stacklevel=2)\n"
    "        return self.sum()\nFrame({'a': [1]}).total()\n"
    "df.rename(columns={'x': 'y'}, inplace=True)\ndf.drop(columns='d', inplace=True)\n"
    "df.sort_values('y', inplace=True)\ndf.replace(1, 2, inplace=True)\ndf.pct_change(fill_method='ffill')\n",
}
MARIMO_CELLS = {
    "sql": "mo.sql('SELECT nope FROM missing_table')",
    "pandas": "pd.DataFrame({'a': [1]})['nope']",
    "plain": "1 / 0",
}
MARIMO_NOTEBOOK = """import marimo
app = marimo.App()
@app.cell
def _():
    import marimo as mo
    import pandas as pd
    return mo, pd
@app.cell
def _(mo, pd):
    {cell}
    return
if __name__ == "__main__":
    app.run()
"""


def run(arguments: list[str], folder: Path) -> tuple[int, str, str]:
    result = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    # Colours and addresses differ between runs; clew's own line names the event files.
    lines = [line for line in result.stderr.splitlines() if not line.startswith("clew: ")]
    # `clew run` follows the shell's convention for signals.
    code = result.returncode if result.returncode >= 0 else 128 - result.returncode
    return code, result.stdout, re.sub(r"0x[0-9a-f]+", "0x", "\n".join(lines))


def assert_same_output(source: str, folder: Path) -> str:
    (folder / "program.py").write_text(source)
    plain = run([sys.executable, "program.py"], folder)
    captured = run([sys.executable, "-m", "clew", "run", "--out", str(folder / "out"), "program.py"], folder)
    assert captured == plain
    return plain[2]


def test_caught_tracebacks(tmp_path: Path) -> None:
    """All in one program, since a process takes seconds to start."""
    functions = [f"def case_{number}():\n    {snippet}\n" for number, snippet in enumerate(ERRORS.values())]
    names = ", ".join(f"case_{number}" for number in range(len(ERRORS)))
    source = ERROR_SCRIPT.format(functions="\n".join(functions), names=names)
    assert assert_same_output(source, tmp_path).count("Traceback") > len(ERRORS)


@pytest.mark.parametrize("source", PROGRAMS.values(), ids=PROGRAMS)
def test_output_of_a_script(source: str, tmp_path: Path) -> None:
    assert_same_output(source, tmp_path)


@pytest.mark.parametrize("cell", MARIMO_CELLS.values(), ids=MARIMO_CELLS)
def test_output_of_a_marimo_notebook(cell: str, tmp_path: Path) -> None:
    assert "Traceback" in assert_same_output(MARIMO_NOTEBOOK.format(cell=cell), tmp_path)
